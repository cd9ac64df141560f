#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What a frame of a hit's callers costs: callers.sh WAYMARK LOOP. A function is recorded with 1 and
# with 33 callers, by Waymark, and counted by stack by bpftrace.
#
#	bt.hit_ns                   a hit with one caller
#	bt.ns_per_frame             each caller more
#	bt.ns_per_frame.bpftrace    likewise of a uprobe's ustack, by frame pointers
set -u
waymark=$1 loop=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

# ours N: nanoseconds a call, recorded with up to N callers; 0: not recorded
ours()
{
	if [ "$1" = 0 ]; then
		"$loop" 40
	else
		"$waymark" record -o "$work/trace.$1" --policy cyclic -e "func:callers_leaf@callers_loop/bt=$1/" \
			-- "$loop" 40 2>"$work/err" || cat "$work/err" >&2
	fi | awk '$1 == "raw" { print $3 }'
}

# peer N: the same by bpftrace
peer()
{
	bpftrace -q -e "uprobe:$loop:callers_leaf { @[ustack($1)] = count(); }" -c "$loop 40 2e4" 2>/dev/null |
		awk '$1 == "raw" { print $3 }'
}

# difference NAME FEW MANY FRAMES
difference()
{
	[ -z "$2" ] || [ -z "$3" ] || awk -v name="$1" -v few="$2" -v many="$3" -v frames="$4" \
		'BEGIN { printf "figure %s %.4g ns\n", name, (many - few) / frames }'
}

none=$(ours 0) few=$(ours 1) many=$(ours 33)
difference bt.hit_ns "$none" "$few" 1
difference bt.ns_per_frame "$few" "$many" 32
if command -v bpftrace >/dev/null && [ "$(id -u)" -eq 0 ]; then
	difference bt.ns_per_frame.bpftrace "$(peer 1)" "$(peer 33)" 32
else
	echo "skipped bt.ns_per_frame.bpftrace: it needs bpftrace, and root"
fi
