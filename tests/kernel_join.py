#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kernel_join.py FIRST LATER EXPRESSION: print it, of `e`, the events in ./events in order of time,
and of the pids `first` and `later`."""

import json
import sys

with open("events") as file:
    e = sorted(map(json.loads, file), key=lambda x: x["time_ns"])
first, later = int(sys.argv[1]), int(sys.argv[2])


def of(name, pid):
    return [x for x in e if x["name"] == name and x["pid"] == pid]


def switches(pid):
    return [x for x in e if x["pid"] == pid and x["name"].startswith("switch:")]


def counted(name):
    return max(x["fields"]["count"] for x in e if x["name"] == "count:" + name)


def switches_once(tid):
    """whether it never arrives, or departs, twice in turn"""
    names = [x["name"] for x in e if x["tid"] == tid and x["name"] in ("switch:arrive",
                                                                       "switch:depart")]
    return all(a != b for a, b in zip(names, names[1:]))


def children(pid):
    return {x["pid"] for x in e
            if x["name"] == "task:fork" and x["fields"]["parent_pid"] == pid}


def begins(name, pid):
    return min(x["time_ns"] for x in of(name, pid))


print(eval(sys.argv[3]))
