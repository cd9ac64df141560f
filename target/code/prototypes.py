#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
List the functions that the system's headers declare, and the constants that they take.

prototypes.py COMPILER...    compiler and its options: COMPILER -E -dD prototype_headers.h

Prints C for target/code/prototype.c, which says what the rows mean: functions, sorted by name, and
constants, whose values the compiler computes. Headers say which types there are, and not
which constants a parameter takes, or what a function returns when it fails: the tables here do.
"""

import fnmatch
import re
import subprocess
import sys

# Constants, by the name of their set. Globs take what the headers define, except "-GLOB"; the first
# name of a value wins, and a flag of several bits comes before these. MASK: these bits are one number,
# the others are flags; 0: all are flags; None: a number.
SETS = {
    "open": ("O_ACCMODE", "O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_SYNC "
             "O_TMPFILE O_*"),
    "dirfd": (None, "AT_FDCWD"),
    "at": ("0", "AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH"),
    "access": ("0", "F_OK R_OK W_OK X_OK"),
    "mode": ("S_IFMT", "S_IFREG S_IFDIR S_IFCHR S_IFBLK S_IFIFO S_IFLNK S_IFSOCK S_ISUID S_ISGID S_ISVTX "
             "S_IRWXU S_IRUSR S_IWUSR S_IXUSR S_IRWXG S_IRGRP S_IWGRP S_IXGRP S_IRWXO S_IROTH S_IWOTH S_IXOTH"),
    "fcntl": (None, "F_DUPFD F_GETLK F_SETLK F_SETLKW F_[GS]ET* F_OFD_* F_NOTIFY F_ADD_SEALS F_DUPFD_CLOEXEC"),
    "whence": (None, "SEEK_*"),
    "flock": ("0", "LOCK_SH LOCK_EX LOCK_NB LOCK_UN"),
    "lockf": (None, "F_ULOCK F_LOCK F_TLOCK F_TEST"),
    "fadvise": (None, "POSIX_FADV_*"),
    "prot": ("0", "PROT_*"),
    "map": ("MAP_TYPE", "MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE MAP_* -MAP_TYPE -MAP_FAILED -MAP_FILE -MAP_HUGE_*"),
    "mremap": ("0", "MREMAP_*"),
    "madvise": (None, "MADV_*"),
    "msync": ("0", "MS_ASYNC MS_INVALIDATE MS_SYNC"),
    "mlockall": ("0", "MCL_*"),
    "memfd": ("0", "MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB"),
    "domain": (None, "AF_UNIX AF_* -AF_MAX"),
    "socket": ("0xf", "SOCK_*"),
    "level": (None, "SOL_SOCKET SOL_TCP SOL_IP SOL_IPV6 SOL_UDP SOL_*"),
    "message": ("0", "MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_* -MSG_NOERROR -MSG_EXCEPT -MSG_COPY -MSG_STAT* -MSG_INFO"),
    "shutdown": (None, "SHUT_*"),
    "signal": (None, "SIGABRT SIGCHLD SIGIO SIG[A-Z]* -SIGRT* -SIGSTKSZ -SIGEV* -SIGUNUSED"),
    "mask": (None, "SIG_BLOCK SIG_UNBLOCK SIG_SETMASK"),
    "wait": ("0", "WNOHANG WUNTRACED WCONTINUED WEXITED WNOWAIT"),
    "clock": (None, "CLOCK_*"),
    "timer": ("0", "TIMER_ABSTIME"),
    "itimer": (None, "ITIMER_*"),
    "rlimit": (None, "RLIMIT_* -RLIMIT_NLIMITS"),
    "rusage": (None, "RUSAGE_*"),
    "epoll": (None, "EPOLL_CTL_*"),
    "epoll_flags": ("0", "EPOLL_CLOEXEC"),
    "eventfd": ("0", "EFD_*"),
    "timerfd": ("0", "TFD_CLOEXEC TFD_NONBLOCK"),
    "timerfd_set": ("0", "TFD_TIMER_*"),
    "signalfd": ("0", "SFD_*"),
    "inotify": ("0", "IN_CLOEXEC IN_NONBLOCK"),
    "inotify_mask": ("0", "IN_* -IN_CLOEXEC -IN_NONBLOCK -IN_CLOSE -IN_MOVE -IN_ALL_EVENTS -IN_CLASS* -IN_LOOPBACKNET"),
    "random": ("0", "GRND_*"),
    "dlopen": ("RTLD_BINDING_MASK", "RTLD_LAZY RTLD_NOW RTLD_NOLOAD RTLD_DEEPBIND RTLD_GLOBAL RTLD_NODELETE"),
    "sysconf": (None, "_SC_*"),
    "pathconf": (None, "_PC_*"),
    "locale": (None, "LC_[A-Z]* -LC_*_MASK -LC_GLOBAL_LOCALE"),
    "prctl": (None, "PR_[GS]ET_[A-Z]* PR_CAPBSET_* -PR_SET_MM_* -PR_SET_PTRACER_ANY"),
    "unshare": ("0", "CLONE_*"),
    "ipc": ("0", "IPC_CREAT IPC_EXCL IPC_NOWAIT"),
    "errno": (None, "E[A-Z0-9]* -EOF -EXIT_* -EPOLL* -ECHO* -EFD_* -EXT* -ERA* -EAI_*"),
}

# The parameters, from 1, that take constants of a set. A function may be a glob.
USES = {
    "open": "open:2 open64:2 openat:3 openat64:3 pipe2:2 dup3:3 mq_open:2 shm_open:2 sem_open:2",
    "dirfd": "*at:1 *at64:1 renameat2:1 execveat:1",
    "at": "faccessat:4 fstatat:4 fstatat64:4 fchmodat:4 fchownat:5 linkat:5 unlinkat:3 "
          "utimensat:4 statx:3 execveat:5",
    "access": "access:2 faccessat:3 eaccess:2 euidaccess:2",
    "mode": "creat:2 creat64:2 chmod:2 fchmod:2 lchmod:2 fchmodat:3 mkdir:2 mkdirat:3 mkfifo:2 "
            "mkfifoat:3 mknod:2 mknodat:3 umask:1 shm_open:3",
    "fcntl": "fcntl:2 fcntl64:2",
    "whence": "lseek:3 lseek64:3 fseek:3 fseeko:3 fseeko64:3",
    "flock": "flock:2", "lockf": "lockf:2 lockf64:2", "fadvise": "posix_fadvise:4 posix_fadvise64:4",
    "prot": "mmap:3 mmap64:3 mprotect:3 pkey_mprotect:3", "map": "mmap:4 mmap64:4",
    "mremap": "mremap:4", "madvise": "madvise:3", "msync": "msync:3", "mlockall": "mlockall:1",
    "memfd": "memfd_create:2",
    "domain": "socket:1 socketpair:1 inet_ntop:1 inet_pton:1 gethostbyname2:2",
    "socket": "socket:2 socketpair:2 accept4:4", "level": "setsockopt:2 getsockopt:2",
    "message": "send:4 sendto:4 sendmsg:3 sendmmsg:4 recv:4 recvfrom:4 recvmsg:3 recvmmsg:4",
    "shutdown": "shutdown:2",
    "signal": "kill:2 killpg:2 raise:1 tgkill:3 pthread_kill:2 sigaction:1 signal:1 sigqueue:2 "
              "sigaddset:2 sigdelset:2 sigismember:2 siginterrupt:1 strsignal:1 psignal:1",
    "mask": "sigprocmask:1 pthread_sigmask:1", "wait": "waitpid:3 wait3:2 wait4:3 waitid:4",
    "clock": "clock_gettime:1 clock_settime:1 clock_getres:1 clock_nanosleep:1 timerfd_create:1 "
             "timer_create:1",
    "timer": "clock_nanosleep:2 timer_settime:2", "itimer": "setitimer:1 getitimer:1",
    "rlimit": "getrlimit:1 getrlimit64:1 setrlimit:1 setrlimit64:1 prlimit:2 prlimit64:2",
    "rusage": "getrusage:1", "epoll": "epoll_ctl:2", "epoll_flags": "epoll_create1:1",
    "eventfd": "eventfd:2", "timerfd": "timerfd_create:2", "timerfd_set": "timerfd_settime:2",
    "signalfd": "signalfd:3", "inotify": "inotify_init1:1", "inotify_mask": "inotify_add_watch:3",
    "random": "getrandom:3", "dlopen": "dlopen:2 dlmopen:3", "sysconf": "sysconf:1",
    "pathconf": "pathconf:2 fpathconf:2", "locale": "setlocale:1", "prctl": "prctl:1",
    "unshare": "unshare:1 setns:2", "ipc": "shmget:3 semget:3 msgget:2",
    "errno": "strerror:1 strerror_r:1 strerrorname_np:1 strerrordesc_np:1",
}

# Headers whose functions return -1, or NULL, and set errno when they fail; others that do; and
# functions of these headers that do not, or not always.
SETS_ERRNO = re.compile(r"/(aio|dirent|fcntl|mqueue|poll|sched|semaphore|signal|termios|unistd|utime"
                        r"|sys/\w+|bits/(mman|sched|fcntl|stat|types/stack)\w*|bits/\w+_ext)\.h$")
SETS_ERRNO_TOO = set("""fopen fopen64 freopen fdopen fclose fflush fseek fseeko ftell ftello fgetpos
    fsetpos popen pclose rename renameat renameat2 remove tmpfile mkstemp mkostemp mkdtemp realpath
    putenv setenv unsetenv nanosleep clock_gettime clock_settime clock_getres timer_create
    timer_settime timer_gettime timer_delete if_nameindex getifaddrs iconv_open setgroups initgroups
    gethostname sethostname getrandom getentropy""".split())
SETS_NO_ERRNO = set("""getopt sysconf pathconf fpathconf getpriority nice confstr ctermid
    getpass sigismember sigandset sigorset sigisemptyset gnu_dev_makedev aio_error aio_return signal
    wcswidth swab crypt getlogin""".split())
# The result is an error's number, or 0.
RETURNS_ERROR = re.compile(r"pthread_(?!self|equal|getspecific|getconcurrency)\w+|posix_(spawn\w*"
                           r"|fadvise\w*|fallocate\w*|memalign|madvise)|clock_nanosleep|ttyname_r"
                           r"|getlogin_r|getpw\w+_r|getgr\w+_r")

# Letters of types, as prototype.c reads them.
INTEGERS = {("char", 0): "b", ("char", 1): "B", ("short", 0): "h", ("short", 1): "H",
            ("int", 0): "i", ("int", 1): "I", ("long", 0): "l", ("long", 1): "L"}
WORDS = {"char", "short", "int", "long", "signed", "__signed__", "unsigned"}
DROPPED = {"const", "volatile", "restrict", "__restrict", "__restrict__", "extern", "__extension__",
           "__inline", "__inline__", "inline", "__const", "static", "register", "_Noreturn"}


def preprocessed(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    header, text, defined = "", [], []
    for line in done.stdout.splitlines():
        if match := re.match(r'# \d+ "([^"]*)"', line):
            header = match[1]
        elif match := re.match(r"#define (\w+)(\(?)", line):
            if not match[2]:
                defined.append(match[1])
        elif not line.startswith("#"):
            text.append((header, line))
    return text, list(dict.fromkeys(defined))


def statements(lines):
    """Those of the top level: the header that each ends in, and its words, without attributes."""
    words, depth, skipped = [], 0, 0
    for header, line in lines:
        for word in re.findall(r'\w+|\.\.\.|"[^"]*"|\S', line):
            if skipped:  # inside of an attribute's parentheses: 1 is before them
                skipped += {"(": 1, ")": -1}.get(word, 0)
                if word == ")" and skipped == 1:
                    skipped = 0
                if word.strip("_") == "transparent_union":
                    words.append("*")  # passed as its first member is: a pointer
                continue
            if word in ("__attribute__", "__asm__", "__asm", "__attribute"):
                skipped = 1
                continue
            depth += {"{": 1, "}": -1}.get(word, 0)
            if word == ";" and not depth:
                yield header, words
                words = []
            elif word == "}" and not depth and words and words[0] not in ("typedef", "struct", "union", "enum"):
                words = []  # a function's body
            else:
                words.append(word)


def split(words):
    """Parameters: divided at the commas of the top level."""
    parts, depth = [[]], 0
    for word in words:
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(word, 0)
        if word == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


class Types:
    def __init__(self):
        self.known = {"__builtin_va_list": "p", "_Bool": "?", "float": "f", "double": "d", "void": "v",
                      "_Float32": "f", "_Float64": "d", "_Float32x": "d"}

    def typedef(self, words):
        if "(" in words and "{" not in words:
            star = [i for i, word in enumerate(words) if word == "*" and words[i - 1] == "("]
            if star and re.match(r"\w", words[star[0] + 1]):
                self.known[words[star[0] + 1]] = "p"
        elif words[-1] == "]":
            self.known[words[words.index("[") - 1]] = "p"
        elif words[-1] == "*":  # a transparent union
            self.known[words[-2]] = "p"
        elif "{" in words:
            self.known[words[-1]] = "I" if words[1] == "enum" else ""
        else:
            self.known[words[-1]] = self.letter(words[1:-1])

    def letter(self, words):
        """The type's letter, "" for one that is left out."""
        plain = [word for word in words if word not in DROPPED]
        if "*" in plain:
            return "s" if words.count("*") == 1 and "const" in words and plain[0] == "char" else "p"
        if plain and plain[0] == "enum":
            return "I"
        if plain and all(word in WORDS for word in plain):
            if plain == ["char"]:
                return "c"
            base = next((w for w in ("char", "short", "long") if w in plain), "int")
            return INTEGERS[base, int("unsigned" in plain)]
        return self.known.get(plain[0], "") if len(plain) == 1 else ""

    def parameter(self, words, number):
        """Name and letter."""
        if "(" in words:  # a pointer to a function
            names = re.findall(r"\( \* (?:__restrict )?(\w+)", " ".join(words))
            return (names[0] if names else ""), "p"
        if "[" in words:
            return words[words.index("[") - 1], "p"
        if len(words) > 1 and re.match(r"\w", words[-1]) and words[-1] not in DROPPED \
                and words[-1] not in WORDS and words[-1] not in self.known \
                and words[-2] not in ("struct", "enum", "union"):
            return words[-1], self.letter(words[:-1])
        return f"arg{number}", self.letter(words)


def constants_of(globs, defined):
    names = []
    wanted = [glob for glob in globs.split() if glob[0] != "-"]
    refused = [glob[1:] for glob in globs.split() if glob[0] == "-"]
    for glob in wanted:
        names += [name for name in defined if fnmatch.fnmatchcase(name, glob)
                  and not any(fnmatch.fnmatchcase(name, other) for other in refused)]
    return list(dict.fromkeys(names))


def set_of(function, number):
    for name, uses in USES.items():
        for use in uses.split():
            glob, at = use.split(":")
            if int(at) == number and fnmatch.fnmatchcase(function, glob):
                return "=" + name
    return ""


def failure(function, result, header):
    """What the result says of an error: "-" is -1 with errno, "0" NULL with errno, "=errno"."""
    if RETURNS_ERROR.fullmatch(function) and result == "i":
        return "=errno"
    if function in SETS_NO_ERRNO or not (SETS_ERRNO.search(header) or function in SETS_ERRNO_TOO):
        return ""
    if function in ("mmap", "mmap64", "mremap", "shmat", "sbrk", "sem_open"):
        return "0" if function == "sem_open" else "-"
    return {"i": "-", "l": "-", "p": "0", "s": "0"}.get(result, "")


def row(types, header, words):
    """A function's row, or None."""
    if words[0] != "extern" or "(" not in words or words[-1] != ")" or "{" in words:
        return None
    opened = words.index("(")
    function = words[opened - 1]
    if function.startswith("_") or re.search(r"(f|_)(16|32|64|128)x?$", function) or words[opened + 1] == "*":
        return None
    result = types.letter(words[1:opened - 1])
    parts = split(words[opened + 1:-1])
    parts = [] if parts == [["void"]] else [part for part in parts if part != ["..."]]
    fields = [f"{function} {result}{failure(function, result, header)}"]
    integers = 0
    for number, part in enumerate(parts, 1):
        name, letter = types.parameter(part, number)
        if letter == "s" and re.match(r"(str|stp|wcs)n|strxfrm|memccpy", function):
            letter = "p"  # no NUL may end it
        if not letter or letter == "v":
            return None
        integers += letter not in "fd"
        fields.append(f"{name.lstrip('_')}:{letter}{set_of(function, number)}")
    if not result or integers > 6 or len(parts) - integers > 8:
        return None
    return function, " ".join(fields)


def main():
    lines, defined = preprocessed(sys.argv[1:])
    types, rows = Types(), {}
    for header, words in statements(lines):
        if len(words) < 2:
            continue
        if words[0] == "typedef" or words[:2] == ["__extension__", "typedef"]:
            types.typedef(words[words.index("typedef"):])
        elif found := row(types, header, words):
            rows.setdefault(*found)
    print("static const char *const rows[] = {")
    for name in sorted(rows):
        print(f'\t"{rows[name]}",')
    print("};\n\nstatic const struct constant constants[] = {")
    for name, (mask, globs) in SETS.items():
        flags = "0" if mask is None else f"~(uint64_t)({mask})"
        print(f'\t{{ "={name}", {flags} }},')
        for constant in constants_of(globs, defined):
            print(f'\t{{ "{constant}", (uint64_t){constant} }},')
    print("};")


if __name__ == "__main__":
    main()
