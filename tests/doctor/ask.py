#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the kernel itself says to what `waymark doctor` tells, asked here by other ways; and places in which to run it.

    ask.py facts                    a JSON object
    ask.py hold N inherit CMD...    with N breakpoints on this thread, which its children have too
    ask.py hold N CPU               N breakpoints on that processor, until stdin ends
    ask.py filter CMD...            under a filter that refuses perf_event_open(2) and membarrier(2)
    ask.py trace PID                trace that process until stdin ends
"""

import ctypes
import errno
import json
import os
import resource
import struct
import subprocess
import sys

PERF_EVENT_OPEN, MEMBARRIER = 298, 324
SOFTWARE, HARDWARE, BREAKPOINT = 1, 0, 5
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HV = 1 << 0, 1 << 1, 1 << 5, 1 << 6
REMOVE_ON_EXEC, SIGTRAP = 1 << 36, 1 << 37
PTRACE_SEIZE = 0x4206

libc = ctypes.CDLL(None, use_errno=True)
words = ctypes.create_string_buffer(256)


def perf_open(kind, config=0, flags=EXCLUDE_KERNEL, tid=0, cpu=-1, place=0, bp_type=2):
    """A descriptor, or a negative errno. struct perf_event_attr of 128 bytes, by its offsets."""
    attr = bytearray(128)
    struct.pack_into("IIQ", attr, 0, kind, 128, config)
    struct.pack_into("Q", attr, 16, 1)
    struct.pack_into("Q", attr, 40, flags | DISABLED | EXCLUDE_HV)
    if kind == BREAKPOINT:
        struct.pack_into("IQQ", attr, 52, bp_type, 0, 0)
        struct.pack_into("I", attr, 52, bp_type)
        struct.pack_into("QQ", attr, 56, (ctypes.addressof(words) + 7) // 8 * 8 + 8 * place, 8)
    raw = (ctypes.c_char * 128).from_buffer(attr)
    fd = libc.syscall(PERF_EVENT_OPEN, raw, tid, cpu, -1, 0)
    return fd if fd >= 0 else -ctypes.get_errno()


def breakpoints(flags=EXCLUDE_KERNEL, tid=0, cpu=-1, bp_type=2, most=8):
    """As many as can be had, and what was said then."""
    fds, error = [], 0
    while len(fds) < most and not error:
        fd = perf_open(BREAKPOINT, 0, flags, tid, cpu, len(fds), bp_type)
        if fd < 0:
            error = -fd
        else:
            fds.append(fd)
    return fds, errno.errorcode.get(error, "")


def count(**how):
    fds, error = breakpoints(**how)
    for fd in fds:
        os.close(fd)
    return [len(fds), error]


def can(*args, **how):
    fd = perf_open(*args, **how)
    if fd < 0:
        return errno.errorcode[-fd]
    os.close(fd)
    return ""


def text(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def stranger():
    """May a process be taken that is no child of ours?"""
    sleeper = subprocess.run(["sh", "-c", "sleep 20 >/dev/null & echo $!"], stdout=subprocess.PIPE,
                             check=True, text=True)
    pid = int(sleeper.stdout)
    error = ctypes.get_errno() if libc.ptrace(PTRACE_SEIZE, pid, None, None) < 0 else 0
    os.kill(pid, 9)
    return errno.errorcode.get(error, "")


def facts():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    source = "/sys/devices/system/clocksource/clocksource0/"
    return {
        "user code": can(SOFTWARE, 9),
        "kernel code": can(SOFTWARE, 9, 0),
        "whole processors": can(SOFTWARE, 9, EXCLUDE_KERNEL, -1, 0),
        "counters": can(HARDWARE, 0),
        "breakpoints": count(),
        "with SIGTRAP": count(flags=EXCLUDE_KERNEL | SIGTRAP | REMOVE_ON_EXEC),
        "execution": count(bp_type=4),
        "kernel's stores": count(flags=0),
        "on a processor": count(tid=-1, cpu=0),
        "programs of this user": stranger(),
        "files": files,
        "level": int(text("/proc/sys/kernel/perf_event_paranoid")),
        "clocksource": text(source + "current_clocksource"),
        "trusts": "tsc" in text(source + "available_clocksource").split(),
        "units": sorted(os.listdir("/sys/bus/event_source/devices")),
    }


def run_under_filter(command):
    refuse = 0x00050000 | errno.EPERM
    code = [(0x20, 0, 0, 0), (0x15, 2, 0, PERF_EVENT_OPEN), (0x15, 1, 0, MEMBARRIER),
            (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, refuse)]
    program = b"".join(struct.pack("HBBI", *step) for step in code)
    buffer = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer)))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, head):
        sys.exit("no filter")
    os.execvp(command[0], command)


def main(mode, *rest):
    if mode == "facts":
        print(json.dumps(facts()))
    elif mode == "hold" and rest[1] == "inherit":
        fds, _ = breakpoints(flags=EXCLUDE_KERNEL | INHERIT, most=int(rest[0]))
        if len(fds) != int(rest[0]):
            sys.exit("too few")
        sys.exit(subprocess.run(rest[2:], check=False).returncode)
    elif mode == "hold":
        fds, _ = breakpoints(tid=-1, cpu=int(rest[1]), most=int(rest[0]))
        print(len(fds), flush=True)
        sys.stdin.read()
    elif mode == "filter":
        run_under_filter(rest)
    elif mode == "trace":
        print(libc.ptrace(PTRACE_SEIZE, int(rest[0]), None, None), flush=True)
        sys.stdin.read()


main(*sys.argv[1:])
