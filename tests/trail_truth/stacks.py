# SPDX-License-Identifier: MIT
"""stacks.py WAYMARK TRACE: folded, speedscope's and perf's forms against stacks and counts made by hand.

For a program without signals, whose calls all return: the printed instructions determine the stack and the branches.
"""
import collections
import json
import re
import shutil
import subprocess
import sys

WAYMARK, TRACE = sys.argv[1:3]
MOST = 1 << 20


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def export(form, *options):
    return output(WAYMARK, "export", "--format", form, *options, TRACE)


def instructions():
    """Per thread (address, function, its begin, text, block) of each."""
    threads = {}
    for line in output(WAYMARK, "trail", "--json", "--instructions", "-n", "0", TRACE).splitlines():
        item = json.loads(line)
        if item["type"] == "instruction":
            address = int(item["address"], 16)
            threads.setdefault(item["tid"], []).append(
                (address, item["function"], address - item["offset"], item["instruction"]))
    return threads


def fold(threads, names):
    """What ran in each stack."""
    folded = collections.Counter()
    for tid, ran in threads.items():
        stack, before = [names[tid]], None
        for address, function, begin, text in ran:
            kind = before.split()[0] if before else "call"
            if kind.startswith("call"):
                stack.append(function)
            elif kind.startswith("ret"):
                stack.pop()
            elif kind.startswith("j") and address == begin and function != stack[-1]:
                stack[-1] = function  # a tail call
            if stack[-1] != function:
                sys.exit(f"{function} at {address:#x}, and the stack is {stack}")
            folded[";".join(stack)] += 1
            before = text
    return folded


def branches(threads):
    """How often each branch was taken, and the code from each to the next was run."""
    taken, straight = collections.Counter(), collections.Counter()
    for ran in threads.values():
        landed = None
        for (address, _, _, text), (following, *_) in zip(ran, ran[1:]):
            if not re.match(r"j|call|ret", text):
                continue
            if re.match(r"j(?!mp)", text) and int(re.search(r"0x([0-9a-f]+)", text)[1], 16) != following:
                continue  # not taken
            taken[address, following] += 1
            if landed is not None:
                straight[landed, address] += 1
            landed = following
    return taken, straight


def check(what, got, wanted):
    if got != wanted:
        differ = {key for key in set(got) | set(wanted) if got.get(key) != wanted.get(key)}
        sys.exit("\n".join(f"{what}: {key}: {got.get(key)}, expected {wanted.get(key)}" for key in sorted(differ)))


def check_speedscope(folded, names):
    """As src/lib/file-format-spec.ts of speedscope has it, and that it is the same stacks."""
    file = json.loads(export("speedscope"))
    frames = file["shared"]["frames"]
    got = collections.Counter()
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert isinstance(file["name"], str) and re.fullmatch(r"waymark@\S+", file["exporter"])
    assert 0 <= file["activeProfileIndex"] < len(file["profiles"]) == len(names)
    assert set(file) == {"$schema", "name", "exporter", "activeProfileIndex", "profiles", "shared"}
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 1), int)
    for profile in file["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "events"}
        assert profile["type"] == "evented" and profile["unit"] == "none"
        stack, last = [profile["name"].split()[0]], profile["startValue"]
        for event in profile["events"]:
            assert set(event) == {"type", "frame", "at"} and event["at"] >= last
            if event["at"] > last:
                got[";".join(stack)] += event["at"] - last
            last = event["at"]
            name = frames[event["frame"]]["name"]
            if event["type"] == "O":
                stack.append(name)
            else:
                assert event["type"] == "C" and stack.pop() == name
        assert len(stack) == 1 and profile["endValue"] >= last
    check("speedscope", got, folded)


def check_profgen(program, taken, straight):
    """What the compiler's reader makes of branch stacks: code and calls that are those that ran."""
    text = export("perf-script")
    with open("script", "w", encoding="utf-8") as script:
        script.write(text)
    output("llvm-profgen-14", "--perfscript", "script", "--binary", program, "--skip-symbolization", "--output", "unsymbolized")
    with open("unsymbolized", encoding="utf-8") as file:
        lines = file.read().splitlines()
    base = min(address for address, _ in straight) - min(int(line.split("-")[0], 16) for line in lines[1:1 + int(lines[0])])
    ranges = collections.Counter()
    for line in lines[1:1 + int(lines[0])]:
        begin, end, count = re.fullmatch(r"([0-9a-f]+)-([0-9a-f]+):(\d+)", line).groups()
        ranges[int(begin, 16) + base, int(end, 16) + base] += int(count)
    check("llvm-profgen's code", ranges, straight)
    entries = {int(line.split()[0], 16) for line in output("nm", program).splitlines() if line.split()[1] in "tT"}
    calls = collections.Counter()
    for line in lines[2 + int(lines[0]):]:
        match = re.fullmatch(r"([0-9a-f]+)->([0-9a-f]+):(\d+)", line)
        if match and int(match[2], 16) + base in entries:
            calls[int(match[1], 16) + base, int(match[2], 16) + base] += int(match[3])
    check("llvm-profgen's calls", calls, {way: count for way, count in taken.items() if way[1] in entries})


def main():
    threads = instructions()
    heads = [json.loads(line) for line in output(WAYMARK, "trail", "--json", "-n", "1", TRACE).splitlines()]
    names = {head["tid"]: head["comm"] for head in heads if head["type"] == "trail_thread"}
    folded = fold(threads, names)
    got = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in export("folded").splitlines()}
    check("folded", got, folded)
    check_speedscope(folded, names)
    taken, straight = branches(threads)
    if shutil.which("llvm-profgen-14"):
        check_profgen(sys.argv[3], taken, straight)
    print(f"{len(folded)} stacks, {len(taken)} branches, {sum(taken.values())} taken")


main()
