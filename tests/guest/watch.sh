#!/bin/bash
# SPDX-License-Identifier: MIT
# Each feature of watches once, in the guest, whose debug registers work on every machine: tests/watch_*.sh test them in full.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/../watch_setup.bash"
needs breakpoint-access breakpoint-execute

# values DIR NAME: the new ones, in one line
values() { field_values "$1" "$2" new | tr '\n' ' '; }

# who, in which order, what was there and what is
watches turn 0 -e watch:in_turn -- ./watched turn 20 4
grep -q right out || fail "turn: the program: $(cat out)"
expect "turn: hits, missed" "$(json hits) $(json missed)" "80 0"
expect "turn: values" "$(values turn in_turn)" "$(seq 1 80 | tr '\n' ' ')"
chain turn in_turn
expect "turn: threads" "$(of_events turn watch:in_turn tid | sort -u | wc -l)" 4
watches outside 0 -e watch:in_turn/outside/ -- ./watched turn 20 4
expect "outside: values" "$(values outside in_turn)" "$(seq 1 80 | tr '\n' ' ')"
watches kernel 0 -e watch:in_turn/kernel/ -- ./watched read 5
[ "$(json recorded)" -ge 6 ] || fail "kernel: the kernel's stores: $(json recorded)"
"$waymark" watch -n 0 in_turn ./watched turn 3 1 >out 2>words
grep -q '^ *3 .*write_one (watched.c:' out || fail "watch: $(cat out words)"

# types, conditions, reads, code
watches types 0 -e 'watch:small/if=changed/' -e watch:rate -e watch:narrow/count/ -- ./watched types
expect "types: signed, changed" "$(values types small)" "-1 -2 "
expect "types: floating point" "$(values types rate)" "0 0.5 1 "
expect "types: counted" "$(grep -o '"counted":[0-9]*' out | sort | tail -n 1)" '"counted":3'
watches signal 138 -e 'watch:in_turn/if=value==5,signal=SIGUSR1/' -- ./watched turn 10 1
expect "signal" "$(values signal in_turn)" "5 "
watches reads 0 -e watch:in_turn:rw -- ./watched turn 10 1
[ "$(json hits)" -gt 20 ] || fail "reads: $(json hits)"
watches runs 0 -e watch:write_one:x -- ./watched turn 10 1
expect "runs" "$(json hits)" 10

# signals, children, what is executed
for mode in "masks 10" "fork 30" "exec 11"; do
	read -r mode hits <<<"$mode"
	watches "$mode" 0 -e watch:in_turn -- ./watched "$mode" 10
	grep -q right out || fail "$mode: the program: $(cat out)"
	expect "$mode: hits, missed" "$(json hits) $(json missed)" "$hits 0"
done

# a local variable, a thread's, a library's
build_target late.c -O0 -shared -fPIC -DLIBRARY -o late.so
build_target late.c -O0
watches where 0 -e watch:early::mine -e watch:own/thread=main/ -- ./late
expect "a local variable" "$(values where early::mine)" "1 4 "
expect "a thread's" "$(values where own)" "3 "
watches later 0 -e watch:in_library@late.so -- ./late
expect "a library's" "$(values later in_library)" "7 "

# a program that runs: all registers, a second recorder that is refused, a change in place, a recorder that is killed
start ./watched forever 0 2 >forever_out
program=$pid
"$waymark" record --json -o first -e watch:in_turn -e watch:counted -e watch:raced -e watch:small -p "$program" >first.out 2>&1 &
first=$!
await_armed "$program"
await_event first watch:in_turn
watches second 1 --for 1s -e watch:in_turn -p "$program"
grep -q "waymark $first holds 4" words || fail "refused: $(cat words)"
kill -9 "$first"
wait "$first" 2>/dev/null
"$waymark" record -o changed -e watch:in_turn -p "$program" >words 2>&1 &
recorder=$!
await_armed "$program"
await_event changed watch:in_turn
"$waymark" control changed add watch:counted || fail "changed: add: $?"
await_event changed watch:counted
"$waymark" control changed remove watch:in_turn || fail "changed: remove: $?"
kill -TERM $recorder
wait $recorder
expect "changed: status: $(cat words)" $? 0
ends_well "$program" forever_out "at the end"
exit $failed
