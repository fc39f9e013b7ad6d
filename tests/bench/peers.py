"""Other programs beside ours, prompt by prompt: llama.cpp with its drafters, transformers, openvino-genai (run.py peers).

Each peer has its fastest settings on this machine, searched on prompts of the search's own. All decode greedily and get the
chat as one text. Decoding time begins when the prompt is read and ends with the last token. A peer that is missing, crashes
or hangs is named, and the rest goes on.
"""
import http.client
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from peers_setup import IMPOSSIBLE, MODEL, Failed, last_words, prepared, python

CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")
END = "<|im_end|>"
CONTEXT = "4096"
WAIT = 300  # seconds until a peer that says nothing counts as hanging
TUNING = ["Tell a short story about a fisherman and his dog.",
          "Repeat this text three times: The red boat sails to the small island, and the blue boat sails back to the harbour."]
TUNING_TOKENS = 40


# ---- the peers

class Peer:
    """One way to decode: open(), then answer() for each prompt, then close()."""
    fresh = False  # to be opened anew for every prompt, as it would carry what it learnt from one into the next
    process = log = None

    def __init__(self, name, family, folder, always, choices):
        self.name, self.family, self.folder = name, family, folder
        self.always, self.choices = always, choices  # settings of all its searches; those of which the fastest is taken

    def start(self, command, **more):
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        orphans = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # it ends with us, however we end
        self.process = subprocess.Popen([*orphans, *command], stderr=self.log, start_new_session=True, **more)

    def why(self, otherwise):
        """Why the process is gone, if it is."""
        try:
            code = self.process.wait(2)
        except subprocess.TimeoutExpired:
            return otherwise
        if code == -signal.SIGKILL:
            return f"no answer in {WAIT} s, or killed"
        self.log.seek(0)
        return f"{signal.Signals(-code).name if code < 0 else f'exit code {code}'}, its last words: {last_words(self.log.read())}"

    def close(self):
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            for f in (self.process.stdin, self.process.stdout, self.log):
                if f:
                    f.close()
        self.process = None


class Server(Peer):
    """llama-server, with or without one of its drafters. Settings are its options."""

    def open(self, threads, settings):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        options = {"-m": MODEL, "--host": "127.0.0.1", "--port": str(self.port), "-t": str(threads), "-c": CONTEXT, "-np": "1", "--cache-ram": "0",
                   **settings}
        self.start([os.path.join(self.folder, "llama", "bin", "llama-server"), "--offline", "--no-ui", *(x for o in options.items() for x in o)],
                   stdout=subprocess.DEVNULL)
        end = time.monotonic() + WAIT
        while not self.asked("GET", "/health", None):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(self.why("did not start"))
            time.sleep(0.05)
        self.answer("Hi", 2)  # the first answer is slower; few tokens, for the drafters that remember them

    def asked(self, method, path, body):
        """The parsed answer, or None."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            return json.loads(text) if answer.status == 200 else None
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def answer(self, prompt, tokens):
        r = self.asked("POST", "/completion", {"prompt": prompt, "n_predict": tokens, "temperature": 0, "samplers": ["temperature"],
                                               "cache_prompt": False, "stop": [END]})
        if not r or "timings" not in r:
            raise Failed(self.why("no answer in time, or none that can be read"))
        t = r["timings"]
        return {"text": r["content"], "tokens": t["predicted_n"], "decode_ms": t["predicted_ms"], "prefill_ms": t["prompt_ms"],
                "drafted": t.get("draft_n", 0), "accepted": t.get("draft_n_accepted", 0)}


class Lookup(Peer):
    """llama-lookup: a process for each prompt. It prints what it did, and stops a few tokens late."""

    def open(self, threads, settings):
        options = {"-m": MODEL, "-t": str(threads), "-c": CONTEXT, "--temp": "0", **settings}
        self.command = [os.path.join(self.folder, "llama", "bin", "llama-lookup"), "--no-escape", *(x for o in options.items() for x in o)]

    def answer(self, prompt, tokens):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
            f.write(prompt + "\n")  # it takes off one line end
            f.flush()
            self.start([*self.command, "-f", f.name, "-n", str(tokens - 1)], stdout=subprocess.PIPE)
            try:
                out = self.process.communicate(timeout=WAIT)[0].decode("utf-8", "replace")
                self.log.seek(0)
                said = self.log.read()
                done = {word: (int(n), 1000 * float(s)) for word, n, s in re.findall(r"(\w+coded) +(\d+) tokens in +([\d.]+) seconds", said)}
                if self.process.returncode or len(done) < 2 or prompt not in out:
                    raise Failed(self.why("its answer cannot be read"))
                n = [int(n) for n in re.findall(r"n_(?:drafted|accept) += (\d+)", said)]
            except subprocess.TimeoutExpired:
                raise Failed("no answer in time") from None
            finally:
                self.close()
        return {"text": out.split(prompt, 1)[1].split(END)[0].rstrip("\n\ufffd"), "tokens": done["decoded"][0], "decode_ms": done["decoded"][1],
                "prefill_ms": done["encoded"][1], "drafted": n[0], "accepted": n[1]}


class Worker(Peer):
    """A Python library, in a process with the installed Python: this file, one line of JSON for a line of JSON."""

    def open(self, threads, settings):
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": os.path.join(self.folder, "home"), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads)}
        self.start([python(self.folder), os.path.abspath(__file__), self.family], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                   text=True, env={**os.environ, **offline})
        self.ask({"threads": threads, "settings": settings})
        self.answer(CHAT.format("Hi"), 4)  # the first answer is slower

    def ask(self, what):
        guard = threading.Timer(WAIT, self.process.kill)
        guard.start()
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            raise Failed(self.why("its answer cannot be read")) from None
        finally:
            guard.cancel()

    def answer(self, prompt, tokens):
        r = self.ask({"prompt": prompt, "tokens": tokens})
        return {**r, "text": r["text"].split(END)[0]}


def transformers_worker(threads, settings):
    """settings: dtype, and what else generate() takes."""
    import torch
    import transformers
    torch.set_num_threads(threads)
    where, name = os.path.split(MODEL)
    more = {k: v for k, v in settings.items() if k != "dtype"}
    tokenizer = transformers.AutoTokenizer.from_pretrained(where, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=getattr(torch, settings["dtype"]))

    class Clock(transformers.generation.streamers.BaseStreamer):
        """When what came: the prompt, the first token, ..."""
        def __init__(self):
            self.times = []

        def put(self, value):
            self.times.append(time.monotonic())

        def end(self):
            pass

    def answer(prompt, tokens):
        inputs, clock = tokenizer(prompt, return_tensors="pt", add_special_tokens=False), Clock()
        with torch.inference_mode():
            begin = time.monotonic()
            out = model.generate(**inputs, max_new_tokens=tokens, do_sample=False, streamer=clock, **more)[0][inputs["input_ids"].shape[1]:]
            end = time.monotonic()
        first = clock.times[1]
        return {"text": tokenizer.decode(out), "tokens": len(out), "decode_ms": 1000 * (end - first), "prefill_ms": 1000 * (first - begin)}
    return answer


def openvino_worker(threads, settings):
    """settings: properties of the device and of the pipeline; num_assistant_tokens is for each answer."""
    import openvino_genai
    config = openvino_genai.GenerationConfig()
    config.do_sample = config.apply_chat_template = False
    for k in ("num_assistant_tokens", "max_ngram_size"):
        if k in settings:
            setattr(config, k, settings[k])
    properties = {k: v for k, v in settings.items() if not hasattr(config, k)}
    if settings["ATTENTION_BACKEND"] == "PA":
        properties["scheduler_config"] = openvino_genai.SchedulerConfig()
        properties["scheduler_config"].enable_prefix_caching = False  # every prompt is read whole, as by the others
    pipeline = openvino_genai.LLMPipeline(MODEL, "CPU", INFERENCE_NUM_THREADS=threads, **properties)
    config.stop_token_ids = {pipeline.get_tokenizer().get_eos_token_id()}

    def answer(prompt, tokens):
        config.max_new_tokens = tokens
        r = pipeline.generate([prompt], config)
        first, whole = r.perf_metrics.get_ttft().mean, r.perf_metrics.get_generate_duration().mean
        return {"text": r.texts[0], "tokens": r.perf_metrics.get_num_generated_tokens(), "decode_ms": whole - first, "prefill_ms": first}
    return answer


def worker(family):
    """Answers on what was standard output; whatever else the libraries print goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer = None
    for line in sys.stdin:
        o = json.loads(line)
        if answer:
            r = answer(o["prompt"], o["tokens"])
        else:
            answer, r = {"transformers": transformers_worker, "openvino": openvino_worker}[family](o["threads"], o["settings"]), {}
        out.write(json.dumps(r) + "\n")
        out.flush()
    os._exit(0)  # torch's dummies do not survive a proper end


def peers(folder):
    """All of them; the first of each family decodes plainly, and the others begin with its settings."""
    def maps(kind):  # the default, and shorter patterns and drafts
        return [{}] + [{f"--spec-{kind}-size-n": str(n), f"--spec-{kind}-size-m": str(m)} for n in (2, 3, 4) for m in (4, 8, 16)]

    drafts = {"ngram-simple": maps("ngram-simple"), "ngram-map-k": maps("ngram-map-k"), "ngram-map-k4v": maps("ngram-map-k4v"),
              "ngram-mod": [{}] + [{"--spec-ngram-mod-n-match": str(n), "--spec-ngram-mod-n-min": "1", "--spec-ngram-mod-n-max": str(m)}
                                   for n in (2, 3, 4) for m in (4, 8, 16)],
              "ngram-cache": [{}]}
    out = [Server("llama.cpp", "llama.cpp", folder, {}, [{"-fa": "on"}, {"-fa": "off"}]),
           Lookup("llama.cpp lookup", "llama.cpp", folder, {}, [{"--spec-draft-n-max": str(n)} for n in (2, 4, 8, 16)])]
    out += [Server(f"llama.cpp {kind}", "llama.cpp", folder, {"--spec-type": kind}, choices) for kind, choices in drafts.items()]
    for p in out:
        p.fresh = p.name.endswith(("ngram-mod", "ngram-cache"))
    out += [Worker("transformers", "transformers", folder, {}, [{"dtype": "float32"}, {"dtype": "bfloat16"}]),
            Worker("transformers prompt lookup", "transformers", folder, {}, [{"prompt_lookup_num_tokens": n} for n in (2, 4, 8, 16)]),
            Worker("openvino", "openvino", folder, {}, [{"INFERENCE_PRECISION_HINT": p, "ATTENTION_BACKEND": b} for p in ("f32", "bf16")
                                                        for b in ("PA", "SDPA")]),
            Worker("openvino prompt lookup", "openvino", folder, {"prompt_lookup": True, "max_ngram_size": 3, "ATTENTION_BACKEND": "PA"},
                   [{"num_assistant_tokens": n} for n in (2, 4, 8)])]
    return out


# ---- measuring

def new_result(folder, wanted, threads, tokens):
    """The beginning of a result: what is to be measured, and what is missing."""
    ready = prepared(folder)
    result = {"threads": threads, "tokens": tokens, "model": os.path.basename(MODEL), "missing": dict(IMPOSSIBLE), "ours": [], "peers": {}}
    for p in wanted:
        part = ready.get(p.family, {"failed": "not installed"})
        if "failed" in part:
            result["missing"][p.name] = part["failed"]
        else:
            result["peers"][p.name] = {"family": p.family, "version": part["version"], "settings": None, "tried": {}, "failed": None, "runs": []}
    return result


def text_of(settings):
    return " ".join(f"{k} {v}" for k, v in settings.items()) or "as it comes"


def search(wanted, result, say, save):
    """The fastest settings of every peer that has none yet, by decoding; those that fail are written down as such."""
    base = {}
    for p in wanted:
        entry = result["peers"].get(p.name)
        if not entry or entry["failed"]:
            continue
        if entry["settings"] is None:
            best = 0
            for choice in p.choices:
                settings = {**base.get(p.family, {}), **p.always, **choice}
                try:
                    p.open(result["threads"], settings)
                    runs = []
                    for prompt in TUNING:
                        if not runs or rate(runs) > best / 2:  # what is that slow needs no second prompt
                            runs.append(p.answer(CHAT.format(prompt), TUNING_TOKENS))
                    speed = round(rate(runs), 1)
                except Failed as e:
                    entry["tried"][text_of(settings)] = str(e)
                    continue
                finally:
                    p.close()
                entry["tried"][text_of(settings)] = speed
                if speed > best:
                    best, entry["settings"] = speed, settings
            if entry["settings"] is None:
                entry["failed"] = "no settings work: " + str(next(iter(entry["tried"].values()), ""))
            say(f"peers: {p.name}: {entry['failed'] or text_of(entry['settings'])}")
            save(result)
        base.setdefault(p.family, {k: v for k, v in (entry["settings"] or {}).items() if p.name == p.family})
    return result


def measure(wanted, result, prompts, between, say, save):
    """Every peer, and our program by between(prompt), on each prompt in turn; who begins goes round. Goes on with a result
    that has some prompts already."""
    alive = [p for p in wanted if p.name in result["peers"] and not result["peers"][p.name]["failed"]]
    entries = result["peers"]

    def fails(p, why):
        p.close()
        entries[p.name]["failed"] = str(why)
        alive.remove(p)
        say(f"peers: {p.name} failed: {why}")

    def attempt(p, work):
        try:
            return work()
        except (Failed, OSError, KeyError, TypeError, IndexError) as e:
            fails(p, e if isinstance(e, Failed) else repr(e))
            return None
    try:
        for p in list(alive):
            if not p.fresh:
                attempt(p, lambda p=p: p.open(result["threads"], entries[p.name]["settings"]))
        for number, prompt in enumerate(prompts):
            about = {"id": prompt["id"], "prompt": prompt.get("prompt", prompt["id"]), "category": prompt["category"]}
            text = CHAT.format(prompt["turns"][0])
            lists = [result["ours"], *(entries[p.name]["runs"] for p in alive)]
            if all(any(r["id"] == prompt["id"] for r in runs) for runs in lists):
                continue
            for runs in lists:  # half a prompt does not count: all of it is done side by side
                runs[:] = [r for r in runs if r["id"] != prompt["id"]]
            turn = [None, *alive]
            start = number % len(turn)
            for p in turn[start:] + turn[:start]:
                if p is None:
                    result["ours"].append({**about, **(between(prompt) or {})})
                    continue
                if p.fresh:
                    attempt(p, lambda p=p: p.open(result["threads"], entries[p.name]["settings"]))
                answer = p in alive and attempt(p, lambda p=p: p.answer(text, result["tokens"]))
                if answer:
                    entries[p.name]["runs"].append({**about, **answer})
                if p.fresh:
                    p.close()
            say(f"peers: prompt {number + 1} of {len(prompts)}")
            save(result)
    finally:
        for p in wanted:
            p.close()
    return result


def medians(runs, prefill=False):
    """(tokens, ms) of each prompt: the median of its runs."""
    by = {}
    for n, r in enumerate(runs):
        by.setdefault(r.get("prompt", r.get("id", n)), []).append(r)
    return {k: (rs[0]["tokens"], statistics.median(r["decode_ms"] + (r["prefill_ms"] if prefill else 0) for r in rs)) for k, rs in by.items()}


def rate(runs, prefill=False):
    """Tokens a second."""
    of = medians(runs, prefill).values()
    ms = sum(m for _, m in of)
    return 1000 * sum(t for t, _ in of) / ms if ms else 0


def ratio(runs, over):
    """(speed of runs over that of other runs, low, high) on the prompts of both; the 95% interval by resampling them."""
    a, b = medians(runs), medians(over)
    both = sorted(set(a) & set(b))

    def of(ids):
        tokens, ms, tokens_b, ms_b = (sum(x[i][k] for i in ids) for x in (a, b) for k in (0, 1))
        return tokens * ms_b / (tokens_b * ms) if tokens_b and ms else math.nan
    if len(both) < 3:
        return of(both), math.nan, math.nan
    random_ids = random.Random(1)
    sample = sorted(of(random_ids.choices(both, k=len(both))) for _ in range(2000))
    return of(both), sample[50], sample[1949]


def ratio_text(runs, over):
    x, low, high = ratio(runs, over)
    if math.isnan(x):
        return ""
    doubt = "" if runs is over or math.isnan(low) else f" ({low:.2f} - {high:.2f}{', no difference' if low <= 1 <= high else ''})"
    return f"{x:.2f}" + doubt


def common(a, b):
    """How many characters at the beginning are the same. What is cut at the limit of tokens may end in half a character."""
    a, b = a.rstrip("\n\ufffd"), b.rstrip("\n\ufffd")
    n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return n, n == min(len(a), len(b)), max(len(a), len(b), 1)


def summary(result):
    """A line for every peer: tokens/s of decoding, with the prompt, by category; its texts beside plain decoding's and ours."""
    out, ours = {}, {r["id"]: r for r in result["ours"] if "text" in r}
    for name, entry in [(None, {"runs": list(ours.values()), "family": None}), *result["peers"].items()]:
        runs = entry["runs"]
        line = {"prompts": len(runs), "tokens_per_s": rate(runs), "with_prefill": rate(runs, True),
                "categories": {c: rate([r for r in runs if r["category"] == c]) for c in dict.fromkeys(r["category"] for r in runs)}}
        if name:
            plain = {r["id"]: r for r in result["peers"].get(entry["family"], {"runs": []})["runs"]}
            pairs = [(r["id"], common(r["text"], plain[r["id"]]["text"])) for r in runs if r["id"] in plain and name != entry["family"]]
            shares = [c[0] / c[2] for c in (common(r["text"], ours[r["id"]]["text"]) for r in runs if r["id"] in ours)]
            line.update({"failed": entry["failed"], "equal_to_plain": sum(equal for _, (_, equal, _) in pairs), "compared_to_plain": len(pairs),
                         "first_difference": {i: n for i, (n, equal, _) in pairs if not equal},
                         "drafted": sum(r.get("drafted", 0) for r in runs), "accepted": sum(r.get("accepted", 0) for r in runs),
                         "share_of_our_text": sum(shares) / len(shares) if shares else None})  # another arithmetic: texts part somewhere
        out[name or "ours"] = line
    return out


if __name__ == "__main__":
    worker(sys.argv[1])
