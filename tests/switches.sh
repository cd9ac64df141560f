#!/bin/bash
# SPDX-License-Identifier: MIT
# What `waymark report` makes of switches: the time of threads and spans running, runnable and
# asleep, against what the program measured; who woke whom; as root, as another user, and over all
# CPUs. No bound depends on how busy the machine is: the time that a hypervisor took is measured.
no_ticker=1
# shellcheck source=tests/tracefs_setup.bash
. "$(dirname "$0")/tracefs_setup.bash"
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

cp "$WAYMARK_BUILD/tests/targets/switched" . || skip "not built"
chmod 777 . # another user records too
"$waymark" stat -e task-clock -o probe true ||
	skip "the kernel counts nothing here: $(cat probe)"

# stolen: CPU time that the hypervisor took, of all CPUs, in ns
stolen() { echo $(($(awk '$1 == "cpu" { print $9 }' /proc/stat) * 10000000)); }

# record STATUS ARGUMENT...: the program into ./trace, its report in ./sums and ./text; $steal is
# the time stolen meanwhile. It runs as ${as[@]}, or as this user.
as=()
record()
{
	local wanted=$1 got before
	shift
	rm -rf trace
	before=$(stolen)
	timeout -k 5 60 "${as[@]}" "$waymark" record -o trace "$@" ./switched >out 2>err </dev/null
	got=$?
	steal=$(($(stolen) - before))
	[ $got -eq "$wanted" ] || fail "record $*: status $got, expected $wanted: $(cat out err)"
	"$waymark" report --json trace >sums || fail "report --json: $?"
	"$waymark" report trace >text || fail "report: $?"
}

# of EXPRESSION: of tests/switches.py
of()
{
	python3 "$source_dir/tests/switches.py" "$1" "$steal" "$(nproc)" ||
		fail "$1: $(head -c 800 sums)" >&2
}

is_napping() { grep -qsx napper "/proc/$pid/task"/*/comm; }

# holds WHAT EXPRESSION
holds() { expect "$1" "$(of "$2")" True; }

# What holds however it was recorded.
check()
{
	holds "$1: threads have the program's names" 'all(t[n]["name"] == n for n in own)'
	holds "$1: nothing was lost" 'all(t[n]["lost_events"] == 0 and t[n]["missing"] == 0 for n in own)'
	expect "$1: running is CPU time" "$(of '[n for n in own if not runs_as_measured(n)]')" "[]"
	holds "$1: two threads do not run on one CPU at once" \
		's["spinner"]["running_ns"] <= 1.01 * max(m["spinner"]["wall"], m["rival"]["wall"])'
	holds "$1: times add up to a thread's life" 'all(total(t[n]) == lived(t[n]) for n in own)'
	holds "$1: times add up to a span's length" \
		'all(abs(total(s[n]) - s[n]["max_ns"]) < 10000 for n in ("napper", "waiter"))'
	holds "$1: all spans are in it" 'all(x["switched"] == x["calls"] > 0 for x in s.values())'
	holds "$1: spans within others count in both" \
		's["one_nap"]["calls"] == 20 and all(s["one_nap"][k] <= s["napper"][k] for k in TIMES)'
	holds "$1: a thread that naps is off its CPU" \
		'off(s["napper"]) > 100 * MS > s["napper"]["running_ns"]'
	holds "$1: threads that spin on one CPU are runnable" \
		's["spinner"]["runnable_ns"] > 200 * MS and off(s["spinner"]) < 0.1 * total(s["spinner"])'
	holds "$1: they are preempted" 't["spinner"]["preempted"] > 0 and t["rival"]["preempted"] > 0'
	holds "$1: a thread that waits is off its CPU" \
		'off(t["waiter"]) > 100 * MS and t["waiter"]["switches"] >= 10'
	grep -q '^THREAD .*RUNNING *RUNNABLE *ASLEEP' text || fail "$1: no table of threads: $(cat text)"
	grep -q '^SPAN .*RUNNING *RUNNABLE *ASLEEP' text || fail "$1: no times of spans: $(cat text)"
}

# ---- the program's threads ----

record 0 -e switch -e 'switched:*'
check "threads"
"$waymark" report --json --slowest 1000 trace >slow || fail "report --slowest: $?"
expect "the slowest: those alone of their name have the times of all of that name" "$(python3 -c '
import json
times = [x + "_ns" for x in ("running", "runnable", "asleep", "waiting", "unknown")]
slow = json.load(open("slow"))["slow"]
alone = {x["name"]: [x[t] for t in times] for x in json.load(open("sums"))["span"] if x["calls"] == 1}
for x in slow:
    if alone.get(x["span"], [x[t] for t in times]) != [x[t] for t in times] or x["running_ns"] is None:
        print(x)
print(len(alone) > 1, len(slow) > len(alone))')" "True True"
"$waymark" report --slowest 3 trace >slow || fail "report --slowest: $?"
grep -q '^ *BEGIN  *DURATION  *SELF  *RUNNING  *RUNNABLE ' slow || fail "report --slowest: $(cat slow)"
for name in napper spinner rival waiter poster; do
	grep -q "^$name  " text || fail "no thread $name: $(cat text)"
done
if has_tracefs; then
	holds "the poster wakes the waiter" \
		't["waiter"]["wakers"][0]["waker"].startswith("poster-") and t["waiter"]["wakers"][0]["count"] >= 10'
	# the kernel may leave out wakes from an idle CPU: by its own sums the naps were no waits for a CPU
	holds "naps are asleep, and not runnable" \
		'off(t["napper"]) > 100 * MS and waits_as_measured("napper")'
	holds "naps are of state S" 'max(t["napper"]["waits"], key=lambda w: w["time_ns"])["state"] == "S"'
	holds "the place where it slept is beside the time of sleep, and not where it left most often" \
		'all(w["place_time_ns"] <= w["time_ns"] + t["napper"]["runnable_ns"] for w in t["napper"]["waits"]
			if w["state"] == "S")'
	holds "off a CPU: as long as it did not run" 'all(abs(sum(w["time_ns"] for w in t[n]["stacks"]) -
		off(t[n]) - t[n]["runnable_ns"]) < 0.02 * lived(t[n]) + MS for n in ("napper", "waiter"))'
	[ "$(uname -m)" != x86_64 ] || holds "stacks without callers are places" \
		'any(w["stack"].startswith("nap (") for w in t["napper"]["stacks"] if w["state"] == "S")'

	# ---- with callers ----

	record 0 -e switch/callchain=dwarf/ -e 'switched:*'
	check "callers"
	[ "$(uname -m)" != x86_64 ] || holds "callers: who slept" \
		'any("nap < napper" in (w["stack"] or "") for w in t["napper"]["stacks"] if w["state"] == "S")'
	holds "callers: in the kernel" \
		'any("nanosleep" in (w["kernel_stack"] or "") for w in t["napper"]["stacks"])'
	"$waymark" report --waits --top 3 trace >text || fail "report --waits: $?"
	grep -q '^THREAD .*STATE .*COUNT .*TIME .*ASLEEP .*MAX .*WOKEN BY .*STACK$' text || fail "--waits: $(cat text)"
	grep -q '^THREAD .*TID .*WAKER .*COUNT .*TIME' text || fail "--waits: $(cat text)"
	"$waymark" report --waits --json --tid "$(of 't["waiter"]["tid"]')" trace >sums
	expect "--waits of one thread" "$(python3 -c 'import json; print({w["thread"] for w in json.load(open("sums"))["wait_stack"]})')" "{'waiter'}"
	record 0 -e switch -e 'switched:*'
	grep -q '^waiter .*poster-[0-9]* (' text || fail "no waker in the table: $(cat text)"

	# ---- all CPUs ----

	# a busy machine has more switches than a late recorder takes: then it says how many were lost
	is_whole()
	{
		record 0 -a -e switch -e 'switched:*'
		grep -q 'lost none' err
	}
	await -s 60 is_whole || fail "CPUs: events are lost each time: $(cat err)"
	check "CPUs"
	holds "CPUs: naps are asleep, and not runnable" \
		'off(t["napper"]) > 100 * MS and waits_as_measured("napper")'
	holds "CPUs: other threads are in it" 'len(by_tid) > len(m)'
fi

# ---- another user: neither wakes nor states ----

user=$(getent passwd nobody | cut -d: -f1)
if [ "$(id -u)" -eq 0 ] && [ -n "$user" ] && command -v setpriv >/dev/null; then
	as=(setpriv --reuid "$user" --clear-groups env "XDG_RUNTIME_DIR=$folder/other")
	mkdir -m 0777 other
	chown "$user" other
	if "${as[@]}" "$waymark" record -o probed -e switch ./switched >out 2>err; then
		record 0 -e switch -e 'switched:*'
		check "another user"
		holds "another user: no waker is known" 'all(w["waker_tid"] is None for n in own for w in t[n]["wakers"])'
		holds "another user: waits are asleep or runnable" \
			't["napper"]["waiting_ns"] > 100 * MS > t["napper"]["asleep_ns"]'
		grep -q '^THREAD .* WAITING ' text || fail "another user: no WAITING in the table: $(cat text)"

		# a program that was there before and is there after: the kernel's own sums divide its waits
		start "${as[@]}" ./switched 100000
		await is_napping || fail "no thread naps"
		rm -rf trace
		timeout -k 5 60 "${as[@]}" "$waymark" record --for 1s -e switch -p "$pid" -o trace >out 2>err ||
			fail "another user attaches: $(cat err)"
		kill -9 "$pid"
		"$waymark" report --json trace >sums || fail "report --json: $?"
		holds "another user attaches: naps are asleep" \
			'napper["asleep_ns"] > 0.5 * lived(napper) and napper["switches"] > 10'
		holds "by the kernel's sums" 'napper["waiting_ns"] < 0.1 * napper["asleep_ns"]'
	else
		echo "not as another user: $(cat err)"
	fi
	as=()
fi

# ---- without switches ----

record 0 -e 'switched:*'
holds "without switches: no threads" '"thread" not in report and s["napper"]["running_ns"] is None'
if grep -q RUNNABLE text; then fail "without switches: $(cat text)"; fi
"$waymark" report --slowest 3 trace >slow || fail "without switches: report --slowest: $?"
if ! grep -q DURATION slow || grep -q RUNNABLE slow; then fail "without switches: $(cat slow)"; fi

exit $failed
