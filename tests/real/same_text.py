# SPDX-License-Identifier: MIT
"""same_text.py PID [SECONDS]: the code of all modules of a process is what their files say; waits so long for it."""
import os
import re
import sys
import time


def differences(pid):
    found, compared = [], 0
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            match = re.match(r"(\w+)-(\w+) ..x. (\w+) \S+ [1-9]\d* +(/.*)", line)
            if not match or match[4].endswith("(deleted)"):
                continue
            start, end, offset = (int(match[i], 16) for i in (1, 2, 3))
            with open(f"/proc/{pid}/root{match[4]}", "rb") as file:
                file.seek(offset)
                expected = file.read(end - start)
            memory.seek(start)
            got = memory.read(end - start)[:len(expected)]
            compared += len(expected)
            if got != expected:
                at = next(i for i, pair in enumerate(zip(got, expected)) if pair[0] != pair[1])
                found.append(f"{match[4]}+{offset + at:#x}: {got[at:at + 8].hex()},"
                             f" in the file {expected[at:at + 8].hex()}")
    return found, compared


def main():
    pid = int(sys.argv[1])
    end = time.monotonic() + (float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    while True:
        found, compared = differences(pid)
        if not found and compared:
            return
        if time.monotonic() >= end:
            sys.exit("\n".join(found) or f"nothing to compare in process {pid}")
        time.sleep(0.1)


if os.path.exists(f"/proc/{sys.argv[1]}"):
    main()
else:
    sys.exit(f"process {sys.argv[1]} is gone")
