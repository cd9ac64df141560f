#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A watch's hit: watch.sh WAYMARK LOOP. The floor is a kernel breakpoint that counts and does no more, in the same run;
# the peer gdb, whose watch says nothing and goes on. Each in turn, several times; the least of each, since what is
# added is others' doing. Exit status 77, with the reason, where there are no debug registers.
set -u
waymark=$(realpath "$1") loop=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-bench-watch.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
rounds=${WAYMARK_BENCH_RUNS:-7}
count=10000
gdb_count=400

# least FILE: of the raw CPU times in it; of the wall times
least()
{
	awk -v name="$2" '$1 == "raw" && $2 == name { if (!n++ || $3 < least) least = $3 } END { if (n) print least }' "$1"
}

# figure NAME UNIT EXPRESSION
figure()
{
	local value
	value=$(awk "BEGIN { printf \"%.4g\", $3 }" 2>/dev/null) && [ -n "$value" ] && echo "figure $1 $value $2"
}

trials=$("$waymark" doctor breakpoint-write breakpoint-signal) || {
	why=$(grep -m 1 -E ' (absent|limited|unknown) ' <<<"$trials")
	for name in floor_us hit_us hit_over_trap signal_over_trap hit_over_signal outside_hit_us outside_hit_over_trap \
		outside_count_over_trap gdb_us gdb_over_waymark hits_missed; do
		echo "skipped watch.$name: $why"
	done
	exit 77
}
"$loop" 10 1 bare >first || {
	tail -n 1 first
	exit 77
}
printf '%s\n' 'set confirm off' 'set pagination off' 'set breakpoint pending on' 'break watch_begin' run 'delete 1' \
	'watch watched' 'commands' silent continue end continue >script
: >bare
: >signal
: >ours
: >outside
: >counted
: >gdb
missed=0
for _ in $(seq "$rounds"); do
	"$loop" $count 1 bare >>bare
	"$loop" $count 1 signal >>signal
	rm -rf trace
	"$waymark" record --json -o trace -e watch:watched -- "$loop" $count 1 >out 2>words || {
		tail -n 1 words
		exit 1
	}
	grep '^raw' out >>ours
	for way in outside outside,count; do
		rm -rf trace
		"$waymark" record --json -o trace -e watch:watched/$way/ -- "$loop" $count 1 >out 2>words || {
			tail -n 1 words
			exit 1
		}
		[ $way = outside ] && grep '^raw' out >>outside || grep '^raw' out >>counted
	done
	command -v gdb >/dev/null && timeout 60 gdb -q -nx -batch -x script --args "$loop" $gdb_count 1 2>/dev/null | grep '^raw' >>gdb
	rm -rf trace
	"$waymark" record --json -o trace -e watch:watched -- "$loop" 500 8 >out 2>words
	hits=$(sed -n 's/.*"hits":\([0-9]*\).*/\1/p' out) taken=$(sed -n 's/.*"recorded":\([0-9]*\).*/\1/p' out)
	[ "${hits:-0}" -eq 4000 ] || missed=$((missed + 4000 - ${hits:-0}))
	missed=$((missed + ${hits:-0} - ${taken:-0}))
done
floor=$(least bare cpu) mine=$(least ours cpu) peer=$(least gdb wall) wall=$(least ours wall)
figure watch.floor_us us "$floor / 1000"
figure watch.hit_us us "$mine / 1000"
figure watch.hit_over_trap ratio "$mine / $floor"
# what the kernel takes for telling a thread of it at all
figure watch.signal_over_trap ratio "$(least signal cpu) / $floor"
figure watch.hit_over_signal ratio "$mine / $(least signal cpu)"
# from outside: with values; only counted
figure watch.outside_hit_us us "$(least outside cpu) / 1000"
figure watch.outside_hit_over_trap ratio "$(least outside cpu) / $floor"
figure watch.outside_count_over_trap ratio "$(least counted cpu) / $floor"
if [ -n "$peer" ]; then
	figure watch.gdb_us us "$peer / 1000"
	figure watch.gdb_over_waymark ratio "$peer / $wall"
else
	echo "skipped watch.gdb_over_waymark: gdb is not installed"
fi
figure watch.hits_missed hits "$missed"
