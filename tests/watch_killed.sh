#!/bin/bash
# SPDX-License-Identifier: MIT
# The recorder is killed at any moment: the program continues untouched, and can be watched again.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

start ./watched forever 0 4 >forever_out
program=$pid
await_running "$program"
for round in $(seq 25); do
	rm -rf killed
	"$waymark" record -o killed -e watch:counted -e watch:in_turn -p "$program" >/dev/null 2>&1 &
	tool=$!
	sleep "0.$(printf '%03d' $((RANDOM % 300)))" # any moment, up to where it records
	kill -9 "$tool" 2>/dev/null
	wait "$tool" 2>/dev/null
	[ -d "/proc/$program" ] || {
		fail "round $round: the program is dead"
		break
	}
done
await ! has_agent "$program" || fail "the agent does not miss the last recorder"
watches again 0 --for 300ms -e watch:counted -e watch:in_turn -p "$program"
[ "$(json recorded)" -gt 10 ] || fail "again: $(cat words)"
expect "again: missed" "$(json missed)" 0
# one after the other, beside each other
for _ in 1 2 3; do
	watches again 0 --for 100ms -e watch:counted -p "$program"
done
"$waymark" record -o beside --for 600ms -e watch:counted -p "$program" >/dev/null 2>&1 &
beside=$!
watches again 0 --for 200ms -e watch:counted -p "$program"
wait "$beside" || fail "two recorders of one variable"
expect "beside another: missed" "$(json missed)" 0
await ! has_trap "$program" SigCgt || fail "a handler for SIGTRAP is left"
ends_well "$program" forever_out
exit $failed
