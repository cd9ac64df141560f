# SPDX-License-Identifier: MIT
"""top_terminal.py WAYMARK PID PROGRAM: waymark top on a terminal of 24 by 80: it draws there, takes
keys and sizes, and gives the terminal back as it was, however it ends. PID is a process that has
the thread "spinner"; PROGRAM writes "ticks" and ends.
Prints what is wrong; status 1 then."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

WAYMARK, PID, PROGRAM = sys.argv[1:4]
ENTER, LEAVE = "\033[?1049h", "\033[?1049l"
PATIENCE = 30
failed = []


def lead(follower, statuses, environment, command):
    """The leader of the terminal's session, as a shell is: without one, nothing stops at Ctrl-Z.
    Reports how its job goes."""
    os.setsid()
    fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if not job:
        os.setpgid(0, 0)
        os.tcsetpgrp(follower, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL) # nohup(1) may run the tests
        for place in range(3):
            os.dup2(follower, place)
        os.execve(command[0], command, environment)
    os.write(statuses, b"pid %d\n" % job)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.write(statuses, b"stopped\n")
            continue
        os.tcsetpgrp(follower, os.getpid())
        os.write(statuses, b"ended %d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)


class Terminal:
    def __init__(self, *arguments, **environment):
        self.name = " ".join(arguments)
        self.text = ""
        self.said = ""
        self.main, follower = os.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(follower)
        self.statuses, statuses = os.pipe()
        self.leader = os.fork()
        if not self.leader:
            try:
                lead(follower, statuses, {**os.environ, "TERM": "xterm", **environment},
                     [WAYMARK, "top", "-I", "100ms", *arguments])
            finally:
                os._exit(1)
        os.close(statuses)
        self.follower = follower
        self.await_status("pid ")
        self.pid = int(re.search(r"pid (\d+)", self.said).group(1))

    def resize(self, lines, columns):
        self.lines, self.columns = lines, columns
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self):
        for fd in select.select([self.main, self.statuses], [], [], 0.1)[0]:
            words = os.read(fd, 65536).decode("utf-8", "replace")
            if fd == self.main:
                self.text += words
            else:
                self.said += words

    def await_that(self, what, holds):
        until = time.monotonic() + PATIENCE
        while not holds() and time.monotonic() < until:
            self.read()
        self.check(what, holds())

    def await_status(self, words):
        self.await_that(f"no status '{words}'", lambda: words in self.said)

    def frame(self):
        """The lines of the last table that is whole, with the footer behind; none yet: []"""
        frames = [f for f in self.text.split("\033[H")[1:] if "q quit" in f]
        lines = re.sub(r"\033\[\d+;1H", "\n", frames[-1]) if frames else ""
        lines = re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", lines).replace("\r", "")
        return lines.split("\n") if frames else []

    def await_frame(self, what, holds):
        self.text = ""
        self.await_that(what, lambda: self.frame() and holds("\n".join(self.frame())))

    def key(self, key):
        os.write(self.main, key.encode())

    def check(self, what, holds):
        if not holds:
            failed.append(f"{self.name}: {what}: {self.said!r} {self.text[-1500:]!r}")

    def check_restored(self, when):
        self.check(f"{when}: the modes of the terminal are others",
                   termios.tcgetattr(self.follower) == self.before)
        self.check(f"{when}: the screen is not given back",
                   self.text.rfind(LEAVE) > self.text.rfind(ENTER))
        after = self.text[self.text.rfind(LEAVE) :]
        self.check(f"{when}: the cursor or wrapping is off",
                   "\033[?25l" not in after and "\033[?7l" not in after)

    def end(self, status, is_screen=True):
        self.await_status("ended ")
        if "ended" not in self.said:
            os.kill(self.pid, signal.SIGKILL)
        while select.select([self.main], [], [], 0)[0]:
            self.read()
        self.check(f"status {status} was expected", f"ended {status}\n" in self.said)
        if is_screen:
            self.check_restored("at the end")
        os.waitpid(self.leader, 0)
        for fd in (self.main, self.follower, self.statuses):
            os.close(fd)


def of_process(**environment):
    terminal = Terminal("-p", PID, **environment)
    terminal.await_frame("no table of threads", lambda text: "spinner" in text)
    return terminal


def fits(terminal):
    lines = terminal.frame()
    return len(lines) <= terminal.lines + 1 and all(len(line) <= terminal.columns for line in lines)


def takes_nothing(output):
    return not select.select([], [output], [], 0)[1]


def catches_signals(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search("SigCgt:\t(.*)", status.read()).group(1), 16) >> signal.SIGTERM - 1 & 1


# Keys; and q.
one = of_process()
one.check("the tables do not fit into 24 by 80", fits(one))
one.key("h")
one.await_frame("h: no help", lambda text: "any key returns" in text)
one.key("h")
one.await_frame("no tables after the help", lambda text: "THREAD" in text and "any key" not in text)
for table in ("EVENT", "SPAN", "SUM", "FUNCTION"):
    one.key("s")
    one.await_frame(f"s: more than {table}", lambda text: "SWITCHES/S" not in text)
one.key("s")
one.await_frame("s: not the threads alone",
                lambda text: "THREAD" in text and "FUNCTION" not in text)
one.key("s")
one.key("p")
one.await_frame("p: not paused", lambda text: "p resume" in text)
one.key("p")
one.await_frame("p: paused forever", lambda text: "p pause" in text and "spinner" in text)
for lines, columns in ((12, 60), (50, 132), (3, 20)):
    one.resize(lines, columns)
    one.await_that(f"not drawn in {lines} lines", lambda: f"\033[{one.lines};1H" in one.text)
    one.await_frame("no table in it", lambda text: True)
    one.check(f"the tables do not fit into {lines} lines", len(one.frame()) <= lines + 1)
one.key("q")
one.end(0)

# Signals.
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    one = of_process()
    os.kill(one.pid, number)
    one.end(0)
one = of_process()
one.key("\x03")
one.end(0)

# A signal ends it also while Ctrl-S stops the terminal.
one = of_process()
one.key("\x13")
one.await_that("Ctrl-S does not stop the terminal", lambda: takes_nothing(one.follower))
os.kill(one.pid, signal.SIGTERM)
one.end(0)

# The same with a pipe that has no reader.
unread, output = os.pipe()
os.set_blocking(output, False)
try:
    while os.write(output, b"x" * 4096):
        pass
except BlockingIOError:
    os.set_blocking(output, True)
for form in ([], ["--json"]):
    with subprocess.Popen([WAYMARK, "top", "-p", PID, *form], stdout=output,
                          stderr=subprocess.PIPE) as piped:
        while not catches_signals(piped.pid):
            time.sleep(0.02)
        piped.terminate()
        try:
            words = piped.communicate(timeout=PATIENCE)[1]
            if piped.returncode != 1 or b": the output" not in words:
                failed.append(f"a pipe that nobody reads: {piped.returncode} {words!r}")
        except subprocess.TimeoutExpired:
            piped.kill()
            failed.append("a pipe that nobody reads: a signal does not end top")

# Ctrl-Z, and back.
one = of_process()
one.key("\x1a")
one.await_status("stopped")
one.await_that("the screen is not given back", lambda: LEAVE in one.text)
one.check_restored("stopped")
one.text = ""
os.kill(one.pid, signal.SIGCONT)
one.await_that("the screen is not taken again", lambda: ENTER in one.text)
one.await_frame("no table after SIGCONT", lambda text: "spinner" in text)
one.key("q")
one.end(0)

# Colours, and terminals without any.
one = of_process()
one.check("no colour", "\033[7m" in one.text)
one.key("q")
one.end(0)
one = of_process(NO_COLOR="1")
one.check("colour, with NO_COLOR", not re.search(r"\033\[[17]m", one.text))
one.key("q")
one.end(0)
one = Terminal("-p", PID, "--for", "300ms", TERM="dumb")
one.end(0, is_screen=False)
one.check("TERM=dumb: sequences", "\033" not in one.text)
one.check("TERM=dumb: no table", "spinner" in one.text)

# A program's output does not get between the tables; its status is the command's.
one = Terminal("--", PROGRAM, "20000", "10")
one.end(0)
one.check("the program's output is on the screen", "ticks 20000" not in one.text)
one.check("the markers are not", "topped:tick" in one.text)
one = Terminal("--", "sh", "-c", "echo out; echo err >&2; exit 7")
one.end(7, is_screen=False)
one.check("the program's output is on the screen", not re.search("^(out|err)", one.text, re.M))

# q leaves the program alone, and waits for it.
with subprocess.Popen(["sleep", "600"]) as sleeping:
    one = Terminal("--", "tail", "--pid", str(sleeping.pid), "-f", "/dev/null")
    one.await_frame("no table", lambda text: "tail" in text)
    one.key("q")
    one.await_that("nothing is said of it", lambda: "runs on" in one.text)
    one.check_restored("while the program runs on")
    sleeping.kill()
    sleeping.wait()
    one.end(0)

print("\n".join(failed))
sys.exit(bool(failed))
