#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What samples and switches cost PostgreSQL: kernel_events.sh WAYMARK. pgbench's twenty clients work
# on a server of our own in turns: alone, recorded by Waymark, recorded by perf; samples of
# cpu-clock at 1 kHz, and switches.
#
#	perf.overhead         the server's CPU time for a transaction, with over without: the median
#	                      of the rounds
#	perf.overhead.perf    the same under perf record --switch-events
#	perf.overhead.perf_tracepoints
#	                      the same under perf record, which takes the scheduler's tracepoints
#	                      too, as Waymark does
#	perf.overhead_delta   the first less the second; .low, .high: half of the rounds are between
#	perf.bytes_per_switch, .perf
#	                      bytes of the trace for each record of a switch, switches recorded alone
#
# Exit status 77, with the reason, where it can't run.
set -u
waymark=$(realpath "$1")
rounds=${WAYMARK_BENCH_RUNS:-20}
seconds=${WAYMARK_PGBENCH_SECONDS:-3}
# shellcheck source=bench/pgbench_server.bash
. "$(dirname "$0")/pgbench_server.bash"
command -v perf >/dev/null || skip "perf is not installed"

# has_begun: the recording has written something
has_begun()
{
	[ -s "$work/perf.data" ] || [ "$(find "$work/trace" -type f 2>/dev/null | wc -l)" -ge 2 ]
}

# recorded_turn WAY COMMAND...: a turn, while COMMAND records
recorded_turn()
{
	local way=$1
	shift
	rm -rf "$work/trace" "$work/perf.data"
	"$@" >"$work/recorded" 2>"$work/words" &
	tracer=$!
	for _ in $(seq 100); do
		! has_begun || break
		kill -0 $tracer 2>/dev/null || { tail -n 2 "$work/words" >&2; tracer=; return 1; }
		pg_run psql -Atc "select 1" >/dev/null 2>&1
		sleep 0.1
	done
	turn "$way" || return 1
	kill -TERM $tracer
	wait $tracer
	tracer=
}

by_waymark()
{
	recorded_turn waymark "$waymark" record --json -o "$work/trace" \
		-e sample:cpu-clock/freq=1000/ -e switch -p "$(pg_pids)"
}

# by_perf WAY [OPTION]...
by_perf()
{
	recorded_turn "$1" perf record -q -o "$work/perf.data" -F 1000 -e cpu-clock \
		--switch-events "${@:2}" -p "$(pg_pids)"
}

# ratios WAY: of each round, its CPU time for a transaction over that without
ratios() { paste -d' ' "$work/none" "$work/$1" | awk '{ print $4 / $2 }'; }

# quantile Q: of numbers
quantile()
{
	sort -g | awk -v q="$1" '{ v[NR] = $1 } END { print v[1 + int(q * (NR - 1) + 0.5)] }'
}

turn warm || exit 1
for _ in $(seq "$rounds"); do
	turn none || exit 1
	by_waymark || exit 1
	by_perf perf || exit 1
	by_perf tracepoints -e sched:sched_switch -e sched:sched_waking || exit 1
done
[ -z "$(pg_complaints)" ] || { pg_complaints >&2; exit 1; }
echo "figure perf.overhead $(ratios waymark | median) ratio"
echo "figure perf.overhead.perf $(ratios perf | median) ratio"
echo "figure perf.overhead.perf_tracepoints $(ratios tracepoints | median) ratio"
paste -d' ' <(ratios waymark) <(ratios perf) | awk '{ print $1 - $2 }' >"$work/delta"
echo "figure perf.overhead_delta $(median <"$work/delta") ratio"
echo "figure perf.overhead_delta.low $(quantile 0.25 <"$work/delta") ratio"
echo "figure perf.overhead_delta.high $(quantile 0.75 <"$work/delta") ratio"

# Switches alone: bytes of the folder or file, over records of arrivals and departures.
recorded_turn switches "$waymark" record -o "$work/trace" -e switch -p "$(pg_pids)" || exit 1
bytes=$(find "$work/trace" -name 'cpu*' -printf '%s\n' | awk '{ all += $1 } END { print all }')
count=$("$waymark" dump --event 'switch:[ad]*' "$work/trace" | wc -l)
echo "figure perf.bytes_per_switch $(awk "BEGIN { print $bytes / $count }") bytes"
recorded_turn switches perf record -q -o "$work/perf.data" -e dummy --switch-events \
	-p "$(pg_pids)" || exit 1
bytes=$(stat -c %s "$work/perf.data")
count=$(perf script -i "$work/perf.data" --show-switch-events 2>/dev/null |
	grep -c PERF_RECORD_SWITCH)
echo "figure perf.bytes_per_switch.perf $(awk "BEGIN { print $bytes / $count }") bytes"
