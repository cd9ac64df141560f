#!/bin/bash
# SPDX-License-Identifier: MIT
# Events of the kernel in a trace: switches, wakes, faults, samples, counts, tracepoints, kprobes
# and watches of the kernel; of processes and of CPUs; beside markers; and what is refused, and how.
# shellcheck source=tests/tracefs_setup.bash
. "$(dirname "$0")/tracefs_setup.bash"
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

cp "$WAYMARK_BUILD/tests/targets/switching" . || skip "not built"
"$waymark" stat -e page-faults -o probe true || skip "the kernel counts nothing here: $(cat probe)"

# record STATUS ARGUMENT...: into ./trace; what it prints is in ./out and ./err
record()
{
	local wanted=$1 got
	shift
	rm -rf trace
	timeout -k 5 60 "$waymark" record -o trace "$@" >out 2>err </dev/null
	got=$?
	[ $got -eq "$wanted" ] || fail "record $*: status $got, expected $wanted: $(cat out err)"
}

# says TEXT: a line of ./err has it
says() { grep -qF -e "$1" err || fail "no '$1' in: $(cat err)"; }

# events EXPRESSION: of tests/kernel_events.py, of ./trace
events()
{
	"$waymark" dump --json trace >events || fail "dump: $?"
	python3 "$source_dir/tests/kernel_events.py" "$1" || fail "$1: $(head -c 600 events)" >&2
}

# holds WHAT EXPRESSION
holds() { expect "$1" "$(events "$2")" True; }

is_root() { [ "$(id -u)" -eq 0 ]; }

# ---- switches and faults of a program, with nothing loaded into it ----

record 0 -e switch -e fault ./switching 20 300
holds "each switch of the sleeper is recorded, as the kernel counts them" \
	'departs_as_it_says()'
holds "a thread arrives and departs in turn, until it ends" \
	'turns(sleeper).replace("ad", "") == "ax"'
holds "threads have names" '"sleeper" in values("task:name", "name", sleeper) and
	"waiter" in values("task:name", "name", waiter)'
holds "each event of a CPU names it" \
	'all(x["cpu"] >= 0 for x in of("switch:depart") + of("fault:page"))'
holds "each page faults once, at its address" \
	'all(faults_at(pages // 4096 + i) == 1 for i in range(300))'
holds "times never go back" 'all(a["time_ns"] <= b["time_ns"] for a, b in zip(e, e[1:]))'
if has_tracefs; then
	holds "the waiter is woken by the main thread" 'sum(x["fields"]["waker_tid"] ==
		x["fields"]["waker_pid"] for x in of("switch:wake", waiter)) >= 10'
	holds "each wake is recorded once" \
		'len(of("switch:wake", sleeper)) <= len(of("switch:depart", sleeper)) + 1'
	holds "states are known" 'set(values("switch:depart", "state", sleeper)) <= set("SRDZX")'
	holds "the place of a sleep is in the program's memory" \
		'all(0 < x["fields"]["place"] < 1 << 47 for x in of("switch:depart", waiter)
			if x["fields"]["state"] == "S")'
fi

# ---- beside markers, in one trace ----

record 0 -e 'ticker:*' -e switch -e count:page-faults ./ticker 100 2 20
holds "markers and switches are in one trace" 'of("ticker:tick") != [] != of("switch:depart")'
holds "a marker has no CPU" 'all(x.get("cpu", -1) == -1 for x in of("ticker:tick"))'
holds "counts grow" 'grows("count:page-faults")'

record 0 -e count:page-faults+task-clock+minor-faults ./switching 20 300
holds "a group has a value for each event, and one time" \
	'is_grouped(of("count:page-faults+task-clock+minor-faults")[-1]["fields"])'
"$waymark" report --json trace >sums || fail "report --json: $?"
holds "report has a row for each event of a group" \
	'[(name, unit) for name, _, unit, _ in reported()] ==
		[("page-faults", None), ("task-clock", "ns"), ("minor-faults", None)]'

# ---- counts ----

# 7 times 500 pages, and a few: the end of the count is what the report prints
cp "$WAYMARK_BUILD/tests/targets/counted" . || skip "not built"
record 0 -e count:page-faults -e count:cpu-clock ./counted 3 500
holds "a count has the pages of all threads and children" '3500 <= last("page-faults") <= 3600'
"$waymark" report --json trace >sums || fail "report --json: $?"
holds "report has the last value of each count" \
	'reported() == [("page-faults", last("page-faults"), None, False),
		("cpu-clock", last("cpu-clock"), "ns", False)]'
"$waymark" report trace >text
grep -q '^page-faults  *3[56][0-9][0-9] ' text || fail "no count in: $(cat text)"

# ---- samples, tracepoints, kprobes, watches of the kernel ----

record 0 -e sample:page-faults/period=1,addr,regs/ ./switching 1 300
holds "a sample has the registers of its instruction: rsp is the eighth of 18, rip the ninth" \
	'[has_registers(x["fields"]) for x in of("sample:page-faults")
		if 0 <= x["fields"]["address"] // 4096 - pages // 4096 < 300] == [True] * 300'

# in user space: an ordinary user's samples are of that alone, where ./switching hardly is
record 0 -e sample:cpu-clock/freq=1000/ awk 'BEGIN { for (i = 0; i < 3000000; i++) sum += i }'
holds "there are samples" 'of("sample:cpu-clock") != []'
holds "samples have a place" 'all(values("sample:cpu-clock", "ip"))'
if has_tracefs; then
	record 0 -e tracepoint:sched:sched_process_exit ./switching 1 1
	holds "a tracepoint has its fields" '"sleeper" in values("sched:sched_process_exit", "comm")'
	# the same twice, one with conditions: only that has callers
	for test in 'prev_comm=="sleeper",if=prev_state!=0|x["prev_comm"] == "sleeper" and x["prev_state"] != 0' \
		'prev_comm~"sl?*",if=prev_prio>=1|x["prev_comm"].startswith("sl") and x["prev_prio"] >= 1' \
		'prev_state&1,if=comm!="waiter"|x["prev_state"] & 1 and x["prev_comm"] != "waiter"'; do
		record 0 -e tracepoint:sched:sched_switch \
			-e "tracepoint:sched:sched_switch/callchain,if=${test%%|*}/" ./switching 20 1
		holds "the kernel tests ${test%%|*}" "filtered('sched:sched_switch', lambda x: ${test#*|})"
	done
	record 1 -e 'tracepoint:sched:sched_switch/if=prev_pidd==7/' true
	says 'names no field of the event; did you mean prev_pid'
	record 1 -e 'tracepoint:sched:sched_switch/if=prev_pid==0x1ffffffff/' true
	says "has a value that the field can't have"
else
	echo "left out, tracepoints: $(lacks tracepoint)"
fi
if is_root; then
	if [ -e /sys/bus/event_source/devices/kprobe ]; then
		record 0 -a -e kprobe:do_exit/args/ -e kprobe:do_exit/ret/ ./switching 1 1
		holds "a function of the kernel is probed" 'len(of("kprobe:do_exit")) >= 3'
		holds "a kprobe has arguments" 'all("arg1" in x["fields"] for x in of("kprobe:do_exit"))'
		record 0 -a -e kprobe:do_exit/args/ \
			-e 'kprobe:do_exit/args,callchain,if=arg1==0,if=comm=="sleeper"/' ./switching 1 1
		holds "conditions of a kprobe, by the kernel and by its registers" \
			"filtered('kprobe:do_exit', lambda x: x['arg1'] == 0 and x['tid'] == sleeper)"
		record 1 -a -e 'kprobe:do_exit/if=arg1==0/' true
		says 'names no field of the event: it has pid, tid, comm, cpu'
		record 1 -a -e kprobe:no_such_function_here true
		says "no_such_function_here"
		record 1 -e kprobe:do_exit ./switching 1 1
		says "add -a or -C"
	else
		record 1 -a -e kprobe:do_exit/args/ ./switching 1 1
		says "the kernel has no unit kprobe"
	fi
	if [ -e /sys/bus/event_source/devices/kprobe ] && ! lacks breakpoint-execute >/dev/null; then
		record 0 -a -e watch:do_exit@kernel:x ./switching 1 1
		holds "a function of the kernel is watched" 'len(of("watch:do_exit")) >= 3'
	else
		record 1 -a -e watch:do_exit@kernel:x ./switching 1 1
		says "do_exit"
	fi
	if grep -qw total_forks /proc/kallsyms; then
		record 0 -a -e watch:total_forks@kernel:w ./switching 1 1
		holds "a variable of the kernel is watched" 'len(of("watch:total_forks")) >= 3'
	fi
	record 0 -a -e watch:do_exit/8@kernel:w ./switching 1 1
	holds "a variable that no one writes has no hit" 'len(of("watch:do_exit")) == 0'
	record 1 -e watch:do_exit@kernel:w ./switching 1 1
	says "add -a or -C"
	record 0 -a -e switch -e fault ./switching 20 300
	holds "all CPUs: the program is in it" \
		'0 <= sum(departures(sleeper)) - sum(switches) <= AFTER_ASKING_MAX'
	holds "all CPUs: others are in it" 'len({x["pid"] for x in of("switch:depart")}) > 1'
	start ./switching 100000 1
	record 0 -a --for 300ms -e "switch/if=pid==$pid/"
	kill "$pid"
	holds "switches of one process" \
		"{x['pid'] for x in of('switch:depart') + of('switch:arrive') + of('switch:wake')} == {$pid}"
	record 0 --for 300ms -C 0 -e sample:cpu-clock/freq=100/ -e switch -e count:page-faults
	holds "one CPU" '{x["cpu"] for x in of("sample:cpu-clock")} <= {0}'
	holds "sums are of the moment at which the events end" \
		'{of(name)[-1]["time_ns"] for name in ("count:page-faults", "switch:runnable")} ==
			{e[-1]["time_ns"]}'
fi

# ---- what is refused ----

record 1 -e sample:cpu-clok/freq=99/ true
says "cpu-clok"
record 1 -e fault -e sample:page-faults/period=1/ true
says "another spec records the same event"
record 1 -e tracepoint:sched:no_such true
says "no_such"
record 1 -e switch/if=cpu==0/ true
says 'names no field of the event: it has pid, tid'
record 2 -e switch
says "name a process with -p"
record 1 -a -G /sys/fs/cgroup/no/such -e switch true
says "/sys/fs/cgroup/no/such"
record 1 --for 1s -C 4095 -e switch
says "4095"

exit $failed
