# SPDX-License-Identifier: MIT
"""Compare the spans that are one event with what a reader makes of begins and ends.

One JSON event a line on the input, begins and ends among them. For each end of a span whose begin is among the OPEN
last ones of its thread, there is the one event, with the fields of both, if the expression holds for them and the
duration. Prints how many there are, and how many ends have no such begin.
"""
import json
import sys

OPEN = 8
EXPRESSION, GLOB, IS_LOSSY = sys.argv[1], sys.argv[2], len(sys.argv) > 3


class Fields(dict):
    __getattr__ = dict.get


def matches(begin, end, event):
    """Texts are cut at 255 bytes. The duration ends before the end's own event is made."""
    expected = {k: v[:255] if isinstance(v, str) else v for k, v in (end["fields"] | begin["fields"]).items()}
    got = dict(event["fields"])
    duration = got.pop("duration")
    expected.pop("duration", None)
    assert got == expected, (expected, got)
    assert 0 <= duration <= end["time_ns"] - begin["time_ns"] + 1000, (begin, end, event)
    # a handler may come between a begin's time and the span's
    assert IS_LOSSY or duration >= end["last_ns"] - begin["next_ns"] - 1000, (begin, end, event)


threads, spans, lasts, unknown, count, lost = {}, {}, {}, 0, 0, 0
for line in sys.stdin:
    event = json.loads(line)
    name = event.get("name", "")
    if "fields" not in event or not name.startswith("job:"):
        continue
    thread = threads.setdefault((event["pid"], event["tid"]), [])
    event["last_ns"] = lasts.get((event["pid"], event["tid"]), 0)
    lasts[event["pid"], event["tid"]] = event["time_ns"]
    for begin in thread:
        begin.setdefault("next_ns", event["time_ns"])
    if name == f"{GLOB}:begin" or (GLOB == "*" and name.endswith(":begin")):
        thread.append(event)
        del thread[:-OPEN]
    elif name == f"{GLOB}:end" or (GLOB == "*" and name.endswith(":end")):
        open_ones = [begin for begin in thread if begin["name"] == name[:-3] + "begin"]
        if open_ones:
            spans.setdefault((event["pid"], event["tid"]), []).append((open_ones[-1], event))
            thread.remove(open_ones[-1])
        else:
            unknown += 1
    elif not name.endswith((":begin", ":end")):
        # right behind its end, except for what a handler does in between
        ended = spans[event["pid"], event["tid"]]
        pair = next((p for p in reversed(ended) if p[1]["name"] == name + ":end"), None)
        assert pair, event
        ended.remove(pair)
        matches(*pair, event)
        fields = Fields(event["fields"])
        assert eval(f"({EXPRESSION})", {"f": fields}), event
        count += 1
for pairs in spans.values():
    for begin, end in pairs:
        # what has no event does not meet the condition, whatever its duration
        if eval(f"({EXPRESSION})", {"f": Fields(begin["fields"] | end["fields"] | {"duration": 1 << 40})}):
            lost += 1
assert IS_LOSSY or not lost, f"{lost} of {lost + count} are missing"
print(count, unknown + lost)
