#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kernel_events.py EXPRESSION: print it, of `e`, the events in ./events, and of what the program
has printed into ./out: `sleeper` and `waiter` are tids, `pages` an address, `switches` the
sleeper's, not preempted and preempted."""

import json
import sys

AFTER_ASKING_MAX = 5  # preemptions

with open("events") as file:
    e = [x for x in map(json.loads, file) if "fields" in x]  # others report losses
for x in e:
    for field, value in x["fields"].items():
        if isinstance(value, str) and value.startswith("0x"):
            x["fields"][field] = int(value, 16)
with open("out") as file:
    said = {words[0]: words[1:] for words in map(str.split, file) if words}
sleeper, waiter = map(int, said.get("tids", (0, 0)))
pages = int(said.get("pages", ["0"])[0], 16)
switches = [int(count) for count in said.get("switches", [])]


def of(name, tid=None):
    return [x for x in e if x["name"] == name and tid in (None, x["tid"])]


def values(name, field, tid=None):
    return [x["fields"][field] for x in of(name, tid)]


def departures(tid):
    """how often it departed, not preempted and preempted"""
    preempted = values("switch:depart", "is_preempted", tid)
    return [preempted.count(False), preempted.count(True)]


def departs_as_it_says():
    """whether the sleeper's departures are its own; after it has asked it may be preempted"""
    waits, preemptions = departures(sleeper)
    return waits == switches[0] and 0 <= preemptions - switches[1] <= AFTER_ASKING_MAX


def turns(tid):
    """its arrivals, departures and end, a letter for each"""
    letters = {"switch:arrive": "a", "switch:depart": "d", "task:exit": "x"}
    return "".join(letters.get(x["name"], "") for x in e if x["tid"] == tid)


def faults_at(page):
    return sum(address // 4096 == page for address in values("fault:page", "address"))


def grows(name):
    counts = values(name, "count")
    return len(counts) >= 2 and counts[-1] >= counts[0]


def filtered(name, condition):
    """of one event recorded twice: whether what has callers is what meets the condition; each has some"""
    found = {True: [], False: []}
    for x in of(name):
        fields = {**x["fields"], "tid": x["tid"]}
        found["callchain" in fields].append(fields)
    wanted = sorted(str(x) for x in found[False] if condition(x))
    for x in found[True]:
        del x["callchain"]
    for x in found[True] + found[False]:
        x.pop("ip", None)
    got = sorted(map(str, found[True]))
    return 0 < len(got) < len(found[False]) and got == wanted


def last(name):
    return values("count:" + name, "count")[-1]


def reported():
    """the counts of the report in ./sums"""
    with open("sums") as sums:
        return [(count["name"], count["count"], count["unit"], count["scaled"])
                for count in json.load(sums)["count"]]


def is_grouped(fields):
    return fields["page_faults"] >= 300 and fields["minor_faults"] >= 300 and \
        fields["task_clock"] > 0 and fields["running_ns"] == fields["enabled_ns"]


def has_registers(fields):
    """whether those of a page fault are plausible, in the order of perf_regs.h"""
    registers = fields["regs"]
    return len(registers) == 18 and int(registers[8], 16) == fields["ip"] and \
        hex(fields["address"]) in registers and int(registers[7], 16) % 16 < 9


print(eval(f"({sys.argv[1]})"))
