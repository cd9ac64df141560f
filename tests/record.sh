#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record from end to end: nothing is lost unsaid, whatever ends the recording.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

# has_comm PID NAME: it executes that program by now
has_comm()
{
	[ "$(cat "/proc/$1/comm")" = "$2" ]
}

# Every policy: emitted = recorded + discarded, and both readers find what was recorded.
emitted=400002
for policy in discard block cyclic notify; do
	run 7 --policy $policy --buffer 1M --json -o "$policy" -- ./ticker 100000 4 1 7
	expect "$policy: recorded + discarded" $(($(json recorded) + $(json discarded))) $emitted
	expect "$policy: events in the trace" "$(events_in $policy)" "$(json recorded)"
	[ $policy != block ] || expect "block: discarded" "$(json discarded)" 0
done

# A burst that a flight recorder has overwritten but for its last moments has the share of its rate.
cc -x c -O1 -I"$source_dir/include" -o bursts - -lpthread <<'END' || exit 1
#include <pthread.h>
#include <unistd.h>
#include <waymark/marker.h>
static void *burst(void *unused)
{
	for (long i = 0; i < 300000; i++)
		WAYMARK(rates, burst, i);
	return unused;
}
int main(void)
{
	pthread_t thread;
	for (long i = 0; i < 2000; i++) {
		WAYMARK(rates, steady, i);
		usleep(100);
	}
	pthread_create(&thread, NULL, burst, NULL);
	return pthread_join(thread, NULL);
}
END
run 0 --policy cyclic --buffer 256K -o bursts.trace -e 'marker:rates:*' -- ./bursts
"$waymark" report bursts.trace >bursts.report || fail "report of bursts: $?"
awk '$1 == "rates:burst" { found = $4 + 0 > 98 } END { exit !found }' bursts.report ||
	fail "bursts: $(grep rates: bursts.report)"

# Compressed at the end: the same is read.
run 7 --compress --json -o packed -- ./ticker 10000 2 1 7
expect "packed: events in the trace" "$("$waymark" dump packed | wc -l)" "$(json recorded)"
ls packed/*.zst >/dev/null || fail "nothing was compressed"
[ -z "$(find packed -name '[0-9]*' ! -name '*.zst')" ] || fail "not all was compressed"

# A running process: attach, detach, attach again, stopped threads; it continues.
start ./ticker 200 2 1000000
await_running "$pid"
for options in "" "--strict" "-e marker:ticker:tick" "--policy block"; do
	# shellcheck disable=SC2086 # several words
	records again $options -p "$pid"
	expect "-p $options: discarded" "$(json discarded)" 0
	expect "-p $options: events in the trace" "$(events_in again)" "$(json recorded)"
	kill -0 "$pid" 2>/dev/null || fail "-p $options: the program is gone"
done

# Two sessions at once see the same marker, each for itself.
"$waymark" record -o first -p "$pid" >/dev/null 2>words-first &
first=$!
await_event first ticker:
records second -p "$pid"
records_on first ticker: || fail "the first session stopped with the second"
kill -TERM $first
wait $first || fail "the first of two sessions: $(cat words-first)"

# The recorder is killed: the program continues untouched, the trace reads to its last packet.
"$waymark" record -o killed -p "$pid" 2>words &
recorder=$!
await_event killed ticker:
kill -9 $recorder
wait $recorder 2>/dev/null
reports_killed() { "$waymark" report killed >words 2>&1; }
await reports_killed || fail "no report of the killed recording: $(cat words)"
kill -0 "$pid" 2>/dev/null || fail "the program died with the recorder"
[ "$(events_in killed)" -gt 0 ] || fail "nothing is left of the killed recording"
if command -v babeltrace2 >/dev/null; then
	babeltrace killed >/dev/null 2>words || fail "babeltrace2 does not read what was killed: $(cat words)"
fi
await ! has_agent "$pid" || fail "the agent does not miss the recorder"
records after -p "$pid" # after a recorder was killed

# The program is stopped meanwhile: what it committed is kept, and it continues disarmed.
begin_record --json -o stopped -p "$pid"
await_event stopped ticker:
kill -STOP "$pid"
await ! grep -qs '^State:.[^T]' "/proc/$pid/task"/*/status || fail "its threads do not all stop"
end_record 1 TERM
says "the process is stopped: pid $pid"
expect "stopped program: events in the trace" "$(events_in stopped)" "$(json recorded)"
kill -CONT "$pid"
records continued -p "$pid" # after the program was stopped

# A program that ThreadSanitizer is in can only be launched.
if cc -g -fsanitize=thread -I"$source_dir/include" "$source_dir/tests/targets/record/beat.c" \
	-o sanitized 2>words &&
	setarch -R ./sanitized 1 1 2>words; then
	probed=$pid
	start setarch -R ./sanitized 1000 1000
	await_running "$pid"
	run 1 -o sanitized_attached --for 100ms -p "$pid"
	says "ThreadSanitizer"
	kill -0 "$pid" || fail "a program with ThreadSanitizer does not survive"
	kill "$pid"
	pid=$probed
	run 0 --json -o sanitized_launched -- setarch -R ./sanitized 1000 1000
	expect "events of a program with ThreadSanitizer" "$(json recorded)" 1000
else
	echo "skipped: no ThreadSanitizer here: $(head -1 words)"
fi

# The program is killed: what it committed is there, and the recording ends by itself.
begin_record --json -o dead -p "$pid"
await_event dead ticker:
kill -9 "$pid"
end_record 0
expect "killed program: events in the trace" "$(events_in dead)" "$(json recorded)"

# The full disk: recording stops, says so, and keeps what was written.
if [ "$(id -u)" -eq 0 ] && mkdir disk && mount -t tmpfs -o size=2m none disk 2>/dev/null; then
	run 1 --json -o disk/trace -- ./ticker 1000000
	says "there is no room for the rest of the trace"
	expect "full disk: events in the trace" "$(events_in disk/trace)" "$(json recorded)"
	[ "$(json recorded)" -gt 0 ] || fail "the full disk kept nothing"
	umount disk
else
	echo "without root the full disk is not tried"
fi

# A file size limit does not kill the recorder.
(
	ulimit -f 200
	run 1 --json -o limited -- ./ticker 1000000
	exit "$failed"
) || failed=1

# A marker whose two sites have different types is refused, with the place, and the status is 1.
if command -v c++ >/dev/null; then
	map=-ffile-prefix-map=$source_dir/tests/targets/record/=
	build_target record/twice.cc -std=c++17 -O2 "$map"
	at=twice.cc:$(grep -n LINE "$source_dir/tests/targets/record/twice.cc" | cut -d: -f1)
	run 1 --json -o twice_trace -- ./twice
	says "shop:twice: two sites give this marker different field types: $at and $at"
	expect "twice: recorded" "$(json recorded)" 0
	expect "twice: refusals" "$(json refused) $(grep -o '"kind":"refusal"[^}]*' out | grep -o '"subject":"[^"]*"\|"detail":"[^"]*"' | sort -u | xargs)" \
		"1 detail:$at and $at subject:shop:twice"
	# beside a marker that is armed, too: a spec of its own was asked for
	build_target record/thrice.c "$map"
	run 1 -v -o thrice_trace -e marker:shop:sold -e marker:shop:rated -- ./thrice
	at=$(grep -n LINE "$source_dir/tests/targets/record/thrice.c" | cut -d: -f1)
	says "    shop:rated: thrice.c:$at and thrice.c:$((at + 1))"
	says "marker:shop:rated: none of the places could be probed"
	expect "sold: recorded" "$(events_in thrice_trace)" 1
	run 0 --json -o all_trace -e 'marker:shop:*' -- ./thrice
	expect "shop:*: refused" "$(json refused)" 2
fi

# Rates are over the whole recording: two hits within a millisecond, in a recording of a second, are 2/s at most.
build_target record/seldom.c
run 0 -o seldom_trace -- ./seldom
rate=$("$waymark" report seldom_trace | sed -n 's/^seldom:hit *2 *\([0-9]*\)\..*/\1/p')
[ "${rate:-9}" -le 2 ] || fail "seldom: ${rate:-no} hits per second, expected 2 at most"
# Events and spans without a hit are counted, and not shown.
expect "seldom: events shown" "$("$waymark" report seldom_trace | grep -o 'seldom:[a-z]*' | xargs)" seldom:hit
"$waymark" report seldom_trace | grep -q "^-- 3 more: without a hit" || fail "seldom: $("$waymark" report seldom_trace)"
expect "seldom: events in JSON" "$("$waymark" report --json seldom_trace | grep -o '"name":"seldom:[a-z:]*"' | sort -u | wc -l)" 5

# A larger buffer is advised where the buffer was too small.
run 0 --json --buffer 64K -o crowded -- ./ticker 1000000
[ "$(json discarded)" -gt 0 ] || fail "a small buffer held everything"
says "a larger --buffer"

# A hit that doesn't end keeps its session's place, not the program from being recorded; once it has ended
# all eight places are there again. A ninth session is refused by name.
build_target held.c
start ./held >held.out
await_running "$pid"
for events in 'held:*' held:tick; do
	rm -rf held_trace
	run 0 --json --for 100ms -o held_trace -e "$events" -p "$pid"
	[ "$(json recorded)" -gt 0 ] || fail "held, $events: nothing was recorded"
done
expect "the hit continues" "$(cat held.out)" ""
kill -USR1 "$pid"
await [ -s held.out ]
expect "the hit has ended" "$(cat held.out)" "let on"
recorders=()
for number in 1 2 3 4 5 6 7 8; do
	"$waymark" record -o "held$number" -e held:tick -p "$pid" 2>"held$number.words" &
	recorders+=($!)
done
for number in 1 2 3 4 5 6 7 8; do
	await is_recording "held$number" || fail "session $number beside others: $(cat "held$number.words")"
done
run 1 -o held_ninth -e held:tick -p "$pid"
says "as many sessions as it can have"
kill -TERM "${recorders[@]}"
for number in 1 2 3 4 5 6 7 8; do
	wait "${recorders[number - 1]}" || fail "session $number beside seven others: $(cat "held$number.words")"
done
kill "$pid"

# A process that may not make memory executable that it can write (PR_SET_MDWE, inherited by what it
# executes).
mdwe=(python3 -c 'import ctypes, os, sys
sys.exit(77) if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) else os.execv(sys.argv[1], sys.argv[1:])')
if "${mdwe[@]}" "$(command -v true)"; then
	start "${mdwe[@]}" ./ticker 3 1 100000
	await -s 20 has_comm "$pid" ticker || fail "mdwe: $(cat "/proc/$pid/comm")"
	for round in first again; do
		records "mdwe_$round" -e 'marker:ticker:*' -e func:tick/ret/ -p "$pid"
		"$waymark" dump "mdwe_$round" | grep -q 'func:tick(' || fail "mdwe $round: no call"
	done
	kill "$pid"
else
	echo "no PR_SET_MDWE here"
fi

# A process that ends while the tool attaches to others is left out; one that had ended before is an error.
start ./ticker 3 1 100000
first=$pid
start ./ticker 3 1 100000
second=$pid
await_running "$first"
await_running "$second"
start bash -c "until grep -qs '^waymark' /proc/$first/task/*/comm; do :; done"
run 0 --json --for 200ms -o ended -p "$first,$second,$pid"
expect "one of three ended: processes" "$(json processes)" 2
says "process $pid ended before it could be attached to"
bad 1 "No such process: pid $pid" -p "$first,$pid"
kill "$first" "$second"

# A program that moved its text to anonymous memory, as some do for huge pages.
for layout in separate-code noseparate-code; do
	build_target record/moved_text.c "-Wl,-z,$layout"
	start_ready ./moved_text
	for name in func:work/ret/ func:work@moved_text; do
		rm -rf moved
		records moved -e "$name" -p "$pid"
	done
	kill "$pid"
	exec 7>&-
done

# With --ordered, a marker's time is read when all earlier instructions are complete: here, a chain of divisions.
build_target record/divisions.c -O2

# median EVENT: nanoseconds since the event before
median()
{
	"$waymark" dump late_trace | sed -n "s/^[^(]*(+0\.\([0-9]*\)) .* late:$1: .*/\1/p" | sort -n | sed -n 501p | sed 's/^0*//'
}
run 0 --ordered -o late_trace -- ./divisions
[ "$(median during)" -gt "$(median after)" ] || fail "ordered: the divisions took $(median during) ns, and nothing $(median after) ns"
grep -aq "name = tsc;" late_trace/metadata || fail "ordered: another clock"

# So a thread that sees a value has a later time than the thread that wrote it. Without --ordered some pairs can be reversed.
build_target record/handed.c -O2
reversed()
{
	"$waymark" dump "$1" | awk '/hand:wrote/ { wrote = $(NF - 1) } /hand:saw/ && $(NF - 1) > wrote { n++ } END { print n + 0 }'
}
for round in 1 2; do
	rm -rf handed_trace
	run 0 --json --ordered --buffer 256M -o handed_trace -- ./handed
	expect "ordered: discarded" "$(json discarded)" 0
	[ "$(json recorded)" -gt 200000 ] || fail "ordered: $(json recorded) events"
	expect "ordered: reversed pairs in round $round" "$(reversed handed_trace)" 0
done

exit "$failed"
