#!/bin/bash
# SPDX-License-Identifier: MIT
# A recorded process attaches to one that is stopped, which leaves the engine first. The tracer sees
# what it sees natively.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
stopped=$WAYMARK_BUILD/tests/targets/engine/engine-stopped

# The tracer sees the same, except where the thread is ("code"): the tool lets a stopped thread run for
# a moment to leave, and a tracer may see it there. It did in 5 of 27 rounds.
timeout 60 "$stopped" >native || fail "natively: $?"
elsewhere=0
for round in 1 2 3; do
	rm -rf ran
	timeout 120 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" >soft 2>words
	expect "round $round" $? 0
	cmp -s native soft || elsewhere=$((elsewhere + 1))
	cmp -s <(grep -v '^  code ' native) <(grep -v '^  code ' soft) || fail "round $round: $(diff native soft)"
	grep -q "^waymark: 7 processes went on natively (another process that traces it)" words ||
		fail "round $round: $(cat words)"
done
[ $elsewhere -lt 3 ] || fail "each round has a thread elsewhere: $(diff native soft)"

# others continue them at the same time
expect "natively, while they are continued" "$(timeout 60 "$stopped" continued 20)" "bad 0"
rm -rf ran
expect "while they are continued" \
	"$(timeout 120 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" continued 40 2>words)" "bad 0"

# Four at once seize a child that runs. None may have it die of a request to leave that comes late:
# without the engine's wait for those, 1 to 4 of 300 do.
rm -rf ran
expect "several tracers" \
	"$(timeout 150 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" several 300 2>words)" "died 0"

# Children that stop themselves at once are seized before, most of them: 19 or 20 of 20 natively, and
# 0 or 1 if they do not wait for that once they have left the engine.
rm -rf ran
seized=$(timeout 120 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" once 20 2>words)
[ "$seized" -ge 8 ] || fail "seized at once: $seized of 20: $(cat words)"

# A tracer that is stopped, or killed, before it has made its call: the process does not wait for long.
expect "natively, a stopped tracer" "$(timeout 60 "$stopped" stopped_tracer 1)" "continued, seized"
for round in 1 2 3; do
	rm -rf ran
	expect "a stopped tracer, round $round" \
		"$(timeout 120 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" stopped_tracer 1 2>words)" \
		"continued, seized"
done

# A tracer finds no thread in the engine, also where it does not wait for that thread to leave it:
# without the engine's count of those that leave, 21 of 80 are there, and 20 of 80 if PTRACE_SEIZE does
# not wait until the thread is out. A thread that has counted itself out may lose its processor before
# it is, 1 of 3,000.
expect "natively, threads" "$(timeout 60 "$stopped" threads 20)" 0
rm -rf ran
elsewhere=$(timeout 120 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" threads 20 2>words)
[ "$elsewhere" -le 2 ] || fail "threads in the engine: $elsewhere of 80: $(cat words)"

# The tool traces a child of vfork(2), and lets it go for another tracer.
expect "natively, children of vfork(2)" "$(timeout 60 "$stopped" vfork_children 20)" "attached 20"
rm -rf ran
expect "children of vfork(2)" \
	"$(timeout 120 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" vfork_children 20 2>words)" \
	"attached 20"

# It may be about to execute a program, or that may be about to enter the engine: without the wait for
# that, tracers get EPERM, or the process dies of a request to leave.
expect "natively, while it executes" "$(timeout 60 "$stopped" executing 60)" "attached 60, ended 60"
rm -rf ran
expect "while it executes" \
	"$(timeout 120 "$waymark" record -e trail/soft,last=4M/ -o ran -- "$stopped" executing 60 2>words)" \
	"attached 60, ended 60"

exit $failed
