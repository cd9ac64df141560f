# SPDX-License-Identifier: MIT
"""pairs.py FIRST SECOND PAIRS <dump.json: in each thread the two events take turns, from whichever is seen first. Places
are armed one after the other: the second of a thread's first pair may have been passed before it was armed."""
import json
import sys

last, seen = {}, {}
pairs = 0
for line in sys.stdin:
    event = json.loads(line)
    thread = event["pid"], event["tid"]
    if "lost" in event:  # it is unknown which of the two were
        last.pop(thread, None)
        continue
    name = event["name"].partition(":")[2]
    if name not in sys.argv[1:3]:
        continue
    seen[thread] = seen.get(thread, 0) + 1
    if last.get(thread) == name and seen[thread] > 2:
        sys.exit(f"thread {thread}: {name} twice, at {event}")
    pairs += name == sys.argv[2] and thread in last
    last[thread] = name
if pairs < int(sys.argv[3]):
    sys.exit(f"only {pairs} pairs")
