#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes, USDT places and markers under load, while uprobes come and go at their instructions and those behind them, and
# gdb sets breakpoints there: every result is right, and the report says when hits are missing.
# ROUNDS (200): how often uprobes are inserted and removed, in all.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"
needs perf-user
[ -e /sys/bus/event_source/devices/uprobe/type ] || skip "this kernel has no uprobes"

rounds=${ROUNDS:-200}
storms=4
cc -O2 -g $has_sdt -I"$source_dir/include" "$probes_dir/uprobes.c" -o uprobes -lpthread || exit 1
mapfile -t addresses < <(nm uprobes | awk '/ T up_/ { print $1 }')
mapfile -t -O ${#addresses[@]} addresses < <("$waymark" list --json -s ./uprobes |
	python3 -c 'import json, sys
for site in json.load(sys.stdin)["site"]: print(site["address"][2:])')
specs=(-e 'func:up_*' -e marker:up:marker)
[ -z "$has_sdt" ] || {
	specs+=(-e usdt:up:place)
	mapfile -t -O ${#addresses[@]} addresses < <("$waymark" list --json --usdt ./uprobes |
		python3 -c 'import json, sys
for place in json.load(sys.stdin)["probe"]: print(place["address"][2:])')
}
expect "addresses" $((${#addresses[@]} >= 10)) 1

# storm PID ROUNDS: that many rounds, side by side
storm()
{
	local pids=() i
	for ((i = 0; i < storms; i++)); do
		./uprobes storm "$PWD/uprobes" $(($2 / storms)) "$1" "${addresses[@]}" >"storm.$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || fail "a storm: $(cat storm.*)"; done
}

# trace_storm ROUNDS: likewise, one after the other, as perf, SystemTap and scripts do it: through tracefs, in all processes
trace_storm()
{
	local folder=$PWD/tracefs status

	mkdir -p "$folder"
	unshare -m bash -c '
folder=$1 rounds=$2 name=$3 file=$4
shift 4
mount -t tracefs none "$folder" 2>/dev/null && [ -w "$folder/uprobe_events" ] || exit 77
trap "echo 0 >$folder/events/$name/at/enable; echo -:$name/at >>$folder/uprobe_events" EXIT
for ((i = 0; i < rounds; i++)); do
	n=$((RANDOM % $# + 1)) at=${!n}
	echo "p:$name/at $file:0x$at" >>"$folder/uprobe_events" || exit 1
	echo 1 >"$folder/events/$name/at/enable" || exit 1
	sleep 0.0$((RANDOM % 10))
	echo 0 >"$folder/events/$name/at/enable"
	echo "-:$name/at" >>"$folder/uprobe_events"
	sleep 0.0$((RANDOM % 10))
done 2>/dev/null
trap - EXIT' - "$folder" "$1" "waymark_$$" "$PWD/uprobes" "${addresses[@]}"
	status=$?
	[ $status -eq 0 ] || [ $status -eq 77 ] || fail "uprobe_events: status $status"
	[ $status -ne 77 ] || echo "skipped: tracefs has no uprobe_events here"
}

# complete TRACE PID: where one event does not come while 500 others do, the report says that it is missing
complete()
{
	"$waymark" report --json "$1" >report.json || fail "no report"
	"$waymark" dump --json --event '*:*' "$1" 2>words | python3 -c '
import array, bisect, json, sys
pid = int(sys.argv[1])
report = json.load(open("report.json"))
held = {}
for one in report["gap"]:
	if one["pid"] == pid:
		held.setdefault(one["name"], []).append((one["begin_ns"], one["end_ns"] or 1 << 63))
all_ns = array.array("Q")
last = {}
gaps = []
for line in sys.stdin:
	event = json.loads(line)
	if event.get("pid") != pid or "name" not in event: continue
	name, at = event["name"], event["time_ns"]
	all_ns.append(at)
	if at - last.get(name, at) > 1000000: gaps.append((name, last[name], at))
	last[name] = at
bad = 0
for name, begin, end in gaps:
	# the parts of the gap that were not reported
	for held_begin, held_end in sorted(held.get(name, [])) + [(end, end)]:
		others = bisect.bisect_left(all_ns, min(held_begin, end)) - bisect.bisect_right(all_ns, begin)
		if others >= 500:
			bad += 1
			print("%s: absent for %.3f s and %d other events" % (name, (min(held_begin, end) - begin) / 1e9, others))
		begin = max(begin, held_end)
sys.exit(bad != 0)' "$2" >gaps || fail "missing, and not reported: $(head -5 gaps) $(head -3 words)"
}

# ended PID: the load has computed all rightly
ended()
{
	kill -TERM "$1" 2>/dev/null
	wait "$1" || fail "status of the load: $?"
	grep -q '^right' load.out || fail "the load: $(cat load.out)"
}

# Uprobes before, while and after probes are armed; several recordings one after the other.
./uprobes load $((rounds + 900)) >load.out &
load=$!
await executed "$load"
{
	(trace_storm $((rounds / 4)) && exit $failed) &
	tracing=$!
	storm "$load" "$rounds"
	wait $tracing || failed=1
	exit $failed
} &
storming=$!
number=0
while kill -0 $storming 2>/dev/null && kill -0 "$load" 2>/dev/null; do
	number=$((number + 1))
	"$waymark" record --json -o "trace.$number" "${specs[@]}" --for 3s -p "$load" >out 2>words ||
		fail "recording $number: $(cat words)"
	complete "trace.$number" "$load"
	rm -rf "trace.$number"
done
wait $storming || failed=1
ended "$load"

# Without uprobes all comes at once, and all is as it was.
./uprobes load 60 >load.out &
load=$!
await executed "$load"
"$waymark" record --json -o after "${specs[@]}" --for 1s -p "$load" >out 2>words || fail "after: $(cat words)"
expect "missing, with no other tool" "$(found missing-hits)" 0
await_same_bytes "$load" uprobes "after a recording"
ended "$load"

# A nop of 5 bytes, which Linux 6.18 and later rewrite whole for a uprobe: the jump is at the instruction behind it.
./uprobes load 200 alone >load.out &
load=$!
await executed "$load"
"$waymark" record --json -o nop -e func:nop_first -p "$load" >out 2>words &
recording=$!
await is_recording nop || fail "nop: nothing is recorded: $(cat words)"
addresses=("$(nm uprobes | awk '/ T nop_first/ { print $1 }')")
storm "$load" 40
kill -TERM $recording
wait $recording || fail "nop: $(cat words)"
complete nop "$load"
ended "$load"

# A breakpoint of gdb's at the first byte, and at the instruction behind it.
if command -v gdb >/dev/null; then
	./uprobes load 200 gdb >load.out &
	load=$!
	await executed "$load"
	"$waymark" record -o gdb "${specs[@]}" -p "$load" >out 2>words &
	recording=$!
	await is_recording gdb || fail "nothing is recorded: $(cat words)"
	for place in up_push up_push_1 up_rex up_rex_1 up_short up_short_1 up_short_2; do
		echo "break *&$place"
	done >gdb.breaks
	for place in 1 2 3; do
		timeout 60 gdb -q -batch -p "$load" -x gdb.breaks -ex 'ignore 1 40' -ex continue \
			-ex continue -ex continue -ex delete -ex detach >gdb.out 2>&1 ||
			fail "gdb: $(tail -3 gdb.out)"
	done
	kill -TERM $recording
	wait $recording || fail "recording beside gdb: $(cat words)"
	ended "$load"
fi
exit $failed
