#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Places in which tests/doctor.sh runs `waymark doctor`.

    place.py hold N CMD...      with N breakpoints on this thread, which its children inherit
    place.py trace PID          trace that process until stdin ends
    place.py mark CACHE BOOT USER TRIAL...
                                write a valid cache for that boot and user ("": as it says), in which each TRIAL
                                works and has seen "a mark"
"""

import ctypes
import struct
import subprocess
import sys

PERF_EVENT_OPEN = 298
BREAKPOINT, DISABLED, INHERIT, EXCLUDE_KERNEL = 5, 1 << 0, 1 << 1, 1 << 5
PTRACE_SEIZE = 0x4206

libc = ctypes.CDLL(None, use_errno=True)
words = ctypes.create_string_buffer(256)


def hold(count):
    """struct perf_event_attr of 128 bytes, by its offsets."""
    for place in range(count):
        attr = bytearray(128)
        at = (ctypes.addressof(words) + 7) // 8 * 8 + 8 * place
        struct.pack_into("IIQQ", attr, 0, BREAKPOINT, 128, 0, 1)
        struct.pack_into("Q", attr, 40, DISABLED | INHERIT | EXCLUDE_KERNEL)
        struct.pack_into("IQQ", attr, 52, 2, 0, 0)
        struct.pack_into("QQ", attr, 56, at, 8)
        raw = (ctypes.c_char * 128).from_buffer(attr)
        if libc.syscall(PERF_EVENT_OPEN, raw, 0, -1, -1, 0) < 0:
            sys.exit("too few")


def mark(cache, boot, user, *trials):
    with open(cache, encoding="ascii") as file:
        lines = file.read().split("\n")[:4]
    if boot:
        lines[1] = f"boot {boot}"
    if user:
        lines[3] = f"user {user}"
    text = "\n".join([*lines, *(f"{trial} works a mark" for trial in trials), ""])
    fnv = 0xcbf29ce484222325
    for byte in text.encode():
        fnv = (fnv ^ byte) * 0x100000001b3 % 2**64
    with open(cache, "w", encoding="ascii") as file:
        file.write(f"{text}sum {fnv:016x}\n")


def main(mode, *rest):
    if mode == "hold":
        hold(int(rest[0]))
        sys.exit(subprocess.run(rest[1:], check=False).returncode)
    elif mode == "trace":
        print(libc.ptrace(PTRACE_SEIZE, int(rest[0]), None, None), flush=True)
        sys.stdin.read()
    elif mode == "mark":
        mark(*rest)


main(*sys.argv[1:])
