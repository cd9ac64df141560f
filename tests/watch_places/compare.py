# SPDX-License-Identifier: MIT
"""compare.py WAYMARK COUNT [SEED]: compare `waymark list --watch` and gdb for random expressions.

Each program of shapes.py is compiled at -O0 by the compilers that there are. Where the two differ,
the compiler decides: the program itself prints the expression's address. Works in the current
folder. The status is 0 without a difference in which the compiler contradicts Waymark; 77 where gdb
cannot attach."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from shapes import Program  # noqa: E402

HERE = pathlib.Path(__file__).parent
NULL_BITS = 8 * 4096  # behind a null pointer gdb still has an address
EACH = 100  # expressions of one program
WAYS = [(True, "g++", "-gdwarf-5"), (False, "gcc", "-gdwarf-5"), (True, "clang++", "-gdwarf-5"),
        (True, "g++", "-gdwarf-4"), (False, "clang", "-gdwarf-4"), (True, "clang++", "-gdwarf-4"),
        (False, "gcc", "-gdwarf-4"), (True, "g++", "-gdwarf-5 -no-pie"),
        (True, "g++", "-gdwarf-5 -fdebug-types-section")]


def compile_to(name, program, way, extra="", head=""):
    _, compiler, flags = way
    source = name + (".cc" if program.is_cxx else ".c")
    pathlib.Path(source).write_text(program.text(extra, head))
    standalone = ["-fstandalone-debug"] if compiler.startswith("clang") else []
    std = ["-std=gnu++20"] if program.is_cxx else []
    return subprocess.run([compiler, *flags.split(), *standalone, *std, "-w", "-O0", "-o", name,
                           source], capture_output=True, text=True)


class Running:
    """The program, once all is constructed; it ends with the context."""

    def __init__(self, name):
        self.process = subprocess.Popen([f"./{name}"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = []

    def __enter__(self):
        for line in self.process.stdout:
            if line == "ready\n":
                break
            self.lines.append(line)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    @property
    def pid(self):
        return self.process.pid


def waymark_says(waymark, pid, texts):
    """Each expression's first bit, counted from address 0, and how many; None: it is refused."""
    words = [word for text in texts for word in ("-w", text)]
    run = subprocess.run([waymark, "list", "--json", "-p", str(pid), *words], capture_output=True,
                         text=True, timeout=300)
    if run.returncode not in (0, 1):
        sys.exit(f"waymark list ended with {run.returncode}: {run.stderr}")
    found = {one["expression"]: [int(one["address"], 16) * 8 + (one["bit"] or 0),
                                 one["bits"] or one["bytes"] * 8]
             for one in json.loads(run.stdout)["watchable"] if one["address"] is not None}
    return {text: found.get(text) or static_one(waymark, pid, text) for text in texts}


def waymark_takes(waymark, pid, text):
    run = subprocess.run([waymark, "list", "--json", "-p", str(pid), "-w", text],
                         capture_output=True, text=True, timeout=300)
    return json.loads(run.stdout)["watchable"] != []


def static_one(waymark, pid, text):
    """A static member of an object is refused, with its own name."""
    whole = text[:max(text.rfind("."), text.rfind("->"))]
    if whole == text[:-1] or not waymark_takes(waymark, pid, whole):
        return None
    run = subprocess.run([waymark, "list", "--json", "-p", str(pid), "-w", text],
                         capture_output=True, text=True, timeout=300)
    name = re.search(r" is static in .*: watch (.*)", run.stderr)
    if not name or not text.endswith(name[1].split("::")[-1]):
        return None
    cast = re.match(r"\*\([^()]* \*\)&", text)
    own = (cast[0] if cast else "") + name[1]
    return waymark_says(waymark, pid, [own])[own]


def gdb_run(pid, texts):
    pathlib.Path("texts").write_text(json.dumps(texts))
    pathlib.Path("texts.gdb").unlink(missing_ok=True)
    run = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p",
                          str(pid), "-x", HERE / "gdb_says.py"], capture_output=True, text=True,
                         env=os.environ | {"WATCH_PLACES": "texts"}, timeout=300)
    try:
        return [json.loads(line) for line in open("texts.gdb")]
    except FileNotFoundError:
        print((run.stdout + run.stderr).strip()[-400:].replace("\n", " "))
        print("gdb cannot attach to the program, or has no Python")
        sys.exit(77)


def gdb_says(pid, texts):
    answers = []
    while len(answers) < len(texts):
        answers += gdb_run(pid, texts[len(answers):])
        if len(answers) < len(texts):
            answers.append("gdb crashed")
    return dict(zip(texts, answers))


JUDGE = """#include <stdlib.h>
#include <string.h>
extern char __data_start[], _end[];
static __thread char *seen[3]; /* outside of what is compared */
static void see(int i)
{
	seen[i] = (char *)malloc(_end - __data_start);
	memcpy(seen[i], __data_start, _end - __data_start);
}
static void show(int number)
{
	long first = -1, last = -1;

	for (long i = 0; i < (_end - __data_start) * 8; i++)
		if ((seen[1][i / 8] ^ seen[2][i / 8]) >> i % 8 & 1) {
			first = first < 0 ? i : first;
			last = i;
		}
	memcpy(__data_start, seen[0], _end - __data_start);
	printf("%d %ld %ld\\n", number, (long)__data_start * 8 + first, last - first + 1);
}
"""


def question(program, number, text, is_bits):
    """A line of C that prints where an expression is."""
    if not is_bits:
        return f'\tprintf("%d %ld %ld\\n", {number}, (long)&({text}) * 8, ' \
               f'(long)sizeof({text}) * 8);\n'
    kind = f"(decltype({text}))" if program.is_cxx else ""
    return f"\tsee(0); {text} = {kind}0; see(1); {text} = {kind}-1; see(2); show({number});\n"


def judge(waymark, program, way, texts):
    """The expressions that Waymark and the compiler see at two places, or that only one takes."""
    lines = {(i, is_bits): question(program, i, text, is_bits)
             for i, text in enumerate(texts) for is_bits in (False, True)}
    while True:
        built = compile_to("judge", program, way, "".join(lines.values()), JUDGE)
        source = pathlib.Path("judge.cc" if program.is_cxx else "judge.c").read_text().splitlines()
        bad = {source[int(number) - 1] + "\n"
               for number in re.findall(r"^judge\.\w+:(\d+):\d+: error", built.stderr, re.M)}
        if not built.returncode:
            break
        if not bad & set(lines.values()):
            sys.exit(f"{way}: {built.stderr}")
        lines = {key: line for key, line in lines.items() if line not in bad}
    with Running("judge") as running:
        says = {}
        for line in running.lines:  # the address of what has one, else its bits
            number, *place = [int(word) for word in line.split()]
            says.setdefault(texts[number], place if place[1] else None)  # no bits: no watch
        ours = waymark_says(waymark, running.pid, texts)
    return [text for text in texts if ours[text] != says.get(text)]


def one_program(waymark, seed, way, count, tally):
    program = Program(seed, way[0])
    built = compile_to("shapes", program, way)
    if built.returncode:
        sys.exit(f"seed {seed}, {way}: {built.stderr}")
    texts = program.expressions(count)
    with Running("shapes") as running:
        ours = waymark_says(waymark, running.pid, texts)
        theirs = gdb_says(running.pid, texts)
    theirs = {text: "null" if isinstance(place, list) and place[0] < NULL_BITS else place
              for text, place in theirs.items()}
    differ = [text for text in texts if ours[text] != theirs[text]
              and (ours[text] or isinstance(theirs[text], list))]
    wrong = judge(waymark, program, way, differ) if differ else []
    for text in differ:
        tally["wrong" if text in wrong else "gdb"] += 1
        if text in wrong or "-v" in sys.argv:
            print("FAIL" if text in wrong else "gdb differs from the compiler:",
                  f"seed {seed}, {' '.join(way[1:])}: {text}: Waymark {ours[text]}, "
                  f"gdb {theirs[text]}")
    tally["all"] += len(texts)
    tally["refused"] += sum(not ours[text] for text in texts)
    tally["bits"] += sum(bool(ours[text] and (ours[text][0] % 8 or ours[text][1] % 8))
                         for text in texts)


def main():
    waymark, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    ways = [way for way in WAYS if shutil.which(way[1])]
    tally = dict.fromkeys(("all", "refused", "bits", "gdb", "wrong"), 0)

    while tally["all"] < count:
        one_program(waymark, seed, ways[seed % len(ways)], min(EACH, count - tally["all"]), tally)
        seed += 1
    print(f"{tally['all']} expressions, {tally['refused']} refused, {tally['bits']} bit-fields of "
          f"odd bits; the compiler contradicts Waymark in {tally['wrong']}, gdb in {tally['gdb']}")
    return bool(tally["wrong"]) or not tally["all"]


sys.exit(main())
