"""The archive of the check on a GPU for another machine: `make gpu-bundle`."""
import json
import os
import platform
import re
import shutil
import tarfile
import tempfile
import time

from check_run import ROOT, call, commit, say

PROGRAMS = ["build/logitspec", "build/tests/test_lst", "build/tests/test_models"]
FOLDER = "logitspec-gpu"
SYSTEM_LIBS = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|libgomp)[-.]")


def needed(path):
    """Shared libraries of a program that a machine may lack: all but those of the C and C++ compilers."""
    out = {}
    for line in call(["ldd", path], 20).out.splitlines():
        m = re.match(r"\s*(\S+) => (/\S+)", line)
        if m and not SYSTEM_LIBS.match(m.group(1)):
            out[m.group(1)] = os.path.realpath(m.group(2))
    return out


def pack(path):
    listed = call(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], 60)
    if not listed.ok:
        say("bundle: a git checkout is needed, to know which files are sources: " + listed.why())
        return 1
    libs = {}
    for p in PROGRAMS:
        libs.update(needed(os.path.join(ROOT, p)))
    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "libc": " ".join(platform.libc_ver()),
             "machine": platform.machine()}
    with tempfile.TemporaryDirectory() as tmp, tarfile.open(path + ".new", "w:gz", compresslevel=6) as tar:
        for name in sorted(listed.out.splitlines()):
            if os.path.isfile(os.path.join(ROOT, name)) and not name.startswith("."):
                tar.add(os.path.join(ROOT, name), os.path.join(FOLDER, name))
        for p in PROGRAMS:
            thin = os.path.join(tmp, os.path.basename(p))  # without what a debugger wants
            if not call(["strip", "-o", thin, os.path.join(ROOT, p)], 60).ok:
                shutil.copy(os.path.join(ROOT, p), thin)
            tar.add(thin, os.path.join(FOLDER, "bin", os.path.basename(p)))
        for name, real in sorted(libs.items()):
            tar.add(real, os.path.join(FOLDER, "lib", name))
        text = os.path.join(tmp, "bundle.json")
        with open(text, "w", encoding="utf-8") as f:
            json.dump(about, f)
            f.write("\n")
        tar.add(text, os.path.join(FOLDER, "bundle.json"))
    os.replace(path + ".new", path)
    say(f"{os.path.relpath(path, ROOT)}: {os.path.getsize(path) / 1e6:.1f} MB, {len(libs)} libraries; there: tar xf, "
        f"cd {FOLDER}, make gpu-check")
    return 0
