"""A recording, read plainly: what the demos' tests compare the notes with."""
import base64
import ctypes
import json


class Buffer(ctypes.Structure):  # ZSTD_inBuffer and ZSTD_outBuffer
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]


def unpack(packed):
    """Zstandard streams, by the library that the program uses too."""
    lib = ctypes.CDLL("libzstd.so.1")
    lib.ZSTD_createDStream.restype = ctypes.c_void_p
    lib.ZSTD_decompressStream.restype = ctypes.c_size_t
    stream, room, out = ctypes.c_void_p(lib.ZSTD_createDStream()), ctypes.create_string_buffer(1 << 17), b""
    source = Buffer(ctypes.cast(packed, ctypes.c_void_p), len(packed), 0)
    while True:
        target = Buffer(ctypes.addressof(room), len(room), 0)
        rc = lib.ZSTD_decompressStream(stream, ctypes.byref(target), ctypes.byref(source))
        assert not lib.ZSTD_isError(ctypes.c_size_t(rc)), "not Zstandard"
        out += room.raw[:target.pos]
        if source.pos == source.size and target.pos < target.size:
            lib.ZSTD_freeDStream(stream)
            return out


class Recording:
    def __init__(self, path):
        with open(path, "rb") as f:
            lines = [json.loads(line) for line in unpack(f.read()).decode().splitlines()]
        self.header = next(x for x in lines if x["type"] == "header")
        self.steps = [x for x in lines if x["type"] == "step"]
        self.bytes = {int(k): base64.b64decode(v) for x in lines if x["type"] == "tokens" for k, v in x["bytes"].items()}
        self.rival = None  # another method's recording of the prompt
        self.more = {}     # others of it that the notes tell of, by the word in their names
        self.output = [t for s in self.steps for t in s["emitted"]]

    def word(self, token):
        """As a note quotes it: without the blank before it."""
        return self.bytes[token].decode(errors="replace").strip(" ")

    def text(self, tokens=None):
        return b"".join(self.bytes[t] for t in (self.output if tokens is None else tokens)).decode(errors="replace")

    def mat(self):
        return f"{len(self.output) / len(self.steps):.2f}"

    def verified(self):
        return sum(s["rows"] - 1 for s in self.steps)

    def accepted(self, source=None):
        return sum(source in (None, n["source"]) for s in self.steps for n in accepted(s))

    def missed(self, reason):
        return sum(s.get("miss") == reason for s in self.steps)

    def paths(self):
        return sum("miss" in s for s in self.steps)

    def cost(self, rows):
        """Of a forward, as a multiple of one row, as the screen shows it."""
        c = self.header["calibration"]
        return f"x{c['ms'][c['rows'].index(rows)] / c['ms'][0]:.1f}"

    def at(self, output_pos):
        """The step that begins at this place of the output."""
        return next(s for s in self.steps if s["output_pos"] == output_pos)


def accepted(step):
    return [step["nodes"][i] for i in step["path"][1:len(step["emitted"])]]


def words(r, nodes):
    return [r.word(n["token"]) for n in nodes]


def next_next(step):
    """The token that the target chose after the root, its rank in the last logits (-1: beyond), and whether it was drafted."""
    token, top = step["nodes"][0]["target"], [t for t, _ in step["last"]["top"]]
    return token, top.index(token) if token in top else -1, any(n["parent"] == 0 and n["token"] == token for n in step["nodes"])


def took(step):
    """Time of the step over that of plain decoding of its tokens; None: not known."""
    own, ar = step["us"]["total"] - step["us"]["draft"], step["ar_us"]
    if not ar or not step["forward"]:
        return None
    plain = own if step["rows"] == 1 or own < ar else ar
    forwards = len(step["emitted"]) - (step["finish"] in ("eos", "length", "context"))
    return step["us"]["total"] / (plain * forwards)


def applies(when, step):
    """demos/README.md, "Writing one"."""
    word, _, rest = when.partition(" ")
    n, hits = int(rest) if rest.isdigit() else None, accepted(step)
    if word == "step":
        return step["index"] == n
    if word == "accepted":
        return len(hits) >= (n or 1)
    if word == "rejected":
        return step["rows"] - 1 >= (n or 1) and not hits
    if word == "source":
        return rest in [x["source"] for x in hits]
    if word == "corrected":
        return step["corrected"]
    if word == "lossy":
        return bool(loose(step))
    if word == "no-draft":
        return step["forward"] and step["rows"] == 1
    if word == "missed":
        return step.get("miss") == rest
    if word == "next-next":
        _, rank, drafted = next_next(step)
        return step["forward"] and 0 <= rank < (n or 64) and not drafted
    if word == "slower":
        return took(step) is not None and took(step) > 1 + n / 100
    if word == "faster":
        return took(step) is not None and took(step) * (1 + n / 100) < 1
    return False  # start and end are no steps


def loose(step):
    """Accepted drafts that the target did not choose."""
    return [n for n in accepted(step) if step["nodes"][n["parent"]]["target"] != n["token"]]
