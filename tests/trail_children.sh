#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record of trails: the processes that a program makes are recorded as well, in whichever way they are made, and
# program and children end as they do without. Children that are not followed are reported.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
needs_engine

for program in offspring trailed; do
	build_target $program.c -D_GNU_SOURCE -ffreestanding -fno-stack-protector -nostdlib -static -no-pie
done

# record NAME MODE...: its trails are whole, and the program ended as it does alone, saying the same
record()
{
	local name=$1 expected status

	shift
	timeout 60 ./offspring "$@" >plain
	expected=$?
	timeout 100 "$waymark" record --json "${options[@]}" -o "$name" -- ./offspring "$@" >out 2>words
	status=$?
	expect "$*: status" $status $expected
	grep -v '^{' out | cmp - plain || fail "$*: it says $(cat out)"
	timeout 60 "$waymark" trail --json -n 0 "$name" >shown 2>trail_words || fail "trail $name: $(cat trail_words)"
	[ ! -s trail_words ] || fail "trail $name: $(cat trail_words)"
}

# counts PROCESSES THREADS: each with an end, each process but the first with a fork that names it, each thread too
counts()
{
	expect "processes" "$(json processes)" "$1"
	expect "threads" "$(json threads)" "$2"
	expect "pids" "$(sed -n 's/.*"type":"trail_thread","pid":\([0-9]*\).*/\1/p' shown | sort -u | wc -l)" "$1"
	expect "ends" "$(grep -c '"event":"end"' shown)" "$2"
	expect "forks" "$(grep -c '"event":"fork"' shown)" $(($2 - 1))
	sed -n 's/.*"event":"fork","reason":null,"child":\([0-9]*\).*/\1/p' shown | sort >made
	sed -n 's/.*"type":"trail_thread","pid":[0-9]*,"tid":\([0-9]*\).*/\1/p' shown | sort >there
	[ "$(comm -23 made there | wc -l)" = 0 ] || fail "a fork names what has no trail"
}

# fork, clone3, vfork and posix_spawn's clone with another program executed, also after fork; killed, and by a
# fault; stopped, continued and ended; each makes the next; threads that fork in a child.
options=(-e trail/soft/)
for mode in "2:2 f" "2:2 3" "2:2 v" "2:2 p" "2:2 x" "2:2 k" "2:2 s" "2:2 j" "5:5 n 3" "3:4 t"; do
	rm -rf made_by
	# shellcheck disable=SC2086 # several words
	record made_by ${mode#* }
	counts "${mode%%:*}" "$(cut -d: -f2 <<<"${mode%% *}")"
	expect "${mode#* }: unfollowed" "$(json unfollowed)" 0
done

# A child's way is what it is when it is recorded by itself: the program that it executes.
rm -rf alone executed
timeout 60 "$waymark" record -e trail/soft/ -o alone -- ./offspring e 2>/dev/null
options=(-e trail/soft/)
record executed x
ran() # NAME PID: the instructions behind an exec, or all
{
	timeout 60 "$waymark" trail --instructions -v -n 0 --pid "$2" "$1" 2>/dev/null |
		sed 's/^ *[0-9]* *//' | awk '/exec: another program/ { n = 0; next } /^[^ ].*\(process|ended/ { next } { all[n++] = $0 } END { for (i = 0; i < n; i++) print all[i] }'
}
pid_of() # NAME: of its last process
{
	timeout 60 "$waymark" trail --json "$1" | sed -n 's/.*"type":"trail_thread","pid":\([0-9]*\).*/\1/p' | tail -1
}
cp offspring another
rm -rf renamed
timeout 60 "$waymark" record -e trail/soft/ -o renamed -- ./trailed x ./another e >/dev/null 2>words
expect "executed: status" $? 9
"$waymark" trail renamed >shown
grep -q '^another-' shown || fail "a program that was executed goes by the former name"
ran alone "$(pid_of alone)" >way_alone
ran executed "$(pid_of executed)" >way_executed
[ -s way_alone ] || fail "no way of what is executed"
cmp way_alone way_executed || fail "a child runs otherwise than it does alone: $(diff way_alone way_executed | head -5)"

# 300 at once.
rm -rf storm
record storm h 300
counts 301 301
expect "300 at once: unfollowed" "$(json unfollowed)" 0

# An orphan is let go when the program has ended, and does what it would have done.
rm -rf orphaned
timeout 60 "$waymark" record -e trail/soft/ -o orphaned -- ./offspring o >out 2>words
expect "orphan: status" $? 4
await grep -q 'orphan 1' out || fail "the orphan did not live on"

# A program that gains rights has them, though it is a child's; its trail ends where it is executed.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	mkdir -m 0777 for_all
	chmod 755 .
	build_target trail/rights.c
	chmod 4755 rights || exit 1
	(unset XDG_RUNTIME_DIR && exec timeout 60 setpriv --reuid 65534 --clear-groups \
		"$waymark" record -e trail/soft/ -o for_all/rights -- ./offspring q) >out 2>words
	expect "rights: status" $? 4
	grep -q 'exited 91' out || fail "a program in a child has not gained its rights: $(cat out words)"
	says "waymark: 1 process executed a program that gains rights; the trail ends there"
	timeout 60 "$waymark" trail --json -n 0 for_all/rights >shown 2>trail_words || fail "rights: $(cat trail_words)"
	grep -q '"event":"end","reason":"detached"' shown || fail "privileges: the trail continues"
fi

# A program that traces its child while signals come, some of them right behind ptrace(2).
build_target trail/attaches.c
timeout -k 5 100 "$waymark" record --json -e trail/soft/ -o attached -- ./attaches >out 2>words
expect "attaches: status" $? 0
grep -q '^attached 100$' out || fail "attaches: $(cat out words)"

# Left alone on request; the fork is recorded all the same.
options=(-e trail/soft/ --no-follow)
rm -rf not_followed
record not_followed x
expect "--no-follow: processes" "$(json processes)" 1
grep -q '"event":"fork"' shown || fail "--no-follow: no fork"

# A flight recorder each. --on crash waits for a child's crash too; --on exit ignores a child's end.
options=(-e 'trail/soft,last=64K/')
rm -rf flight
record flight n 3
counts 5 5
rm -rf crash
timeout 60 "$waymark" record -e trail/soft,last=64K/ --on crash -o crash -- ./offspring s >out 2>words
expect "--on crash: status" $? 4
grep -q '^waymark: --on crash: in thread [0-9]* of process [0-9]*, by signal SIGSEGV; the last instructions:' words ||
	fail "--on crash: $(cat words)"
expect "--on crash: what crashed" "$(sed -n 's/.*in thread \([0-9]*\) of process.*/\1/p' words)" \
	"$(timeout 60 "$waymark" trail --json crash | sed -n 's/.*"pid":\([0-9]*\).*"event":"end".*"signal":"SIGSEGV".*/\1/p' | tail -1)"
rm -rf exits
timeout 60 "$waymark" record --json -e trail/soft,last=64K/ --on exit -o exits -- ./offspring f >out 2>words
expect "--on exit: status" $? 4
expect "--on exit: the program" "$(sed -n 's/.*"trigger":[^}]*"pid":\([0-9]*\).*/\1/p' out)" \
	"$(timeout 60 "$waymark" trail --json exits | sed -n 's/.*"type":"trail_thread","pid":\([0-9]*\).*/\1/p' | head -1)"

exit $failed
