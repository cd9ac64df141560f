# SPDX-License-Identifier: MIT
"""
From `waymark dump` on stdin: whether values of head->value, from 1,000,000 on of the first node and from 2,000,000 on of
the second, are of the node that head led to. A handler may be at work as the pointer changes: one a thread and change.
"""
import re
import sys

EVENT = re.compile(r"\) (\S+).* watch:(head|head->value): .* new = (\w+)")
nodes = {}  # address -> node, as the program sets them in turn
node = None
late = set()
shown = 0
for line in sys.stdin:
    event = EVENT.search(line)
    if not event:
        continue
    thread, name, new = event.groups()
    if name == "head":
        node = nodes.setdefault(new, len(nodes) + 1)
        late.clear()
        continue
    shown += 1
    if int(new, 0) // 1000000 != node:
        if thread in late:
            sys.exit(f"a second value of another node: {line}")
        late.add(thread)
sys.exit(None if shown and len(nodes) == 2 else f"{shown} values of {len(nodes)} nodes")
