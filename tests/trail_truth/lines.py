# SPDX-License-Identifier: MIT
"""lines.py WAYMARK PROGRAM TRACE: --lines against objdump -dl, at any optimization.

objdump says which line each instruction belongs to; --instructions says how often each ran. So it is known how many instructions
of each line ran, and that it did.
"""
import collections
import json
import os
import re
import subprocess
import sys

WAYMARK, PROGRAM, TRACE = sys.argv[1:4]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def lines_by_address():
    line, lines = None, {}
    for text in output("objdump", "-dl", "-w", "--no-show-raw-insn", PROGRAM).splitlines():
        place = re.match(r"^(\S+\.[cS]):(\d+)( \(discriminator \d+\))?$", text)
        insn = re.match(r"^\s+([0-9a-f]+):\s", text)
        if place:
            line = os.path.basename(place[1]), int(place[2])
        elif insn:
            lines[int(insn[1], 16)] = line
        elif re.match(r"^[0-9a-f]+ <", text):
            line = None
    return lines


def main():
    ran, lines = collections.Counter(), lines_by_address()
    for text in output(WAYMARK, "trail", "--json", "--instructions", "-n", "0", TRACE).splitlines():
        item = json.loads(text)
        if item["type"] == "instruction":
            ran[int(item["module_offset"], 16)] += 1
    wanted = collections.Counter()
    for address, count in ran.items():
        wanted[lines.get(address)] += count
    reported = {}
    for text in output(WAYMARK, "trail", "--json", "--lines", TRACE).splitlines():
        item = json.loads(text)
        if item["type"] == "source_line":
            reported[os.path.basename(item["source"]), item["line"]] = item
    wrong = []
    for line in (set(wanted) - {None}) | {line for line in reported if reported[line]["instructions"]}:
        item = reported.get(line, {"instructions": None, "ran": 0})
        if item["instructions"] != wanted[line]:
            wrong.append(f"{line}: {wanted[line]} instructions ran, --lines has {item['instructions']}")
        elif not item["ran"]:
            wrong.append(f"{line}: never ran, with {wanted[line]} instructions")
    if wrong or len(wanted) < 10:
        sys.exit("\n".join(wrong or [f"only {len(wanted)} lines"]))
    print(f"{sum(wanted.values())} instructions of {len(wanted)} lines")


main()
