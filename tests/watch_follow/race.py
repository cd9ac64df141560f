# SPDX-License-Identifier: MIT
"""
From `waymark dump` on stdin: whether values of head->value, from 1,000,000 on of the first node and from 2,000,000 on of
the second, are of the node that head led to.

Each change of head has an event. Two delays are allowed for:
- A handler may be at work while head changes. So after a change each thread may show one value of the node before.
- The thread that changed head may be preempted before it records that. So values of the next node may come first.
"""
import re
import sys

EVENT = re.compile(r"\) (\S+).* watch:(head|head->value): .* new = (\w+)")


def run_of(threads):
    """How many of these come first with at most one a thread; None: the value is of no interest."""
    seen = set()
    for i, thread in enumerate(threads):
        if thread in seen:
            return i
        if thread:
            seen.add(thread)
    return len(threads)


def check(node, values):
    """Between two changes: values of `node`, before them one a thread of the other, behind them the next one's."""
    begin = run_of([thread if of != node else None for thread, of, _ in values])
    end = run_of([thread if of == node else None for thread, of, _ in reversed(values)])
    if begin + end < len(values):
        sys.exit(f"a second value of another node: {values[begin][2]}")


nodes = {}  # address -> node, as the program sets them in turn
node = None
values = []
shown = 0
for line in sys.stdin:
    event = EVENT.search(line)
    if not event:
        continue
    thread, name, new = event.groups()
    if name == "head":
        check(node, values)
        node = nodes.setdefault(new, len(nodes) + 1)
        values = []
        continue
    shown += 1
    values.append((thread, int(new, 0) // 1000000, line))
check(node, values)
sys.exit(None if shown and len(nodes) == 2 else f"{shown} values of {len(nodes)} nodes")
