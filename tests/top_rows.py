#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""top_rows.py EXPRESSION: print it, of `rows`, the objects that top has printed into ./out, and of
`said`, the numbers that the program has printed into ./its."""

import json
import sys

with open("out") as file:
    rows = [json.loads(line) for line in file if line.endswith("}\n")]
with open("its") as file:
    said = dict(zip(*[iter(file.read().split())] * 2))

# all its threads have begun when the first marker comes
begun = [bool(o["top_event"]) for o in rows].index(True) if any(o["top_event"] for o in rows) else 0


def of(table, name=None):
    """that table's lines of all intervals"""
    return [line for o in rows for line in o[table] if name is None or line[table[4:]] == name]


def total(table, name, field):
    return sum(line[field] or 0 for line in of(table, name))


def time(thread):
    return thread["running_ns"] + thread["runnable_ns"] + thread["asleep_ns"]


def part(name, *fields):
    """of the time of a thread"""
    threads = [t for o in rows[begun + 1:] for t in o["top_thread"] if t["thread"] == name]
    return sum(t[field] for t in threads for field in fields) / max(1, sum(map(time, threads)))


def largest(table, field):
    return max((total(table, line[table[4:]], field), line[table[4:]]) for line in of(table))[1]


print(eval(f"({sys.argv[1]})"))
