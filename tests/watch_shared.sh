#!/bin/bash
# SPDX-License-Identifier: MIT
# No register is free, and another recording has one on the very word: both see each hit, whichever ends first, and however.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
needs breakpoint-access

four=(-e watch:in_turn -e watch:counted -e watch:raced -e watch:small)
start ./watched forever 0 4 >forever_out
program=$pid
await_running "$program"

# holder NAME ARGUMENT...: a recording of all four registers, in the background; its pid in $holder once it is armed
holder()
{
	local name=$1
	shift
	rm -rf "$name"
	"$waymark" record --json -o "$name" "${four[@]}" "$@" -p "$program" >"$name.out" 2>"$name.words" &
	holder=$!
	await holds_all || fail "$name: not armed: $(cat "$name.words")"
}

holds_all()
{
	[ "$("$waymark" claims -p "$program" | grep -c "^debug register .* 1 of 4 .* waymark $holder ")" -ge 4 ]
}

# sharer ARGUMENT...: a recording that shares the holder's register, in the background; its pid in $second once it records hits
sharer()
{
	rm -rf second
	"$waymark" record --json -o second "$@" -e watch:in_turn -p "$program" >out 2>words &
	second=$!
	await second_has "shares" || fail "the ledger: $(cat claimed)"
	await_event second watch:in_turn
}

# second_has TEXT: a claim of the second's is one with that text; what the ledger has is in ./claimed
second_has()
{
	"$waymark" claims -p "$program" >claimed
	grep -q "^debug register .* $1 .* waymark $second " claimed
}

# one KEY: the number in ./out of its only watch
one() { json "$1"; }

# values DIR: what was written, a line each
values() { field_values "$1" in_turn new; }

# has_more_values DIR COUNT: from the first on so many were written
has_more_values()
{
	values "$1" | awk -v most="$2" 'NR == 1 { first = $1 } { last = $1 } END { exit last - first > most ? 0 : 1 }'
}

# gaps DIR: how often a value is not the one before and 1; how often it is not greater
gaps() { values "$1" | awk 'NR > 1 && $1 != last + 1 { n++ } { last = $1 } END { print n + 0 }'; }
backward() { values "$1" | awk 'NR > 1 && $1 <= last { n++ } { last = $1 } END { print n + 0 }'; }

# gaps_ns DIR LAST: at least so long it is from what is missing first to what is missing last, up to that value
gaps_ns()
{
	"$waymark" dump "$1" | sed -n 's/^\[\(..\):\(..\):\([^]]*\)\].* watch:in_turn: .* new = \([^,}]*\).*/\1 \2 \3 \4/p' |
		awk -v most="$2" '$4 > most { next } { at = $1 * 3600 + $2 * 60 + $3 } NR > 1 && $4 != last + 1 { if (!n++) from = at; to = was }
			{ last = $4; was = at } END { printf "%.0f\n", (to > from ? (to - from) * 1e9 : 0) }'
}

# Both at once. The one who came second leaves first.
holder first --for 60s
rm -rf second
"$waymark" record --json -o second --for 1s -e watch:in_turn -p "$program" >out 2>words &
second=$!
await second_has "shares" || fail "the ledger: $(cat claimed)"
wait $second || fail "who shares: $(cat words)"
[ "$(one recorded)" -gt 100 ] || fail "the second recorded $(one recorded) hits: $(cat words)"
expect "served by another" "$(one shared_registers)" 1
says "no debug register was free: 1 that waymark $holder holds served it"
expect "all hits between its first and its last" "$(gaps second)" 0
chain second in_turn
# none is free, and no recording watches that one
bad 1 "not enough debug registers are free" -e watch:narrow -p "$program"
says "waymark $holder holds 4"
# all or nothing: one of the two is another's, the other can't be had
bad 1 "not enough debug registers are free" -e watch:in_turn -e watch:narrow -p "$program"
# another kind of access is another watch
bad 1 "not enough debug registers are free" -e watch:in_turn:rw -p "$program"
kill -TERM "$holder"
wait "$holder"
grep -q lost first.words || fail "the first: $(cat first.words)"
cp first.out out
expect "the first: missed" "$(sed 's/"missed":0//g' out | grep -c '"missed"')" 0
expect "the first's hits, one after the other" "$(gaps first)" 0
values first >first.values
expect "what the second recorded and not the first" "$(values second | grep -vxFc -f first.values)" 0

# The holder leaves, then is killed: the other continues, with events of its own, and says what it can't know.
for how in leaves killed; do
	holder first --for 60s
	sharer
	[ $how = killed ] && kill -9 "$holder" || kill -TERM "$holder"
	wait "$holder" 2>/dev/null
	await second_has "1 of 4" || fail "$how: not taken over: $(cat claimed)"
	await has_more_values second 1000 || fail "$how: nothing comes once it is taken over"
	newest=$(values second | tail -1) # at its end its own events go one thread after another, too
	kill -TERM "$second"
	wait $second || fail "$how: $(cat words)"
	expect "$how: taken over" "$(one taken_over)" 1
	expect "$how: missed" "$(one missed)" 0
	[ "$(one alone_ns)" -gt 0 ] && [ "$(one alone_ns)" -lt 2000000000 ] || fail "$how: a gap of $(one alone_ns) ns"
	says "the other ended before, and its place was taken: what was hit in"
	# its events end one thread after another: there may be several gaps, all within the time that is reported
	[ "$(gaps_ns second "$newest")" -le "$(one alone_ns)" ] ||
		fail "$how: $(gaps second) gaps within $(gaps_ns second "$newest") ns, reported are $(one alone_ns)"
	expect "$how: values" "$(backward second)" 0
	has_more_values second 1000 || fail "$how: recorded from $(values second | head -1) to $(values second | tail -1)"
done

# Both have registers of their own. One store is one signal, which may be for an ended watch.
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

# Somebody else is faster: the watch is lost, and that is said.
cat >taker.c <<'END'
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static long word __attribute__((aligned(8)));
int main(int argc, char **argv)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT, .size = sizeof attr, .bp_type = HW_BREAKPOINT_W,
		.bp_addr = (unsigned long)&word, .bp_len = 8, .exclude_kernel = 1, .disabled = 1 };
	for (int held = 0; argc > 1 && held < 4;)
		held += syscall(SYS_perf_event_open, &attr, atoi(argv[1]), -1, -1, 0) >= 0;
	puts("taken");
	fflush(stdout);
	sleep(30);
}
END
cc taker.c -o taker || exit 1
holder first --for 60s
sharer --for 10s
./taker "$program" >taken &
taker=$!
kill -STOP "$second" # else it may be faster, where the other gets no processor just then
kill -9 "$holder"
await_text taken taken
kill -CONT "$second"
wait $second
says "taken away before the end: not enough debug registers are free"
[ "$(one recorded)" -gt 10 ] || fail "before it was lost: $(one recorded)"
kill -9 "$taker"
wait 2>/dev/null

# Either is killed at any moment: nothing is left behind, and the program continues.
for round in $(seq 12); do
	holder first --for 60s
	rm -rf second
	"$waymark" record --json -o second --for 5s -e watch:in_turn -p "$program" >out 2>words &
	second=$!
	sleep "0.$(printf '%03d' $((RANDOM % 500)))" # any moment, up to where it records
	victim=$holder
	[ $((round % 2)) = 0 ] || victim=$second
	kill -9 "$victim"
	sleep 0.3 # the other may take over meanwhile
	[ -d "/proc/$program" ] || {
		fail "round $round: the program is dead"
		break
	}
	kill -9 "$holder" "$second" 2>/dev/null
	wait "$holder" "$second" 2>/dev/null
done
has_claims() { [ "$("$waymark" claims -p "$program" | grep -c "^debug register")" -gt 0 ]; }
await ! has_claims || fail "claims are left: $("$waymark" claims -p "$program")"
holder after --for 500ms
wait "$holder" || fail "afterwards: $(cat after.words)"
ends_well "$program" forever_out
exit $failed
