# SPDX-License-Identifier: MIT
"""Of the events that `waymark dump --json` prints, names and fields of those for which an expression holds."""
import json
import sys


class Fields(dict):
    __getattr__ = dict.get


for line in sys.stdin:
    event = json.loads(line)
    if "fields" not in event:
        continue
    if eval(f"({sys.argv[1]})", {"f": Fields(event["fields"]), "name": event["name"]}):
        print(event["name"], sorted((key, str(value)) for key, value in event["fields"].items()))
