#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Run modules of Python's own test suite, and print each case with how it ended, a line each, sorted:

    cases.py test_re test_json

Python's regrtest prints times and orders that differ from run to run; here is only what must be the same.
"""
import io
import sys
import unittest

from test import support


class Ends(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.ends = {}

    def note(self, case, how):
        self.ends.setdefault(case.id(), []).append(how)

    def addSuccess(self, test):
        self.note(test, "ok")

    def addFailure(self, test, err):
        self.note(test, f"failed: {err[1]!r:.300}")

    def addError(self, test, err):
        self.note(test, f"error: {err[0].__name__}")

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "failed as expected")

    def addUnexpectedSuccess(self, test):
        self.note(test, "ok, unexpectedly")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(test, f"a part failed: {err[1]!r:.300}")


def main():
    support.verbose = 0
    ends = Ends()
    said = sys.stdout
    for name in sys.argv[1:]:
        suite = unittest.defaultTestLoader.loadTestsFromName("test." + name)
        sys.stdout = io.StringIO()
        try:
            suite.run(ends)
        finally:
            sys.stdout = said
    for case, how in sorted(ends.ends.items()):
        print(case, *how)


if __name__ == "__main__":
    main()
