#!/bin/bash
# SPDX-License-Identifier: MIT
# A recorded program writes into its channel what no engine would: that another process, which is
# not recorded, is its child, or asks for something. The tool leaves that process alone. Or numbers
# that no thread reaches: the tool ends all the same. Or where its threads are to go: they do not.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
forged=$WAYMARK_BUILD/tests/targets/engine/engine-forged
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

# is_no_child REQUEST
is_no_child()
{
	asks "$1" 0
	grep -q '1 child process went on unrecorded' words || fail "$1: it is not counted: $(cat words)"
	"$waymark" dump forged --trails >dump 2>&1
	grep -qw "$other" dump && fail "$1: a process that is no child is in the trace"
}

# At the end the tool leads it out of a call, by the places that it copied at the start.
places()
{
	rm -rf forged out
	"$forged" 1 places <input >out &
	forger=$!
	exec 7>input
	await_running "$forger"
	timeout 100 "$waymark" record -e trail/soft/ -o forged -p "$forger" >/dev/null 2>words &
	recorder=$!
	await [ -s out ] || fail "places: it is not recorded: $(cat words)"
	kill -TERM "$recorder"
	wait "$recorder" || fail "places: $(cat words)"
	grep -q waymark-trail "/proc/$forger/maps" && fail "places: the engine stays: $(cat words)"
	exec 7>&-
	wait "$forger" || fail "places: the program ended with status $?"
}
places

# A daemon of another user's that holds what it was sent is no child, and gets no signal.
signals()
{
	rm -rf forged out
	chmod 755 .
	cp "$forged" sender
	timeout 100 "$waymark" record -e trail/soft,last=4M/ -o forged -- \
		setpriv --reuid 65534 --clear-groups ./sender 0 signal <input >out 2>words &
	recorder=$!
	exec 7>input
	await [ -s out ] || fail "signal: it makes no memfd: $(cat words)"
	sleep 1000 7>&- 8<>"$(cat out)" &
	other=$!
	echo "$other" >&7
	await grep -qx '[0-9][0-9]*' out || fail "signal: no answer: $(cat words)"
	expect "signal: the answer" "$(tail -n 1 out)" 2
	kill -0 "$other" || fail "signal: a process that is not recorded was ended"
	exec 7>&-
	wait "$recorder" || fail "signal: $(cat words)"
	grep -q '1 child process went on unrecorded' words || fail "signal: $(cat words)"
	kill -9 "$other"
}
[ "$(id -u)" != 0 ] || signals

has_zombie()
{
	grep -q '^State:.Z' "/proc/$(pgrep -P "$1")/status"
}

others=(user)
[ "$(id -u)" != 0 ] || others+=(nobody)
for who in "${others[@]}"; do
	as=()
	[ "$who" = user ] || as=(setpriv --reuid 65534 --clear-groups)
	"${as[@]}" sh -c 'true & exec sleep 1000' &
	other=$!
	await grep -q sleep "/proc/$other/comm"
	await has_zombie "$other"
	asks exec 5
	asks trace 2
	is_no_child child
	is_no_child borrows
	# the number of one that has ended
	parent=$other
	other=$(pgrep -P "$parent")
	is_no_child child
	other=$parent
	asks segments 0
	"$waymark" dump forged | grep -q trail:lost || fail "segments: nothing is lost"
	kill -STOP "$other"
	await grep -q '^State:.T' "/proc/$other/status"
	before=$(grep '^SigBlk' "/proc/$other/status")
	asks trace 2
	expect "its blocked signals" "$(grep '^SigBlk' "/proc/$other/status")" "$before"
	kill -9 "$other"
done
exit "$failed"
