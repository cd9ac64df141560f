#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""samples.py EXPRESSION: fail unless it holds of `s`, the first event of samples in ./report, with
its tables as s["functions"] and so on."""

import json
import sys

with open("report") as file:
    report = json.load(file)
s = report["sample"][0]
for table in "function", "line", "thread", "caller":
    if f"sample_{table}" in report:
        s[table + "s"] = [row for row in report[f"sample_{table}"] if row["event"] == s["event"]]


def rows(name, of="functions"):
    return [row for row in s[of] if row["function"] == name]


def share(name, key="self_percent", of="functions"):
    key = "share_percent" if of == "callers" else key
    return sum(row[key] for row in rows(name, of))


def of_user(name):
    """its share of what is not in the kernel, where a busy machine has a third of all samples"""
    return 100 * share(name) / sum(row["self_percent"] for row in s["functions"] if not row["kernel"])


def near(part, of):
    # five deviations of a count that is random, and 3 % for what is not burned
    return abs(part - of) < 5 * (of * (100 - of) / s["samples"]) ** 0.5 + 3


def totals(**wanted):
    """whether functions, with what they call, have about these shares of what main called: a fast
    machine spends a tenth of the time before"""
    main = share("main", "total_percent")
    return main > 50 and all(near(100 * share(name, "total_percent") / main, of)
                             for name, of in wanted.items())


def callers(**wanted):
    return all(near(share(name, of="callers"), of) for name, of in wanted.items())


def lines(source, numbers):
    """the share that these lines have of all of the source's"""
    of_source = [row for row in s["lines"] if (row["source"] or "").endswith(source)]
    return 100 * sum(row["self_percent"] for row in of_source if row["line"] in numbers) / sum(
        row["self_percent"] for row in of_source)


def callers_are(**wanted):
    """whether none has more than its share, and what is missing is said to be unknown"""
    known = {name: share(name, of="callers") for name in (*wanted, "[unknown]")}
    return sum(known.values()) > 95 and max(known[name] for name in wanted) > 5 and all(
        known[name] < of or near(known[name], of) for name, of in wanted.items())


def all_are_in_files():
    """whether work has samples, and none is outside the files of the program and its agent"""
    return share("work") > 0 and all(
        row["function"] != "0x0" and (row["kernel"] or row["module"])
        for row in s["functions"] if row["weight"])


def engine_is_apart():
    """whether no address of the engine's is taken for the program's"""
    return share("[engine]") < 40 and not rows("0x0") and all(
        int(row["address"], 16) >= 1 << 63 or row["module"] or row["function"] == "[engine]"
        for row in s["functions"] if row["weight"])


if not eval(f"({sys.argv[1]})"):
    print(s.get("functions", s.get("callers", [])))
    sys.exit(1)
