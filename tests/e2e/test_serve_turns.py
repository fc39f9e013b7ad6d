"""A server with --parallel: requests are decoded in turn, and none of them notices another one in its text, drafts or numbers."""
import json
import threading
import time
import unittest

from program import MODEL, needs_model, run
from serving import Server, chat, wait_for

CHAT = "/v1/chat/completions"
DRAFTS = "steps", "draft_verified", "draft_accepted", "by_source"
LONG = chat("Tell me of the sea. " * 150, max_tokens=3)  # 24 blocks of a prompt


def start(s, body):
    """A request in a thread of its own; its events with the number of all events before each."""
    seen = []

    def ask():
        c = s.connect()
        c.request("POST", CHAT, json.dumps({**body, "stream": True, "return_token_ids": True}), {"Content-Type": "application/json"})
        r = c.getresponse()
        assert r.status == 200, r.read()
        for line in r:
            if line.startswith(b"data: {"):
                seen.append(json.loads(line[6:]))
        c.close()
    t = threading.Thread(target=ask)
    t.start()
    return t, seen


def facts(seen):
    return seen[-1]["logitspec"]


class Turns(unittest.TestCase):
    BODIES = (chat("Count to twenty.", max_tokens=100), chat("Tell me of the sea.", max_tokens=80, temperature=0.9, seed=7))

    def both(self, s, bodies):
        runs = [start(s, b) for b in bodies]
        wait_for(lambda: s.metric("requests_running") == 2 or not all(t.is_alive() for t, _ in runs))  # on a busy machine
        for t, _ in runs:
            t.join()
        return [facts(seen) for _, seen in runs]

    def test_answers_and_drafts_are_those_of_each_alone(self):
        for method in "logitspec", "racer":
            with Server("--parallel", "2", "--fresh", "--method", method, model="script:25") as s:
                alone = [s.good(CHAT, {**b, "return_token_ids": True})["logitspec"] for b in self.BODIES]
                for a, b in zip(alone, self.both(s, self.BODIES)):
                    self.assertEqual(a["output_tokens"], b["output_tokens"])
                    self.assertEqual([a.get(k) for k in DRAFTS], [b.get(k) for k in DRAFTS])
                self.assertEqual(s.metric("requests_running"), 0)

    def test_times_are_of_own_steps(self):
        with Server("--parallel", "2", "--method", "plain", model="script:10") as s:
            began = time.monotonic()
            done = self.both(s, [chat("Count to twenty.", max_tokens=60)] * 2)
            wall = time.monotonic() - began
        own = [f["emitted"] / f["tokens_per_s"] for f in done]
        self.assertGreater(min(own), 0.5)  # 60 forwards of 10 ms at least
        self.assertLess(sum(own), wall)

    def test_a_long_prompt_stops_nobody_for_longer_than_a_block(self):
        with Server("--parallel", "2", "--method", "plain", model="script:20") as s:
            t, decodes = start(s, chat("Count to twenty.", max_tokens=300))
            wait_for(lambda: len(decodes) > 5)
            u, reads = start(s, LONG)
            before = len(decodes)
            wait_for(lambda: reads)
            self.assertGreater(len(decodes) - before, 15)  # a step between any two of 24 blocks
            u.join()
            self.assertEqual(facts(reads)["emitted"], 3)
            t.join()

    def test_a_prompt_in_blocks_is_the_same_prompt(self):
        with Server("--parallel", "2", model="script") as blocks, Server("--fresh", model="script") as whole:
            for body in LONG, {**LONG, "max_tokens": 40}, chat("x" * 128, max_tokens=5), chat("Tell me of the sea. " * 140 + "And you?", max_tokens=9):
                a, b = (s.good(CHAT, {**body, "return_token_ids": True})["logitspec"] for s in (blocks, whole))
                self.assertEqual((a["prompt_tokens"], a["output_tokens"]), (b["prompt_tokens"], b["output_tokens"]))
            self.assertGreater(a["kept_tokens"], 2700)

    def test_a_client_that_leaves_ends_its_own_request_only(self):
        body = chat("Count to twenty.", max_tokens=300)
        with Server("--parallel", "2", "--fresh", model="script:25") as s:
            alone = s.good(CHAT, {**body, "return_token_ids": True})["logitspec"]
            t, seen = start(s, body)
            c = s.connect()
            c.request("POST", CHAT, json.dumps(chat("x", max_tokens=3000)), {"Content-Type": "application/json"})
            wait_for(lambda: s.metric("requests_running") == 2)
            c.close()
            wait_for(lambda: s.metric('answers_total{end="client_left"}') == 1)
            t.join()
            self.assertEqual(facts(seen)["output_tokens"], alone["output_tokens"])
            self.assertEqual(s.metric('answers_total{end="whole"}'), 2)

    def test_the_queue_begins_behind_both(self):
        with Server("--parallel", "2", "--queue", "1", "--method", "plain", model="script:10") as s:
            runs = [start(s, chat("Count to twenty.", max_tokens=n)) for n in (200, 600)]  # at once: neither waits for the other
            wait_for(lambda: all(seen for _, seen in runs))
            third, _ = start(s, chat("x", max_tokens=2))
            wait_for(lambda: s.metric("requests_waiting") == 1)
            self.assertEqual(s.ask(CHAT, chat("x"))[0], 429)
            third.join()
            runs[0][0].join(30)
            self.assertEqual([t.is_alive() for t, _ in runs], [False, True])  # the place of the first one was free
            runs[1][0].join()

    def test_late_requests_and_the_end_of_the_server_reach_both(self):
        for args, end in (("--timeout", "5"), "longer than the server's limit"), ((), "is being stopped"):
            s = Server("--parallel", "2", "--method", "plain", *args, model="script:30")
            runs = [start(s, chat("Count.", max_tokens=4000)) for _ in range(2)]
            wait_for(lambda: all(seen for _, seen in runs))
            if not args:
                self.assertEqual(s.stop(), 0)
            for t, seen in runs:
                t.join()
                self.assertIn(end, json.dumps(seen[-1]))
            s.stop()

    def test_a_conversation_that_is_being_answered_lends_its_beginning(self):
        system = {"role": "system", "content": "Rules. " * 60}
        bodies = [{"messages": [system, {"role": "user", "content": c * 90}], "max_tokens": n} for c, n in (("a", 400), ("b", 60))]
        with Server("--parallel", "2", model="script:20") as s, Server("--fresh") as anew:
            t, first = start(s, bodies[0])
            wait_for(lambda: first)
            u, second = start(s, bodies[1])
            t.join(), u.join()
            self.assertGreater(facts(second)["kept_tokens"], 400)
            for seen, b in zip((first, second), bodies):
                self.assertEqual(facts(seen)["output_tokens"], anew.good(CHAT, {**b, "return_token_ids": True})["logitspec"]["output_tokens"])
            self.assertEqual(s.metric("kv_caches"), 2)

    @needs_model
    def test_a_real_model_says_what_generate_says(self):
        prompts = "Count to twenty.", "Write a Python function that adds two numbers."
        want = [json.loads(run("generate", "--prompt", p, "--model", MODEL, "--json", "--max-tokens", "40").stdout)["output_tokens"] for p in prompts]
        with Server("--parallel", "2", model=MODEL) as s:
            got = self.both(s, [chat(p, max_tokens=40) for p in prompts])
            self.assertEqual([g["output_tokens"] for g in got], want)


if __name__ == "__main__":
    unittest.main()
