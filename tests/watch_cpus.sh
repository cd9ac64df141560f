#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches from outside of a program on a CPU that comes into the machine later: stores there are reported from then on; the report says that no one knows
# what was there before, and for how long it was not watched.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
# shellcheck source=tests/cpus_setup.bash
. "$source_dir/tests/cpus_setup.bash"

why=$(cpus_trouble) && skip "$why"

# Goes on for as long as ./goes_on is there: one more each time, on CPU 1 alone.
build_target watch/beats.c

claims_beat()
{
	[ "$("$waymark" claims 2>/dev/null | grep -c watch:beat)" -gt 0 ]
}

# comes NAME ARGUMENT...: record into the folder NAME; CPU 1 comes once it is armed, and the program ends when that is seen
comes()
{
	local name=$1
	shift
	touch goes_on
	one_cpu timeout -k 5 60 "$waymark" record --json -o "$name" -e watch:beat/outside/ "$@" >out 2>words &
	tool=$!
	await claims_beat || fail "$name: not armed: $(cat words)"
	sleep 0.3 # so long it may be unwatched: uncovered_ns below
	expect "$name: hits before" "$(events_so_far "$name" watch:beat)" 0
	echo 0-1 >online
	await_event "$name" watch:beat
	rm goes_on
	wait "$tool" || fail "$name: $(cat words)"
	[ "$(json recorded)" -gt 0 ] || fail "$name: nothing came: $(cat out words)"
	[ "$(json uncovered_ns)" -gt 300000000 ] || fail "$name: without it for $(json uncovered_ns) ns"
	expect "$name: missed" "$(json missed)" 0
	says "a CPU came into the machine meanwhile: what was hit there in"
	# what was stored before is unknown: 8
	expect "$name: of the first" "$(field_values "$name" beat how | head -1)" 9
	expect "$name: of the others" "$(field_values "$name" beat how | tail -n +2 | sort -u)" 1
	field_values "$name" beat new >new
	field_values "$name" beat old | tail -n +2 | cmp -s - <(head -n -1 new) || fail "$name: the chain"
}

comes launched -- ./beats
if [ "$(id -u)" = 0 ]; then # else who records is in a user namespace of his own, and it is not
	touch goes_on
	start ./beats
	comes attached -p "$pid"
fi

# None comes: nothing is said of it.
watches none 0 -e watch:in_turn/outside/ -- ./watched turn 10 2
expect "none: without" "$(json uncovered_ns)" 0
grep -q "came into the machine" words && fail "none: $(cat words)"
exit $failed
