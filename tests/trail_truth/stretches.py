# SPDX-License-Identifier: MIT
"""stretches.py WAYMARK TRACE SEED: what --from, --to and --last leave of a trail, against babeltrace2.

babeltrace2 prints which runs of blocks and which events each thread has, and when. From that a stretch follows by the
manual's words, and what waymark prints of it must be that part of all that it prints.
"""
import json
import random
import re
import subprocess
import sys

WAYMARK, TRACE, SEED = sys.argv[1:4]
LINE = re.compile(r"\[(\d+)\.(\d+)\] (?:\S+ )?(\S+): \{ pid = \d+, tid = (\d+)")


def output(*command):
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if ran.returncode == 1 and not ran.stdout and "no trail has anything" in ran.stderr:
        return ""  # the stretch is empty
    if ran.returncode:
        sys.exit(f"{command}: {ran.returncode}: {ran.stderr}")
    return ran.stdout


def read_runs():
    """Per thread (time, blocks of a run or None for an event, name); all events of the trace by name."""
    threads, names, begin = {}, {}, None
    for line in output("babeltrace2", "--clock-seconds", "--no-delta", TRACE).splitlines():
        match = LINE.match(line)
        if not match:
            sys.exit(f"babeltrace2: {line}")
        ns = int(match[1]) * 10**9 + int(match[2])
        name, tid = match[3], int(match[4])
        if name.startswith("waymark:"):
            continue
        begin = ns if begin is None else min(begin, ns)
        names.setdefault(name, []).append(ns)
        if name == "trail:blocks":
            count = int(re.search(r"_ids_length = (\d+)", line)[1]) // 4
            threads.setdefault(tid, []).append((ns, count))
        elif name.startswith("trail:") and name not in (
                "trail:begin", "trail:define", "trail:space", "trail:thread"):
            threads.setdefault(tid, []).append((ns, None))
    return threads, names, begin


def listing(*options):
    """Per thread what is printed: each block's instructions as one, each event."""
    threads = {}
    for line in output(WAYMARK, "trail", "--json", "--instructions", *options, TRACE).splitlines():
        item = json.loads(line)
        if item["type"] == "trail_thread":
            continue
        items = threads.setdefault(item["tid"], [])
        if item["type"] == "instruction" and items and items[-1][0] == ("block", item["block"]):
            items[-1][1].append(line)
        else:
            what = item["type"] == "instruction" and ("block", item["block"]) or ("event", line)
            items.append((what, [line]))
    return threads


def bounds_of(text, names, begin):
    kind, _, rest = text.partition(":")
    if kind == "block":
        return "block", int(rest)
    if kind in ("event", "marker"):
        name, _, nth = rest.partition("#")
        return "ns", sorted(names[name])[int(nth or 1) - 1]
    seconds, _, part = text.partition(".")
    return "ns", begin + int(seconds) * 10**9 + int((part + "0" * 9)[:9])


def expected(runs, items, start, end):
    """The part of a thread's items between two bounds, by what its runs say."""
    flat = []  # a block or an event for each item: its kind, its time, its number
    block = 0
    for ns, count in runs:
        for _ in range(count or 0):
            flat.append(("block", ns, block))
            block += 1
        if count is None:
            flat.append(("event", ns, block))
    if [kind for kind, _, _ in flat] != [what[0] for what, _ in items]:
        sys.exit("babeltrace2 has other blocks and events than waymark")
    first, last = 0, len(flat)
    if start:
        kind, value = start
        fits = [i for i, (what, ns, number) in enumerate(flat)
                if (what == "block" and number >= value if kind == "block"
                    else ns > value if what == "block" else ns >= value)]
        first = fits[0] if fits else len(flat)
    if end:
        kind, value = end
        fits = [i for i, (what, ns, number) in enumerate(flat)
                if (what == "block" and number >= value if kind == "block" else what == "event" and ns > value)]
        last = fits[0] if fits else len(flat)
    return items[first:last]


def last_lines(items, last):
    """The last so many instructions, and what is between and behind them."""
    lines = [(what[0], line) for what, all_lines in items for line in all_lines]
    instructions = [at for at, (kind, _) in enumerate(lines) if kind == "block"]
    first = instructions[-last] if last <= len(instructions) else 0
    return [line for _, line in lines[first:]]


def main():
    chance = random.Random(int(SEED))
    threads, names, begin = read_runs()
    whole = listing("-n", "0")
    if set(whole) != set(threads):
        sys.exit(f"babeltrace2 has threads {sorted(threads)}, waymark {sorted(whole)}")
    blocks = max(sum(count or 0 for _, count in runs) for runs in threads.values())
    times = [ns - begin for runs in threads.values() for ns, _ in runs]
    named = [f"event:{name}#{nth + 1}" for name, all_ns in names.items() for nth in range(min(len(all_ns), 40))]
    tried = 0
    while tried < 60:
        def bound():
            which = chance.randrange(4)
            if which == 0:
                return f"block:{chance.randrange(blocks + 3)}"
            if which == 1:
                return chance.choice(named)
            ns = max(0, chance.choice(times) + chance.choice((-1, 0, 1, 0, chance.randrange(-10**6, 10**6))))
            return f"{ns // 10**9}.{ns % 10**9:09}"
        texts = [chance.random() < 0.8 and bound() or None for _ in range(2)]
        start, end = (text and bounds_of(text, names, begin) for text in texts)
        if start and end and start[0] == end[0] and start[1] > end[1]:
            continue
        last = chance.choice((0, 0, 1, 7, chance.randrange(1, 3000)))
        options = ["-n", str(last)]
        for option, text in zip(("--from", "--to"), texts):
            options += [option, text] if text else []
        got = listing(*options)
        tried += 1
        for tid, runs in threads.items():
            wanted = expected(runs, whole[tid], start, end)
            shown = [line for _, lines in got.get(tid, []) for line in lines]
            if shown != last_lines(wanted, last or 10**9):
                sys.exit(f"{options}: thread {tid} has {len(shown)} lines, and should have "
                         f"{len(last_lines(wanted, last or 10**9))}")
    print(f"{tried} stretches of {len(threads)} threads, {blocks} blocks")


main()
