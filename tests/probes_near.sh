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
agree func:near_wall "$(at near_inside)/breakpoint=always/"
grep -q 'refused  another event stands in the way of this one: near:near_wall at -2$' listed ||
	fail "the earlier isn't named: $(cat listed)"
says "near:near_wall at -2"
expect "calls of near_wall" "$(count near.trace near:near_wall)" 200

# Some at neighbouring instructions.
agree func:near_sum "$(at near_one)" "$(at near_two)" "$(at near_three)" "$(at near_four)"
expect "calls of near_sum" "$(count near.trace near:near_sum)" 200

exit "$failed"
