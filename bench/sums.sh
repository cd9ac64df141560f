#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What a hit costs that is added up in place of an event: sums.sh WAYMARK LOOP. The function is
# called from 40 frames, by always the same callers.
#
#	sum.func_hit_ns             by the caller
#	sum.by_stack_hit_ns         by ten callers
#	sum.by_stack_hit_ns.bpftrace  the same by a uprobe, and @[ustack(10)] = count()
set -u
waymark=$1 loop=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

# ours [OPTIONS]: nanoseconds a call, with sums, or not recorded
ours()
{
	if [ $# = 0 ]; then
		"$loop" 40
	else
		rm -rf "$work/trace"
		"$waymark" record -o "$work/trace" -e "func:callers_leaf@callers_loop/$1/" -- "$loop" 40 \
			2>"$work/err" || cat "$work/err" >&2
	fi | awk '$1 == "raw" { print $3 }'
}

# figure NAME NANOSECONDS: above a call that is not recorded
figure()
{
	[ -z "$2" ] || [ -z "$none" ] ||
		awk -v name="$1" -v none="$none" -v all="$2" \
			'BEGIN { printf "figure %s %.4g ns\n", name, all - none }'
}

none=$(ours)
figure sum.func_hit_ns "$(ours count,by=caller)"
figure sum.by_stack_hit_ns "$(ours count,by=callchain,bt=10)"
if command -v bpftrace >/dev/null && [ "$(id -u)" -eq 0 ]; then
	figure sum.by_stack_hit_ns.bpftrace "$(bpftrace -q -c "$loop 40 2e4" \
		-e "uprobe:$loop:callers_leaf { @[ustack(10)] = count(); }" 2>/dev/null |
		awk '$1 == "raw" { print $3 }')"
else
	echo "skipped sum.by_stack_hit_ns.bpftrace: it needs bpftrace, and root"
fi
