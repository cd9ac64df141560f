# SPDX-License-Identifier: MIT
"""Which files are the project's own, for the checks beside this file."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
C_ENDINGS = (".c", ".h", ".cc", ".cpp", ".S", ".def")


def all_files():
    """Paths relative to ROOT of all files, tracked or new, that are not ignored."""
    git = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                         cwd=ROOT, capture_output=True, text=True, check=False)
    if git.returncode == 0:
        names = git.stdout.splitlines()
    else:
        names = [os.path.relpath(os.path.join(folder, name), ROOT)
                 for folder, _, files in os.walk(ROOT) for name in files]
    return sorted(n for n in names if (ROOT / n).is_file() and not n.startswith("build"))


def c_files(*endings):
    return [n for n in all_files() if n.endswith(endings or C_ENDINGS)]


def text_of(name):
    return (ROOT / name).read_text(errors="replace")


def finish(problems):
    """Print the problems; the exit status of a check."""
    for problem in problems:
        print(problem)
    return 1 if problems else 0
