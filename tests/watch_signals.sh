#!/bin/bash
# SPDX-License-Identifier: MIT
# Watched programs behave as before: their signals, masks, children, what they execute; hits that can't be seen are reported.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

for mode in masks handlers traps; do
	watches $mode 0 -e watch:in_turn -- ./watched $mode 50
	grep -q right out || fail "$mode: $(cat out)"
	expect "$mode: missed" "$(json missed)" 0
	expect "$mode: taken" "$(json taken)" "$(json hits)"
done
expect "hits in handlers" "$(watches handlers 0 -e watch:in_turn -- ./watched handlers 50; json hits)" 100
watches raise 133 -e watch:in_turn -- ./watched raise
expect "the last before the end" "$(field_values raise in_turn new)" 1

# Another process sends SIGTRAP without a pause. Frames of the agent's handler must not fill a small signal stack.
watches storm 0 -e watch:in_turn -- ./watched storm 5000
grep -q right out || fail "storm: $(cat out)"
expect "storm: hits, missed" "$(json hits) $(json missed)" "5000 0"

# A handler that is set past libc: the watch ends, with a report.
watches replaces 0 -e watch:in_turn -- ./watched replaces
grep -q right out || fail "replaces: $(cat out)"
says "taken away before the end: the program set a handler for SIGTRAP past the C library"
expect "replaces: hits" "$(json hits)" 1

# Blocked past libc: merged hits are reported as missed, never silently.
watches raw 0 -e watch:in_turn -- ./watched raw_masks 20
grep -q right out || fail "raw: $(cat out)"
expect "raw: hits" "$(json hits)" 20
expect "raw: all are accounted for" $(($(json taken) + $(json missed))) 20
[ "$(json missed)" -gt 0 ] || fail "signals that were merged were not missed"
says "missed: a thread blocked SIGTRAP meanwhile"
expect "raw: the one that was let through: late, by the recording itself, recorded" \
	"$(json late) $(json own) $(json recorded)" "1 0 1"

# The trace says so, too.
reports raw
"$waymark" report raw >summed
grep -q "^Watches      watch:in_turn: 20 hits; [0-9]* missed: a thread blocked SIGTRAP" summed || fail "report: $(cat summed)"

# The kernel's own writes are not seen, and the next value is right all the same.
watches read 0 -e watch:in_turn -- ./watched read 10
expect "read(2)" "$(json hits)" 1
expect "behind read(2)" "$(field_values read in_turn new)" 78

# Children: a forked one is watched as its parent is, with values of its own; those that share memory are let be.
watches fork 0 -e watch:in_turn -- ./watched fork 10
grep -q right out || fail "fork: $(cat out)"
expect "fork: hits" "$(json hits)" 30
expect "fork: missed" "$(json missed)" 0
watches spawn 0 -e watch:in_turn -- ./watched spawn 3
grep -q right out || fail "spawn: $(cat out)"
expect "spawn: missed" "$(json missed)" 0

# What it executes is watched as a program of its own.
watches exec 0 -e watch:in_turn -- ./watched exec
grep -q right out || fail "exec: $(cat out)"
expect "exec: both programs' writes" "$(field_values exec in_turn new | tr '\n' ' ')" "1 1 2 3 4 5 6 7 8 9 10 "

# A library that goes with its variable.
build_target watch/library.c -shared -fPIC -o library.so
start ./watched closes ./library.so >closes_out
await_text closes_out opened
begin_record --json -o closes -e watch:in_library -p "$pid"
await_event closes watch:in_library 11
kill -USR1 "$pid"
await_text closes_out closed
sleep 0.3 # the time in which nothing of the other memory may come
kill -USR1 "$pid"
end_record 0
[ "$(json recorded)" -gt 10 ] || fail "closes: $(json recorded) events: $(cat words)"
expect "closes: missed" "$(json missed)" 0
grep -q right closes_out || fail "closes: $(cat closes_out)"

# As an ordinary user.
if [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	chmod 755 "$folder" && mkdir -m 0700 users && chown 65534:65534 users && cp watched users/ && chmod 755 users/watched
	(cd users && XDG_RUNTIME_DIR=$folder/users setpriv --reuid=65534 --regid=65534 --clear-groups timeout 60 "$waymark" record --json -o users \
		-e watch:in_turn -- ./watched turn 20 4) >out 2>words || fail "as a user: $(cat words)"
	expect "as a user" "$(json hits) $(json missed)" "80 0"
fi
# A hit may stop the program. The tool says how to look at it, and gdb finds the frame behind the handler.
build_target watch/ticks.c -O0
is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }
start ./ticks
await_running "$pid"
"$waymark" watch 'total/signal=STOP/' -p "$pid" >out 2>words &
watcher=$!
await_text words "watch:total stopped process $pid in bump (ticks.c:[0-9]*)"
says "gdb -p $pid -ex 'frame function bump' -ex 'info locals'"
says "continue it: kill -CONT $pid"
await is_stopped "$pid" || fail "the program is not stopped: $(cat "/proc/$pid/status")"
if command -v gdb >/dev/null; then
	timeout 60 gdb -p "$pid" -batch -ex bt -ex 'frame function bump' -ex 'info locals' >seen 2>&1
	grep -q '^twice = [0-9]*[02468]$' seen || fail "gdb: no locals in $(cat seen)"
	grep -q 'main (.*) at .*ticks.c' seen || fail "gdb: no callers in $(cat seen)"
fi
kill -TERM "$watcher"
kill -CONT "$pid"
wait "$watcher"
kill -9 "$pid"
start ./ticks
await_running "$pid"
"$waymark" record -o stopped -e 'watch:total/signal=STOP/' -p "$pid" >out 2>words &
watcher=$!
await_text words "watch:total/signal=STOP/: stops the program at each hit"
await is_stopped "$pid" || fail "record: the program is not stopped"
kill -TERM "$watcher"
kill -CONT "$pid"
wait "$watcher"
kill -9 "$pid"
exit $failed
