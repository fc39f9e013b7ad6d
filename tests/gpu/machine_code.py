#!/usr/bin/env python3
"""What nvcc made of the GPU kernels: registers, spills, loops, and what a loop waits for. It needs no GPU.

usage: machine_code.py [OBJECT|FOLDER]...                a table in Markdown, and the broken rules; exit status 1: there are some
       machine_code.py --loads NAME [OBJECT|FOLDER]...   for each load in a loop of these kernels: what waits for it first
       machine_code.py --tools                           the folder of cuobjdump and nvdisasm; exit status 1: there is none

A kernel that streams weights is fast as long as copies are under way while it computes. The source says so, but the
compiler decides: it may keep an array in local memory, or move a wait before what it should not wait for. The results
stay right then, so that no other test sees it.
"""
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NVCC = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
OBJECTS = os.path.join(ROOT, "build", "obj", "src", "compute", "kernels")
with open(os.path.join(ROOT, "src", "gpu", "plan.h"), encoding="utf-8") as header:
    # by number: name, and what the plan says that a warp executes for a tile, and more for each eight of rows
    FORMATS = [(name, float(base), float(more)) for name, base, more in
               re.findall(r"X\(LSG_(\w+), \d+, \d+, \d+, \d+, ([\d.]+), ([\d.]+)\)", header.read())]

# ---- ceilings: nvcc 13.0's code and a few percent. Those of the matmul, by format: HMMA for a group of 32 inputs and 8
# rows (exactly); registers with 8, 16, ... rows, in eights as the device hands them out: 128 are what two blocks of a
# multiprocessor may have. Its instructions are those of the
# plan (src/gpu/plan.h), from which the program makes its estimates: SLACK times as many are too many, and SLACK times
# fewer on the architecture that the plan is of mean that the plan is out of date.
SLACK = 1.15
MATMUL = {
    "BF16": (4, (72, 80, 88, 96, 112, 120, 128, 144)),
    "F16": (8, (80, 96, 104, 112, 128, 136, 152, 160)),
    "Q4": (4, (96, 104, 120, 128)),
    "Q8": (4, (88, 96, 112, 128)),
    "Q4S": (4, (96, 104, 120, 128)),
    "Q8S": (4, (104, 120, 128)),
}
PLANNED = "sm_90"
MEASURED = ("sm_80", PLANNED)  # architectures that these ceilings were taken on; the rules hold for all
# The matmul of many rows, by format, for blocks of 128: HMMA of a warp for a group of 32 inputs (exactly; of 64 rows half as
# many, and no more than three quarters of the instructions), and instructions in its innermost
# loop (of plain formats that of stages, with its copies); bytes of stack for what the loop of stages around it does not keep in registers.
LARGE = {"BF16": (64, 165, 0), "F16": (128, 490, 0), "Q4": (32, 200, 16), "Q8": (32, 200, 16), "Q4S": (32, 200, 16), "Q8S": (32, 280, 0)}
REGISTERS = 168  # of the other kernels: a multiprocessor holds 384 threads of 168 registers
# Of attention in large blocks, which are alone on a multiprocessor: registers, and the rounds of its loops of keys and of
# values: HMMA (exactly), and instructions.
ATTENTION = 255, ((8, 40), (64, 290))
FRAMES = {"begin": 40}  # bytes of stack: CUDA's double-precision sine keeps an array there for large angles


class Instruction(NamedTuple):
    address: int
    text: str
    op: str  # without its predicate and suffixes
    scoreboard: int  # that it holds until its result is there; 7: none
    waits: int  # a bit for each scoreboard that must be free before it starts


class Load(NamedTuple):
    """A load from global memory to registers, in a loop."""
    load: Instruction
    distance: int  # instructions up to the first that waits for it, into the next round
    waiter: Instruction  # that one; None: none in the loop
    late: int  # loads that are issued before that one and hold the same scoreboard, so that it waits for them too


class Loop(NamedTuple):
    """An innermost loop of tensor-core products."""
    instructions: int
    hmma: int
    copies: int  # asynchronous, from global to shared memory
    loads: int  # from global memory to registers
    leaves: list  # copy groups that its waits leave under way
    behind: int  # copies and their commits behind the first product
    local: int  # accesses of local memory
    drains: list  # addresses where it waits for the scoreboard of copies as a whole


class Kernel(NamedTuple):
    name: str
    arch: str
    args: tuple
    registers: int
    frame: int
    local: int  # instructions that access local memory: spills, or arrays that are no registers
    spins: list  # shared atomics that are loops
    loops: list
    loads: list
    waits_first: bool  # for the kernel ahead, before it lets the next one start

    def __str__(self):
        args = self.args
        if self.name in ("matmul", "matmul_large"):  # rows, or stages and rows
            args = FORMATS[args[0]][0], args[1] * (8 if self.name == "matmul" else 1), *args[2:]
        return self.name + (f"<{', '.join(map(str, args))}>" if args else "")


# ---- reading

def tools():
    """The folder of cuobjdump and nvdisasm: PATH's, the toolkit's, or what `make test-setup` fetched."""
    for folder in [*os.get_exec_path(), os.path.dirname(os.path.realpath(NVCC)), os.path.join(ROOT, ".deps", "cuda-tools")]:
        if all(os.access(os.path.join(folder, tool), os.X_OK) for tool in ("cuobjdump", "nvdisasm")):
            return folder
    return None


def parse_name(mangled):
    """Name and integer template arguments of a kernel, which namespaces may hold (_ZN)."""
    name, rest = mangled, re.sub("^_ZN?", "", mangled)
    while m := re.match(r"\d+", rest):
        name, rest = rest[m.end():m.end() + int(m[0])], rest[m.end() + int(m[0]):]
        if not mangled.startswith("_ZN"):
            break
    args = re.match(r"I((?:Li\d+E)+)E", rest)
    return name, tuple(map(int, re.findall(r"\d+", args[1]))) if args else ()


def parse_usage(lines):
    """(architecture, mangled name) -> (registers, bytes of stack)."""
    out, arch, name = {}, "", ""
    for line in lines:
        if m := re.match(r"arch = (\S+)", line):
            arch = m[1]
        elif m := re.match(r"\s*Function (\S+):", line):
            name = m[1]
        elif m := re.match(r"\s*REG:(\d+) STACK:(\d+)", line):
            out[arch, name] = int(m[1]), int(m[2])
    return out


def parse_code(lines):
    """Yields (architecture, mangled name, instructions) of each function.

    An instruction is two 64-bit words on two lines. The second has the scheduler's bits from bit 41 on: 4 of stall, a
    yield, 3 of the scoreboard that the result frees, 3 of the one that the operands free, 6 of those to wait for."""
    target, function, code, first = "", (), [], None
    for line in itertools.chain(lines, ["Function : end"]):
        if first and (m := re.match(r"\s+/\* 0x([0-9a-f]{16}) \*/", line)):
            control = int(m[1], 16) >> 41
            op = re.sub(r"^@!?U?P\w+\s+", "", first[1]).split()[0].split(".")[0]
            code.append(Instruction(*first, op, control >> 5 & 7, control >> 11 & 63))
            first = None
        elif m := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x", line):
            first = int(m[1], 16), m[2]
        elif m := re.search(r"\bcode for (sm_\w+)", line):
            target = m[1]
        elif m := re.search(r"\bFunction : (\S+)", line):
            if code:
                yield *function, code
            function, code = (target, m[1]), []


# ---- what the code does

def find_loops(code):
    """The first and last index of what each backward branch repeats, the smallest first."""
    index = {x.address: i for i, x in enumerate(code)}
    ends = [(i, int(re.findall(r"0x([0-9a-f]+)", x.text)[-1], 16)) for i, x in enumerate(code)
            if x.op == "BRA" and "0x" in x.text]
    return sorted(((index[to], i) for i, to in ends if to in index and index[to] < i), key=lambda x: x[1] - x[0])


def waited(x):
    """The scoreboards that an instruction waits for until they are free."""
    m = re.search(r"DEPBAR\.LE SB(\d), 0x0\b", x.text)
    return x.waits | (1 << int(m[1]) if m else 0)


def is_load(x):
    return x.op in ("LDG", "LD")


def analyze_products(body):
    """A loop of tensor-core products."""
    first = next(i for i, x in enumerate(body) if x.op == "HMMA")
    copies = {x.scoreboard for x in body if x.op == "LDGDEPBAR"}
    leaves = re.findall(r"DEPBAR\.LE SB(\d), 0x([0-9a-f]+)", "\n".join(x.text for x in body))
    return Loop(len(body), sum(x.op == "HMMA" for x in body), sum(x.op == "LDGSTS" for x in body), sum(map(is_load, body)),
                [int(n, 16) for scoreboard, n in leaves if int(scoreboard) in copies],
                sum(x.op in ("LDGSTS", "LDGDEPBAR") for x in body[first:]), sum(x.op in ("LDL", "STL") for x in body),
                [x.address for x in body if any(x.waits >> s & 1 for s in copies)])


def analyze_load(body, at):
    """A load of a loop, followed in the order of the code, once around."""
    load, late = body[at], 0
    for distance, x in enumerate(body[at + 1:] + body[:at + 1], 1):
        if waited(x) >> load.scoreboard & 1:
            return Load(load, distance, x, late)
        late += is_load(x) and x.scoreboard == load.scoreboard
    return Load(load, 0, None, 0)


def analyze(arch, mangled, code, usage):
    loops, products, loads = find_loops(code), [], {}
    for begin, end in loops:
        body = code[begin:end + 1]
        if any(x.op == "HMMA" for x in body) and not any(begin <= b and e <= end for b, e in products):
            products.append((begin, end))
        for i, x in enumerate(body):
            if is_load(x) and x.scoreboard != 7 and x.address not in loads:
                loads[x.address] = analyze_load(body, i)
    name, args = parse_name(mangled)
    return Kernel(name, arch, args, *usage[arch, mangled], sum(x.op in ("LDL", "STL") for x in code),
                  [x.text for x in code if re.search(r"\bATOMS\.CAST?\b", x.text)],
                  [analyze_products(code[b:e + 1]) for b, e in sorted(products)], [loads[a] for a in sorted(loads)],
                  [x.op for x in code if x.op in ("ACQBULK", "PREEXIT")][:1] == ["ACQBULK"])


def read_objects(paths):
    """The kernels of object files, or of those in folders."""
    folder, out = tools(), []
    env = dict(os.environ, PATH=os.pathsep.join([folder, *os.get_exec_path()]))
    for path in paths:
        for file in sorted(glob.glob(os.path.join(path, "*.cu.o"))) if os.path.isdir(path) else [path]:
            run = [os.path.join(folder, "cuobjdump"), file]
            usage = parse_usage(subprocess.check_output([*run, "-res-usage"], env=env, text=True).splitlines())
            with subprocess.Popen([*run, "-sass"], env=env, stdout=subprocess.PIPE, text=True) as p:
                out += [analyze(*function, usage) for function in parse_code(p.stdout)]
            if p.returncode:
                raise subprocess.CalledProcessError(p.returncode, run)
    return out


# ---- rules

def planned_instructions(kind, eights):
    return FORMATS[kind][1] + FORMATS[kind][2] * eights


def check_plan(k):
    """The estimates that people read are of the machine code that is there."""
    if k.name == "matmul" and k.arch == PLANNED and len(k.loops) == 1:
        loop, planned = k.loops[0], planned_instructions(*k.args)
        a_group = loop.instructions / (loop.hmma / (MATMUL[FORMATS[k.args[0]][0]][0] * k.args[1]) or 1)
        if a_group * SLACK < planned:
            yield f"has only {a_group:g} instructions a group in its loop; the plan says {planned:g}"


def check_matmul(k):
    if len(k.loops) != 1:
        yield f"has {len(k.loops)} innermost loops with HMMA, not one"
        return
    loop, (kind, eights) = k.loops[0], k.args
    hmma, registers = MATMUL[FORMATS[kind][0]]
    groups = loop.hmma / (hmma * eights)
    planned = planned_instructions(kind, eights)
    if groups not in (1, 2):
        yield f"has {loop.hmma} HMMA in its loop, not {hmma * eights} or twice as many"
    elif k.arch in MEASURED and loop.instructions / groups > planned * SLACK:
        yield f"has {loop.instructions / groups:g} instructions a group in its loop; the plan says {planned:g}"
    if k.arch in MEASURED and k.registers > registers[eights - 1]:
        yield f"takes {k.registers} registers; the ceiling is {registers[eights - 1]}"
    if not loop.copies:
        yield "copies nothing asynchronously in its loop (no LDGSTS)"
    if loop.loads:
        yield f"loads global memory to registers in its loop ({loop.loads} LDG)"
    if loop.behind:
        yield "starts copies of its loop behind the first HMMA"
    if min(loop.leaves, default=0) == 0:
        yield "waits for every copy in its loop, or for none (DEPBAR.LE must leave at least one group under way)"
    yield from (f"waits in its loop for the scoreboard of all copies (at {a:#x})" for a in loop.drains)


def check_large(k):
    if not k.loops:
        yield "has no innermost loop with HMMA"
        return
    loop, (hmma, planned, _) = k.loops[0], LARGE[FORMATS[k.args[0]][0]]
    if k.args[2] == 64:
        hmma, planned = hmma // 2, planned * 3 / 4
    groups = loop.hmma / hmma
    if groups not in (1, 2):
        yield f"has {loop.hmma} HMMA in its loop, not {hmma} or twice as many"
    elif k.arch in MEASURED and loop.instructions / groups > planned:
        yield f"has {loop.instructions / groups:g} instructions a group in its loop; the ceiling is {planned:g}"
    if loop.loads or loop.local:
        yield f"loads memory to registers in its loop ({loop.loads} LDG, {loop.local} LDL and STL)"


def check_attention(k):
    registers, rounds = ATTENTION
    if k.registers > registers:
        yield f"takes {k.registers} registers; the ceiling is {registers}"
    of_shared = [x for x in k.loops if not x.loads]  # the others are of the context's end
    for hmma, instructions in rounds:
        found = [x.instructions for x in of_shared if x.hmma == hmma]
        if not found:
            yield f"has no loop with {hmma} HMMA that loads nothing to registers from global memory"
        elif k.arch in MEASURED and max(found) > instructions:
            yield f"has {max(found)} instructions in a loop of {hmma} HMMA; the ceiling is {instructions}"


def check_kernel(k):
    allowed = LARGE[FORMATS[k.args[0]][0]][2] if k.name == "matmul_large" else FRAMES.get(k.name, 0)
    if k.frame > allowed or (k.local and not allowed):
        yield f"spills, or keeps an array in memory: {k.frame} bytes of stack, {k.local} LDL and STL; {allowed} bytes are allowed"
    if wide := [x for x in k.spins if ".64" in x]:
        yield f"has {len(wide)} 64-bit shared atomics that are loops ({wide[0].split()[0]})"
    if k.name == "embed" and k.arch == PLANNED and not k.waits_first:  # what is behind it reads what `begin` wrote (gpu.h)
        yield "lets the next kernel start (PREEXIT) before it has waited for the one ahead (ACQBULK)"
    if k.name == "matmul":
        yield from check_matmul(k)
    elif k.name == "matmul_large":
        yield from check_large(k)
    elif k.name == "attend_large":
        yield from check_attention(k)
    elif k.registers > REGISTERS:
        yield f"takes {k.registers} registers; the ceiling is {REGISTERS}"


def check(kernels):
    """Sentences, one for each broken rule."""
    problems = [] if kernels else ["There is no machine code."]  # a check that sees nothing passes everything
    seen = {(k.arch, k.name, k.args) for k in kernels}
    for arch in sorted({k.arch for k in kernels}):
        problems += [f"matmul<{f}, {8 * n}> is not there for {arch}." for i, (f, *_) in enumerate(FORMATS) for n in range(1, len(MATMUL[f][1]) + 1)
                     if (arch, "matmul", (i, n)) not in seen]
        problems += [f"matmul_large<{f}, {n}, {rows}> is not there for {arch}." for i, (f, *_) in enumerate(FORMATS)
                     for n, rows in ((2, 128), (3, 128), (3, 64)) if (f == "BF16" or rows == 128 and (n == 3 or f == "F16"))
                     and (arch, "matmul_large", (i, n, rows)) not in seen]
    return problems + [f"{k} for {k.arch} {what}." for k in kernels for what in (*check_kernel(k), *check_plan(k))]


# ---- for a person

COLUMNS = ["kernel", "for", "registers", "stack", "LDL, STL", "CAS loops", "of 64 bits", "HMMA loops: instructions", "HMMA",
           "LDGSTS", "LDG", "copies left under way", "loads in loops", "first wait after", "with later loads"]


def table(kernels):
    yield "| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS)
    for k in sorted(kernels, key=lambda k: (k.name, k.args, k.arch)):
        waits = [x.distance for x in k.loads if x.waiter]
        loops = [(x.instructions, x.hmma, x.copies, x.loads, min(x.leaves, default="none")) for x in k.loops]
        cells = [k, k.arch, k.registers, k.frame, k.local, len(k.spins), sum(".64" in x for x in k.spins),
                 *(", ".join(str(loop[i]) for loop in loops) for i in range(5)),
                 len(k.loads), f"{min(waits)} to {max(waits)}" if waits else "", sum(x.late > 0 for x in k.loads)]
        yield "| " + " | ".join(str(c) if c else "" for c in cells) + " |"


def list_loads(kernels, name):
    for k in (k for k in kernels if k.name == name):
        yield f"{k} for {k.arch}"
        for x in k.loads:
            first = f"{x.waiter.address:05x} {x.waiter.text}, {x.distance} later, with {x.late} later loads" if x.waiter else "none"
            yield f"  {x.load.address:05x} {x.load.text}: first wait {first}"


def main():
    folder = tools()
    if not folder:
        print("cuobjdump and nvdisasm are not here; `make test-setup` fetches them", file=sys.stderr)
        return 1
    if sys.argv[1:] == ["--tools"]:
        print(folder)
        return 0
    if sys.argv[1:2] == ["--loads"]:
        print("\n".join(list_loads(read_objects(sys.argv[3:] or [OBJECTS]), sys.argv[2])))
        return 0
    kernels = read_objects(sys.argv[1:] or [OBJECTS])
    problems = check(kernels)
    print("\n".join([*table(kernels), "", *(f"* {p}" for p in problems)]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
