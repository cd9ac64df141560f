#!/bin/bash
# SPDX-License-Identifier: MIT
# Machines whose mechanisms fail, simulated: watches are refused at once, no zero is reported that was not measured, and a trace
# whose times mislead says so. Runs on every machine.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

export XDG_CACHE_HOME=$folder/cache
build_target watch/parts.c -o quiet
dead="this machine accepts debug registers but they do not fire"

# simulating FAILURE STATUS COMMAND [ARGUMENT]...: waymark, its output in ./out, its words in ./words
simulating()
{
	local failure=$1 wanted=$2 got
	shift 2
	WAYMARK_SIMULATE=$failure timeout -k 5 60 "$waymark" "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "$failure, $*: status $got, expected $wanted: $(cat out words)"
}

# ---- debug registers that never fire: each way to a watch is refused, with what works instead ----

for way in "watch never ./quiet" "watch never:rw ./quiet" "watch main:x ./quiet" "record -o refused -e watch:never -- ./quiet" \
	"record -o refused -e watch:never/outside/ -- ./quiet"; do
	# shellcheck disable=SC2086 # words
	simulating debug-registers 1 $way
	says "$dead: watch:"
	says "simulated: "
	says "trail/soft/"
	says "can-use-hw-watchpoints 0"
	! grep -q "0 hits" words || fail "$way: it reports a zero: $(cat words)"
	[ ! -e refused ] || fail "$way: it leaves a folder"
	rm -rf refused
done
simulating debug-registers 1 watch --json never ./quiet
grep -q "\"error\":\"$dead" out || fail "--json: no error in $(cat out)"
simulating typo 2 watch never ./quiet
says "WAYMARK_SIMULATE: no such failure: typo"

# A program of its own, by the library.
[ ! -e "$WAYMARK_BUILD/examples/stores" ] || {
	WAYMARK_SIMULATE=debug-registers timeout 20 "$WAYMARK_BUILD/examples/stores" $$ 0x1000 8 >out 2>words
	expect "the library: status" $? 1
	grep -q "$dead" out words || fail "the library: $(cat out words)"
}

# ---- the machine changes meanwhile, as by a live migration ----

lacks breakpoint-write breakpoint-signal >why || {
	simulating debug-registers-later 1 watch never ./quiet
	says "$dead: watch:never"
	says "watch:never: hits were not measured"
	! grep -q "0 hits" words || fail "later: it reports a zero: $(cat words)"
	simulating debug-registers-later 1 watch --json never ./quiet
	grep -q '^{"hits":null' out && grep -q '"processes":1' out || fail "later: --json: $(cat out)"
	simulating debug-registers-later 1 record -o moved -e watch:never -- ./quiet
	says "watch:never: hits were not measured"
	"$WAYMARK_BUILD/cli/waymark" report moved >summed
	grep -q "^Watches      watch:never: hits were not measured" summed || fail "report: $(cat summed)"
	# a hit proves that they fired
	simulating debug-registers-later 0 watch once ./quiet
	says "watch:once: 1 hit"
	# no answer: the value that came is reported, and a zero is not
	simulating hang 0 watch once ./quiet
	simulating hang 1 watch never ./quiet
	says "whether this machine's debug registers fire could not be tried"
}
[ ! -s why ] || echo "left out where no breakpoint fires: $(cat why)"

# ---- a time stamp counter that misleads ----

# tells_clocks: a recording says so; not where the machine was too busy to run two CPUs at once
tells_clocks()
{
	rm -rf times
	simulating tsc 0 record -o times -e marker:ticker:tick -- ./ticker 10 1
	grep -q "the CPUs' time stamp counters disagree: .*: times in the trace can mislead" words
}
[ "$(nproc)" -eq 1 ] || await -s 60 tells_clocks || fail "tsc: $(cat words)"

# ---- nothing simulated is kept ----

# each failure in the cache is one of this machine: a new trial fails too
[ ! -e cache/waymark/trials ] || {
	env -u WAYMARK_SIMULATE XDG_CACHE_HOME="$folder/real" "$waymark" doctor >/dev/null
	awk '$2 == "fails" { print $1 }' real/waymark/trials | sort >really
	awk '$2 == "fails" { print $1 }' cache/waymark/trials | sort | comm -23 - really >simulated
	[ ! -s simulated ] && ! grep -q "simulated" cache/waymark/trials ||
		fail "a simulated failure is in the cache: $(cat simulated cache/waymark/trials)"
}
exit $failed
