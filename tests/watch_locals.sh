#!/bin/bash
# SPDX-License-Identifier: MIT
# Local variables: each store is there while the frame lives, in order, and nothing that uses the same stack behind it;
# whatever ends the frame, with each compiler. What can't be watched is refused by name.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

# frames FIELD: of what the last recording says of its frames
frames()
{
	json "frames_$1"
}

# sequence NAME MODE TIMES VALUES: what ./framed MODE TIMES stores to NAME
sequence()
{
	watches one 0 -e "watch:$1" -- ./framed "$2" "$3"
	grep -q right out || fail "$build: $1: the program: $(cat out)"
	expect "$build: $1 of $2" "$(field_values one "$1" new | tr '\n' ' ')" "$4"
	expect "$build: $1 of $2: discarded" "$(json discarded)" 0
	expect "$build: $1 of $2: unsure" "$(frames unsure)" 0
	expect "$build: $1 of $2: late" "$(frames late)" 0
}

try_all()
{
	sequence plain::mine plain 2 "0 1 2 3 99 0 1 2 3 99 "
	expect "$build: frames" "$(frames watched)" 2
	# its first value is the frame's own, so the value before is undefined
	expect "$build: unknown before" "$(field_values one plain::mine how | sort | uniq -c | tr -s ' \n' ' ')" " 8 1 2 9 "
	sequence plain::both.first plain 2 "0 10 20 30 0 10 20 30 "
	sequence 'plain::row[1]' plain 2 "0 1 0 1 "
	sequence leaves::mine leaves 3 "10 11 10 11 10 11 "
	expect "$build: frames that longjmp ended" "$(frames watched)" 3
	sequence throws::mine throws 3 "20 21 20 21 20 21 "
	expect "$build: frames that an exception ended" "$(frames watched)" 3
	sequence jumps::mine jumps 2 "5 6 5 6 "
	sequence plain::mine signal 3 "0 1 99 0 1 99 0 1 99 "
	sequence shows::mine shows 1 "1 41 42 "
	expect "$build: another thread's" "$(told_by one shows::mine | sort | uniq -c | awk '{ print $1 }' | sort -n | tr '\n' ' ')" "1 2 "
	# as many frames as there are registers; the others are counted
	sequence deep::mine deep 1 "5 4 3 6 10 15 "
	expect "$build: frames of a recursion" "$(frames watched) $(frames busy)" "3 3"
}

# told_by DIR NAME: the thread of each event
told_by()
{
	of_events "$1" "watch:$2" tid
}

for build in "g++ -O0" "g++ -O2" "g++ -O2 -fno-omit-frame-pointer" "clang++ -O0" "clang++ -O2"; do
	command -v "${build%% *}" >/dev/null || continue
	$build -w -g "$source_dir/tests/targets/framed.cc" -o framed -lpthread || exit 1
	try_all
done

# Threads at once: what is watched is whole, and what is not is counted.
g++ -O0 -g "$source_dir/tests/targets/framed.cc" -o framed -lpthread || exit 1
watches many 0 -e watch:plain::mine -- ./framed threads 1
grep -q right out || fail "threads: $(cat out)"
expect "all entries" "$(frames entered)" 80
expect "each watched or not" "$(($(frames watched) + $(frames busy) + $(frames late)))" 80
expect "stores of those watched" "$(field_values many plain::mine new | wc -l)" $((4 * $(frames watched)))
for thread in $(told_by many plain::mine | sort -u); do
	expect "the sequence of $thread" "$(of_events many watch:plain::mine tid new |
		sed -n "s/^$thread //p" | paste -sd ' ' | sed 's/0 1 2 99 *//g')" ""
done

# Frames that come and go faster than watches can follow: a hit of one frame is not counted for the next.
watches contend 0 -e watch:pairs::mine -- ./framed contend 2
grep -q right out || fail "contend: $(cat out)"
expect "two stores in each frame" "$(field_values contend pairs::mine new | wc -l)" $((2 * $(frames watched)))
expect "values that no instruction determines" "$(json inexact)" 0
expect "frames whose stores are not theirs" "$(of_events contend watch:pairs::mine tid new |
	awk '{ if (n[$1]++ % 2 && $2 != last[$1] + 1) bad++; last[$1] = $2 } END { print bad + 0 }')" 0

# Frames that live when the command comes, on two threads, and those that come later.
./framed stays 1 >stays_out &
program=$!
await is_napping $program 2 || fail "frames that live: two threads do not have them"
watches stays 0 -e watch:stays::handled -p $program
wait $program || fail "frames that lived: the program's status $?"
expect "frames that lived, and others" "$(frames watched) $(frames entered) $(frames busy)" "4 2 0"
for thread in $(told_by stays stays::handled | sort -u); do
	of_events stays watch:stays::handled tid new | sed -n "s/^$thread //p" >of_one
	expect "what $thread stores, up to the end and again" "$(paste -sd ' ' of_one)" "$(seq -s ' ' "$(head -1 of_one)" 300) 0 1 2 3 4 5"
done

# Beside a probe of the same function and its return: each has its own.
watches probed 0 -e func:plain/ret/ -e watch:plain::mine -- ./framed plain 2
expect "with a probe" "$(field_values probed plain::mine new | tr '\n' ' ')" "0 1 2 3 99 0 1 2 3 99 "
expect "the probe's" "$("$waymark" dump probed | grep -c framed:plain)" 4
expect "with a probe: unsure" "$(frames unsure)" 0

# Another has two of the four registers: one is left for a frame, and frames without one are reported.
./framed stays 1 >stays_out &
program=$!
await is_napping $program 2 || fail "fewer registers: two threads do not have frames"
"$waymark" record -o others -e watch:sink -e watch:shown -p $program >/dev/null 2>&1 &
tool=$!
await_armed $program
watches fewer 0 -e watch:stays::handled -p $program
wait $tool
wait $program || fail "fewer registers: the program's status $?"
expect "frames with fewer registers" "$(frames watched) $(frames busy)" "2 2"
expect "one thread at a time" "$(told_by fewer stays::handled | sort -u | wc -l)" 1

# Beside other watches, and two variables at once.
watches two 0 -e watch:plain::mine -e watch:deep::mine -- ./framed deep 1
expect "one of two" "$(field_values two deep::mine new | head -1)" 5
watches beside 0 -e watch:plain::mine -e watch:sink -- ./framed plain 1
expect "a local beside a global" "$(field_values beside plain::mine new | tr '\n' ' ')" "0 1 2 3 99 "
watches none 1 -e watch:plain::both -e watch:deep::mine -e watch:sink -- ./framed plain 1
says "it takes more debug registers than there are"

# Two of one function: its entry is one signal for both.
watches pair 0 -e watch:plain::mine -e watch:plain::both.first -- ./framed plain 2
expect "the first of a pair" "$(field_values pair plain::mine new | tr '\n' ' ')" "0 1 2 3 99 0 1 2 3 99 "
expect "the second of a pair" "$(field_values pair plain::both.first new | tr '\n' ' ')" "0 10 20 30 0 10 20 30 "
expect "a pair's frames, and what is missed" "$(frames watched) $(frames busy) $(json missed)" "2 0 0"
reports pair

# A forked child's copy of the local is not watched, with a report; other watches continue in it.
build_target family.c -O0
watches forked 0 -e watch:inner::local -e watch:word -- ./family locals
expect "the parent's frames alone" \
	"$(field_values forked inner::local new | tr '\n' ' ')" "1 2 2 3 "
expect "a word of both" "$(field_values forked word new | sort | tr '\n' ' ')" "1 1 2 5 "
expect "forked: unwatched" "$(json unwatched)" 1
says "watch:inner::local: local variables are not watched in children that are forked"

# A library's that comes later finds all registers shared out: it is not watched, with a report; earlier watches continue.
build_target late.c -O0 -shared -fPIC -DLIBRARY -o late.so
build_target late.c -O0
watches of_late 1 -e watch:early::mine -e watch:late::mine@late.so -- ./late
says "1 process went on with something unwatched that came later"
says ": watch:late::mine@late.so: no debug registers are left for a local variable of a late-loaded library"
says "watch:late::mine@late.so: was armed nowhere: no debug registers are left for a local variable of a late-loaded library"
expect "a late local variable: unwatched" "$(json unwatched)" 1
expect "what was watched before" "$(field_values of_late early::mine new | tr '\n' ' ')" "1 4 "
expect "nothing of it" "$("$waymark" dump of_late | grep -c late::mine)" 0
watches of_late 0 -e watch:late::mine@late.so -- ./late
expect "watched alone" \
	"$(field_values of_late late::mine new | tr '\n' ' ') $(json unwatched)" "2  0"

# Refused, in words.
watches refused 1 -e watch:plain::mine/thread=main/ -- ./framed plain 1
says "any thread may have its frames"
watches refused 1 -e 'watch:*plain::more' -- ./framed plain 1
says "watch the pointer itself"
watches refused 1 -e watch:plain::nothing -- ./framed plain 1
says "no such variable"

# The command is killed while threads wait for it: they continue, and what is left in their frames does no harm.
for wait in 0.2 0.3 0.4 0.5; do
	./framed plain 400000 >killed_out &
	program=$!
	await_running $program
	"$waymark" record -o killed_$wait -e watch:plain::mine -p $program >/dev/null 2>&1 &
	tool=$!
	sleep $wait # different moments, up to where it records
	kill -9 $tool 2>/dev/null
	wait $tool 2>/dev/null
	wait $program || fail "killed after $wait: the program's status $?"
	grep -q right killed_out || fail "killed after $wait: $(cat killed_out)"
done

# The command is stopped: waiting threads continue after a while, unwatched, with a report.
./framed plain 3000000 >held_out &
program=$!
await_running $program
"$waymark" record --json -o held -e watch:plain::mine -p $program >out 2>&1 &
tool=$!
await_event held watch:plain::mine # it serves frames
kill -STOP $tool
sleep 1.5 # longer than a thread waits for it
kill -CONT $tool
kill -TERM $tool
wait $tool
wait $program || fail "held: the program's status $?"
[ "$(frames late)" -gt 0 ] || fail "held: $(cat out)"
exit $failed
