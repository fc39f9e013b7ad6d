"""`export -o FILE.svg`: at every moment the moving picture shows what the film of the same recording shows."""
import json
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as ET

from program import ROOT, run

SVG = "{http://www.w3.org/2000/svg}"
TRACE = os.path.join(ROOT, "demos/traces/first-step.jsonl.zst")
ROWS, COLS = 24, 80


def seconds(text):
    return float(text.rstrip("s"))


class Picture:
    """Its groups as (row, from, until, text), by the rules of SMIL that it uses."""

    def __init__(self, path):
        root = ET.parse(path).getroot()
        clock = root.find(f".//{SVG}animate[@id='film']")
        self.length, self.groups = seconds(clock.get("dur")), []
        assert clock.get("begin") == "0s;film.end"
        for g in root.findall(SVG + "g"):
            begin, end = 0.0, self.length
            change = g.find(SVG + "set")
            if g.get("visibility") == "hidden":
                assert change.get("to") == "visible" and change.get("begin").startswith("film.begin+")
                begin = seconds(change.get("begin")[len("film.begin+"):])
                end = begin + seconds(change.get("dur"))
            elif change is not None:
                assert (change.get("to"), change.get("begin")) == ("hidden", "film.begin")
                begin = seconds(change.get("dur"))
            cells = [" "] * COLS
            for t in g.findall(SVG + "text"):
                row, col = round((float(t.get("y")) - 24) / 18), round((float(t.get("x")) - 10) / 8.43)
                cells[col:col + len(t.text)] = t.text
            if g.find(SVG + "text") is not None:
                self.groups.append((row, begin, end, "".join(cells).rstrip()))

    def at(self, when):
        rows = [""] * ROWS
        for row, begin, end, text in self.groups:
            if begin <= when < end:
                assert not rows[row], f"two texts in row {row} at {when}"
                rows[row] = text
        return rows


def film(path):
    """(time, screen) of an asciicast that writes whole rows."""
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f][1:]
    rows = [""] * ROWS
    for when, _, text in lines:
        for row, line in re.findall(r"\x1b\[(\d+);1H(.*?)(?=\x1b\[\d+;1H|$)", text, re.S):
            rows[int(row) - 1] = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line).rstrip()
        yield when, list(rows)


class Film(unittest.TestCase):
    def test_it_shows_what_the_film_shows(self):
        with tempfile.TemporaryDirectory() as d:
            options = ["--size", f"{COLS}x{ROWS}", "--speed", "0.02", "--ascii"]
            for name in "f.svg", "f.cast":
                r = run("export", TRACE, "-o", f"{d}/{name}", *options)
                self.assertEqual((r.returncode, r.stderr), (0, ""))
            picture, frames = Picture(d + "/f.svg"), list(film(d + "/f.cast"))
            self.assertGreater(len(frames), 10)
            self.assertEqual(frames[0][0], 0)  # while the prompt is read there is a picture, too
            self.assertTrue(any("READING" in row for row in picture.at(0.001)), picture.at(0.001))
            self.assertAlmostEqual(picture.length, frames[-1][0], places=2)
            for (when, rows), (until, _) in zip(frames, frames[1:]):
                if until - when > 0.002:  # times are written in milliseconds
                    self.assertEqual(picture.at((when + until) / 2), rows, when)
            bare = [t for g in ET.parse(d + "/f.svg").getroot().findall(SVG + "g") if g.get("visibility") != "hidden" for t in g.findall(SVG + "text")]
            self.assertGreater(len(bare), ROWS / 2)  # without animation it is the last frame

    def test_several_recordings_are_refused(self):
        with tempfile.TemporaryDirectory() as d:
            r = run("export", TRACE, TRACE, "-o", d + "/f.svg")
            self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
            self.assertIn("this format takes one recording (2 given)", r.stderr)


if __name__ == "__main__":
    unittest.main()
