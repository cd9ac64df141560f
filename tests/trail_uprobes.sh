#!/bin/bash
# SPDX-License-Identifier: MIT
# Uprobes of other tools on code that runs under the engine: set before it is translated, and coming and going behind that.
# The program does what it does natively, each uprobe is hit, and the trail says that a breakpoint is there.
# ROUNDS (200): how many uprobes are set and removed on a program that was started.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
needs_engine
needs perf-user
[ -e /sys/bus/event_source/devices/uprobe/type ] || skip "this kernel has no uprobes"

cc -O2 -g -I"$source_dir/include" "$source_dir/tests/probes/uprobes.c" -o uprobes -lpthread || exit 1
file=$folder/uprobes
functions=() labels=()
while read -r address _ name; do
	case $name in
	up_*_[0-9]) labels+=("$address") ;;
	up_* | nop_first) functions+=("$address") ;;
	esac
done < <(nm uprobes | grep ' T ')
expect "functions" ${#functions[@]} 6
[ "$(./uprobes count "$file" "${functions[0]}" ./uprobes rounds 10 | tail -n 1)" = 10 ] ||
	skip "no uprobe may be set here, or none is hit"

# A uprobe that is there before the program starts: each hit is counted.
for address in "${functions[@]}" "${labels[@]}" "${functions[@]/#/r}"; do
	rm -rf ran
	timeout 60 ./uprobes count "$file" "$address" \
		"$waymark" record -e trail/soft/ -o ran -- ./uprobes rounds 300 >out 2>words
	status=$?
	expect "$address: status ($(cat words))" $status 0
	expect "$address: its results" "$(grep -c '^right' out)" 1
	expect "$address: hits" "$(tail -n 1 out)" 300
	timeout 60 "$waymark" trail -n 0 ran >shown 2>words || fail "$address: trail: $(cat words)"
	expect "$address: what the trail lacks" "$(cat words)" ""
	expect "$address: breakpoints in the trail" "$(grep -c "another tool's breakpoint" shown)" 300
	timeout 60 "$waymark" trail --functions -n 0 ran >shown 2>words
	for name in up_push up_rex up_short up_long up_pushes; do
		expect "$address: calls of $name" "$(awk -v name=$name '$6 == name { print $3 }' shown)" 300
	done
done

# hits ROUNDS: so many uprobes come and go on the thread that works, four at a time; all are hit
hits()
{
	local one all=()
	for one in 1 2 3 4; do
		timeout 500 ./uprobes hits "$file" $(($1 / 4)) "$worker" "${addresses[@]}" >"hits.$one" 2>&1 &
		all+=($!)
	done
	for one in "${all[@]}"; do wait "$one" || fail "hits: $(tail -qn 3 hits.?)"; done
}

# working PID: the thread of the load that calls functions is $worker
working()
{
	worker=
	await has_worker "$1" || fail "the load has no thread"
}

has_worker()
{
	local tasks=("/proc/$1/task"/*)
	worker=${tasks[-1]##*/}
	[ ${#tasks[@]} -eq 2 ]
}

# ended: the load has computed all rightly
ended()
{
	kill -TERM "$load" 2>/dev/null
	wait "$load" || fail "$1: status of the load: $?"
	grep -q '^right' load.out || fail "$1: the load: $(cat load.out)"
}

addresses=("${functions[@]}" "${labels[@]}" "${functions[@]/#/r}")

# Uprobes that are set and removed on a running program: before, during and after a recording.
./uprobes load 300 alone >load.out &
load=$!
await executed "$load"
working "$load"
{ hits 240 && exit $failed; } &
hitting=$!
for round in 1 2 3; do
	rm -rf ran
	run 0 --json -e trail/soft,last=1M/ -p "$load" --for 1s -o ran
	[ "$(json blocks)" -gt 0 ] || fail "attached $round: no blocks"
done
wait $hitting || failed=1
ended attached

# On a program that was started under the engine.
"$waymark" record -e trail/soft,last=1M/ -o many -- ./uprobes load 300 alone >load.out 2>words &
load=$!
started+=("$load")
child_of "$load" uprobes
working "$child"
hits "${ROUNDS:-200}"
kill -TERM "$child"
wait "$load" || fail "a program that was started: status $?: $(cat words)"
grep -q '^right' load.out || fail "a program that was started: $(cat load.out)"
exit $failed
