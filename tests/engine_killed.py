# SPDX-License-Identifier: MIT
"""engine_killed.py WAYMARK RULER COUNT SPEC: record RULER, kill it COUNT times, sooner or later, and look how far its trail goes.

RULER runs a loop as often as its counter has 0 bits at the end, for one counter after the other, and stores the counter in descriptor 3.
So what was recorded must be a piece of that sequence, without a gap or a doubt, and must end where the file says that it ended,
but for a path that had not come to its end."""

import os
import random
import signal
import subprocess
import sys
import time

PATH_MOST = 24  # iterations in a path: traces are of so many blocks at most


def zeros(number):
    return (number & -number).bit_length() - 1


def child_of(recorder, program):
    for _ in range(2000):
        with open(f"/proc/{recorder}/task/{recorder}/children", encoding="ascii") as children:
            for pid in children.read().split():
                try:
                    if os.path.realpath(f"/proc/{pid}/exe") == program:
                        return int(pid)
                except OSError:
                    pass
        time.sleep(0.001)
    return None


def record(waymark, ruler, spec, seconds, counter):
    os.pwrite(counter, bytes(8), 0)
    command = [waymark, "record", "-e", spec, "-o", "killed", "--", ruler]
    subprocess.run(["rm", "-rf", "killed"], check=True)
    with subprocess.Popen(command, pass_fds=[counter], stderr=subprocess.PIPE, text=True) as recorder:
        pid = child_of(recorder.pid, ruler)
        time.sleep(seconds)
        if pid:
            os.kill(pid, signal.SIGKILL)
        words = recorder.communicate(timeout=60)[1]
    return words, int.from_bytes(os.pread(counter, 8, 0), "little")


def read(waymark):
    """How often the loop ran for each whole iteration, what was lost, and whether the end is recorded."""
    shown = subprocess.run([waymark, "trail", "--branches", "-n", "0", "killed"], check=True, capture_output=True, text=True, timeout=120)
    turns, now, lost, is_ended = [], 0, 0, False
    for line in shown.stdout.splitlines()[1:]:
        if " jne " in line:
            now += 1
        elif " jmp " in line:
            turns.append(now)
            now = 0
        lost += "lost" in line
        is_ended |= "killed by SIGKILL" in line
    return turns, lost, is_ended


def wrong(turns, stored, is_whole):
    """What does not fit, or None."""
    if not turns:
        return None if stored <= PATH_MOST else "nothing was recorded"
    if is_whole:
        first = 1
        modulus = 1 << 62
    else:
        turns = turns[1:]  # the first may have lost its beginning
        most = max(turns)
        modulus = 2 << most
        first = (1 << most) - turns.index(most)
    for at, turn in enumerate(turns):
        if zeros((first + at) % modulus or modulus >> 1) != turn:
            return f"iteration {at} of {len(turns)} ran {turn} times"
    behind = (stored - (first + len(turns) - 1)) % modulus
    return None if behind <= PATH_MOST else f"it ends {behind} before {stored}"


def main():
    waymark, ruler, count, spec = sys.argv[1], os.path.realpath(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    counter = os.open("counter", os.O_RDWR | os.O_CREAT)
    os.ftruncate(counter, 4096)
    if counter != 3:
        os.dup2(counter, 3)
        counter = 3
    random.seed(4)
    failed = furthest = 0
    for number in range(count):
        seconds = random.random() ** 2 * 0.15
        words, stored = record(waymark, ruler, spec, seconds, counter)
        if not stored:  # it was killed before it began
            continue
        turns, lost, is_ended = read(waymark)
        problem = wrong(turns, stored, "last=" not in spec)
        if "last=" not in spec and lost:
            problem = problem or "something was lost"
        if not is_ended:
            problem = problem or "its end is not recorded"
        if problem:
            print(f"killed after {seconds:.4f} s ({number}): {problem}; {words}")
            failed = 1
        furthest = max(furthest, stored)
    print(f"{spec}: {count} times, up to {furthest} iterations")
    sys.exit(failed or not furthest)


main()
