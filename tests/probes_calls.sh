#!/bin/bash
# SPDX-License-Identifier: MIT
# Calls of libc's functions, by what its headers say of them: arguments, constants, errors, one line a call.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# calls TRACE OPTION...: the lines of its events, without time, thread and duration
calls()
{
	"$waymark" dump "${@:2}" "$1" | sed -E 's/^.*\) [^ ]+-[0-9]+ [0-9]+ //; s/ <[0-9.]+>$//'
}

cc -O2 "$probes_dir/failing.c" -o failing || exit 1
specs=()
for name in open lseek fstatat mkdir mmap mprotect socket opendir kill pthread_kill close; do
	specs+=(-e "func:$name@libc.so.6/args,ret/")
done
run 0 --json -o failed "${specs[@]}" -- ./failing
calls failed | sed -E 's/0x[0-9a-f]{9,}/0x/; s/kill\([0-9]+/kill(N/' >got
cat >wanted <<'END'
libc:open("/none", O_RDONLY|O_CLOEXEC) = -1 ENOENT
libc:open("/dev/null", O_WRONLY|O_APPEND|O_SYNC) = 3
libc:open("/", O_RDWR|0x40000000) = -1 EISDIR
libc:lseek(-1, 1099511627776, SEEK_CUR) = -1 EBADF
libc:fstatat(AT_FDCWD, "/none", 0x, AT_SYMLINK_NOFOLLOW) = -1 ENOENT
libc:mkdir("/none/at/all", S_IRWXU|S_IRGRP|S_IXGRP|S_IROTH|S_IXOTH) = -1 ENOENT
libc:mkdir("/none/at/all", 0) = -1 ENOENT
libc:mmap(0x0, 0, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x EINVAL
libc:mprotect(0x0, 0, PROT_NONE) = 0
libc:socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 99) = -1 EPROTONOSUPPORT
libc:opendir("/none") = 0x0 ENOENT
libc:kill(N, 0) = 0
libc:kill(N, SIGCHLD) = 0
libc:pthread_kill(N, 99) = EINVAL
libc:close(3) = 0
libc:close(3) = -1 EBADF
END
cmp -s wanted got || fail "calls: $(diff wanted got)"

exit "$failed"
