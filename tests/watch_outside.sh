#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches from outside: no agent comes into the program and it gets no signal; each write is there once, with who, where, what was
# there and what is, wherever the instruction determines it; unknown values are marked, and losses are counted.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
needs breakpoint-access breakpoint-execute

# agents PID: how many of our files it has mapped
agents()
{
	grep -c "libwaymark\|waymark-store" "/proc/$1/maps"
}

# Eight threads in turn: the known sequence.
watches turn 0 -e watch:in_turn/outside/ -- ./watched turn 100 8
grep -q right out || fail "the program: $(cat out)"
expect "hits" "$(json hits)" 800
expect "missed" "$(json missed)" 0
expect "discarded" "$(json discarded)" 0
grep -q '"way":"outside"' out || fail "the way: $(cat out)"
field_values turn in_turn new >new
seq 1 800 | cmp -s - new || fail "the sequence: $(head -3 new) ... $(wc -l <new)"
field_values turn in_turn old >old
seq 0 799 | cmp -s - old || fail "what was there before: $(head -3 old)"
expect "how exact" "$(field_values turn in_turn how | sort -u)" 1
expect "threads" "$(of_events turn watch:in_turn tid | sort -u | wc -l)" 8
expect "one instruction" "$(field_values turn in_turn ip | sort -u | wc -l)" 1
"$waymark" report turn | grep -q "watch:in_turn *800 " || fail "report: $("$waymark" report turn)"
expect "babeltrace2" "$(events_in turn)" 800
says "watched from outside, as asked"
says "what the kernel itself writes, as for read(2), is not seen"

race /outside/

# What an instruction adds follows from the value before, and is said to.
watches add 0 -e watch:counted/outside/ -- ./watched add 100 8
expect "hits of additions" "$(json hits)" 800
expect "missed of additions" "$(json missed)" 0
expect "values of additions that are not exact" "$(json inexact)" 800
expect "values of additions that are not known" "$(json unknown)" 0
field_values add counted new >new
seq 1 800 | cmp -s - new || fail "the additions: $(head -3 new)"
says "with a value that follows from the one before"

# Where only a part of a word is known, the value is unknown: it is reported as 0, not as that part.
build_target watch/parts.c
watches part 0 -e watch:part.all/outside/ -- ./parts
expect "part: how" "$(field_values part part.all how | tr '\n' ' ')" "6 12 12 "
expect "part: what is not known" "$(field_values part part.all new | tr '\n' ' ')" "0 0 0 "

# Children are not watched, and the report counts them; threads are not children.
watches fork 0 -e watch:in_turn/outside/ -- ./watched fork 10
grep -q right out || fail "fork: $(cat out)"
expect "fork: children" "$(json children)" 10
says "from outside no children are watched: 10 were started meanwhile"
watches alone 0 -e watch:in_turn/outside/ --no-follow -- ./watched fork 10
expect "alone: children" "$(json children)" 0
watches threads 0 -e watch:in_turn/outside/ -- ./watched turn 10 4
expect "threads: children" "$(json children)" 0

# A program that is started with SIGTRAP ignored still ignores it.
(
	trap '' TRAP
	watches ignoring 0 -e watch:in_turn/outside/ -- ./watched ignored
	expect "ignoring SIGTRAP: recorded" "$(json recorded)" 1
	exit $failed
) || failed=1

# Vector registers can't be read from outside: unknown, and not what memory had.
watches types 0 -e watch:small/outside/ -e watch:rate/outside/ -e watch:narrow/outside/ -- ./watched types
expect "floating point" "$(field_values types rate how | sort -u | tr '\n' ' ')" "12 4 "
expect "types: unknown" "$(grep -o '"spec":"watch:rate[^}]*' out | grep -o '"unknown":[0-9]*' | head -1)" '"unknown":3'
small_types /outside/

# Conditions, and what is only counted.
watches some 0 -e 'watch:in_turn/outside,if=value==10/' -- ./watched turn 10 2
expect "if=value" "$(field_values some in_turn new)" 10
expect "of those not taken" "$(json filtered)" 19
watches less 0 -e 'watch:small/if=value<-1,outside/' -- ./watched types
expect "if=value<" "$(field_values less small new)" -2
watches unknown 0 -e 'watch:rate/if=value>100,outside/' -- ./watched types
expect "a condition on what is not known" "$(json recorded)" 3
watches count 0 -e watch:in_turn/count,outside/ -- ./watched turn 10 2
expect "count" "$(json counted) $(json recorded)" "20 0"

# Who reads; who runs.
watches reads 0 -e watch:in_turn:rw/outside/ -- ./watched turn 10 1
[ "$(json hits)" -gt 20 ] || fail "reads: $(json hits)"
expect "missed of reads" "$(json missed)" 0
watches runs 0 -e watch:write_one:x/outside/ -- ./watched turn 10 1
expect "runs" "$(json hits)" 10

# Callers by frame pointers: the same as from inside if each function has one. Leaf functions have
# one at -O0 alone.
cc -O0 -g "$source_dir/tests/targets/watched.c" -o framed -lpthread -ldl || exit 1
watches frames 0 -e watch:in_turn/bt=2,outside/ -- ./framed turn 10 1
watches frames_inside 0 -e watch:in_turn/bt=2/ -- ./framed turn 10 1
for caller in caller1 caller2; do
	expect "$caller, as from inside" "$(field_values frames in_turn $caller | sort -u | grep -o '...$')" \
		"$(field_values frames_inside in_turn $caller | sort -u | grep -o '...$')"
done
expect "hits without a caller" "$(field_values frames in_turn caller1 | grep -c '^0x0*$')" 0

# Markers and both ways of a watch in one trace.
watches both 0 -e watch:in_turn/outside/ -e watch:raced -e func:write_one -- ./watched turn 20 2
expect "both ways: from outside" "$("$waymark" dump both | grep -c 'watch:in_turn')" 40
expect "both ways: probes" "$("$waymark" dump both | grep -c 'watched:write_one')" 40

# A running program: nothing comes into it, and what starts later is seen.
start ./watched forever 0 4 >forever_out
program=$pid
await_running "$program"
watches runs 0 --for 300ms -e watch:in_turn/outside/ -p "$program"
[ "$(json recorded)" -gt 10 ] || fail "a running program: $(cat words)"
expect "a running program: missed" "$(json missed)" 0
chain runs in_turn
expect "an agent came in" "$(agents "$program")" 0
"$waymark" watch --for 200ms 'watch:in_turn/outside/' -p "$program" >table 2>words
grep -q "write_one (watched.c:" table || fail "the table: $(cat table words)"

# Who records is killed: nothing is left, and it can be watched again.
for round in 1 2 3 4 5 6 7 8; do
	rm -rf killed
	"$waymark" record -o killed -e watch:counted/outside/ -e watch:in_turn/outside/ -p "$program" >/dev/null 2>&1 &
	tool=$!
	sleep "0.$(printf '%03d' $((RANDOM % 200)))" # any moment, up to where it records
	kill -9 "$tool" 2>/dev/null
	wait "$tool" 2>/dev/null
	[ -d "/proc/$program" ] || fail "round $round: the program is dead"
done
watches again 0 --for 200ms -e watch:counted/outside/ -e watch:in_turn/outside/ -p "$program"
expect "again: missed" "$(json missed)" 0
# the program is killed
"$waymark" record --json -o ended -e watch:in_turn/outside/ -p "$program" >out 2>words &
tool=$!
await_event ended ' watch:'
kill -9 "$program"
wait "$tool" || fail "the program was killed: $(cat words)"
[ "$(json recorded)" -gt 10 ] || fail "a program that was killed: $(cat words)"
expect "a program that was killed: missed" "$(json missed)" 0

# Nobody reads for a while: what finds no room is counted, and no value is made up.
build_target watch/burst.c
start ./burst >burst_out
program=$pid
await_running "$program"
"$waymark" record --json -o full -e watch:word/outside/ -p "$program" >out 2>words &
tool=$!
await_armed "$program"
kill -STOP "$tool"
kill -USR1 "$program"
await -s 120 ! [ -e "/proc/$program/fd/1" ] || fail "full rings: the program does not come to its end"
kill -CONT "$tool"
# read to their end: the tool sleeps, and the trace grows no more
has_been_read()
{
	local bytes
	bytes=$(stat -c %s full/*-* 2>/dev/null) && has_state "$tool" S || return
	sleep 0.2 # the time in which nothing may come
	[ "$(stat -c %s full/*-*)" = "$bytes" ] && has_state "$tool" S
}
await has_been_read || fail "full rings: they are not read: $(cat words)"
kill -USR2 "$program"
wait "$tool" || fail "full rings: $(cat words)"
expect "full rings: hits" "$(json hits)" 120007
[ "$(json missed)" -gt 0 ] || fail "full rings: nothing was lost: $(cat words)"
expect "full rings: all counted" "$(($(json recorded) + $(json missed)))" 120007
expect "full rings: the trace counts" "$(json discarded)" "$(json missed)"
says "the kernel's ring had no room for them"
# what they stored is unknown, and so are results of it, until a store determines the value
expect "behind the losses: how" "$(field_values full word how | tail -7 | tr '\n' ' ')" "12 12 12 12 12 9 0 "
expect "behind the losses: values" "$(field_values full word new | tail -7 | tr '\n' ' ')" "0 0 0 0 0 5 6 "

# A program in its place.
watches exec 0 -e watch:in_turn/outside/ -- ./watched exec stays
says "the program was replaced by another"
expect "before it executed" "$(field_values exec in_turn new)" 1

# No agent can be there: it is watched from outside, and said why.
# Pointers of a static PIE are relocated by the program itself, after its start.
if cc -g -static-pie "$source_dir/tests/targets/watch/parts.c" -o pie 2>/dev/null; then
	bad 1 "a static PIE relocates its pointers after its start" -e 'watch:head->value' -- ./pie
fi

if cc -O1 -g -static "$source_dir/tests/targets/watched.c" -o fixed -lpthread 2>/dev/null; then
	watches still 0 -e watch:in_turn -- ./fixed turn 100 8
	says "watch:in_turn: watched from outside: the program is statically linked"
	field_values still in_turn new >new
	seq 1 800 | cmp -s - new || fail "a static program: $(head -3 new)"
	start ./fixed forever 0 2 >/dev/null
	watches running 0 --for 200ms -e watch:in_turn -p "$pid"
	says "the program is statically linked"
	[ "$(json recorded)" -gt 10 ] || fail "a static program that runs: $(cat words)"
	kill -9 "$pid"
	bad 1 "statically linked" -e watch:in_turn -e func:write_one -- ./fixed turn 1 1
	bad 1 "from outside the signal would come after the thread has gone on" -e watch:in_turn/signal=USR1/ -- ./fixed turn 1 1
fi
objcopy --add-section .gopclntab=/dev/null ./watched of_go 2>/dev/null && {
	watches go 0 -e watch:in_turn -- ./of_go turn 10 2
	says "watched from outside: there is code of Go"
	expect "Go" "$(field_values go in_turn new | tail -1)" 20
}

start ./watched strict
await grep -q '^Seccomp:.1' "/proc/$pid/status" || fail "under a filter: it does not come under it"
watches filtered 0 --for 300ms -e watch:in_turn -p "$pid"
says "watched from outside: a seccomp filter might kill the process"
[ "$(json recorded)" -gt 0 ] || fail "under a filter: $(cat words)"
kill -0 "$pid" 2>/dev/null || fail "the program under a filter is dead"
kill -9 "$pid" 2>/dev/null

# What can't be had from outside.
bad 1 "there is no such variable" -e watch:nothing/outside/ -- ./watched turn 1 1
bad 1 "from outside the signal would come after the thread has gone on" -e watch:in_turn/outside,signal=USR1/ -- ./watched turn 1 1
bad 1 "it takes more debug registers than there are" -e watch:in_turn+1/30/outside/ -- ./watched turn 1 1
bad 1 "No such file" -e watch:in_turn/outside/ -- ./nothing

# The kernel's own writes, where they may be seen.
watches unseen 0 -e watch:in_turn/outside/ -- ./watched read 5
expect "the kernel's writes, not asked for" "$(json recorded)" 1
if [ "$(id -u)" = 0 ]; then
	watches kernel 0 -e watch:in_turn/kernel/ -- ./watched read 5
	[ "$(json recorded)" -ge 6 ] || fail "the kernel's writes: $(json recorded)"
	"$waymark" watch 'watch:in_turn/kernel/' -- ./watched read 5 2>/dev/null | grep -q "by the kernel" ||
		fail "the table does not name the kernel"
	grep -q "is not seen" words && fail "the kernel's writes are said to be unseen"
	# by the kernel, value unknown
	field_values kernel in_turn how | awk '{ if (int($1 / 512) % 2) kernel++; else own++ } END { exit !(kernel >= 5 && own == 1) }' ||
		fail "who wrote: $(field_values kernel in_turn how)"
fi

# A process that has dropped root may not stop its own threads, as a watch from inside needs: it is watched from outside,
# and its parent as ever.
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$folder"
	build_target family.c
	start env -u XDG_RUNTIME_DIR ./family drops
	child_of "$pid" family
	await grep -q '^Uid:.*65534' "/proc/$child/status" || fail "the child keeps its user"
	watches drops 0 --tree --for 1s -e watch:word -p "$pid"
	says "watch:word: watched from outside: the process may not stop its own threads"
	expect "drops: who is watched" \
		"$(of_events drops watch:word pid | sort -u | wc -l)" 2
	expect "drops: missed" "$(json missed)" 0
	kill -9 "$pid"
fi
exit $failed
