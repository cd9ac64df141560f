#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ways.py WAYMARK TARGET [KIND]...: starts TARGET restricted in each KIND, and compares what
`waymark doctor -p` says of each way with what `waymark record -p` then does. A verdict may be
"unknown", but it may not contradict the recording. Prints a line for each contradiction."""

import ctypes
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys

waymark, target = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
SPECS = {"markers and probes": "func:work",
         "trail/soft/": "trail/soft/",
         "watches from outside": "watch:counter/outside/",
         "watches from inside": "watch:counter"}
build = os.path.dirname(os.environ["WAYMARK_AGENT"])


class Impossible(Exception):
    pass


def must(result, *_):
    if result < 0:
        raise Impossible(os.strerror(ctypes.get_errno()))
    return result


def prctl(option, *values):
    must(libc.prctl(option, *[ctypes.c_ulong(v) for v in values + (0,) * (4 - len(values))]))


EXECUTE, WRITE, READ, READ_DIR, REMOVE_FILE, MAKE_SOCK = 1, 2, 4, 8, 32, 1 << 9


def landlock(handled, **rules):
    """Forbid all `handled` accesses but these, by the name of a place."""
    places = {"everything": "/", "libraries": "/usr", "agent": build, "proc": "/proc",
              "tmp": "/tmp", "program": target}
    attributes = ctypes.create_string_buffer(struct.pack("Q", handled))
    ruleset = must(libc.syscall(444, attributes, 8, 0))
    for name, allowed in rules.items():
        beneath = os.open(places[name], os.O_PATH)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, beneath))
        must(libc.syscall(445, ruleset, 1, rule, 0))
    prctl(38, 1)
    must(libc.syscall(446, ruleset, 0))


def seccomp(number=-1, answer=0x00050001):
    """A filter that answers one system call with EPERM."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, number & 0xffffffff), (0x06, 0, 0, answer),
            (0x06, 0, 0, 0x7FFF0000)]
    steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code),
                                                      ctypes.addressof(steps)))
    prctl(38, 1)
    must(libc.prctl(22, 2, program))


def limit(name, value):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))


def mounts(*calls):
    must(libc.unshare(0x20000))
    for place, options in ((None, None),) + calls:
        must(libc.mount(b"none", (place or "/").encode(), b"tmpfs" if place else None,
                        0 if place else 0x44000, options.encode() if options else None))


def remount(place, flags):
    must(libc.mount(b"none", place.encode(), None, 32 | flags, None))


def bind(folder, place):
    must(libc.mount(folder.encode(), place.encode(), None, 4096 | 16384, None))


def user(number):
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)


def own_tmp(*more):
    mounts(("/tmp", "mode=1777"))
    for do in more:
        do()


def full(place):
    try:
        with open(place + "/full", "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError:
        pass


def nothing():
    pass


def root_of(*folders):
    """A root of its own, with these folders in it."""
    mounts(("/mnt", "mode=755"))
    for folder in folders:
        os.makedirs("/mnt" + folder)
        bind(folder, "/mnt" + folder)
    os.makedirs("/mnt/tmp", exist_ok=True)
    os.chroot("/mnt")
    os.chdir("/")


MEBI = 1 << 20
SYSTEM = ["/usr", "/bin", "/lib", "/lib64", os.path.dirname(target)]
# name: what restricts it before it executes its program, and words for that program
KINDS = {
    "plain": (nothing,),
    "mdwe": (lambda: prctl(65, 1),),
    "mdwe_user": (lambda: (user(65534), prctl(65, 1)),),
    "undumpable": (nothing, "undumpable"),
    "gs": (nothing, "gs"),
    "gs_thread": (nothing, "gs_thread"),
    "filter_thread": (nothing, "filter_thread"),
    "locked": (nothing, "mlockall"),
    "locked_low": (lambda: limit("MEMLOCK", 8 * MEBI), "mlockall"),
    "locked_user": (lambda: (user(65534), limit("MEMLOCK", 8 * MEBI)), "mlockall"),
    "dispatch": (nothing, "dispatch"),
    "landlock_nothing": (lambda: landlock(EXECUTE | READ | MAKE_SOCK,
                                          libraries=EXECUTE | READ, program=EXECUTE | READ),),
    "landlock_all": (lambda: landlock(EXECUTE | READ | MAKE_SOCK,
                                      everything=EXECUTE | READ | MAKE_SOCK),),
    "landlock_no_sockets": (lambda: landlock(MAKE_SOCK),),
    "landlock_no_writes": (lambda: landlock(WRITE),),
    "landlock_no_removal": (lambda: landlock(REMOVE_FILE),),
    "landlock_no_folders": (lambda: landlock(READ_DIR),),
    "landlock_no_proc": (lambda: landlock(EXECUTE | READ, libraries=EXECUTE | READ,
                                          agent=EXECUTE | READ, program=EXECUTE | READ),),
    "landlock_read_only": (lambda: landlock(0x1fff, everything=EXECUTE | READ | READ_DIR),),
    "landlock_read_only_mem": (lambda: landlock(0x1fff, everything=EXECUTE | READ | READ_DIR,
                                                tmp=MAKE_SOCK | REMOVE_FILE | 0x1000),),
    "own_mounts": (lambda: mounts(),),
    "own_tmp": (lambda: own_tmp(),),
    "own_tmp_no_agent": (lambda: own_tmp(lambda: mounts((build, ""))),),
    "own_tmp_read_only": (lambda: own_tmp(lambda: remount("/tmp", 1)),),
    "own_tmp_noexec": (lambda: own_tmp(lambda: remount("/tmp", 8)),),
    "own_tmp_noexec_no_agent": (lambda: own_tmp(lambda: mounts((build, "")),
                                                lambda: remount("/tmp", 8)),),
    "own_tmp_full": (lambda: (mounts(("/tmp", "size=4k,mode=1777")), full("/tmp")),),
    "own_tmp_small_no_agent": (lambda: (mounts(("/tmp", "size=64k,mode=1777"), (build, ""))),),
    "own_tmp_landlock": (lambda: (own_tmp(), landlock(MAKE_SOCK)),),
    "own_tmp_mdwe": (lambda: (own_tmp(), prctl(65, 1)),),
    "no_proc": (lambda: mounts(("/proc", "size=4k")),),
    "agent_noexec": (lambda: (mounts(), bind(build, build), remount(build, 4096 | 8)),),
    "chroot": (lambda: root_of(*SYSTEM, "/proc"),),
    "chroot_no_proc": (lambda: root_of(*SYSTEM),),
    "chroot_no_tmp": (lambda: (root_of(*SYSTEM, "/proc"), os.rmdir("/tmp"), remount("/", 1)),),
    "chroot_user": (lambda: (root_of(*SYSTEM, "/proc"), os.chmod("/tmp", 0o1777), user(65534)),),
    "chroot_shut_tmp": (lambda: (root_of(*SYSTEM, "/proc"), user(65534)),),
    "own_network": (lambda: must(libc.unshare(0x40000000)),),
    "seccomp": (seccomp,),
    "seccomp_memfd": (lambda: seccomp(319),),
    "addresses_16M": (lambda: limit("AS", 16 * MEBI),),
    "addresses_256M": (lambda: limit("AS", 256 * MEBI),),
    "addresses_16G": (lambda: limit("AS", 16384 * MEBI),),
    "addresses_64G": (lambda: limit("AS", 65536 * MEBI),),
    "data_16M": (lambda: limit("DATA", 16 * MEBI),),
    "data_256M": (lambda: limit("DATA", 256 * MEBI),),
    "data_64G": (lambda: limit("DATA", 65536 * MEBI),),
    "files_1M": (lambda: limit("FSIZE", MEBI),),
    "files_64M": (lambda: limit("FSIZE", 64 * MEBI),),
    "files_1G": (lambda: limit("FSIZE", 1024 * MEBI),),
    "descriptors_3": (lambda: limit("NOFILE", 3),),
    "descriptors_5": (lambda: limit("NOFILE", 5),),
    "descriptors_9": (lambda: limit("NOFILE", 9),),
    "descriptors_32": (lambda: limit("NOFILE", 32),),
    "processes_1": (lambda: (user(64321), limit("NPROC", 1)),),
    "processes_2": (lambda: (user(64321), limit("NPROC", 2)),),
    "processes_3": (lambda: (user(64321), limit("NPROC", 3)),),
    "processes_4": (lambda: (user(64321), limit("NPROC", 4)),),
    "stack_64k": (lambda: limit("STACK", 64 << 10),),
    "stopped": (nothing, "stop"),
    "user": (lambda: user(65534),),
    "user_undumpable": (lambda: user(65534), "undumpable"),
}


def start(restrict, words):
    ready, said = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(said, 1)
            os.closerange(3, 64)
            restrict()
            os.execv(target, [target, *words])
        except (Impossible, OSError, ValueError) as wrong:
            os.write(1, b"impossible: %s" % str(wrong).encode())
        os._exit(77)
    os.close(said)
    answer = os.read(ready, 200).decode()
    os.close(ready)
    return child, answer


def run(*arguments):
    try:
        return subprocess.run([waymark, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 124, "", "timed out")


def is_recorded(way, done):
    if done.returncode:
        return False
    watches = json.loads(done.stdout)["watch"]
    return not watches or watches[0]["way"] == way.split()[-1]


def verdicts_of(pid):
    findings = json.loads(run("doctor", "--json", "-p", str(pid)).stdout)["check"]
    return {finding["name"]: finding for finding in findings}


def agrees(verdict, works, done):
    """A limited way may be refused, for the limitation that doctor has named."""
    if verdict["state"] == "limited" and not works:
        return verdict["change"].split(";")[0] in done.stderr
    return verdict["state"] == "unknown" or works == (verdict["state"] in ("fine", "limited"))


def way_try(kind, way, verdicts):
    """A process for each way, so that none is recorded after another; doctor looks at the first."""
    restrict, *words = KINDS[kind]
    child, answer = start(restrict, words)
    try:
        if not answer.startswith("ready"):
            raise Impossible(answer)
        if "stop" in words:
            os.kill(child, signal.SIGSTOP)
            os.waitpid(child, os.WUNTRACED)
        if not verdicts:
            verdicts.update(verdicts_of(child))
        verdict = verdicts[way]
        shutil.rmtree("way.trace", ignore_errors=True)
        done = run("record", "--json", "-p", str(child), "-e", SPECS[way], "--for", "50ms", "-o",
                   "way.trace")
        works = is_recorded(way, done)
        ended = os.waitpid(child, os.WNOHANG)[0]
    finally:
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
    if not agrees(verdict, works, done) or ended:
        print(f"FAILED: {kind}: {way}: doctor: {verdict['state']}: {verdict['found']}; record: "
              f"{done.returncode}: {done.stderr.strip()}{'; it has ended' if ended else ''}")
        failures.append(kind)
    return f"{verdict['state']}/{'yes' if works else 'no'}"


failures = []
for kind in sys.argv[3:] or KINDS:
    said = {}
    try:
        print(f"{kind}: {' '.join(way_try(kind, way, said) for way in SPECS)}", flush=True)
    except Impossible as why:
        print(f"{kind}: cannot be made here: {why}", flush=True)
sys.exit(len(failures) > 0)
