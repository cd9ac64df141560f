#!/bin/bash
# SPDX-License-Identifier: MIT
# Live events through libwaymark's API; children that a process forks.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

cc -O2 -I"$source_dir/include" "$source_dir/tests/targets/follower.c" -o follower \
	-L"$WAYMARK_BUILD" -lwaymark -Wl,-rpath,"$WAYMARK_BUILD" || exit 1

./ticker 50 3 1000000 &
pid=$!
started+=("$pid")
sleep 0.2
timeout 60 ./follower $pid || fail "reading live"
kill -0 $pid || fail "the program is gone"

# What an attached process forks is recorded as well, also what is executed then.
cat >server.c <<'END'
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>
int main(void)
{
	for (int i = 0; i < 1000000; i++) {
		pid_t pid = fork();
		if (!pid) {
			WAYMARK(server, child, i);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		WAYMARK(server, parent, i);
		usleep(2000);
	}
}
END
cc -O2 -I"$source_dir/include" server.c -o server || exit 1
./server &
server=$!
started+=("$server")
sleep 0.2
run 0 --json --for 1s -o forks -p $server
expect "forks: discarded" "$(json discarded)" 0
"$waymark" dump forks >dump
parents=$(grep -c server:parent dump)
children=$(grep -c server:child dump)
[ "$parents" -gt 5 ] || fail "forks: only $parents events of the parent"
# at the start and the end one may be missing
[ $((parents - children)) -le 2 ] && [ $((children - parents)) -le 2 ] ||
	fail "forks: $parents events of the parent, $children of its children"
run 0 --json --no-follow --for 300ms -e server:parent -o nofork -p $server
"$waymark" dump nofork | grep -q server:child && fail "--no-follow recorded children"

exit $failed
