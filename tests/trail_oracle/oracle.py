#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether the origin `step` is exact: its record of a program against an oracle that is not ours.

    oracle.py BUILD PROGRAM [ARGUMENTS]

The oracle has three parts. They share no code with Waymark:

1. The disassembler of binutils. The bytes of each block that a trail has are taken apart by objdump, and where a
   block must begin and end, the kind of its last instruction and where that leads, come from objdump's
   mnemonics and operands. The bytes are those of the program's file, unless it says that it changes them.
2. A stepper of its own (walk.c), which prints where each thread stood, and the bytes there. From that and the
   disassembly the blocks are cut again here, and the trail must consist of the same, signals included. Programs that
   see that they are stepped, or whose way is not the same each time, say that they are `unwalked`. Both runs have
   their stacks at the same addresses: libc goes other ways for strings that end near a page's end.
3. The program's own word: each says in its section .expect in which order labels of its own are passed
   (tests/targets/trail/program.inc). This is written by hand, so it holds whatever both steppers
   have misunderstood in common.

And it must end as it ends without anybody watching. Programs with libraries of their own ways are recorded from
where they wait for a byte on, `attached`.
"""
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile

FALL, JUMP, BRANCH, CALL, JUMP_INDIRECT, CALL_INDIRECT, RETURN, SYSCALL, STOP, FAR = range(10)
DEPART, ARRIVE, SIGNAL, SYSCALLED, LOST, GAP, FORK, EXEC, END = range(9)
BLOCK_MAX = 64
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)
SKIPPED = 77
PAD = 32  # behind the bytes of a block, so that what is cut off shows
PREFIXES = re.compile(
    r"^(?:(?:bnd|notrack|repz|repnz|repe|repne|rep|lock|data16|addr32|xacquire|xrelease"
    r"|[cdefgs]s|rex(?:\.\w+)?)\s+)+")


class Wrong(Exception):
    pass


# ---- the disassembly ----

class Insn:
    """What objdump says of an instruction, at an address."""
    __slots__ = ("bytes", "kind", "target", "text", "repeats")

    def __init__(self, code, text, shift):
        self.bytes = len(code)
        self.text = text
        self.target = 0
        bare = PREFIXES.sub("", text)
        words = bare.split(None, 1)
        name = words[0].split(",")[0] if words else text
        operand = words[1] if len(words) > 1 else ""
        self.kind = kind_of(name, operand)
        if self.kind in (JUMP, BRANCH, CALL):
            self.target = (int(operand.split()[0], 16) + shift) & (1 << 64) - 1
            if FLAVOUR == "amd64" and has_short_operand(code):
                self.target &= 0xffff
        self.repeats = bool(re.match(r"^(?:.*\s)?(?:rep|repz|repnz)\s+"
                                     r"(?:movs|stos|lods|scas|cmps|ins|outs)", text))


def kind_of(name, operand):
    indirect = operand.startswith("*")
    if re.fullmatch(r"ljmp\w?|lcall\w?|lret\w?|iret\w?|sysret\w?|sysexit\w?", name):
        return FAR
    if re.fullmatch(r"jmp[wq]?", name):
        return JUMP_INDIRECT if indirect else JUMP
    if re.fullmatch(r"call[wq]?", name):
        return CALL_INDIRECT if indirect else CALL
    if re.fullmatch(r"ret[wq]?", name):
        return RETURN
    if name == "xbegin" or re.fullmatch(r"j[a-z]{1,4}[wq]?|loop\w*", name):
        return BRANCH
    if name in ("syscall", "sysenter") or (name == "int" and operand == "$0x80"):
        return SYSCALL
    if name in ("int", "int3", "int1", "icebp", "ud0", "ud1", "ud2", "hlt") or \
            re.fullmatch(r"ud[012][a-z]?", name):
        return STOP
    return FALL


def has_short_operand(code):
    """An operand size of 16 bits, by the bytes before the opcode."""
    prefixes = re.match(rb"(?s)([\x2e\x36\x3e\x26\x64\x65\x66\x67\xf0\xf2\xf3]*)([\x40-\x4f]?)", code)
    return b"\x66" in prefixes[1] and not (prefixes[2] and prefixes[2][0] & 8)


def flavour():
    """
    Processors of AMD and Intel differ in what 0x66 means to a branch. objdump knows how long it is for each, but not
    that on AMD's the address is cut to 16 bits.
    """
    with open("/proc/cpuinfo") as file:
        text = file.read(4096)
    return "amd64" if re.search("AuthenticAMD|HygonGenuine", text) else "intel64"


FLAVOUR = flavour()


def disassemble(pieces):
    """For each (address, bytes) the instructions in it, one after the other, as far as they are whole."""
    pieces = list(pieces)
    blob, at = bytearray(), []
    for _, code in pieces:
        at.append(len(blob))
        blob += code + b"\x90" * PAD
    with tempfile.NamedTemporaryFile() as file:
        file.write(blob)
        file.flush()
        text = subprocess.run(
            ["objdump", "-D", "-z", "-w", "-b", "binary", "-m", "i386:x86-64", "-M", FLAVOUR,
             file.name], check=True, capture_output=True, text=True).stdout
    lines = {}
    for line in text.splitlines():
        found = re.match(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*(?:\t(.*))?$", line)
        if found:
            lines[int(found[1], 16)] = (bytes.fromhex(found[2]), (found[3] or "").strip())
    result = {}
    for (address, code), begin in zip(pieces, at):
        insns, offset = [], 0
        while offset < len(code):
            if begin + offset not in lines:
                # a sweep from before ran over its beginning, which the padding should not let happen
                raise Wrong(f"objdump lost its way at {address + offset:#x}")
            own, what = lines[begin + offset]
            if offset + len(own) > len(code) or what.startswith("(bad)") or not what:
                break
            insns.append(Insn(own, what, address - begin))
            offset += len(own)
        result[address, code] = insns
    return result


# ---- the program's file ----

class Program:
    def __init__(self, path):
        self.path = path
        self.segments = []
        with open(path, "rb") as file:
            self.data = file.read()
        word = lambda at, count: int.from_bytes(self.data[at:at + count], "little")
        offset, size, count = word(32, 8), word(54, 2), word(56, 2)
        for i in range(count):
            at = offset + i * size
            if word(at, 4) == 1 and word(at + 4, 4) & 1:  # PT_LOAD with PF_X
                self.segments.append((word(at + 16, 8), word(at + 8, 8), word(at + 32, 8)))
        self.is_fixed = word(16, 2) == 2
        sections = subprocess.run(["objdump", "-h", "-w", path], check=True, capture_output=True,
                                  text=True).stdout
        self.sections = {f[1]: (int(f[5], 16), int(f[2], 16))
                         for f in (line.split() for line in sections.splitlines())
                         if len(f) > 6 and f[0].isdigit()}
        self.words = self.section(".oracle").split()
        self.expect = self.section(".expect")
        self.expect_threads = self.section(".expect.threads")
        self.labels = {}
        for line in subprocess.run(["nm", path], check=True, capture_output=True,
                                   text=True).stdout.splitlines():
            parts = line.split()
            if len(parts) == 3 and parts[1] in "tT":
                self.labels[parts[2]] = int(parts[0], 16)

    def section(self, name):
        offset, size = self.sections.get(name, (0, 0))
        return self.data[offset:offset + size].decode()

    def code(self, address, count):
        """What the file has there, or None."""
        for start, offset, size in self.segments:
            if start <= address and address + count <= start + size:
                return self.data[offset + address - start:offset + address - start + count]
        return None


# ---- the record ----

class Block:
    __slots__ = ("start", "bytes", "last", "count", "kind", "target", "ran", "code", "insns")

    def key(self):
        return (self.start, self.bytes, self.last, self.count, self.kind, self.target, self.code)

    def __repr__(self):
        return (f"block {self.start:#x} bytes {self.bytes} last +{self.last} instructions {self.count}"
                f" kind {self.kind} target {self.target:#x} ran {self.ran} code {self.code.hex()}")


class Event:
    __slots__ = ("kind", "at", "left", "values")

    def __repr__(self):
        return f"event {self.kind} at {self.at:#x} left {self.left} values {self.values}"


def record(build, folder, argv, how):
    text = subprocess.run([f"{build}/tests/trail_oracle/trail-record"] + how + [folder] + argv,
                          stdout=subprocess.PIPE, text=True, timeout=120)
    if text.returncode:
        raise Wrong(f"the recorder ended with {text.returncode}")
    return text.stdout


def parse_record(text):
    status, trails, damages, items = None, [], [], None
    for line in text.splitlines():
        what, *words = line.split()
        if what == "X":
            status = int(words[0])
        elif what == "T":
            items = []
            trails.append((int(words[0]), items))
        elif what == "D":
            damages.append(line[2:])
        elif what == "B":
            block = Block()
            (block.start, block.bytes, block.last, block.count, block.kind, block.target,
             block.ran) = (int(word, 16) for word in words[1:8])
            block.code = b"" if words[8] == "-" else bytes.fromhex(words[8])
            items.append(block)
        elif what == "E":
            event = Event()
            event.kind, event.at, event.left, *event.values = (int(word, 16) for word in words)
            items.append(event)
    if damages:
        raise Wrong("the trail is damaged: " + "; ".join(damages))
    return status, trails


# ---- 1. each block, each step from one to the next ----

def check_blocks(program, trails):
    blocks = [item for _, items in trails for item in items if isinstance(item, Block)]
    known = disassemble({(block.start, block.code) for block in blocks})
    for block in blocks:
        block.insns = known[block.start, block.code]
        insns = block.insns
        if len(block.code) != block.bytes:
            raise Wrong(f"{block}: its code is missing")
        if sum(insn.bytes for insn in insns) != block.bytes or len(insns) != block.count:
            raise Wrong(f"{block}: objdump has {[insn.text for insn in insns]}")
        if block.count > BLOCK_MAX or block.last != block.bytes - insns[-1].bytes:
            raise Wrong(f"{block}: its last instruction is elsewhere")
        if any(insn.kind != FALL for insn in insns[:-1]):
            raise Wrong(f"{block}: continues behind a branch: {[insn.text for insn in insns]}")
        if block.kind != insns[-1].kind or block.target != insns[-1].target:
            raise Wrong(f"{block}: objdump has {insns[-1].text}, kind {insns[-1].kind},"
                        f" to {insns[-1].target:#x}")
        if block.ran != block.count:
            raise Wrong(f"{block}: step has blocks that did not run to their end")
        file = program.code(block.start, block.bytes)
        if program.is_fixed and file is not None and "changes" not in program.words and \
                file != block.code:
            raise Wrong(f"{block}: the file has {file.hex()}")


def leads(block, to):
    following = block.start + block.bytes
    kind, target = block.insns[-1].kind, block.insns[-1].target
    if kind in (FALL, SYSCALL):
        return to == following
    if kind in (JUMP, CALL):
        return to == target
    if kind == BRANCH:
        return to in (target, following)
    return kind != STOP


def check_steps(items):
    before, goes_on = None, None
    for i, item in enumerate(items):
        if isinstance(item, Block):
            if before and not leads(before, item.start):
                raise Wrong(f"{before} can't lead to {item}")
            if goes_on and item.start != goes_on:
                raise Wrong(f"{item} begins elsewhere than at {goes_on:#x}")
            following = items[i + 1] if i + 1 < len(items) else None
            if item.kind == FALL and item.count < BLOCK_MAX and isinstance(following, Block):
                raise Wrong(f"{item} ends for no reason")
            before, goes_on = item, None
            continue
        if item.left:
            raise Wrong(f"{item}: step knows what ran")
        if item.kind == SYSCALLED and not (before and before.kind == SYSCALL):
            raise Wrong(f"{item} behind {before}")
        if item.kind in (SIGNAL, FORK) and before and before.kind != STOP and \
                item.at and not leads(before, item.at):
            raise Wrong(f"{item}: it stood elsewhere, behind {before}")
        goes_on = item.values[1] if item.kind == SIGNAL and item.values[1] else item.at
        before = None
    if not items or isinstance(items[-1], Block) or items[-1].kind != END:
        raise Wrong("the trail does not end")


# ---- 2. the walk ----

def walk(build, argv):
    text = subprocess.run([f"{build}/tests/trail_oracle/trail-walk"] + argv,
                          stdout=subprocess.PIPE, text=True, timeout=120)
    if text.returncode:
        raise Wrong(f"the walker ended with {text.returncode}")
    return text.stdout


# A hypervisor or the kernel emulates these and may drop the trap behind them.
EMULATED = re.compile(r"(?:cpuid|in|out|pause|rd(?:pmc|pru|rand|seed|tscp?)|s[gil]dt|smsw|str|[tu]m?(?:pause|wait)"
                      r"|vmm?call)[bwlq]?\b")


class Place:
    __slots__ = ("rip", "rax", "code", "insns", "insn")

    def passed(self, rip):
        """The places from here to `rip`: this one, and those behind it if traps were dropped."""
        places, at = [self], self.rip
        for insn, following in zip(self.insns, self.insns[1:]):
            at += insn.bytes
            if at == rip or not EMULATED.match(insn.text):
                break
            place = Place()
            place.rip, place.rax, place.insn = at, self.rax, following
            place.code = self.code[at - self.rip:]
            places.append(place)
        return places


def parse_walk(text):
    """For each thread a list of ('I', Place), ('A', Place), ('S', number), ('H',), ('E',), ('C',), ('X', status)."""
    threads = {}
    for line in text.splitlines():
        what, tid, *words = line.split()
        mine = threads.setdefault(int(tid), [])
        if what in "IA":
            place = Place()
            place.rip, place.rax = int(words[0], 16), int(words[1], 16)
            place.code = bytes.fromhex(words[4]) if len(words) > 4 else b""
            mine.append((what, place))
        else:
            mine.append((what, *(int(word) for word in words)))
    places = [step[1] for mine in threads.values() for step in mine if step[0] in "IA"]
    known = disassemble({(place.rip, place.code) for place in places})
    for place in places:
        place.insns = known[place.rip, place.code]
        place.insn = place.insns[0] if place.insns else None
    return list(threads.values())


def cut_walk(steps):
    """The same path as blocks and events, as a trail of it has to have them."""
    out, run = [], []
    signal = None

    def close():
        if run:
            insns = [place.insn for place in run]
            sizes = [insn.bytes for insn in insns]
            code = b"".join(place.code[:place.insn.bytes] for place in run)
            out.append(("B", run[0].rip, sum(sizes), sum(sizes[:-1]), len(run), insns[-1].kind,
                        insns[-1].target, code))
            run.clear()

    def ran(place):
        run.append(place)
        if place.insn.kind != FALL or len(run) == BLOCK_MAX:
            close()

    here = None
    for what, *words in steps:
        if what == "I":
            place = words[0]
            if here and signal != "entered" and not (here.insn.repeats and
                                                     place.rip == here.rip):
                for passed in here.passed(place.rip):
                    ran(passed)
                if here.insn.kind == SYSCALL:
                    out.append(("E", SYSCALLED, here.rax))
            signal = None  # without a handler it changes nothing
            here = place
        elif what == "A":
            if here and here.rip != words[0].rip and EMULATED.match(here.insn.text):
                for passed in here.passed(words[0].rip):
                    ran(passed)
                here = words[0]
        elif what == "S":
            signal = words[0]
        elif what == "H":
            close()
            out.append(("E", SIGNAL, signal))
            signal = "entered"
        elif what == "X":
            if here and here.insn and here.insn.kind == SYSCALL and here.rax in (60, 231):
                ran(here)
            close()
            out.append(("E", END, words[0]))
    return out


def flat_record(items):
    out = []
    for item in items:
        if isinstance(item, Block):
            out.append(("B",) + item.key())
        elif item.kind == END:
            out.append(("E", END, item.values[1] << 8 if item.values[0] == 0 else item.values[1]))
        elif item.kind in (SIGNAL, SYSCALLED):
            out.append(("E", item.kind, item.values[0]))
    return out


def show(item):
    if item[0] == "B":
        return "block %#x bytes %d last +%d instructions %d kind %d target %#x" % item[1:7]
    return f"event {item[1]} of {item[2]:#x}"


def compare(trail, walked):
    mine, others = flat_record(trail), cut_walk(walked)
    for i, (ours, theirs) in enumerate(zip(mine, others)):
        if ours != theirs:
            raise Wrong(f"item {i}: the trail has {show(ours)}; the walk {show(theirs)}")
    if len(mine) != len(others):
        longer = mine if len(mine) > len(others) else others
        raise Wrong(f"{len(mine)} items in the trail, {len(others)} in the walk:"
                    f" {show(longer[min(len(mine), len(others))])}")
    return len(mine)


# ---- 3. the program's own word ----

def expanded(items):
    for item in items:
        if isinstance(item, Block):
            at = item.start
            for insn in item.insns:
                yield at
                at += insn.bytes


def check_expected(program, items, expect):
    expect = " ".join(expect.split())
    names = {name: at for name, at in program.labels.items()
             if name.startswith("never") or re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", expect)
             or any(name.startswith(word) for word in program.words if word.endswith("_"))}
    missing = set(re.findall(r"[A-Za-z_]\w*", expect)) - set(names)
    if missing:
        raise Wrong(f"labels that are expected and not there: {sorted(missing)}")
    by_address = {}
    for name, at in names.items():
        by_address.setdefault(at, []).append(name)
    for group in by_address.values():
        if len(group) > 1 and not all(name.startswith("never") for name in group):
            raise Wrong(f"labels at one place: {group}")
    passed = [by_address[at][0] for at in expanded(items) if at in by_address]
    pattern = re.sub(r"\*(\d+)", r"{\1}", expect)
    pattern = re.sub(r"[A-Za-z_]\w*", lambda found: f"(?:{found[0]};)", pattern).replace(" ", "")
    if not re.fullmatch(pattern, "".join(f"{name};" for name in passed)):
        raise Wrong(f"passed: {' '.join(passed)[:4000]}\nexpected: {expect}")


# ---- all of it ----

def addresses_stay():
    """Whether what is run from here on has the same addresses each time: sandboxes refuse it."""
    libc = ctypes.CDLL(None)
    old = libc.personality(0xffffffff)
    return old != -1 and libc.personality(old | ADDR_NO_RANDOMIZE) != -1


def lacks_int80(build):
    """The trial's reason where `int $0x80` makes no system call; or None."""
    trial = subprocess.run([f"{build}/cli/waymark", "doctor", "int80"], stdout=subprocess.PIPE,
                           text=True, timeout=60)
    if not trial.returncode:
        return None
    head, row = trial.stdout.strip().splitlines()[-2:]
    return row[head.index("FOUND"):]


def judge(build, argv):
    """Returns whether it was walked too, where it should be."""
    program = Program(argv[0])
    why = lacks_int80(build) if "int80" in program.words else None
    if why:
        print(f"left out, int $0x80: {why}")
        argv = argv + ["without"]
    is_same_way = addresses_stay() or "main" not in program.labels
    alone = subprocess.run(argv, input=b"x", stdout=subprocess.DEVNULL, timeout=60).returncode
    expect, has_native = program.expect, "native" in program.words
    if why and has_native and alone == -signal.SIGSEGV:
        # A machine without int $0x80 may have no 32-bit code at all: the jump there faults.
        print("left out, 32-bit code: natively, the far return to it raises SIGSEGV here")
        expect, has_native = expect.split()[0], False
    how = ["--attach"] if "attached" in program.words else []
    with tempfile.TemporaryDirectory() as folder:
        status, trails = parse_record(record(build, folder, argv, how))
    if os.waitstatus_to_exitcode(status) != alone:
        raise Wrong(f"alone it ends with {alone}, recorded with"
                    f" {os.waitstatus_to_exitcode(status)}")
    check_blocks(program, trails)
    for _, items in trails:
        check_steps(items)
        has_gap = any(isinstance(item, Event) and item.kind == GAP for item in items)
        if has_gap != has_native:
            raise Wrong("a gap, or none where there should be one")
    if expect:
        check_expected(program, trails[0][1], expect)
        for _, items in trails[1:]:
            check_expected(program, items, program.expect_threads)
    items = sum(len(trail[1]) for trail in trails)
    is_walked = "unwalked" not in program.words
    if is_walked and is_same_way:
        walked = parse_walk(walk(build, argv))
        if len(walked) != len(trails):
            raise Wrong(f"{len(trails)} trails, {len(walked)} threads walked")
        for trail, steps in zip(trails, walked):
            compare(trail[1], steps)
    print(f"{os.path.basename(argv[0])}: {items} blocks and events,"
          f" {sum(1 for trail in trails for _ in expanded(trail[1]))} instructions")
    return is_same_way or not is_walked


if __name__ == "__main__":
    try:
        if not judge(sys.argv[1], sys.argv[2:]):
            print("not compared with the walk: personality(ADDR_NO_RANDOMIZE) is refused here")
            sys.exit(SKIPPED)
    except Wrong as wrong:
        print(f"{sys.argv[2]}: {wrong}", file=sys.stderr)
        sys.exit(1)
