#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What share of a CPU the recorder and top take at 1 million events a second: last.sh WAYMARK LOOP
#
#	recorder.last_cpu_share          the last 4 s are kept in memory, and those before are dropped
#	recorder.last_cpu_share.trigger  and each event is looked at for a trigger that never comes
#	recorder.cpu_share               all is written to a folder
#	top.cpu_share                    top adds up a field of each
#	top.cpu_share.events             top counts the events themselves
set -u
waymark=$1 loop=$2
seconds=5
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

# used PID: nanoseconds of processor time, of all its threads
used() { cat "/proc/$1"/task/*/schedstat | awk '{ sum += $1 } END { print sum }'; }

# print_share NAME PID: of the next seconds
print_share()
{
	local before
	before=$(used "$2")
	sleep $seconds # the time is the subject
	awk -v name="$1" -v used=$(($(used "$2") - before)) -v all="$seconds" \
		'BEGIN { printf "figure %s %.3g cores\n", name, used / all / 1e9 }'
}

# share NAME OPTION...
share()
{
	local name=$1 recorder
	shift
	"$loop" $((seconds + 8)) &
	"$waymark" record --json -o "$work/trace" "$@" -p $! >"$work/json" 2>"$work/err" &
	recorder=$!
	until "$waymark" control "$work/trace" list >"$work/list" 2>&1 || ! kill -0 $recorder 2>"$work/list"; do
		sleep 0.05 # no other event says that the recorder has begun
	done
	sleep 5 # until the oldest events go
	print_share "$name" $recorder
	wait
	grep -q '"discarded":0,' "$work/json" || { echo "$name: events were lost" >&2; cat "$work/err" >&2; }
	rm -rf "$work/trace"
}

# share_top NAME SPEC
share_top()
{
	local top
	"$loop" $((seconds + 8)) &
	"$waymark" top --for $((seconds + 6))s -e "$2" -p $! >"$work/top" 2>&1 &
	top=$!
	until grep -q bench:tick "$work/top" || ! kill -0 $top 2>"$work/err"; do
		sleep 0.05 # its first table
	done
	print_share "$1" $top
	wait
}

share recorder.last_cpu_share --last 4s
share recorder.last_cpu_share.trigger --last 4s --on 'bench:tick/if=number<0/'
share recorder.cpu_share
share_top top.cpu_share bench:tick/sum=number/
share_top top.cpu_share.events bench:tick
