#!/bin/bash
# SPDX-License-Identifier: MIT
#
# How fast the recorder takes records from the kernel's rings: kernel_drain.sh WAYMARK FAULTS. A
# program makes two million page faults. Waymark and perf record take turns to record each fault
# with its address.
#
#	perf.drain_mb_s, .perf       MB of records for each second of the recorder's CPU time
#	perf.drain_ns_event, .perf   its CPU time for a record
#
# Exit status 77, with the reason, where it can't run. Status 1: records were lost.
set -u
waymark=$(realpath "$1")
faults=$(realpath "$2")
rounds=${WAYMARK_BENCH_RUNS:-5}
count=2000000
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-drain.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
command -v perf >/dev/null || { echo "perf is not installed"; exit 77; }
mkfifo go

# has_begun: the recording has written something
has_begun() { [ -s perf.data ] || [ "$(find trace -type f 2>/dev/null | wc -l)" -ge 2 ]; }

# turn NAME COMMAND...: appends the recorder's CPU seconds to ./NAME
turn()
{
	local name=$1 pid recorder TIMEFORMAT='%U %S'
	shift
	rm -rf trace perf.data
	exec 9<>go
	"$faults" $count <&9 &
	pid=$!
	{ time "$@" -p $pid >words 2>&1; } 2>spent &
	recorder=$!
	for _ in $(seq 200); do
		! has_begun || break
		sleep 0.05
	done
	echo >&9
	wait $pid
	wait $recorder || { cat words >&2; exit 1; }
	exec 9>&-
	awk '{ print $1 + $2 }' spent >>"$name"
}

# figures SUFFIX FILE BYTES: of a record
figures()
{
	local spent
	spent=$(sort -g "$2" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
	awk -v s="$spent" -v n=$count -v b="$3" -v x="$1" 'BEGIN {
		printf "figure perf.drain_mb_s%s %.1f MB/s\n", x, n * b / s / 1e6
		printf "figure perf.drain_ns_event%s %.0f ns\n", x, s / n * 1e9 }'
}

for _ in $(seq "$rounds"); do
	turn waymark "$waymark" record -o trace -e fault --buffer 64M
	grep -q 'lost none' words || { cat words >&2; exit 1; }
	turn perf perf record -q -e page-faults -c 1 -d -m 1024 -o perf.data
	! perf report -i perf.data --stats 2>/dev/null | grep -q 'LOST events' ||
		{ echo "perf lost records" >&2; exit 1; }
done
# A header of 8 bytes and 64-bit words: ip, thread, time and address; perf's data source; Waymark's
# identifier, CPU and period.
figures "" waymark 64
figures .perf perf 48
