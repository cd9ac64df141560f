#!/bin/bash
# SPDX-License-Identifier: MIT
# What `waymark record` says where the engine can't record, or can't go on: programs that go on natively in the middle, that it refuses, and
# recordings of what it records already.
# shellcheck source=tests/trail_setup.bash
. "$(dirname "$0")/trail_setup.bash"

needs_engine
soft=(-e trail/soft,last=1M/)
cc -O1 -g "$source_dir/tests/targets/attached_odd.c" -o attached_odd -lpthread -lm || exit 1

# ---- natively in the middle ----

# natively REASON COMMAND...: said with the program's number, by words and by --json
natively()
{
	local reason=$1
	shift
	rm -rf ran
	run 0 --json "${soft[@]}" -o ran -- "$@" </dev/null
	grep -q "^waymark: [0-9]* went on natively ($reason): nothing of it is recorded from then on$" words ||
		fail "$*: not said: $(cat words)"
	grep -q "\"natives\":\[{\"reason\":\"$reason\",\"processes\":1,\"pid\":[0-9]*}\]" out ||
		fail "$*: not in --json: $(cat out)"
}

natively "a seccomp filter" ./attached_odd filter
natively "the gs segment, which it set" ./attached_odd gs
natively "a seccomp filter" sh -c './attached_odd filter; exit'

# Each cause once; of a program that is recorded to its end nothing.
rm -rf ran
run 0 --json "${soft[@]}" -o ran -- sh -c 'for how in filter gs filter plain; do ./attached_odd $how; done' </dev/null
says "2 processes went on natively (a seccomp filter): nothing of them is recorded from then on"
says "went on natively (the gs segment, which it set)"
expect "lines" "$(grep -c natively words)" 2
rm -rf ran
run 0 --json "${soft[@]}" -o ran -- ./attached_odd plain </dev/null
grep -q natively words && fail "natively, though it was recorded: $(cat words)"
grep -q '"natives":\[\]' out || fail "--json: $(cat out)"

# Who is let go is not told of.
start ./attached_odd plain < <(sleep 30) >said
sleep 0.3
rm -rf ran
run 0 --json "${soft[@]}" -p "$pid" --for 200ms -o ran
grep -q natively words && fail "natively, though it was let go: $(cat words)"

exit $failed
