#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches that can't be had: each is refused by name, before anything is watched, and nothing is left behind.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

program=(-- ./watched turn 1 1)
bad 1 "there is no such variable: watch:nothing" -e watch:nothing "${program[@]}"
bad 1 "did you mean in_turn?" -e watch:in_trun "${program[@]}"
bad 1 "the condition can't be tested: many" -e 'watch:small/if=value==many/' "${program[@]}"
bad 1 "is no condition" -e 'watch:small/if=worth/' "${program[@]}"
bad 1 "SIGTRAP is what watches themselves come by" -e 'watch:small/signal=SIGTRAP/' "${program[@]}"
bad 1 "it takes more debug registers than there are" -e watch:in_turn+1/30 "${program[@]}"
bad 1 'a length from 1 to 32 bytes is expected in place of "64"' -e watch:in_turn/64 "${program[@]}"
bad 1 "nothing of the program is mapped at the address" -e watch:0x10/8 "${program[@]}"
bad 1 "only a pointer can be followed" -e 'watch:*order' "${program[@]}"
bad 1 "with the watches before it, it would be the 5th register" -e watch:order -e watch:in_turn -e watch:raced "${program[@]}"
bad 1 "no processor watches reads alone" -e watch:small:r "${program[@]}"
bad 1 "the same event spec was given twice" -e watch:small -e watch:small "${program[@]}"
# a read-only variable has a place, and no code writes it
watches constant 0 -e watch:constant "${program[@]}"
expect "hits of a constant" "$(json hits)" 0

# A program that ignores SIGTRAP, as it and what it executes would not any more.
build_target watch/ticks.c
start ./ticks ignore
await_running "$pid"
bad 1 "which delivers watches, is not available: the program ignores SIGTRAP" -e watch:one -p "$pid"
# as the hint says
says "watch:EXPRESSION/outside/"
watches ignored 0 --for 500ms -e watch:one/outside/ -p "$pid"
[ "$(json recorded)" -gt 2 ] || fail "SIGTRAP ignored, from outside: $(cat words)"
kill -9 "$pid"

# Go's stacks have no room for a hit's signal: if the program's own code is Go's it is watched from outside, and what it loads ends what is watched inside.
build_target watch/go.c -O0 -DIS_GO -o goes
build_target watch/go.c -O0 -rdynamic -o loads
build_target watch/go.c -O0 -shared -fPIC -DIS_GO -DLIBRARY -o libgoes.so
build_target watch/go.c -O0 -shared -fPIC -DLIBRARY -o libplain.so
watches of_go 0 -e watch:word -- ./goes
expect "who is Go's, from outside" "$(json hits) $(grep -c right out)" "2 1"
says "watched from outside: there is code of Go, on whose stacks a hit's signal has no room"
watches plain 0 -e watch:word -- ./loads ./libplain.so
expect "a library loaded" "$(json hits) $(grep -c right out)" "3 1"
watches late_go 0 -e watch:word -- ./loads ./libgoes.so
expect "a library of Go loaded" "$(json hits) $(grep -c right out)" "1 1"
says "taken away before the end: there is code of Go"

# A static program has no agent, and so no markers and probes.
if cc -g -static "$source_dir/tests/targets/watch/ticks.c" -o still 2>/dev/null; then
	start ./still
	await_running "$pid"
	bad 1 "static" -e watch:one -e func:main -p "$pid"
	kill -9 "$pid"
fi

# Others hold the registers: nothing is watched, and nothing left behind.
start ./watched forever 0 2 >forever_out
watched_pid=$pid
"$waymark" record -o holds --for 50s -e watch:order -e watch:raced -p "$watched_pid" >/dev/null 2>&1 &
holds=$!
await_armed "$watched_pid"
bad 1 "not enough debug registers are free" -e watch:counted -p "$watched_pid"
says "watch:order"
kill -TERM "$holds"
wait "$holds" || fail "who holds them"
watches after 0 --for 200ms -e watch:counted -p "$watched_pid"
expect "missed" "$(json missed)" 0

# A debugger: its program's SIGTRAP is its own. It is named, and has not noticed.
if command -v gdb >/dev/null; then
	sleep 60 | gdb -q -nx -batch -ex 'watch small' -ex 'echo armed\n' -ex 'continue' -p "$watched_pid" >gdb_out 2>&1 &
	debugger=$!
	# the tracer is there a moment before its register
	await_gdb "$watched_pid" gdb_out
	bad 1 "gdb" -e watch:counted -e func:write_one -p "$watched_pid"
	# but what needs no agent is to be had, beside its own
	watches beside 0 --for 300ms -e watch:counted -p "$watched_pid"
	says "watched from outside"
	expect "beside a debugger: missed" "$(json missed)" 0
	[ "$(json recorded)" -gt 10 ] || fail "beside a debugger: $(cat words)"
	kill -INT "$debugger" 2>/dev/null
fi
kill -9 "$watched_pid"
exit $failed
