#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sum_rows.py EXPRESSION: print it, of `rows` and `buckets`, the tables of the report in ./sums.json."""
import json
import sys

with open("sums.json") as file:
    report = json.load(file)
rows, buckets = report["sum"], report.get("sum_bucket", [])


def hits():
    return sum(row["count"] for row in rows)


def columns(*names, of=rows):
    """a tuple of these columns for each row"""
    return [tuple(row[name] for name in names) for row in of]


def seconds():
    """when intervals begin"""
    return [row["from_ns"] / 1e9 for row in rows]


print(eval(f"({sys.argv[1]})"))
