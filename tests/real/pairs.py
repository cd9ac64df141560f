# SPDX-License-Identifier: MIT
"""pairs.py FIRST SECOND PAIRS <dump.json: in each thread the two events take turns, from whichever is seen first."""
import json
import sys

last = {}
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
    if last.get(thread) == name:
        sys.exit(f"thread {thread}: {name} twice, at {event}")
    pairs += name == sys.argv[2] and thread in last
    last[thread] = name
if pairs < int(sys.argv[3]):
    sys.exit(f"only {pairs} pairs")
