#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark stat: counts of programs, processes, threads and CPUs whose page faults are known; what it
# refuses, and how; list --events.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

cp "$WAYMARK_BUILD/cli/waymark" "$WAYMARK_BUILD/tests/targets/counted" . || skip "not built"
waymark=$folder/waymark
started=()

cleanup()
{
	exec 3>&- 4>&-
	[ ${#started[@]} -eq 0 ] || { disown -a && kill -9 "${started[@]}" 2>/dev/null; }
	rm -rf "$folder"
}
trap cleanup EXIT
chmod 755 .
sees_kernel=
[ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 1 ] || sees_kernel=1
"$waymark" stat -e page-faults -o probe true || skip "the kernel counts nothing here: $(cat probe)"

# stat STATUS ARGUMENT...: what it prints is in ./out and ./err
stat()
{
	local wanted=$1 got
	shift
	timeout -k 5 60 "$waymark" stat "$@" >out 2>err </dev/null 3>&-
	got=$?
	[ $got -eq "$wanted" ] || fail "stat $*: status $got, expected $wanted: $(cat out err)"
}

# says TEXT: a line of ./err has it
says() { grep -qF -e "$1" err || fail "no '$1' in: $(cat err)"; }

# json EXPRESSION: of the object in ./json, as Python's `o`, with its events by name in `e`
json()
{
	python3 -c 'import json, sys
o = json.loads(open("json").read())
e = {row["event"]: row for row in o["counted"]}
print(eval(sys.argv[1]))' "$1" || fail "$1: $(cat json)" >&2
}

# near WHAT GOT WANTED: to 2 in 100; a thread or child that is missing is more
near()
{
	[ "$2" -ge $(($3 - $3 / 50)) ] && [ "$2" -le $(($3 + $3 / 50)) ] ||
		fail "$1: $2 page faults, expected some $3"
}

# wait_for_it THREADS PAGES: starts `counted`, which continues when 3 is closed; its pid in $pid
wait_for_it()
{
	rm -f ready go && mkfifo go
	./counted "$1" "$2" <go >ready &
	pid=$!
	started+=("$pid")
	exec 3>go # what we start from here on must not keep it open
	await_text ready '^ready$'
}

# ---- a program ----

stat 0 -j -o json -e page-faults,task-clock,minor-faults -- ./counted 4 1000
near "a program" "$(json 'e["page-faults"]["count"]')" 9000
expect "its status" "$(json 'o["status"]')" 0
expect "whole time" "$(json 'e["task-clock"]["scaled"], e["task-clock"]["unit"]')" "(False, 'ns')"
expect "its clock" "$(json 'round(e["task-clock"]["count"] / e["task-clock"]["enabled_ns"], 1)')" 1.0
stat 0 -j -o json --no-children -e page-faults -- ./counted 4 1000
[ "$(json 'e["page-faults"]["count"]')" -lt 900 ] || fail "children: $(cat json)"
stat 0 -j -o json -e '{page-faults,minor-faults},major-faults' -- ./counted 2 500
expect "a group" "$(json 'e["page-faults"]["count"] - e["minor-faults"]["count"] - e["major-faults"]["count"]')" 0
if [ -n "$sees_kernel" ]; then
	stat 0 -j -o json -e page-faults:u,page-faults:k,page-faults -- ./counted 2 500
	expect "modifiers" "$(json '(e["page-faults:u"]["count"] + e["page-faults:k"]["count"] -
		e["page-faults"]["count"])')" 0
	stat 0 -j -o json -e cs -- sleep 0.01
	[ "$(json 'e["cs"]["count"]')" -gt 0 ] || fail "switches: $(cat json)"
	stat 0 true
	grep -q "[0-9]  context-switches " err || fail "no switches: $(cat err)"
else
	for event in page-faults:k cs cpu-migrations; do
		stat 1 -e "$event" true
		says "it must be 1"
	done
	stat 0 true
	says "Without switches and migrations"
fi
stat 0 -j -o json -r 3 -e page-faults -- ./counted 1 4000
near "the mean" "$(json 'round(e["page-faults"]["mean"])')" 12000
expect "runs" "$(json 'o["runs"]')" 3
stat 7 -e page-faults sh -c 'exit 7'
stat $((128 + 15)) -e page-faults sh -c 'kill $$'
says "Counts of 'sh -c kill"
stat 0 true
says task-clock
says "seconds elapsed"
stat 0 -o table -e page-faults sh -c 'echo out; echo err >&2'
expect "its own output" "$(cat out err)" $'out\nerr'
grep -q "Counts of 'sh -c" table || fail "-o: $(cat table)"
stat 0 -j -o json -I 50ms -e task-clock -- sh -c 'sleep 0.3'
expect "intervals" "$(python3 -c 'import json
rows = [row for row in map(json.loads, open("json")) if row["type"] == "counting"]
print(len(rows) >= 5, all(a["at_ns"] < b["at_ns"] for a, b in zip(rows, rows[1:])))')" "True True"

# The kernel says these in us; the difference of two is not cut short.
for _ in 1 2 3 4 5 6 7 8; do
	stat 0 -j -o json -r 5 -e page-faults true
	cat json >>times.json
done
expect "ns of whole us" "$(grep -o '"\(user\|system\)_ns":[0-9]*' times.json | grep -vc '\(:0\|000\)$')" 0
expect "times" "$(grep -o '"\(user\|system\)_ns":[0-9]*' times.json | grep -c .)" 16

# ---- processes and threads ----

sum() { grep -o '"count":[0-9]*' rows | cut -d: -f2 | awk '{ sum += $1 } END { print sum }'; }

wait_for_it 8 1000
"$waymark" stat -j -I 50ms -e page-faults -p "$pid" >rows 2>err 3>&- &
counting=$!
started+=("$counting")
await_text rows '"page-faults"' # each thread's event counts
exec 3>&-
wait $counting || fail "a process: $(cat err)"
expect "its threads" "$(grep -c '"threads":9,.*"doubtful":false' rows)" "$(grep -c '"threads"' rows)"
near "a process" "$(sum)" 17000
wait "$pid"
expect "the process" $? 0

# Threads that start and end while counting begins: none is missed, and none is counted twice.
faults() { awk '{ print $10 + $12 }' "/proc/$pid/stat"; }
for ((round = 0; round < 5; round++)); do
	wait_for_it 0 3
	before=$(faults)
	rm -f rows # else the last round's may be seen, and `first` comes before the counting
	# /proc has a fault when it ends, as these have; page-faults has it when it begins
	"$waymark" stat -j -I 20ms -e minor-faults,major-faults -p "$pid" >rows 2>err 3>&- &
	counting=$!
	started+=("$counting")
	await_text rows '"major-faults"'
	first=$(faults)
	await eval '[ "$(grep -c major-faults rows)" -ge 5 ]'
	last=$(faults)
	kill -TERM $counting
	wait $counting || fail "threads that come and go: $(cat err)"
	after=$(faults)
	[ "$(sum)" -ge $((last - first)) ] && [ "$(sum)" -le $((after - before)) ] ||
		fail "threads that come and go: $(sum), expected $((last - first)) to $((after - before))"
	exec 3>&-
	wait "$pid"
done

sleep 300 &
started+=($!)
sleeper=$!
stat 0 -p $sleeper --for 50ms
says "Counts of process $sleeper"
stat 0 -t $sleeper --for 50ms -e page-faults
says "Counts of thread $sleeper"
stat 1 -p 4194304
says "No such process: process 4194304"
stat 1 -t 4194304
says "No such process: thread 4194304"

# ---- CPUs ----

if "$waymark" stat -a -e page-faults --for 10ms 2>/dev/null; then
	stat 0 -j -o json -a -e page-faults -- ./counted 2 2000
	[ "$(json 'e["page-faults"]["count"]')" -ge 9800 ] || fail "all CPUs: $(cat json)"
	expect "all CPUs" "$(json 'o["cpus"]')" "$(getconf _NPROCESSORS_ONLN)"
	stat 0 -j -o json -C 0 -e cpu-clock --for 200ms
	expect "one CPU" "$(json 'o["cpus"], round(e["cpu-clock"]["count"] / e["cpu-clock"]["enabled_ns"], 1)')" "(1, 1.0)"
	stat 1 -C 4000 -e page-faults --for 10ms
	says "CPU 4000 is not online"
	stat 0 -j -o json -C 0,0 -e cpu-clock --for 50ms
	expect "a CPU twice" "$(json 'o["cpus"]')" 1

	# A unit that is read through CPU 0 alone, and its group; each other CPU has the rest of the group.
	mkdir -p units/u/format units/u/events && echo 1 >units/u/type && echo 0 >units/u/cpumask &&
		echo config:0-63 >units/u/format/event && echo event=0x0 >units/u/events/clock
	unit()
	{
		unshare -m sh -c 'mount --bind units /sys/bus/event_source/devices && exec "$@"' - \
			"$waymark" stat -j -o json -a -e "$1" --for 200ms 2>err
	}
	if unshare -m true 2>/dev/null; then
		unit '{u/clock/,cpu-clock}' || fail "a unit of CPU 0: $(cat err)"
		expect "its group on all CPUs, the unit on one" \
			"$(json 'round(e["cpu-clock"]["count"] / e["u/clock/"]["count"]) - o["cpus"]')" 0
		"$waymark" stat -e u/clock/ true 2>err && fail "a unit that is not there"
	fi
fi

# ---- what it refuses ----

for bad in nosuch taskclock '' ',' 'cs,' '{cs' 'cs}' '{}' nosuch/x/ msr/ msr/nosuch=1/ ../etc/x/ \
	sched:nosuch r cs:x "$(printf 'a%.0s' {1..200})"; do
	stat 2 -e "$bad" true
	[ -s err ] || fail "-e '$bad': no words"
done
stat 2 -e taskclock true
says "did you mean task-clock?"
stat 2
stat 2 -p 0
stat 2 -p x
stat 2 -p 1 -t 1
stat 2 -p 1 true
stat 2 -a -p 1
stat 2 -a -C 0
stat 2 -C 0-
stat 2 -I 0 true
stat 2 -r 0 true
stat 2 -r 2 -I 1s true
stat 2 --for never true
stat 2 -G /nowhere true
stat 1 -a -G /nowhere
stat 1 ./nosuch
says "No such file or directory: ./nosuch"
stat 1 -o /nowhere/table true
if ! "$waymark" stat -e cycles -o probe true 2>err; then
	says "this machine has no unit that counts it: cycles"
	expect "the program was not run" "$("$waymark" stat -e cycles echo ran 2>/dev/null)" ""
fi
wait_for_it 40 10
(ulimit -n 30 && "$waymark" stat -e page-faults,task-clock -p "$pid" --for 10ms) 2>err &&
	fail "30 descriptors suffice"
says "RLIMIT_NOFILE"
exec 3>&-
wait "$pid"

# Signals end the counting, and the table is there; the program gets them once.
"$waymark" stat -e page-faults sleep 300 2>err 3>&- &
started+=($!)
await eval '[ "$(find /proc/$!/fd -lname "*perf_event*" 2>/dev/null | wc -l)" -ge 1 ] && pgrep -P $! -x sleep >/dev/null'
kill -TERM $!
wait $!
expect "ended: status" $? 143
says "Counts of 'sleep 300'"

# ---- another user ----

if [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" = 2 ]; then
	user=(setpriv --reuid nobody --clear-groups)
	"${user[@]}" "$waymark" stat -e page-faults -- ./counted 2 1000 >out 2>err || fail "another user: $(cat err)"
	says "User space alone"
	"${user[@]}" "$waymark" stat -a --for 10ms 2>err && fail "another user may count on CPUs"
	says "for CPUs it must be 0"
	"${user[@]}" "$waymark" stat -e cs:k true 2>err && fail "another user may count in the kernel"
	says "for the kernel's accesses it must be 1"
	"${user[@]}" "$waymark" stat -p $sleeper --for 10ms 2>err && fail "another user may count root's process"
	says "runs as user 0"
fi

# ---- the list ----

"$waymark" list --events >out || fail "list --events"
grep -q '^page-faults  *software .*  page faults' out || fail "list --events: $(cat out)"
"$waymark" list --events 'page-faul*' --json >out || fail "list --events GLOB"
expect "a glob" "$(python3 -c 'import json
print([(row["event"], row["available"]) for row in json.load(open("out"))["countable"]])')" "[('page-faults', True)]"
"$waymark" list --events 'nosuch*' 2>err && fail "a glob of nothing"
says "there is no such event to count"
"$waymark" list --events a b 2>err
expect "two globs" $? 2

exit $failed
