#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""switches.py EXPRESSION STOLEN_NS CPUS: print it, of the report in ./sums: `t` and `s`, threads
and spans by name, and `m`, what the program measured of its threads, by name (./out)."""

import json
import sys

MS = 1000000
TIMES = ["running_ns", "runnable_ns", "asleep_ns", "waiting_ns", "unknown_ns"]

with open("sums") as file:
    report = json.load(file)
with open("out") as file:
    m = {w[0]: {"tid": int(w[1]), "cpu": int(w[2]), "wall": int(w[3]), "waited": int(w[4]),
                "switching": int(w[5])}
         for w in map(str.split, file) if len(w) == 6 and all(map(str.isdigit, w[1:]))}
by_tid = {thread["tid"]: thread for thread in report.get("thread", [])}
for tid, thread in by_tid.items():
    thread["waits"] = [row for row in report["wait"] if row["tid"] == tid]
    thread["wakers"] = [row for row in report["wait_waker"] if row["tid"] == tid]
    thread["stacks"] = [row for row in report["wait_stack"] if row["thread"] == thread["name"]]
t = {name: by_tid.get(measured["tid"]) for name, measured in m.items()}
s = {span["name"].split(":")[1]: span for span in report["span"]}
# by its name in the trace, where the program could not say its number
napper = {thread["name"]: thread for thread in by_tid.values()}.get("napper")
own = [name for name in m if name != "main"]


def total(sums):
    return sum(sums[time] for time in TIMES)


def off(sums):
    return sums["asleep_ns"] + sums["waiting_ns"]


def lived(thread):
    return thread["end_ns"] - thread["begin_ns"]


def runs_as_measured(name):
    # The kernel counts a switch for the next thread, before the trace has it arrive. Where that one
    # had slept, the program measured what was counted: a hypervisor that reports no stolen time was
    # seen to make single switches 1 ms long. A hypervisor's share that is reported is no CPU time.
    switches = 20000 * t[name]["switches"]
    slack = MS + switches + int(sys.argv[2]) + 10 * MS * int(sys.argv[3])
    cpu = m[name]["cpu"]
    apart = m[name]["switching"]
    return 0.99 * (cpu - apart) - MS - switches <= t[name]["running_ns"] <= 1.01 * cpu + slack


def waits_as_measured(name):
    # 20 naps of 10 ms that were taken for runnable would be 200 ms more
    waited = m[name]["waited"]
    return abs(t[name]["runnable_ns"] - waited) <= 50 * MS + 0.1 * waited


print(eval(sys.argv[1]))
