"""Processes that share a model (tensor parallel over loopback): every text is that of one process; whoever is missing, lost or a
stranger is named; nothing is left behind."""
import glob
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from program import ENV, HAS_TORCH, MODEL, PROGRAM, needs_model, run, without_sanitizers
from test_folders import folder

CAT = "The cat sat on the mat. The cat sat on the mat. The cat"
TOKEN = "0123456789abcdef0123456789abcdef"
EXACT = "logitspec:7,logitspec-paper:7,logit-only:5,retrieval-only:7,pld:5,recycle:7,cacheback:7,suffix:7,lookahead:7,draft-model:5+layers=1"
SAMPLED = ["--temperature", "0.8", "--top-p", "0.9", "--seed", "5"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]
    except FileNotFoundError:
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("it did not come within the time")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(pid):
    """Addresses and ports that a process listens at, as the kernel writes them."""
    inodes = set()
    for fd in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            found = re.match(r"socket:\[(\d+)\]", os.readlink(fd))
        except FileNotFoundError:
            continue
        if found:
            inodes.add(found[1])
    out = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as f:
            lines = [line.split() for line in f][1:]
        out += [tuple(x[1].split(":")) for x in lines if x[3] == "0A" and x[9] in inodes]
    return out


class Meddler:
    """Whoever reaches the port at which a launcher's ranks meet, without their token: libtorch's TCPStore answers everybody."""
    SET, GET, LIST_KEYS = 1, 3, 17

    def __init__(self, port):
        self.s = wait_for(lambda: self.connected(port))
        self.s.settimeout(20)
        self.s.sendall(struct.pack("<BI", 0, 0x3C85F7CE))

    @staticmethod
    def connected(port):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            return None

    def take(self, n):
        out = b""
        while len(out) < n:
            out += self.s.recv(n - len(out)) or self.fail()
        return out

    @staticmethod
    def fail():
        raise AssertionError("the store has hung up")

    def text(self):
        return self.take(struct.unpack("<Q", self.take(8))[0])

    def ask(self, query, *texts):
        self.s.sendall(bytes([query]) + b"".join(struct.pack("<Q", len(t)) + t for t in texts))

    def keys(self):
        self.ask(self.LIST_KEYS)
        return [self.text() for _ in range(struct.unpack("<q", self.take(8))[0])]

    def change_one(self):
        """The first thing there that is more than a sign that a rank has come. False: there is none yet."""
        for key in self.keys():
            self.ask(self.GET, key)
            value = self.text()
            if len(value) > 100:
                self.ask(self.SET, key, bytes([value[0] ^ 1]) + value[1:])
                return True
        return False


@unittest.skipUnless(HAS_TORCH, "needs:libtorch")
class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.model = folder(cls.tmp.name, "qwen3", "qwen2.json")
        cls.other = folder(cls.tmp.name, "mistral", "qwen2.json")
        cls.places = os.path.join(cls.tmp.name, "places")
        os.mkdir(cls.places)

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def args(self, *args, model=None, n="60"):
        return ["generate", "--model", model or self.model, "--raw", "--prompt", CAT, "--max-tokens", n, "--dtype", "f32", *args]

    def answer(self, *args, **env):
        r = run(*self.args("--json", *args), env=env)
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return json.loads(r.stdout)

    def fails(self, *args, code=1, **env):
        r = run(*args, env=env)
        self.assertEqual((r.returncode, r.stdout), (code, ""), r.stderr)
        self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
        return r.stderr

    def start(self, *args, stdin=subprocess.DEVNULL, **env):
        p = subprocess.Popen([PROGRAM, *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**ENV, "TMPDIR": self.places, **env})
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def a_long_run(self, *args, ranks="cpu,cpu", **env):
        """A run whose ranks are at work, and the other ranks' process ids."""
        trace = os.path.join(self.tmp.name, f"long{time.monotonic()}.jsonl")
        p = self.start(*self.args("--method", "plain", "--devices", ranks, "--trace", trace, *args, n="100000"), **env)
        wait_for(lambda: p.poll() is not None or (os.path.exists(trace) and os.path.getsize(trace) > 20000))
        self.assertIsNone(p.poll())
        return p, children(p.pid)

    def test_no_number_of_ranks_changes_the_text(self):
        both = [], SAMPLED
        for dtype, ranks, ways in (("f32", "2", both), ("bf16", "3", both[1:]), ("f32", "4", both[:1])):
            for sampling in both if os.environ.get("LOGITSPEC_TEST_WHOLE") else ways:
                one = json.loads(run(*self.args("--json", "--method", "plain", "--dtype", dtype, *sampling)).stdout)
                r = run("compare", "--model", self.model, "--dtype", dtype, "--raw", "--prompt", CAT, "--max-tokens", "60", "--devices", ranks,
                        "--methods", "plain," + EXACT, "--json", *sampling)
                self.assertEqual(r.returncode, 0, r.stderr)
                o = json.loads(r.stdout)
                self.assertTrue(o["equal"] and o["exact"])
                self.assertEqual(len(o["methods"]), 11)
                got = self.answer("--method", "logitspec", "--max-rows", "7", "--dtype", dtype, "--devices", ranks, *sampling)
                self.assertEqual(got["output_tokens"], one["output_tokens"], (dtype, ranks, sampling))
                self.assertEqual((got["ranks"], one["ranks"]), (int(ranks), 1))

    @needs_model
    def test_a_real_model(self):
        prompt = ["generate", "--model", MODEL, "--prompt", "Name the planets.", "--max-tokens", "40", "--json", "--seed", "3"]
        for sampling in ([], ["--temperature", "0.8"]):
            texts = [json.loads(run(*prompt, *sampling, *more).stdout)["output_tokens"]
                     for more in ([], ["--devices", "cpu,cpu"], ["--devices", "3", "--method", "plain", "--threads", "1"])]
            self.assertEqual(texts[1:], texts[:1] * 2)

    def test_what_is_told_of_them(self):
        trace = os.path.join(self.tmp.name, "t.jsonl")
        self.answer("--devices", "cpu,cpu", "--trace", trace, "--method", "logitspec", "--max-rows", "7")
        with open(trace, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        self.assertIn(", 2 ranks", lines[0]["backend"]["kernel"])
        times = [x["us"] for x in lines if x["type"] == "step" and x["forward"]]
        self.assertTrue(all(0 < t["comm"] < t["forward"] for t in times), times)
        self.assertIn("of that for exchanges with other ranks", run("inspect", trace, "--step", "2").stdout)
        o = {c["check"]: c for c in json.loads(run("doctor", "--model", self.model, "--devices", "3", "--json").stdout)}["ranks"]
        self.assertEqual((o["ok"], o["ranks"]), (True, 3))
        self.assertGreater(o["exchange_us"], 1)
        o = json.loads(run("models", "info", self.model, "--devices", "2", "--json").stdout)["model"]
        self.assertTrue(0.5 * o["weight_bytes"]["auto"] <= o["shared"]["weight_bytes"] < o["weight_bytes"]["auto"], o)

    def test_what_they_would_take_on_paper(self):
        def shared(*args):
            return json.loads(run("models", "info", self.model, *args, "--json").stdout)["model"]["shared"]
        cpus, gpus, card = shared("--devices", "cpu,cpu"), shared("--devices", "0,1"), shared("--devices", "2", "--device-model", "h100")
        self.assertEqual([x["over"] for x in cpus["exchanges"]], ["one machine", "100 Gbit/s"])
        for of_cpus, of_gpus in zip(cpus["exchanges"], gpus["exchanges"]):  # those of GPUs go through the hosts
            self.assertGreater(of_gpus["ms_1"], of_cpus["ms_1"])
        self.assertEqual(card["exchanges"], gpus["exchanges"])
        self.assertTrue(0 < card["compute_ms_1"] <= card["compute_ms_64"], card)
        self.assertIn("expected one of a100", self.fails("models", "info", self.model, "--devices", "2", "--device-model", "x"))
        self.assertIn("needs --devices with several ranks", self.fails("models", "info", self.model, "--device-model", "h100", code=2))

    @without_sanitizers
    def test_a_lost_rank_is_named(self):
        p, others = self.a_long_run(ranks="3")
        self.assertEqual(len(others), 2)
        os.kill(max(others), signal.SIGKILL)
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("rank 2 of 3 ended by signal 9 (Killed)", err)
        self.assertGreater(len(out), 0)  # what was said before
        wait_for(lambda: not any(map(alive, others)))

    def test_a_rank_that_stands_still_is_named(self):
        p, others = self.a_long_run(LOGITSPEC_RANKS_TIMEOUT="4")
        os.kill(others[0], signal.SIGSTOP)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("rank 1 of 2 does not answer", err)
        wait_for(lambda: not alive(others[0]))

    @without_sanitizers
    def test_a_rank_that_dies_while_it_starts_is_no_interruption(self):
        p = self.start(*self.args("--devices", "2"))
        for pid in wait_for(lambda: children(p.pid)):
            os.kill(pid, signal.SIGKILL)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("rank 1 of 2 ended by signal 9", err)

    def test_a_run_that_stood_still_goes_on(self):
        p, others = self.a_long_run(LOGITSPEC_RANKS_TIMEOUT="4")  # in which they find each other on a busy machine, too
        p.send_signal(signal.SIGSTOP)
        time.sleep(6)
        self.assertTrue(all(map(alive, others)))
        p.send_signal(signal.SIGCONT)
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, err)  # to the end of its context

    def test_without_an_input(self):
        r = run("doctor", "--model", self.model, "--devices", "3", "--json", preexec_fn=lambda: os.close(0))
        self.assertTrue({c["check"]: c for c in json.loads(r.stdout)}["ranks"]["ok"], r.stdout)

    def test_nothing_is_left_behind(self):
        for how in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
            p, others = self.a_long_run()
            self.assertEqual([listening(pid) for pid in (p.pid, *others)], [[], []])
            p.send_signal(how)
            p.communicate(timeout=60)
            wait_for(lambda: not any(map(alive, others)))
            self.assertEqual(os.listdir(self.places), [])

    def launched(self, *args, ranks=2, port=None, of_rank=None, **env):
        """What every rank of a launcher's says: (exit code, output, errors)."""
        env = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port or free_port()),
               "LOGITSPEC_RANKS_TOKEN": TOKEN, "LOGITSPEC_RANKS_TIMEOUT": "20", **env}
        own = [{"RANK": str(i), **((of_rank or {}).get(i, {}))} for i in range(ranks)]
        all_of_them = [self.start(*(x.pop("args", None) or args), **{**env, **x}) for x in own]
        return [(p.communicate(timeout=90), p.returncode) for p in all_of_them]

    def a_long_launch(self):
        """Two ranks at work, which listen where they were told."""
        trace = os.path.join(self.tmp.name, f"launched{time.monotonic()}.jsonl")
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "LOGITSPEC_RANKS_TOKEN": TOKEN}
        both = [self.start(*self.args("--trace", trace, n="100000"), RANK=str(i), **env) for i in (0, 1)]
        wait_for(lambda: both[0].poll() is not None or (os.path.exists(trace) and os.path.getsize(trace) > 20000))
        for p in both:
            self.assertEqual({address for address, _ in listening(p.pid)}, {"0100007F"})
        return both

    def test_a_launchers_lost_rank_is_named(self):
        both = self.a_long_launch()
        both[1].kill()
        _, err = both[0].communicate(timeout=60)
        self.assertEqual(both[0].returncode, 1)
        self.assertRegex(err, r"logitspec: rank 1 of 2 does not answer: [A-Z][^;]*; rank 1 is on ")
        self.assertRegex(err, r"Connection (reset|closed) by peer")
        self.assertNotIn("gloo", err)
        self.assertNotIn("GLHF", err)

    def test_nobody_reaches_ranks_that_have_found_each_other(self):
        """Every connection that they took would cost a descriptor for ever; without any, they would end."""
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "LOGITSPEC_RANKS_TOKEN": TOKEN}
        chat = ["chat", "--plain", "--raw", "--model", self.model, "--max-tokens", "5"]
        both = [self.start(*chat, RANK=str(i), stdin=subprocess.PIPE, **env) for i in (0, 1)]
        both[0].stdin.write("one\n")
        both[0].stdin.flush()
        while not both[0].stdout.readline().startswith("end "):
            self.assertIsNone(both[0].poll())
        ports = [int(port, 16) for p in both for _, port in listening(p.pid)]
        self.assertEqual(len(ports), 3)  # where they meet, and one each
        before = [len(os.listdir(f"/proc/{p.pid}/fd")) for p in both]
        for port in ports:
            with self.assertRaises(TimeoutError):
                socket.create_connection(("127.0.0.1", port), timeout=1.5)
        self.assertEqual([len(os.listdir(f"/proc/{p.pid}/fd")) for p in both], before)
        out, err = both[0].communicate("two\n", timeout=60)
        self.assertEqual((both[0].returncode, err), (0, ""))
        self.assertIn("turn 2", out)

    def test_a_signal_to_all_of_a_launchers_ranks_stops_them_in_order(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            both = self.a_long_launch()
            for p in reversed(both):
                p.send_signal(how)
            out, err = both[0].communicate(timeout=60)
            self.assertEqual(both[0].returncode, 130 if how == signal.SIGINT else -how, err)
            self.assertIn("interrupted", err)
            self.assertGreater(len(out), 0)
            self.assertEqual(both[1].wait(timeout=60), 0)

    def test_a_launcher(self):
        want = self.answer("--method", "plain")["output_tokens"]
        for ranks in (2, 3):
            said = self.launched(*self.args("--json"), ranks=ranks)
            self.assertEqual([code for _, code in said], [0] * ranks, said)
            o = json.loads(said[0][0][0])
            self.assertEqual((o["output_tokens"], o["ranks"]), (want, ranks))
            self.assertEqual([out for (out, _), _ in said[1:]], [""] * (ranks - 1))

    def test_nobody_without_the_token_changes_an_address(self):
        port = free_port()
        env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOGITSPEC_RANKS_TOKEN": TOKEN, "LOGITSPEC_RANKS_TIMEOUT": "10"}
        first, meddler = self.start(*self.args(), RANK="0", **env), Meddler(port)
        self.addCleanup(meddler.s.close)
        second = self.start(*self.args(), RANK="1", **env)
        wait_for(lambda: any(k.endswith(b"here/1") for k in meddler.keys()))
        second.send_signal(signal.SIGSTOP)  # the others store their addresses, and it will find one changed
        third = self.start(*self.args(), RANK="2", **env)
        wait_for(meddler.change_one)
        second.send_signal(signal.SIGCONT)
        said = []
        for p in (second, first, third):
            said.append(p.communicate(timeout=60)[1])
            ours = [x for x in said[-1].splitlines() if x.startswith("logitspec: ")]  # libtorch may say more
            self.assertEqual((p.returncode, len(ours)), (1, 1), said)
            self.assertNotIn("frame #", ours[0])
        # those that rank 0's end meets first say that
        self.assertTrue(any("a process without the token of this run has changed an address" in x for x in said), said)

    def test_a_launcher_whose_ranks_do_not_agree(self):
        args = self.args()
        (_, err), code = self.launched(*args, of_rank={1: {"LOGITSPEC_CPU": "avx2"}})[0] if self.has_avx2() else (("", "rank 1 kernel level"), 1)
        self.assertEqual(code, 1)
        self.assertRegex(err, "rank 1.*kernel level")
        said = self.launched(*args, of_rank={1: {"LOGITSPEC_RANKS_TOKEN": TOKEN[::-1]}}, LOGITSPEC_RANKS_TIMEOUT="2")
        self.assertEqual([code for _, code in said], [1, 1])
        self.assertIn("rank 1 of 2 did not connect within 2 s, or has another token", said[0][0][1])
        said = self.launched(*args, LOGITSPEC_RANKS_TOKEN="short")
        self.assertTrue(all(code == 2 and "LOGITSPEC_RANKS_TOKEN" in err for (_, err), code in said), said)
        said = self.launched(*args, MASTER_ADDR="")
        self.assertTrue(all(code == 2 and "MASTER_ADDR" in err for (_, err), code in said), said)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            ((_, err), code), ((_, other), _) = self.launched(*args, port=s.getsockname()[1], LOGITSPEC_RANKS_TIMEOUT="2")
            self.assertIn("does not answer as rank 0", other)
        self.assertEqual(code, 1)
        self.assertIn("Address already in use", err)

    @staticmethod
    def has_avx2():
        checks = {c["check"]: c["detail"] for c in json.loads(run("doctor", "--json").stdout)}
        return "avx512" in checks["compute"] and json.loads(run("doctor", "--json", env={"LOGITSPEC_CPU": "avx2"}).stdout)[1]["ok"]

    def test_commands_without_a_model_know_no_ranks(self):
        """RANK and WORLD_SIZE may belong to something else."""
        r = run("config", "show", env={"RANK": "1", "WORLD_SIZE": "2"})
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_bad_lists(self):
        for devices, text in (("cpu,", "'' is not a device"), ("cpu,gpu", "'gpu' is not a device"), ("cpu,cuda:0", "CPUs and GPUs cannot"), ("99", "at most 64"), ("0", "at least 1"),
                              ("9", "at most 4")):
            err = self.fails(*self.args("--devices", devices), code=2 if devices != "9" else 1)
            self.assertIn(text, err)
        self.assertIn("different kinds", self.fails(*self.args("--devices", "0,1", "--device", "cpu"), code=2))
        self.assertIn("RANK and WORLD_SIZE", self.fails("rank", code=2))


if __name__ == "__main__":
    unittest.main()
