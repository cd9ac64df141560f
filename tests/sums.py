# SPDX-License-Identifier: MIT
"""sums.py KEYS FIELD CONDITION <EVENTS: what `waymark dump --json` prints, added up by hand.

A line for each value of KEYS, an expression: the count, then sum, least and greatest value of
FIELD.
Rows of sums (those with a field "count") are added up in the same form: their own fields are
sum_FIELD, min_FIELD, max_FIELD.
"""
import json
import sys


class Fields(dict):
    __getattr__ = dict.get


keys, field, condition = sys.argv[1:4]
sums = {}
for line in sys.stdin:
    event = json.loads(line)
    f = Fields(event.get("fields", {}))
    if not f or not eval(condition, {"f": f, "name": event["name"], "e": event}):
        continue
    if "count" in f:
        row = [f["count"]] + [f.get(of + field, 0) for of in ("sum_", "min_", "max_")]
    else:
        row = [1] + 3 * [int(f[field]) if field else 0]
    have = sums.setdefault(str(eval(keys, {"f": f, "e": event})), None)
    if have is None:
        sums[str(eval(keys, {"f": f, "e": event}))] = row
    else:
        have[0] += row[0]
        have[1] += row[1]
        have[2] = min(have[2], row[2])
        have[3] = max(have[3], row[3])
for key in sorted(sums):
    print(key, *sums[key])
