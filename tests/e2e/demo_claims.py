"""What the notes of the shipped demos claim, each claim computed from the recordings alone.

A claim is the words of a note, with {} for what is computed, and a function of the recordings and of the step at which the note
appears (None at the start and the end). It returns what belongs into the braces, in order, or, where there are none, whether the
words are true. Every number, number word and quotation of a note stands in a claim or in COMMON, so none goes unchecked."""
import math
import os
import re

from program import ROOT
from recording import accepted, loose, next_next, took, words

COMMON = (  # names on the screen and in the paper, and what holds for every run
    '"by source"', '"by depth"', '"budget" in the title', '("next-next")', '"at rank"', '("n-grams")', '("forward" in Stats)',
    '"speed" says', '"break-even MAT" is what steps must emit', '"forward" shows', "as a multiple of one row",
    "a step emits at least one token", "would now run one forward for each token", "verifies them all in one forward", "the rows of one forward",
    "All these tokens took one forward, not one forward each",
    "plain decoding has 1", '"remembered" drafts', "is one of the words",
    "how near the two tokens were", "and a made-up one on which",
    "another one than plain decoding writes", "verifies the likeliest paths first", "has the two sources of the paper and a third",
    "less than a second token", "Both lanes run on the same clock", "draws one by its probabilities",
    "likely enough to be worth a second row", "A high MAT can be a bad sign", "Watch the drafts when the second class begins",
    "One forward can verify many drafts", "so one forward verified it with the root", "One of those guesses was right",
    "With sizing auto", "verifies the tree in one", "One level deeper", "a second child costs one row more",
    "one for each level of the tree", "One level deeper the best token of the draft model", "does not begin with an empty one")


def rows(r, s):
    return {x["rows"] for x in r.steps if x["forward"]}


def said(r, s, root):
    """The target's choice after the first verified row of this token."""
    for step in r.steps:
        for n in step["nodes"]:
            if r.word(n["token"]) == root and n["target"] >= 0:
                return r.word(n["target"])
    return None


def label(step):
    return {"sampled": "sampled another", "unknown": "never seen", "otherwise": "other continuation", "beyond": "beyond reach",
            "taken": "other guess first", "cost": "not worth it", "budget": "no row left"}[step["miss"]]


def below(r, n):
    return sum(0 <= next_next(s)[1] < n for s in r.steps if s["forward"])


def p(node):
    return f"{node['p']:.2f}"


def part(a, b):
    return next(i for i, (x, y) in enumerate(zip(a.output, b.output)) if x != y)


def seconds(r):
    return sum(s["us"]["total"] for s in r.steps) / 1e6


def speed(r):
    return len(r.output) / seconds(r)


def root(r, s):
    return r.word(s["root"])


def wanted(r, s):
    return r.word(s["nodes"][0]["target"])


CLAIMS = {
    "next-next": [
        ("This is the published method with at most {} rows a step, recorded on an {}.",
         lambda r, s, d: r.header["method"] == "logitspec-paper" and (max(rows(r, s)), r.header["backend"]["kernel"].split(",")[0])),
        ('The root is "{}", and the target chose "{}" after it. That token is not among the best {} here',
         lambda r, s, d: next_next(s)[1] < 0 and (root(r, s), wanted(r, s), len(s["last"]["top"]))),
        ('The root is "{}", and the text after an earlier "{}" was rejected. The target chose "{}": a guess, at rank {} of the last logits. '
         'In the prompt "{}" follows "{}"',
         lambda r, s, d: s["branches"][0]["rank"] < 0 and not s["branches"][0]["accepted"] and behind_a_guess(r, s)
         and (root(r, s), root(r, s), wanted(r, s), next_next(s)[1], behind_a_guess(r, s), wanted(r, s))),
        ("{} tokens in one forward", lambda r, s, d: len(s["emitted"])),
        ('the text after the first "{}" of the prompt, "{}". All {} drafts were rejected, and its forward emitted {} token.',
         lambda r, s, d: (lambda t: not accepted(t) and first_after(r, s["root"])[:t["rows"] - 1] == [n["token"] for n in t["nodes"][1:]]
                            and (root(r, s), r.text([n["token"] for n in t["nodes"][1:]]).strip(), t["rows"] - 1, len(t["emitted"])))
         (r.more["pld"].at(s["output_pos"]))),
        ('The prompt does not contain "{}", so no look-up could find it. It is at rank {} of the last logits',
         lambda r, s, d: wanted(r, s) not in r.header["prompt_text"] and next_next(s)[2] and (wanted(r, s), next_next(s)[1])),
        ('The root "{}" occurs {} times in the prompt, before {} different words',
         lambda r, s, d: (lambda after: (root(r, s), len(after), len(set(after))))(
             [b for a, b in zip(r.header["prompt_ids"], r.header["prompt_ids"][1:]) if a == s["root"]])),
        ('The guess "{}", at rank {}, finds it, and "{}" follows there. Prompt lookup emitted {} token here.',
         lambda r, s, d: (wanted(r, s), next_next(s)[1], behind_a_guess(r, s), len(r.more["pld"].at(s["output_pos"])["emitted"]))),
        ("{} drafts were accepted: {} retrieved after the root, {} guesses, {} retrieved after a guess.",
         lambda r, s, d: (r.accepted(), *(r.accepted(x) for x in ("retrieved", "last-logit", "guess-tail")))),
        ("On {} other prompts, {} of 100 steps accepted a guess, and {} also accepted text after it.", lambda r, s, d: of_the_suite()),
        ("This is faster if {} rows cost little: {} of one row on this GPU.", lambda r, s, d: (64, r.cost(64))),
    ],
    "two-models": [
        ("the target's own first {} layers of {}", lambda r, s, d: (int(r.header["config"]["draft.layers"]), 30)
         if f"its first {r.header['config']['draft.layers']} layers" in r.header["draft_model"] else False),
        ('After the root "{}" the draft model expected "{}" with probability {} ("draft p"). The target gave it {} and chose it.',
         lambda r, s, d: s["nodes"][1]["state"] == "accepted" and s["nodes"][1]["source"] == "draft-model"
         and (root(r, s), r.word(s["nodes"][1]["token"]), f"{s['nodes'][1]['draft_p']:.2f}", p(s["nodes"][1]))),
        ('the best token of the draft model was "{}", but the target chose "{}"',
         lambda r, s, d: (r.word(s["said"][s["nodes"][1]["said"] - 1]["top"][0][0]), r.word(s["nodes"][1]["target"]))),
        ('After "{}" the draft model expected a blank with probability {}. The target chose "{}".',
         lambda r, s, d: r.text([s["said"][0]["top"][0][0]]) == " " and (root(r, s), f"{s['said'][0]['top'][0][1]:.2f}", wanted(r, s))),
        ('the draft model preferred "{}" ({}) to "{}" ({}), and the target "{}" ({}).',
         lambda r, s, d: (lambda a, b: b["state"] == "accepted" and a["parent"] == b["parent"] and
                          (r.word(a["token"]), f"{a['draft_p']:.2f}", r.word(b["token"]), f"{b['draft_p']:.2f}", r.word(b["token"]), p(b)))
         (s["nodes"][2], s["nodes"][4])),
        ('With "{}" after it, this step emits {} tokens', lambda r, s, d: (r.word(s["emitted"][-1]), len(s["emitted"]))),
        ("{} tokens in {} steps (MAT {}). But the draft model ran {} forwards of {} layers for that, more work than plain decoding does",
         lambda r, s, d: (lambda n: 27 * n > 30 * len(r.output) and (len(r.output), len(r.steps), r.mat(), n, 27))
         (sum(x.get("draft_forwards", 0) for x in r.steps))),
    ],
    "paper-or-tuned": [
        ("This is the default method with {} rows a step.", lambda r, s, d: r.header["method"] == "logitspec" and rows(r, s)),
        ('The root is "{}". Two remembered drafts were accepted, "{}" and "{}".',
         lambda r, s, d: {n["source"] for n in accepted(s)} == {"remembered"} and [root(r, s), *words(r, accepted(s))]),
        ('The published method had only "{}" here, at rank {} of the last logits.',
         lambda r, s, d: (lambda t: [*words(r, accepted(t)), accepted(t)[0]["rank"]])(r.rival.at(s["output_pos"]))),
        ('the published method missed "{}", because retrieved text filled its {} rows',
         lambda r, s, d: (lambda t: t["miss"] == "budget" and {n["source"] for n in t["nodes"][1:]} == {"retrieved"}
                            and (wanted(r, t), t["rows"]))(r.rival.at(s["output_pos"]))),
        ('so "{}" got a row', lambda r, s, d: words(r, accepted(s))),
        ("Both lanes wrote the same {} tokens. The published method took {} steps (MAT {}), the default {} (MAT {}); {} of its {} "
         "accepted drafts were remembered. Both verified {} rows a step.",
         lambda r, s, d: r.output == r.rival.output and rows(r, s) == rows(r.rival, s)
         and (len(r.output), len(r.rival.steps), r.rival.mat(), len(r.steps), r.mat(), r.accepted("remembered"), r.accepted(), *rows(r, s))),
    ],
    "recycling": [
        ("for each token, the {} best tokens", lambda r, s, d: {len(n["top"]) for x in r.steps if x["forward"] for n in x["nodes"]}),
        ('no row for the root "{}", so the method drafts nothing: "{}"',
         lambda r, s, d: s["pool_size"] == 0 and s["rows"] == 1 and (root(r, s), label(s))),
        ("The steps 0 to 9 are all like this one: one forward, one token, one more row",
         lambda r, s, d: all_of((x["rows"], x["emitted"][1:], x["pool_size"], x["miss"]) == (1, [], i, "unknown")
                                  for i, x in enumerate(r.steps[:10]))),
        ('The root "{}" occurred once before, so there is a tree: {} drafts.',
         lambda r, s, d: r.output[:s["output_pos"]].count(s["root"]) == 1 and (root(r, s), s["rows"] - 1)),
        ('After the first "{}" the target chose "{}", but here a line ends',
         lambda r, s, d: wanted(r, s) == "\n" and (root(r, s), said(r, s, root(r, s)))),
        ("the matrix grows from {} rows to {}", lambda r, s, d: (s["pool_size"], r.steps[s["index"] + 1]["pool_size"])),
        ("The second line begins like the first.", lambda r, s, d: r.text(r.output[:s["output_pos"]]).count("\n") == 1),
        ('The root is "{}", and "{}", "{}", "{}" and "{}" are accepted: the target chose them',
         lambda r, s, d: {n["source"] for n in accepted(s)} == {"remembered"} and [root(r, s), *words(r, accepted(s))]),
        ('because the tree of {} rows has no row below: "{}"',
         lambda r, s, d: s["path"][-1] not in [n["parent"] for n in s["nodes"]] and (s["rows"], label(s))),
        ("The first {} steps emitted {} tokens, the other {} steps emitted {}.",
         lambda r, s, d: (14, sum(len(x["emitted"]) for x in r.steps[:14]), len(r.steps) - 14,
                            sum(len(x["emitted"]) for x in r.steps[14:]))),
        ("By the last step the matrix had {} rows.", lambda r, s, d: r.steps[-1]["pool_size"]),
        ('"never seen" ended {} paths, {} of them in the first {} steps',
         lambda r, s, d: (r.missed("unknown"), sum(x["miss"] == "unknown" for x in r.steps[:13]), 13)),
    ],
    "sizing": [
        ("forwards of {} to {} rows", lambda r, s, d: (r.header["calibration"]["rows"][0], r.header["calibration"]["rows"][-1])),
        ("{} rows took {} the time of one row, {} {} and {} {}",
         lambda r, s, d: (8, r.cost(8), 16, r.cost(16), 64, r.cost(64))),
        ("So this is a plain step: {} row, {} token.", lambda r, s, d: (s["rows"], len(s["emitted"]))),
        ('The next-next token "{}" was at rank {} of the last logits.', lambda r, s, d: (wanted(r, s), next_next(s)[1])),
        ('The reason is "{}".', lambda r, s, d: label(s)),
        ("The second line repeats the first", lambda r, s, d: r.text(r.output[:s["output_pos"]]).count("\n") == 1),
        ("the tree has {} rows, and all {} drafts are accepted", lambda r, s, d: (s["rows"], len(accepted(s)))),
        ("{} tokens in {} steps (MAT {}): {} drafts were verified, {} accepted.",
         lambda r, s, d: (len(r.output), len(r.steps), r.mat(), r.verified(), r.accepted())),
        ("The demos sizing-gpu and sizing-linear decode the same prompt on other cost curves",
         lambda r, s, d: all_of(d[x].header["prompt_ids"] == r.header["prompt_ids"] for x in ("sizing-gpu", "sizing-linear"))),
    ],
    "sizing-gpu": [
        ("This is the prompt of the demo sizing, recorded on an {}.",
         lambda r, s, d: r.header["prompt_ids"] == d["sizing"].header["prompt_ids"] and r.header["backend"]["kernel"].split(",")[0]),
        ("{} rows take {} the time of one row there", lambda r, s, d: (64, r.cost(64))),
        ("The demo sizing verified {} row in its first step, this run verifies {}. All {} drafts are rejected.",
         lambda r, s, d: not accepted(s) and (d["sizing"].steps[0]["rows"], s["rows"], s["rows"] - 1)),
        ('The guess "{}", at rank {} of the last logits, is accepted. In the demo sizing it was at rank {} and got no row: on a CPU it '
         'was "{}".',
         lambda r, s, d: (lambda t: (wanted(r, s), next_next(s)[1], next_next(t)[1], label(t)))
         (d["sizing"].at(s["output_pos"]))),
        ("{} of {} drafts accepted, {} tokens from one forward. The other {} drafts",
         lambda r, s, d: (len(accepted(s)), s["rows"] - 1, len(s["emitted"]), s["rows"] - 1 - len(accepted(s)))),
        ("{} tokens in {} steps (MAT {}), where the demo sizing took {} steps. But it verified {} drafts instead of {}.",
         lambda r, s, d: (len(r.output), len(r.steps), r.mat(), len(d["sizing"].steps), r.verified(), d["sizing"].verified())),
        ("Plain decoding took {} ms for the same text on this GPU, this run {} ms.",
         lambda r, s, d: r.output == r.rival.output == d["sizing"].output and r.header["backend"] == r.rival.header["backend"]
         and (f"{1e3 * seconds(r.rival):.0f}", f"{1e3 * seconds(r):.0f}")),
    ],
    "sizing-linear": [
        ('each row costs as much as a forward ({} rows {}, {} rows {} in "forward")',
         lambda r, s, d: (4, r.cost(4), 64, r.cost(64))),
        ("All else is as in the demo sizing.", lambda r, s, d: same_but_costs(r, d["sizing"])),
        ('The target chose "{}" after "{}", as in the prompt.',
         lambda r, s, d: f"{root(r, s)} {wanted(r, s)}" in r.header["prompt_text"] and (wanted(r, s), root(r, s))),
        ("on this curve {} rows take the time of {} plain steps", lambda r, s, d: (2, r.cost(2)[1:].rstrip("0").rstrip("."))),
        ('"not worth it".', lambda r, s, d: s is None or label(s) == "not worth it"),
        ("Every step verified its root alone: {} tokens in {} steps (MAT {}), which is plain decoding. {} paths ended with \"not worth it\"",
         lambda r, s, d: r.verified() == 0 and (len(r.output), len(r.steps), r.mat(), r.missed("cost"))),
        ("On all three curves the text is the same",
         lambda r, s, d: r.output == d["sizing"].output == d["sizing-gpu"].output),
    ],
    "sampling": [
        ("the prompt of the demo paper-or-tuned, with {} rows again, but at temperature {} (seed {}).",
         lambda r, s, d: d["paper-or-tuned"].header["prompt_ids"] == r.header["prompt_ids"]
         and (*rows(r, s), r.header["config"]["decode.temperature"], r.header["seed"])),
        ('After the root "{}" the likeliest token was "{}" with p {}, but sampling chose "{}" with p {}.',
         lambda r, s, d: (root(r, s), *likeliest(r, s["nodes"][0]), wanted(r, s), f"{s['nodes'][0]['target_p']:.4f}")),
        ('The reason is "{}".', lambda r, s, d: label(s)),
        ('After "{}" sampling chose the empty line with p {} and then "{}" with p {}. Both were drafted and accepted.',
         lambda r, s, d: words(r, accepted(s))[0] == "\n\n"
         and (root(r, s), p(accepted(s)[0]), r.word(accepted(s)[1]["token"]), p(accepted(s)[1]))),
        ("{} tokens in {} steps (MAT {}); at temperature {} the demo paper-or-tuned took {} (MAT {}). {} of {} paths ended because "
         "sampling chose a token other",
         lambda r, s, d: (len(r.output), len(r.steps), r.mat(), d["paper-or-tuned"].header["config"]["decode.temperature"],
                            len(d["paper-or-tuned"].steps), d["paper-or-tuned"].mat(), r.missed("sampled"), r.paths())),
        ("The text is the same as plain decoding's with this seed",
         lambda r, s, d: r.rival.header["method"] in ("ar", "plain") and r.rival.header["seed"] == r.header["seed"] and r.output == r.rival.output),
    ],
    "lossy": [
        ('The rule "{}" accepts', lambda r, s, d: r.header["acceptance"].split(":")[0]),
        ('"{}": it was accepted, although the target gave it p {}. The target\'s own choice was "{}" with p {}.',
         lambda r, s, d: (lambda n: (r.word(n["token"]), p(n), r.word(s["nodes"][n["parent"]]["target"]),
                                       f"{s['nodes'][n['parent']]['target_p']:.2f}"))(loose(s)[0])),
        ("A long path: {} drafts accepted in this step.", lambda r, s, d: len(accepted(s))),
        ("Gain: {} tokens per second (MAT {}); the exact run, the second lane, has {} (MAT {}).",
         lambda r, s, d: r.rival.header["acceptance"] == "exact" and r.rival.header["method"] == r.header["method"]
         and speed(r) > 1.4 * speed(r.rival) and (f"{speed(r):.0f}", r.mat(), f"{speed(r.rival):.0f}", r.rival.mat())),
        ('the texts differ from token {} on, {} tokens are not the target\'s choice, and "{}" occurs {} times (exact text: {})',
         lambda r, s, d: (part(r, r.rival), sum(len(loose(x)) for x in r.steps), "It can be used to support various purposes",
                            *(x.text().count("It can be used to support various purposes") for x in (r, r.rival)))),
        ("The drafts repeat an earlier sentence, and the rule accepts the repetition.",
         lambda r, s, d: len(loose(s)) > 0 and {n["source"] for n in accepted(s)} == {"retrieved"}
         and r.text(s["emitted"][1:]) in r.text([t for x in r.steps[:s["index"]] for t in x["emitted"]])),
    ],
    "first-step": [
        ("These drafts were accepted.", lambda r, s, d: len(accepted(s)) > 1 and {n["source"] for n in accepted(s)} == {"retrieved"}),
        ("All drafts were rejected.", lambda r, s, d: s["rows"] > 1 and not accepted(s)),
    ],
    "prose": [
        ("Every step still verifies {} rows.", lambda r, s, d: rows(r, s)),
        ("All {} drafts are rejected. The text began with this step",
         lambda r, s, d: s["index"] == 0 and not accepted(s) and s["rows"] - 1),
        ('after "{}" comes "{}", which was rank {} of the logits that predicted "{}"',
         lambda r, s, d: (root(r, s), r.word(accepted(s)[0]["token"]), accepted(s)[0]["rank"], root(r, s))),
        ('"{}" was written once, so the second time {} drafts are accepted in one step',
         lambda r, s, d: (lambda name: r.text([t for x in r.steps[:s["index"]] for t in x["emitted"]]).count(name) == 1
                          and r.text(s["emitted"][1:]).strip() == name and (name, len(accepted(s))))("Mr. Finch")),
        ("{} tokens in {} steps (MAT {}). The demo code took {} steps for {} tokens (MAT {}), the demo copy {} for {}. {} drafts were "
         "verified here, and {} were accepted.",
         lambda r, s, d: (lambda c, k: float(r.mat()) < float(c.mat()) < float(k.mat())
                          and (len(r.output), len(r.steps), r.mat(), len(c.steps), len(c.output), c.mat(), len(k.steps), len(k.output),
                               r.verified(), r.accepted()))(d["code"], d["copy"])),
    ],
    "one-forward": [
        ("This run verifies {} rows in every step, the root included.", lambda r, s, d: rows(r, s)),
        ("Watch three things: the attention mask, the position and the cost of a row.", lambda r, s, d: True),
        ('"{}" and "{}" are both verified after "{}", each as if the other did not exist.',
         lambda r, s, d: (lambda c: c[1]["state"] == "rejected" and (r.word(accepted(s)[0]["token"]), r.word(c[1]["token"]), root(r, s)))
         (s["nodes"])),
        ("Here {} rows have position {}. The target chose \"{}\", so that row and the row after it are kept, and the other {} drafts",
         lambda r, s, d: s["nodes"][s["path"][1]]["depth"] == 1 and len(accepted(s)) == 2
         and (sum(n["depth"] == 1 for n in s["nodes"]), s["context_len"] + 1, wanted(r, s), s["rows"] - 3)),
        ("so {} rows cost {} of one row here, not {} times as much",
         lambda r, s, d: (s["rows"], r.cost(s["rows"]), s["rows"])),
        ("This step emitted {} tokens and took {} of the time that plain decoding takes for them.",
         lambda r, s, d: (len(s["emitted"]), f"{took(s):.2f}")),
        ("These {} tokens take {} steps without drafts, {} with {} rows, {} with {} rows and {} with {} rows.",
         lambda r, s, d: all_of(x.output == r.output for x in r.more.values())
         and (len(r.output), len(r.output), len(r.more["4"].steps), 4, len(r.steps), 16, len(r.more["64"].steps), 64)),
        ("In seconds: {} with {} rows, {} with {}, {} with {}.",
         lambda r, s, d: (f"{seconds(r.more['4']):.2f}", 4, f"{seconds(r):.2f}", 16, f"{seconds(r.more['64']):.2f}", 64)),
    ],
    "same-seed": [
        ("depends only on the seed (here {}) and the position", lambda r, s, d: r.header["seed"]),
        ('The target drew "{}" after "{}", and "{}" was drafted, so it is accepted.',
         lambda r, s, d: (lambda t: (t, root(r, s), t))(r.word(accepted(s)[0]["token"]))),
        ('After "{}" the most probable token was "{}", but the target drew "{}" with p {}.',
         lambda r, s, d: (lambda n: (r.word(n["token"]), r.word(n["top"][0][0]), r.word(n["target"]), f"{n['target_p']:.2f}"))
         (s["nodes"][s["path"][-1]])),
        ("Both lanes wrote the same {} tokens from seed {}: plain decoding in {} steps, this run in {}. With seed {} plain decoding writes "
         "another text, from token {} on.",
         lambda r, s, d: r.output == r.rival.output and r.rival.header["method"] in ("ar", "plain") and r.rival.header["seed"] == r.header["seed"]
         and (len(r.output), r.header["seed"], len(r.rival.steps), len(r.steps), r.more["8"].header["seed"], part(r, r.more["8"]))),
    ],
    "code": [
        ("The prompt asks for two classes that look alike.", lambda r, s, d: all_of(f"class {x}" in r.text() for x in ("Dog", "Cat"))),
        ("One step accepted a long run of code.", lambda r, s, d: len(accepted(s)) >= 6),
        ("All drafts were rejected.", lambda r, s, d: not accepted(s)),
    ],
    "copy": [
        ('Their source "{}@{}" means that the last {} tokens also end just before position {}.',
         lambda r, s, d: (lambda n: n["source"] == "retrieved" and (n["match_n"], n["match_pos"], n["match_n"], n["match_pos"]))
         (accepted(s)[0])),
        ("Five or more tokens in one forward of the target.", lambda r, s, d: len(s["emitted"]) >= 5),
        ('The drafts continue with the next sentence, but the target ends the answer after "{}".',
         lambda r, s, d: (lambda end: end["finish"] == "eos" and len(end["emitted"]) == 1 and s["rows"] - 1 > len(accepted(s))
                            and r.text(s["emitted"][-2:]).strip())(r.steps[s["index"] + 1])),
        ("Most accepted drafts were copied from the prompt", lambda r, s, d: 2 * r.accepted("retrieved") > r.accepted()),
    ],
    "race": [
        ("No draft was likely enough, so this is a plain step.", lambda r, s, d: s["rows"] == 1),
        ("at least one and a half times as fast as plain decoding of its tokens", lambda r, s, d: took(s) < 1 / 1.5),
        ("for {} tokens plain decoding took {} s and this run {} s.",
         lambda r, s, d: r.output == r.rival.output and (len(r.output), f"{seconds(r.rival):.2f}", f"{seconds(r):.2f}")),
    ],
    "quiz": [
        ("A draft was rejected in the previous step. The root is the token that the target chose there.",
         lambda r, s, d: s["corrected"] and r.steps[s["index"] - 1]["nodes"][r.steps[s["index"] - 1]["path"][-1]]["target"] == s["root"]),
    ],
    "slower": [
        ("LogitSpec exactly as published: {} rows in every step.", lambda r, s, d: rows(r, s)),
        ("On the GPU of the demo next-next they took {} the time of one row", lambda r, s, d: d["next-next"].cost(64)),
        ("what {} rows cost, as a multiple of one row, on the machine of the recording.", lambda r, s, d: r.header["calibration"]["rows"][-1]),
        ("This step took more than twice as long as plain decoding of its tokens.", lambda r, s, d: took(s) > 2),
        ("some are accepted, and MAT is above 1.", lambda r, s, d: r.accepted() > 0),
        ("But verifying sixty rows to gain two tokens costs too much here.", lambda r, s, d: s["rows"] > 60 and len(accepted(s)) == 2),
    ],
    "mixture": [
        ("In each of {} layers of this model a router picks {} of {} experts for every token, so one row takes {} experts.",
         lambda r, s, d: (m := r.header["model"]) and (m["mixtures"], m["experts_used"], m["experts"], of_row(r))),
        ("a forward waits {} ms for each expert", lambda r, s, d: f"{r.header['calibration']['expert_ms']:.1f}"),
        ('"+{} experts" at the root means that no other row took these. The {} rows of this tree took {} experts, where the root alone takes {}.',
         lambda r, s, d: (s["nodes"][0]["experts_alone"], s["rows"], s["experts"], of_row(r))),
        ("here each new row brings experts of its own", lambda r, s, d: sum(n.get("experts_alone", 0) > 0 for n in s["nodes"]) == s["rows"]),
        ("These {} rows are nearly all blanks and took {} experts.",
         lambda r, s, d: [r.bytes[n["token"]] for n in s["nodes"]].count(b" ") >= s["rows"] - 2 and (s["rows"], s["experts"])),
        ("This step took {} the time of a plain step and emitted {} token.",
         lambda r, s, d: (f"x{s['us']['total'] / s['ar_us']:.1f}", len(s["emitted"]))),
        ("on average to be as fast as plain decoding: {} so far, but the steps emit {}.",
         lambda r, s, d: (f"{break_even(r, s):.2f}", f"{sum(len(x['emitted']) for x in until(r, s)) / len(until(r, s)):.2f}")),
        ("All {} drafts accepted: {} tokens for {} experts.", lambda r, s, d: (len(accepted(s)), len(s["emitted"]), s["experts"])),
        ("MAT is {}, but plain decoding emits {} tokens in the time of a mean step.", lambda r, s, d: (r.mat(), f"{break_even(r):.2f}")),
        ("{} steps instead of {}, and faster than plain decoding.",
         lambda r, s, d: r.rival.output == r.output and len(r.rival.output) / len(r.rival.steps) > break_even(r.rival)
         and len(r.output) / len(r.steps) < break_even(r) and (len(r.rival.steps), len(r.steps))),
    ],
}


def of_row(r):
    return r.header["model"]["mixtures"] * r.header["model"]["experts_used"]


def until(r, s):
    return [x for x in r.steps if not s or x["index"] <= s["index"]]


def break_even(r, s=None):
    """Tokens of plain decoding in the time of a mean step, up to s."""
    steps = until(r, s)
    plain = sum(x["ar_us"] * (len(x["emitted"]) - (x["finish"] in ("eos", "length", "context"))) for x in steps)
    return sum(x["us"]["total"] for x in steps) / len(steps) * sum(len(x["emitted"]) for x in steps) / plain


def behind_a_guess(r, s):
    """What was accepted after a guess, which the prompt has there too."""
    said = r.text([n["token"] for n in accepted(s)[1:]]).strip()
    return [n["source"] for n in accepted(s)[:2]] == ["last-logit", "guess-tail"] \
        and f"{wanted(r, s)} {said}" in r.header["prompt_text"] and said


def first_after(r, token):
    ids = r.header["prompt_ids"]
    return ids[ids.index(token) + 1:]


def of_the_suite():
    """Prompts, and the steps of 100 in which logitspec-paper had an accepted guess, and text behind one: demos/README.md."""
    with open(os.path.join(ROOT, "demos", "README.md"), encoding="utf-8") as f:
        page = f.read()
    count = {k: int(v) for k, v in re.findall(r"(?m)^\| (steps[\w ]*) \| (\d+)", page)}
    return (re.search(r"the (\d+) prompts of", page)[1], round(100 * count["steps with an accepted guess"] / count["steps"]),
            round(100 * count["steps with accepted text behind a guess"] / count["steps"]))


def likeliest(r, node):
    token, logit = node["top"][0]
    return r.word(token), f"{math.exp(logit - node['lse']):.2f}"


def same_but_costs(r, other):
    settings = [{k: v for k, v in x.header["config"].items() if k != "trace.file"} for x in (r, other)]
    return settings[0] == settings[1] and r.header["prompt_ids"] == other.header["prompt_ids"]


def all_of(truths):
    return all(truths)
