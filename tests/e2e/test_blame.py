"""Why paths ended, and ranks, computed once more from a trace alone: plainly, by looking through the whole text each time."""
import collections
import math
import os
import tempfile
import unittest

from program import needs_model, read_trace, run

SPAN, RANK_ROWS = 20, 64


def copies(text, tail, most=3):
    """The entry of each known n-gram that ends tail, longest first: of the places where it stood before, the latest of those
    with the longest continuation (20 tokens at most)."""
    found = []
    for k in range(min(most, len(tail)), 0, -1):
        gram = tail[-k:]
        places = [i + k for i in range(len(text) - k) if text[i:i + k] == gram]
        if places:
            found.append(max(places, key=lambda p: (min(SPAN, len(text) - p), p)))
    return found


class Tuned:
    """logitspec: everything that a source names is a candidate."""

    TOP, ROWS, FREQUENT, DEEPER, LIKELY, RARE = 16, 4, 16, 0.9, 0.1, 0.001

    def __init__(self):
        self.said, self.averages, self.recent, self.total, self.frequent, self.counted = {}, {}, [], {}, [], 0

    def count(self, text):
        for token in text[self.counted:]:
            self.total[token] = self.total.get(token, 0) + 1
            if token not in self.frequent:
                if len(self.frequent) == self.FREQUENT:
                    if self.total[self.frequent[-1]] > self.total[token]:
                        continue
                    self.frequent.pop() # of equally frequent tokens the newer one stays
                self.frequent.append(token)
            self.frequent.sort(key=lambda t: -self.total[t])
        self.counted = len(text)

    def knows(self, text, nodes, path, wanted, top, rows):
        tokens = [nodes[i]["token"] for i in path]
        tail, last = text + tokens, nodes[path[-1]]
        places = copies(text, tail[-3:])
        named = {t for n in (1, 2, 3) for t in self.said.get(tuple(tail[-n:]), [])}
        if places:
            named.add(text[places[0]])
        if 0 <= last["match_pos"] < len(text) - 1:
            named.add(text[last["match_pos"] + 1])
        if len(path) == 1:
            named |= {t for t in top if t != tokens[0]}
        chance = math.prod(nodes[i]["est_p"] * self.DEEPER for i in path[1:])
        named |= {t for t, p in self.averages.get(tokens[-1], ([], 0))[0] if chance * p >= self.RARE}
        if chance >= self.LIKELY:
            named |= {t for row in self.recent[-self.ROWS:-1] for t in row} | set(self.frequent)
        if wanted in named:
            return "it"
        if wanted in [text[p] for p in places]:
            return "hidden"
        if len(path) == 1 and wanted != tokens[0]:
            return "beyond"
        return "others" if named else "nothing"

    def average(self, token, best):
        old, rows = self.averages.get(token, ([], 0))
        share = max(1 / (rows + 1), 0.1)
        mean = [[t, p * (1 - share)] for t, p in old]
        for t, p in best:
            entry = next((e for e in mean if e[0] == t), None)
            if entry:
                entry[1] += share * p
            elif len(mean) < self.TOP:
                mean.append([t, share * p])
            elif mean[-1][1] <= share * p:
                mean[-1] = [t, share * p]
            mean.sort(key=lambda e: -e[1])
        self.averages[token] = mean, rows + 1

    def learn(self, text, nodes):
        ends = []
        for i, node in enumerate(nodes):
            ends.append(((ends[node["parent"]] if i else text[-2:]) + [node["token"]])[-3:])
            best = [t for t, _ in node["top"]]
            for n in (1, 2, 3):
                if best and n <= len(ends[i]):
                    self.said[tuple(ends[i][-n:])] = best
            if best:
                self.average(node["token"], [(t, math.exp(logit - node["lse"])) for t, logit in node["top"]])
            if best and node["state"] == "accepted":
                self.recent.append(best)


class Published:
    """logitspec-paper and its halves: chains under the root."""

    def __init__(self, guesses, retrieval):
        self.guesses, self.retrieval = guesses, retrieval

    def chains(self, text, root, top, rows):
        starts = [None] + ([r for r, t in enumerate(top[:rows]) if t != root] if self.guesses else [])
        for rank in starts:
            head = [] if rank is None else [top[rank]]
            places = copies(text, (text[-2:] + [root] + head)[-3:]) if self.retrieval else []
            whole = head + (text[places[0]:] if places else [])
            most = len(head) + (min(SPAN, len(text) - places[0]) if places else 0)
            if rank is not None:
                most = min(most, 4 if rank <= 8 else 3 if rank <= 32 else 1)
            yield whole, most

    def knows(self, text, nodes, path, wanted, top, rows):
        tokens, depth = [nodes[i]["token"] for i in path], len(path) - 1
        answers = {"nothing"}
        for whole, most in self.chains(text, tokens[0], top, rows):
            if whole[:depth] != tokens[1:] or len(whole) <= depth:
                continue
            if whole[depth] == wanted:
                answers.add("it" if depth < most else "beyond")
            elif depth < most:
                answers.add("others")
        if self.retrieval:
            places = copies(text, (text + tokens)[-3:])
            answers |= {"others"} if places else set()
            answers |= {"hidden"} if wanted in [text[p] for p in places] else set()
        if not depth and self.guesses and wanted != tokens[0]:
            answers.add("beyond")
        return next(a for a in ("it", "hidden", "beyond", "others", "nothing") if a in answers)

    def learn(self, text, nodes):
        pass

    def count(self, text):
        pass


class Lookup:
    """pld: what followed the earliest place of the root's n-gram, ten tokens of it."""

    @staticmethod
    def first(text, tail):
        for k in range(min(3, len(tail)), 0, -1):
            for i in range(len(text) - k):
                if text[i:i + k] == tail[-k:]:
                    yield i + k
                    break

    def knows(self, text, nodes, path, wanted, top, rows):
        tokens, depth = [nodes[i]["token"] for i in path], len(path) - 1
        at = next(self.first(text, (text + tokens[:1])[-3:]), None)
        if at is not None and text[at + depth:at + depth + 1] == [wanted]:
            return "it" if depth < 10 else "beyond"
        fresh = [text[p] for p in self.first(text, (text + tokens)[-3:])]
        return "hidden" if wanted in fresh else "others" if fresh or at is not None else "nothing"

    def learn(self, text, nodes):
        pass

    def count(self, text):
        pass


METHODS = {"logitspec": Tuned, "logitspec-paper": lambda: Published(True, True), "logit-only": lambda: Published(True, False),
           "retrieval-only": lambda: Published(False, True), "pld": Lookup}
NAMES = {"nothing": "unknown", "others": "otherwise", "beyond": "beyond", "hidden": "taken"}


def reference(lines, method):
    """For each step: why its path ended, and the rank of the next-next token."""
    known = METHODS[method]()
    for line in lines:
        if line["type"] == "header":
            text = list(line["prompt_ids"])
            config = line["config"]
        if line["type"] != "step":
            continue
        nodes, path, miss, rank = line["nodes"], line["path"], None, -1
        end = nodes[path[-1]]
        if line["forward"]:
            top = [t for t, _ in line["last"]["top"]]
            if nodes[0]["target"] in top:
                rank = top.index(nodes[0]["target"])
            rows = int(config["decode.max_rows"]) if config["decode.max_rows"] != "auto" else RANK_ROWS
            known.count(text)
            if not line["finish"]:
                says = known.knows(text, nodes, path, end["target"], top, rows)
                if end["target"] != end["top"][0][0]:
                    miss = "sampled"
                elif says == "it":
                    sized = method == "logitspec" and config["decode.max_rows"] == "auto"
                    miss = "cost" if sized and line["rows"] < RANK_ROWS else "budget"
                else:
                    miss = NAMES[says]
            known.learn(text, nodes)
        yield miss, rank
        text += line["emitted"]


class Blame(unittest.TestCase):
    def compare(self, seen, *flags, method, **kw):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            p = run("generate", "--method", method, "--trace", path, "--quiet", "--set", "logitspec.read_prompt=0", *flags, **kw)
            self.assertEqual(p.returncode, 0, p.stderr)
            with open(path, encoding="utf-8") as f:
                lines = read_trace(f.read())
        steps = [line for line in lines if line["type"] == "step"]
        expected = list(reference(lines, method))
        self.assertEqual([(s.get("miss"), s["next_next_rank"]) for s in steps], expected, f"{method} {flags}")
        seen.update(m for m, _ in expected)

    def test_every_reason_and_rank_is_that_of_a_plain_reference(self):
        seen = collections.Counter()
        # The pool looks at the last 40 positions again (spec/pool.h); an answer whose steps jump further may lose an entry
        # that the reference has, and this one's do not.
        text = "One fish, two fish, red fish, blue fish. One dog, two dogs, red dogs. More"
        for method in METHODS:
            for flags in ([], ["--max-rows", "4"], ["--temperature", "1", "--seed", "5"], ["--max-rows", "12", "--acceptance", "fly"]):
                self.compare(seen, "--model", "script", "--prompt", text, "--max-tokens", "150", *flags, method=method)
        self.assertLessEqual({"sampled", "otherwise", "beyond", "cost", "budget"}, set(seen))

    @needs_model
    def test_on_the_default_model(self):
        seen = collections.Counter()
        for method in METHODS:
            self.compare(seen, "--prompt", "List ten animals, then list them once more in the same order.", "--max-tokens", "90",
                         method=method, timeout=300)
        self.assertLessEqual({"unknown", "otherwise", "beyond", "taken", "cost"}, set(seen))


if __name__ == "__main__":
    unittest.main()
