#!/bin/bash
# SPDX-License-Identifier: MIT
# Two recordings of one word: both see each hit, whichever ends first, and however.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
needs breakpoint-access

four=(-e watch:in_turn -e watch:counted -e watch:raced -e watch:small)
start ./watched forever 0 4 >forever_out
program=$pid
await_running "$program"

# holder NAME COUNT ARGUMENT...: a recording of so many registers, in the background; its pid in $holder once it is armed
holder()
{
	local name=$1 count=$2
	shift 2
	rm -rf "$name"
	"$waymark" record --json -o "$name" "${four[@]:0:2*count}" "$@" -p "$program" >"$name.out" 2>"$name.words" &
	holder=$!
	await holds "$count" || fail "$name: not armed: $(cat "$name.words")"
}

holds()
{
	[ "$("$waymark" claims -p "$program" | grep -c "^debug-register .* 1  *4  *waymark  *$holder ")" -ge "$1" ]
}

# one KEY: the number in ./out of its only watch
one() { json "$1"; }

# values DIR: what was written, a line each
values() { field_values "$1" in_turn new; }

# gaps DIR: how often a value is not the one before and 1
gaps() { values "$1" | awk 'NR > 1 && $1 != last + 1 { n++ } { last = $1 } END { print n + 0 }'; }

# Each has a register of its own, and both see each hit. The one who came second leaves first.
holder first 3 --for 60s
rm -rf second
"$waymark" record --json -o second --for 1s -e watch:in_turn -p "$program" >out 2>words ||
	fail "the second: $(cat words)"
[ "$(one recorded)" -gt 100 ] || fail "the second recorded $(one recorded) hits: $(cat words)"
expect "the second: missed" "$(one missed)" 0
expect "all hits between its first and its last" "$(gaps second)" 0
chain second in_turn
kill -TERM "$holder"
wait "$holder"
grep -q lost first.words || fail "the first: $(cat first.words)"
cp first.out out
expect "the first: missed" "$(sed 's/"missed":0//g' out | grep -c '"missed"')" 0
expect "the first's hits, one after the other" "$(gaps first)" 0
values first >first.values
expect "what the second recorded and not the first" "$(values second | grep -vxFc -f first.values)" 0

# None is free: the second is refused, also for the word that the first watches, by the holder's name.
holder first 4 --for 60s
for what in in_turn narrow; do
	bad 1 "not enough debug registers are free" -e "watch:$what" -p "$program"
	says "waymark $holder holds 4"
done
kill -TERM "$holder"
wait "$holder" || fail "the holder: $(cat first.words)"

# One store is one signal, which may be for an ended watch.
start ./watched hot 0 8 >hot_out
racer=$pid
await_running "$racer"
for round in $(seq 6); do
	rm -rf second
	"$waymark" record --json -o second -e watch:raced -p "$racer" >out 2>words &
	second=$!
	await_event second watch:raced
	for ends in 1 2 3; do
		rm -rf first
		"$waymark" record -o first -e watch:raced --for 50ms -p "$racer" >first.out 2>&1 ||
			fail "round $round.$ends: $(cat first.out)"
	done
	kill -TERM "$second"
	wait $second || fail "round $round: $(cat words)"
	expect "round $round: missed beside another watch" "$(one missed)" 0
done
ends_well "$racer" hot_out

# Either is killed at any moment: nothing is left behind, and the program continues.
for round in $(seq 12); do
	holder first 3 --for 60s
	rm -rf second
	"$waymark" record --json -o second --for 5s -e watch:in_turn -p "$program" >out 2>words &
	second=$!
	sleep "0.$(printf '%03d' $((RANDOM % 500)))" # any moment, up to where it records
	victim=$holder
	[ $((round % 2)) = 0 ] || victim=$second
	kill -9 "$victim"
	sleep 0.3 # the other records meanwhile
	[ -d "/proc/$program" ] || {
		fail "round $round: the program is dead"
		break
	}
	kill -9 "$holder" "$second" 2>/dev/null
	wait "$holder" "$second" 2>/dev/null
done
has_claims() { [ "$("$waymark" claims -p "$program" | grep -c "^debug register")" -gt 0 ]; }
await ! has_claims || fail "claims are left: $("$waymark" claims -p "$program")"
holder after 4 --for 500ms
wait "$holder" || fail "afterwards: $(cat after.words)"
ends_well "$program" forever_out
exit $failed
