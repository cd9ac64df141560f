#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark top: markers, spans, functions and threads of a program that are known; where kernel
# events are not permitted; what it refuses; the terminal.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

cp "$WAYMARK_BUILD/tests/targets"/{topped,unpermitted} . || skip "not built"

# top STATUS ARGUMENT...: what it prints is in ./out and ./words
top()
{
	local wanted=$1 got
	shift
	timeout -k 5 100 "$waymark" top "$@" >out 2>words </dev/null
	got=$?
	[ $got -eq "$wanted" ] ||
		fail "top $*: status $got, expected $wanted: $(head -c 600 out; cat words)"
}

# rows EXPRESSION: of tests/top_rows.py
rows()
{
	python3 "$source_dir/tests/top_rows.py" "$1" || fail "$1: $(head -c 600 out)" >&2
}

# holds WHAT EXPRESSION
holds() { expect "$1" "$(rows "$2")" True; }

# counted WHAT: each marker and span is counted once; what threads do is seen
counted()
{
	holds "$1: ticks" 'total("top_event", "topped:tick", "count") == int(said["ticks"]) == 100000'
	holds "$1: all events are ticks" 'sum(o["event_total"] for o in rows) >= 100000'
	holds "$1: spans" 'total("top_span", "topped:work", "count") == int(said["spans"]) == 5000'
	holds "$1: one was open until it ended" \
		'[span["open"] for span in of("top_span", "topped:open")][-2:] == [1, 0]'
	holds "$1: it ended once" 'total("top_span", "topped:open", "count") == 1'
	holds "$1: times of spans" 'all(max(span["mean_ns"], span["p99_ns"]) <= span["max_ns"] <=
		span["total_ns"] for span in of("top_span") if span["count"])'
	holds "$1: the open span lasted longest" \
		'max((span["max_ns"] or 0, span["span"]) for span in of("top_span"))[1] == "topped:open"'
	holds "$1: intervals" 'len(rows) > 1'
	holds "$1: one is the last" '[o["is_last"] for o in rows] == [False] * (len(rows) - 1) + [True]'
	holds "$1: nothing lost" 'sum(o["lost"] for o in rows) == 0'
	# however busy the machine is, one never sleeps, and the other never runs
	holds "$1: the spinner does not sleep" \
		'part("spinner", "asleep_ns") < 0.1 < part("spinner", "running_ns", "runnable_ns")'
	holds "$1: the sleeper does not run" \
		'part("sleeper", "running_ns") < 0.1 < part("sleeper", "asleep_ns")'
	holds "$1: no thread has more time than there was" \
		'all(time(t) <= 1.1 * o["thread_interval_ns"] + 1e8 for o in rows for t in o["top_thread"])'
}

# has_lines COUNT: ./out has so many
has_lines() { [ "$(wc -l <out)" -ge "$1" ]; }

# shows COMMAND...: until ./topped has emitted its markers, and two intervals more
shows()
{
	rm -f go && mkfifo go
	timeout -k 5 100 "$@" --json -I 50ms -o its -- ./topped 100000 5000 waits <go >out 2>words &
	looking=$!
	started+=("$looking")
	exec 8>go
	await grep -qs ^ticks its || fail "$*: the program does not run: $(cat words)"
	await has_lines $(($(wc -l <out) + 3)) || fail "$*: no more intervals"
	exec 8>&-
	wait $looking
	expect "$*: status" $? 0
}

# ---- a program ----

shows "$waymark" top
counted "a program"
grep -q -- --output words && fail "--output is given, and named: $(cat words)"

# Without the privilege for kernel events: markers, and threads by what /proc has.
./unpermitted true
if [ $? -eq 77 ]; then
	echo "no seccomp filters here: events that are not permitted were not tested"
else
	shows ./unpermitted "$waymark" top
	counted "unpermitted"
	expect "it is said, in one line" \
		"$(grep -c '^waymark: without sample:cpu-clock/freq=100/.*; switch: ' words)" 1
	holds "and in each object" 'all("switch" in o["left_out"] for o in rows)'
	holds "switches are not known" 'all(t["switches"] is None for o in rows for t in o["top_thread"])'
	timeout -k 5 100 ./unpermitted "$waymark" top -a >out 2>words && fail "all CPUs, unpermitted"
	says "nothing is permitted"
	! grep -F "\\x0a" words || fail "the line has no end: $(cat words)"
	timeout -k 5 100 ./unpermitted "$waymark" top -e switch -- true >out 2>words &&
		fail "switches, unpermitted"
fi

# The program's status, and its output.
top 7 -- sh -c 'echo its; exit 7'
says "the output of sh goes to /dev/null"
grep -q ^its out && fail "its output is among the tables"
top $((128 + 15)) -- sh -c 'kill $$'
top 0 -o its sh -c 'echo out; echo err >&2'
expect "its output" "$(cat its)" out
says err
grep -q $'\033' out && fail "sequences where there is no terminal"
top 0 -n 1 -I 100ms -o its -- ./topped 20000 100
expect "one line of a table" \
	"$(awk '/THREAD$/ { getline; getline; print "[" $0 "]"; exit }' out)" "[]"

# ---- sums in place of events ----

build_target summed.c
top 0 --json -o its -e 'func:take@summed/sum=number,by=number/' -- ./summed handlers
holds "sums: all hits" 'sum(row["count"] for row in of("sum")) == int(said["calls"])'
holds "sums: by their values" '{row["by"] for row in of("sum")} == {"0", "1"}'
holds "sums: these" 'all(row["sum"] == row["count"] * int(row["by"]) for row in of("sum"))'
holds "sums: are no events" 'sum(o["event_total"] for o in rows) == 0'
top 0 -o its -e 'func:take@summed/count,by=caller/' -- ./summed threads
grep -q '^COUNT  EVENT *BY$' out && grep -q '  summed:take  some$' out ||
	fail "sums, callers: $(cat out)"

# ---- a running process; its functions ----

start_ready sh -c 'exec ./topped 1000 0 waits | sed -u s/ticks/ready/'
await_text said '^ready'
process=$(grep -o 'pid [0-9]*' said | cut -d' ' -f2)
if "$waymark" stat -e page-faults -o probe true 2>/dev/null; then
	"$waymark" top --json -I 100ms -p "$process" >out 2>words 7>&- &
	looking=$!
	started+=("$looking")
	await_text out '"module":"topped","function":"spin"'
	kill -TERM $looking
	wait $looking
	expect "a process, until SIGTERM" $? 0
	echo "ticks 0" >its
	holds "no other function takes as long" 'largest("top_function", "samples") == "spin"'
	holds "samples are of functions" \
		'all(sum(f["samples"] for f in o["top_function"]) == o["sample_total"] for o in rows)'
	holds "it ran" 'part("spinner", "asleep_ns") < 0.1'
	if [ "$(id -u)" -eq 0 ] || [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 0 ]; then
		"$waymark" top --json -I 100ms -a --for 500ms >out 2>words ||
			fail "all CPUs: $(cat words)"
		holds "all CPUs: the spinner" 'total("top_thread", "spinner", "running_ns") > 0'
	else
		top 1 -a --for 500ms
		says "cpu-clock needs CAP_PERFMON, or kernel.perf_event_paranoid at 0"
	fi
fi

# ---- the terminal ----

python3 "$source_dir/tests/top_terminal.py" "$waymark" "$process" "$folder/topped" >terminal 7>&- ||
	fail "the terminal: $(head -c 6000 terminal)"
top 0 --json -e 'marker:topped:*' -p "$process" --for 100ms
exec 7>&-

# ---- what it refuses ----

top 2
top 2 -p 0
top 2 -p 1 true
top 2 -G / true
top 2 --tree true
top 2 -o its -p 1
top 2 -I 1ms true
top 2 -n 0 true
top 2 --for never true
top 1 -e nosuch:x:y true
top 1 -e 'marker:a b:c' true
top 1 ./nosuch
says "No such file or directory"
top 1 -o /nowhere/its true
says /nowhere/its
top 1 -p 4194304
"$waymark" top true >/dev/full 2>words && fail "a full disk"
says "No space left on device: the output"

exit $failed
