#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The longest query of a recording in which its thread was switched: demo_query.py EVENTS REPORT.

EVENTS is what waymark dump --json prints, REPORT what waymark report --json prints. Prints its
thread, and seconds since the trace's begin: from, to; then in words what its time was spent on, and
what it waited for."""

import json
import sys

STATES = {"D": "for a disk", "S": "for another thread, a client or a timer",
          "T": "stopped", "t": "stopped by a tracer"}
SWITCHES_MAX = 5


class Query:
    """A query's time by state, from the switches of its thread. At its begin it runs."""

    def __init__(self, tid, start):
        self.tid, self.start, self.since, self.state = tid, start, start, "running"
        self.end, self.departures, self.wait, self.waits = start, 0, None, []
        self.ns = {"running": 0, "runnable": 0, "asleep": 0}

    def enter(self, time, state):
        """Its state until then ends."""
        self.ns[self.state] += time - self.since
        self.since, self.state = time, state

    def take(self, time, name, fields):
        """An event of its thread."""
        if name == "switch:depart":
            self.departures += 1
            self.enter(time, "runnable" if fields["state"] == "R" else "asleep")
            if self.state == "asleep":
                self.wait = [time, fields["state"], int(str(fields["place"]), 0), None]
        elif name == "switch:wake" and self.state == "asleep":
            self.wait[3] = fields["waker_tid"]
            self.wait_end(time)
            self.enter(time, "runnable")
        elif name == "switch:arrive":
            self.wait_end(time)
            self.enter(time, "running")

    def wait_end(self, time):
        """What it waited for came."""
        if self.wait:
            self.waits.append((time - self.wait[0], *self.wait[1:]))
        self.wait = None


def longest_query(lines, names):
    """The longest one, and the trace's begin; names of threads go into names."""
    begun, longest, first = {}, None, None
    for event in map(json.loads, lines):
        if "name" not in event:
            continue
        time, tid, name = event["time_ns"], event["tid"], event["name"]
        first = time if first is None else first
        if event["comm"]:
            names[tid] = event["comm"]
        if name.endswith(":begin"):
            begun[tid] = Query(tid, time)
        elif name.endswith(":end") and tid in begun:
            query = begun.pop(tid)
            query.enter(time, "running")
            query.end = time
            if 0 < query.departures <= SWITCHES_MAX and (
                    not longest or time - query.start > longest.end - longest.start):
                longest = query
        elif tid in begun:
            begun[tid].take(time, name, event["fields"])
    return longest, first


def main():
    """Print both."""
    names = {}
    with open(sys.argv[1], encoding="utf-8") as lines:
        query, first = longest_query(lines, names)
    if not query:
        sys.exit("demo_query.py: no query was switched")
    with open(sys.argv[2], encoding="utf-8") as text:
        places = {int(place["address"], 16): place["function"]
                  for place in json.load(text).get("place", [])}
    ms = lambda ns: f"{ns / 1e6:.3f} ms"
    print(query.tid, *(f"{(time - first) / 1e9:.9f}" for time in (query.start, query.end + 1)))
    print(f"The query took {ms(query.end - query.start)}: running {ms(query.ns['running'])}, "
          f"runnable {ms(query.ns['runnable'])} (it waited for a CPU), "
          f"asleep {ms(query.ns['asleep'])}.")
    for wait_ns, state, place, waker in query.waits:
        how = f" {STATES[state]}" if state in STATES else ""  # an ordinary user has no states
        where = f" in {places[place]}()" if places.get(place) else ""
        by = "an interrupt" if waker == 0 else f"{names.get(waker, '?')}-{waker}"
        print(f"It slept {ms(wait_ns)}{how}{where}"
              + (f"; {by} woke it." if waker is not None else "."))


main()
