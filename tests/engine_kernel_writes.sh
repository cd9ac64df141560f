#!/bin/bash
# SPDX-License-Identifier: MIT
# System calls under the engine that write to memory beside code do what they do natively: launched,
# and attached while some of them are being made. Prints the share of all calls that is right.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
calls=$WAYMARK_BUILD/tests/targets/engine/engine-kernel-writes
timeout 100 "$calls" >native || fail "natively: status $?"
grep 'right$' native | sort >wanted
[ "$(wc -l <wanted)" -gt 100 ] ||
	fail "natively most are not right: $(grep -v 'right$' native | tr '\n' ' ')"

# share FIGURE FILE: how much of what is right natively is right there, too
share()
{
	local right
	sort "$2" | comm -12 wanted - >right
	right=$(wc -l <right)
	awk "BEGIN { printf \"figure soft.kernel_writes$1 %.4f share\n\", $right / $(wc -l <wanted) }"
	comm -23 wanted right >others
	[ ! -s others ] || fail "soft.kernel_writes$1: $(tr '\n' ' ' <others): $(tail -n 3 words)"
}

timeout 300 "$waymark" record -e trail/soft,last=4M/ -o launched -- "$calls" >said 2>words ||
	fail "status $?: $(tail -n 3 words)"
share "" said

# attached ARGUMENT...: the program goes on when it is recorded
attached()
{
	local tool
	rm -rf go attached
	"$calls" go "$@" >said &
	pid=$!
	started+=("$pid")
	await_text said ready
	"$waymark" record -e trail/soft,last=4M/ -p "$pid" -o attached >/dev/null 2>words &
	tool=$!
	await has_engine "$pid" && await ! is_traced "$pid" ||
		fail "it is not recorded: $(tail -n 3 words)"
	sleep 0.1 # the time is the subject: its code runs meanwhile
	touch go
	wait "$pid" || fail "attached: status $?"
	wait "$tool" || fail "the recorder: status $?: $(tail -n 3 words)"
}

attached ring
grep -q "taken: wrong$" said && fail "$(tail -n 1 said)"
attached
[ "$(grep -c 'taken: right$' said)" -eq 4 ] ||
	fail "calls that were being made: $(grep taken said | tr '\n' ' ')"
share .attached said
exit $failed
