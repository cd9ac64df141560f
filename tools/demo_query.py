#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The longest query of a recording in which its thread was switched: demo_query.py EVENTS.

EVENTS is what waymark dump --json prints. Prints its thread, and seconds since the trace's begin:
from, to."""

import json
import sys

begun, switched, longest, first = {}, {}, (0, 0, 0, 0), None
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        event = json.loads(line)
        if "name" not in event:
            continue
        time, tid, name = event["time_ns"], event["tid"], event["name"]
        first = time if first is None else first
        if name.endswith(":begin"):
            begun[tid], switched[tid] = time, 0
        elif name == "switch:depart" and tid in switched:
            switched[tid] += 1
        elif name.endswith(":end") and tid in begun:
            start = begun.pop(tid)
            if 0 < switched[tid] <= 5:
                longest = max(longest, (time - start, tid, start, time))
_, tid, start, end = longest
print(tid, f"{(start - first) / 1e9:.9f}", f"{(end - first + 1) / 1e9:.9f}")
