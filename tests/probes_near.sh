#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes nearer to each other than a jump is long: the first has its place, the later is refused by name; two events, and
# two sessions, at one place have both.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

cc -O1 -g -w "$probes_dir/near.c" -o near -lpthread || exit 1

# at SYMBOL: the spec of that address
at()
{
	echo "addr:near+0x$(nm near | awk -v name="$1" '$3 == name { sub(/^0*/, "", $1); print $1 }')"
}

# At neighbouring instructions.
timeout 60 "$waymark" record -v -o near.trace -e "$(at near_three)/rax:i32/" -e "$(at near_four)" -e func:near_wall ./near 100 2 >out 2>words ||
	fail "status of recording: $? $(cat words)"
expect "what the program computed" "$(head -1 out)" right
says "another event's jump is too near to this place"
three=$(at near_three)
expect "the first" "$(count near.trace "near:+${three#*+}")" 200
expect "values" "$(values near.trace "near:+${three#*+}" rax | sort -n | uniq -c | awk '{ print $1 }' | sort -u)" 2
expect "one that is far enough" "$(count near.trace near:near_wall)" 200

# Attached and let go while threads run through them; two sessions at the same places.
start ./near 0 4 >said
await_running "$pid"
for i in 1 2 3; do
	rm -rf one.trace two.trace
	timeout 60 "$waymark" record -o one.trace --for 200ms -e func:near_sum -e func:near_wall/ret/ -p "$pid" >/dev/null 2>words.one &
	first=$!
	timeout 60 "$waymark" record -o two.trace --for "$((i * 80))ms" -e func:near_sum/rdi:i32/ -e func:near_wall -p "$pid" >/dev/null 2>words ||
		fail "the second session: $(cat words)"
	wait $first || fail "the first session: $(cat words.one)"
	for trace in one two; do
		timeout 60 "$waymark" report --json $trace.trace >report
		for name in near:near_sum near:near_wall; do
			grep -qF "$name" report || fail "$name is missing in $trace.trace"
		done
	done
done
same_bytes "$pid" '/near$' "the sessions"
kill -TERM "$pid"
await [ -s said ]
expect "what the program computed" "$(cat said)" right

exit "$failed"
