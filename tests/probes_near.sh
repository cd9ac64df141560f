#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes nearer to each other than a jump is long: what is listed is what is recorded.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

cc -O1 -g -w "$probes_dir/near.c" -o near -lpthread || exit 1

# at SYMBOL: the spec of that address
at()
{
	echo "addr:near+0x$(nm near | awk -v name="$1" '$3 == name { sub(/^0*/, "", $1); print $1 }')"
}

# agree SPEC...: as many places are recorded as listed; the list is in ./listed, the words of recording in ./words
agree()
{
	local specs=() spec able all
	for spec; do specs+=(-e "$spec"); done
	timeout 60 "$waymark" list "${specs[@]}" ./near >listed 2>words || fail "list: $(cat words)"
	read -r able all <<<"$(sed -n 's/^\([0-9]*\) of \([0-9]*\) places can.*/\1 \2/p' listed)"
	rm -rf near.trace
	timeout 60 "$waymark" record -v -o near.trace "${specs[@]}" ./near 100 2 >out 2>words
	# a spec of which nothing could be placed is an error
	expect "status of recording $*" $? $((able < all))
	expect "what the program computed" "$(head -1 out)" right
	if [ "$able" = "$all" ]; then
		says_not "places were refused"
	else
		says "$((all - able)) of $all places were refused"
	fi
}

# says_not WORDS: not among what the tool said
says_not()
{
	! grep -qF -- "$1" words || fail "'$1' in: $(cat words)"
}

# Two that can't stand together: the one that was asked for first.
agree func:near_wall func:near_beside
grep -q 'refused  another event stands in the way of this one: near:near_wall at -4$' listed ||
	fail "the earlier isn't named: $(cat listed)"
says "near:near_wall at -4"
expect "calls of near_wall" "$(count near.trace near:near_wall)" 200

# At neighbouring instructions: each has its own, in the order in which they are run, with what it sees there.
all=(func:near_sum/rdi:i32/)
for point in one two three four; do
	spec=$(at near_$point)
	all+=("$spec/rax:i32/")
	names+=" near:+${spec#*+}"
done
agree "${all[@]}"
grep -q '^5 of 5 places' listed || fail "not all can be had: $(cat listed)"
"$waymark" dump near.trace | awk -v names="near:near_sum$names" '
	BEGIN { count = split(names, name, " ") }
	{
		thread = $3
		at = next_of[thread] + 0
		sub(/:$/, "", $5)
		value = $9 + 0
		if ($5 != name[at + 1]) { print "at " NR ": " $0; exit 1 }
		if (at == 0) n[thread] = value
		wanted = at == 0 ? n[thread] : at < 4 ? n[thread] + 1 : 3 * (n[thread] + 1)
		if (value != wanted) { print "value at " NR ": " $0; exit 1 }
		next_of[thread] = (at + 1) % count
		seen++
	}
	END { if (seen != 1000) { print "events: " seen; exit 1 } }' >order ||
	fail "their order or values: $(cat order; "$waymark" dump near.trace | head -12)"

# Attached and let go while threads run through them; two sessions with the same.
start ./near 0 4 >said
await_running "$pid"
specs=()
for spec in "${all[@]}"; do specs+=(-e "$spec"); done
for i in 1 2 3; do
	rm -rf one.trace two.trace
	timeout 60 "$waymark" record -o one.trace --for 200ms "${specs[@]}" -p "$pid" >/dev/null 2>words.one &
	first=$!
	timeout 60 "$waymark" record -o two.trace --for "$((i * 80))ms" "${specs[@]}" -p "$pid" >/dev/null 2>words ||
		fail "the second session: $(cat words)"
	wait $first || fail "the first session: $(cat words.one)"
	for trace in one two; do
		timeout 60 "$waymark" report $trace.trace >report
		for name in near:near_sum $names; do
			grep -qF "$name" report || fail "$name is missing in $trace.trace"
		done
	done
done
# One has them all, others but one, whose own jump would be another; and the other way round: what can be shared is.
for first in all one; do
	rm -rf one.trace two.trace
	one=("${all[@]}")
	two=("$(at near_two)/rax:i32/")
	[ $first = one ] && one=("$(at near_three)/rax:i32/") && two=("${all[@]}")
	specs=()
	for spec in "${one[@]}"; do specs+=(-e "$spec"); done
	timeout 60 "$waymark" record -o one.trace "${specs[@]}" -p "$pid" >/dev/null 2>words.one &
	one_pid=$!
	await is_recording one.trace || fail "the first session: $(cat words.one)"
	specs=()
	for spec in "${two[@]}"; do specs+=(-e "$spec"); done
	timeout 60 "$waymark" record -o two.trace --for 300ms "${specs[@]}" -p "$pid" >/dev/null 2>words ||
		fail "the second session: $(cat words)"
	timeout 60 "$waymark" report two.trace >report
	shared=$(at near_three)
	[ $first = one ] || shared=$(at near_two)
	grep -qF "near:+${shared#*+}" report || fail "what both want is missing: $(cat words report)"
	if [ $first = all ]; then
		says_not "another event stands in the way"
	else
		says "another event stands in the way of this one"
	fi
	kill -TERM $one_pid
	wait $one_pid || fail "the first session: $(cat words.one)"
done
same_bytes "$pid" '/near$' "the sessions"
kill -TERM "$pid"
await [ -s said ]
expect "what the program computed" "$(cat said)" right

exit "$failed"
