#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""span_costs.py EXPRESSION: print it, of the report in ./summary.json and of ./own, where the
program has counted for itself."""

import json
import sys

with open("summary.json") as file:
    report = json.load(file)
with open("own") as file:
    own = json.loads(file.read() or "{}")
s = {span["name"].removeprefix("cost:"): span for span in report["span"]}
for span in s.values():
    span["counts"] = [row for row in report["span_count"] if row["span"] == span["name"]]


def c(span, name):
    return next(count for count in s[span]["counts"] if count["name"] == name)


def faults(span):
    return c(span, "page-faults")["sum"]


def switches(span):
    return c(span, "context-switches")["sum"]


def whole(*names):
    """whether no count of these spans is missing"""
    return all(count["spans"] == s[name]["calls"] and not count["unavailable"]
               for name in names for count in s[name]["counts"])


print(eval(sys.argv[1]))
