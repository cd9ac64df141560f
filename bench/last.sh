#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What share of a CPU the recorder takes at 1 million events a second: last.sh WAYMARK LOOP.
#
#	recorder.last_cpu_share          the last 30 s are kept in memory
#	recorder.last_cpu_share.trigger  and each event is looked at for a trigger that never comes
#	recorder.cpu_share               all is written to a folder
set -u
waymark=$1 loop=$2
seconds=10
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
ticks_a_second=$(getconf CLK_TCK)

# ticks PID: of processor time that it has used
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# share NAME OPTION...
share()
{
	local name=$1 recorder before
	shift
	"$loop" $((seconds + 3)) &
	"$waymark" record --json -o "$work/trace" "$@" -p $! >"$work/json" 2>"$work/err" &
	recorder=$!
	until "$waymark" control "$work/trace" list >"$work/list" 2>&1 || ! kill -0 $recorder 2>"$work/list"; do
		sleep 0.05 # the recorder tells no one else that it has begun
	done
	before=$(ticks $recorder)
	sleep $seconds # of which the share is measured
	awk -v name="$name" -v used=$(($(ticks $recorder) - before)) -v all=$((seconds * ticks_a_second)) \
		'BEGIN { printf "figure %s %.3g cores\n", name, used / all }'
	wait
	grep -q '"discarded":0,' "$work/json" || { echo "$name: events were lost" >&2; cat "$work/err" >&2; }
	rm -rf "$work/trace"
}

share recorder.last_cpu_share --last 30s
share recorder.last_cpu_share.trigger --last 30s --on 'bench:tick/if=number<0/'
share recorder.cpu_share
