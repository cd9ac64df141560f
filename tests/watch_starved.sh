#!/bin/bash
# SPDX-License-Identifier: MIT
# A kernel event that was taken and had no register for a while counts nothing then: that is reported, as no count shows it. No kernel
# is known to do so to order, so what it says of one event's time is bent on the way.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

cat >bent.c <<'C'
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
/* The first breakpoint that is read: it ran, by the kernel's count, half of the time. */
ssize_t read(int fd, void *to, size_t bytes)
{
	static int bent = -1;
	ssize_t got = syscall(SYS_read, fd, to, bytes);
	uint64_t *count = to;
	char name[64], path[64] = "/proc/self/fd/";
	char *end = path + strlen(path);

	if (got != 24 || bytes != 24 || (bent >= 0 && bent != fd))
		return got;
	*end++ = '0' + fd / 100 % 10, *end++ = '0' + fd / 10 % 10, *end++ = '0' + fd % 10;
	while (path[14] == '0')
		memmove(path + 14, path + 15, strlen(path + 14));
	got = readlink(path, name, sizeof(name) - 1);
	if (got > 0 && (name[got] = 0, strstr(name, "perf_event")) && count[1]) {
		bent = fd;
		count[2] = count[1] / 2;
	}
	return 24;
}
C
cc -O1 -shared -fPIC bent.c -o bent.so || exit 1

# bent COMMAND...: with the kernel's words bent, for the command and not for what it starts
bent()
{
	# a tool built for a sanitizer wants to be asked
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 LD_PRELOAD=$folder/bent.so timeout 60 "$waymark" "$@"
}

./watched turn 100 8 >/dev/null # warm
"$waymark" watch --json -e in_turn -- ./watched turn 100 8 >straight 2>words || fail "$(cat words)"
expect "starved, as it is" "$(grep -o "\"starved\":[0-9]*" straight)" '"starved":0'
bent watch --json -e in_turn -- ./watched turn 100 8 >out 2>words || fail "watch: $(cat words)"
expect "starved" "$(grep -o "\"starved\":[0-9]*" out)" '"starved":1'
bent watch -e in_turn -- ./watched turn 100 8 >out 2>words || fail "watch: $(cat words)"
grep -q "watch:in_turn: 800 hits; 1 kernel event had no debug register for some time: hits may be missing" words ||
	fail "watch: $(cat words)"
bent record -o into -e watch:in_turn -- ./watched turn 100 8 >out 2>words || fail "record: $(cat words)"
grep -q "watch:in_turn: 800 hits; 1 kernel event had no debug register for some time: hits may be missing" words ||
	fail "record: $(cat words)"
rm -rf into
bent record --json -o into -e watch:in_turn -- ./watched turn 100 8 >out 2>words || fail "record: $(cat words)"
grep -q '"starved":1' out || fail "record --json: $(cat out)"
exit $failed
