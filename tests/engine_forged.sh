#!/bin/bash
# SPDX-License-Identifier: MIT
# A recorded program writes into the channel that another process, which is not recorded, is its
# child and asks for something. The tool leaves that process alone. It takes no process of another
# user for a child.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
forged=$WAYMARK_BUILD/tests/targets/engine/engine-forged

sleep 1000 &
other=$!
mkfifo input

# asks REQUEST ANSWER
asks()
{
	rm -rf forged out
	timeout 100 "$waymark" record -e trail/soft,last=4M/ -o forged -- "$forged" "$other" "$1" \
		<input >out 2>words &
	recorder=$!
	exec 7>input
	await [ -s out ] || fail "$1: no answer: $(cat words)"
	expect "$1: the answer" "$(cat out)" "$2"
	is_traced "$other" && fail "$1: a process that is not recorded is traced"
	exec 7>&-
	wait "$recorder" || fail "$1: $(cat words)"
}

asks exec 5
kill -STOP "$other"
await grep -q '^State:.T' "/proc/$other/status"
before=$(grep '^SigBlk' "/proc/$other/status")
asks lead 3
expect "its blocked signals" "$(grep '^SigBlk' "/proc/$other/status")" "$before"
kill -9 "$other"

if [ "$(id -u)" = 0 ]; then
	setpriv --reuid 65534 --clear-groups sleep 1000 &
	other=$!
	await grep -q '^Uid:.65534' "/proc/$other/status"
else
	other=1
fi
asks exec 0
grep -q '1 child process went on unrecorded' words || fail "another user's process: $(cat words)"
"$waymark" dump forged --trails >dump 2>&1
grep -qw "$other" dump && fail "another user's process is in the trace"
[ "$other" = 1 ] || kill -9 "$other"
exit "$failed"
