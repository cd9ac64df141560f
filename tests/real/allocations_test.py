# SPDX-License-Identifier: MIT
"""allocations_test.py ROUNDS <dump.json: each of allocations.c's calls is there, with what it returned."""
import json
import sys

THREADS = 16
rounds = int(sys.argv[1]) * THREADS
names = ("malloc", "calloc", "realloc")
open_calls, begun, ended = {}, dict.fromkeys(names, 0), dict.fromkeys(names, 0)
live, freed = {}, 0

for line in sys.stdin:
    event = json.loads(line)
    if "name" not in event:
        continue
    name, *edge = event["name"].removeprefix("libc:").split(":")
    fields = {key: int(str(value), 0) for key, value in event["fields"].items()}
    if name == "free":
        freed += live.pop(fields["arg1"], 0)
    elif edge == ["begin"]:
        is_ours = (name == "malloc" and fields["arg1"] == 4321 or
                   name == "calloc" and (fields["arg1"], fields["arg2"]) == (3, 1733) or
                   name == "realloc" and fields["arg2"] == 9871)
        begun[name] += is_ours
        open_calls.setdefault((event["tid"], name), []).append((is_ours, fields["arg1"]))
    elif edge == ["end"]:
        is_ours, first = open_calls[event["tid"], name].pop()
        ended[name] += is_ours
        if not is_ours:
            continue
        result = fields["rax"] if "rax" in fields else fields["ret"]  # ret: with libc's debug symbols
        if result == 0 or result % 16:
            sys.exit(f"{name} returned {result:#x}")
        if name == "realloc":
            live.pop(first, None)
        live[result] = 1

print(f"begun {begun}, ended {ended}, freed {freed}, not freed {len(live)}")
for name in names:
    if begun[name] != rounds or ended[name] != rounds:
        sys.exit(f"{name}: {begun[name]} calls and {ended[name]} returns of {rounds}")
# Threads free what others allocated, so the order of time decides between equals; a few may be amiss.
if abs(freed - 2 * rounds) > rounds // 50:
    sys.exit(f"{freed} blocks of {2 * rounds} were seen freed")
