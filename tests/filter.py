#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""filter.py RULE... -- COMMAND...: the command under a seccomp filter. A rule is the number of a
system call, which fails with EPERM; NUMBER:ARGUMENT is one whose first argument is this;
kill:NUMBER is killed for it."""

import ctypes
import os
import struct
import sys

EPERM, KILL, ALLOW = 0x00050001, 0x80000000, 0x7FFF0000

end = sys.argv.index("--")
code = []
for rule in sys.argv[1:end]:
    what, _, argument = rule.removeprefix("kill:").partition(":")
    argued = [(0x20, 0, 0, 16), (0x15, 0, 1, int(argument, 0))] if argument else []
    code += [(0x20, 0, 0, 0), (0x15, 0, len(argued) + 1, int(what)), *argued,
             (0x06, 0, 0, KILL if rule.startswith("kill:") else EPERM)]
code.append((0x06, 0, 0, ALLOW))
buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
    sys.exit("no filter")
os.execvp(sys.argv[end + 1], sys.argv[end + 1:])
