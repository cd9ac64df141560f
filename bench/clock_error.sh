#!/bin/bash
# SPDX-License-Identifier: MIT
#
# How far the time of a page fault is outside the two markers around it: clock_error.sh WAYMARK
# PAIRS. Markers have the time stamp counter's time, faults the kernel's. WAYMARK_CLOCK_SECONDS: of
# a recording, 60.
#
#	perf.clock_error_ns_p99, .max    0 for a fault between its markers
set -u
waymark=$(realpath "$1")
pairs=$(realpath "$2")
seconds=${WAYMARK_CLOCK_SECONDS:-60}
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-clock.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

"$waymark" record -o trace -e 'clock:*' -e fault "$pairs" "$seconds" >/dev/null 2>words ||
	{ cat words >&2; exit 1; }
"$waymark" dump --json trace >events || exit 1
python3 - <<'END'
import json
errors, before, faults, pid = [], None, [], None
events = [x for x in map(json.loads, open("events")) if "fields" in x]
pid = next(x["pid"] for x in events if x["name"] == "clock:before")
marks = [(x["time_ns"], x["name"]) for x in events if x["name"].startswith("clock:")]
faults = sorted(x["time_ns"] for x in events if x["name"] == "fault:page" and x["tid"] == pid)
import bisect
for (t0, a), (t1, b) in zip(marks, marks[1:]):
    if a != "clock:before" or b != "clock:after":
        continue
    # the fault that is nearest to the middle is this pair's
    middle = (t0 + t1) // 2
    at = bisect.bisect_left(faults, middle)
    near = min(faults[max(at - 1, 0):at + 1], key=lambda t: abs(t - middle))
    errors.append(max(t0 - near, near - t1, 0))
errors.sort()
print("figure perf.clock_error_ns_p99 %d ns" % errors[int(len(errors) * 0.99)])
print("figure perf.clock_error_ns_p99.max %d ns" % errors[-1])
print("figure perf.clock_error_ns_p99.pairs %d pairs" % len(errors))
END
