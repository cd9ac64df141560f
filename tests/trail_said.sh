#!/bin/bash
# SPDX-License-Identifier: MIT
# What `waymark record` says where the engine can't record, or has to leave: programs that it leaves in the middle, that it refuses, and
# recordings of what it records already.
# shellcheck source=tests/trail_setup.bash
. "$(dirname "$0")/trail_setup.bash"

needs_engine
soft=(-e "trail/soft,last=1M/")
build_target attached_odd.c -lm

# ---- natively in the middle ----

# natively REASON COMMAND...: said with the program's number, by words and by --json
natively()
{
	local reason=$1
	shift
	rm -rf ran
	run 0 --json "${soft[@]}" -o ran -- "$@" </dev/null
	grep -q "^waymark: process [0-9]* went on natively ($reason) after [0-9.]* s: nothing is recorded from then on$" words ||
		fail "$*: not said: $(cat words)"
	expect "$*: in --json" "$(found native)" 1
}

natively "a seccomp filter" ./attached_odd filter
natively "the gs segment, which it set" ./attached_odd gs
natively "no memory for code can be mapped in reach of its code" ./attached_odd room
says "on a processor with Intel PT, trail/pt/ records it"
natively "new code is forbidden: PR_SET_MDWE, or a security module" ./attached_odd mdwe
natively "no memory for translated code" ./attached_odd cramped
natively "a limit of its memory: RLIMIT_AS, RLIMIT_DATA" ./attached_odd addresses
natively "a limit of its memory: RLIMIT_AS, RLIMIT_DATA" ./attached_odd addresses_in_vfork
[ "$(id -u)" != 0 ] || {
	natively "all its memory is locked: mlockall(2)" ./attached_odd locked
	natively "all its memory is locked: mlockall(2)" ./attached_odd locked_in_vfork
}
natively "code that it can run and not read" ./attached_odd unread
natively "a seccomp filter" sh -c './attached_odd filter; exit'

# Each cause once; of a program that is recorded to its end nothing.
rm -rf ran
run 0 --json "${soft[@]}" -o ran -- sh -c 'for how in filter gs filter plain; do ./attached_odd $how; done' </dev/null
grep -q "^waymark: 2 processes went on natively (a seccomp filter), the first after [0-9.]* s: nothing is recorded from then on$" words ||
	fail "2 processes: not said: $(cat words)"
says "went on natively (the gs segment, which it set)"
expect "lines" "$(grep -c natively words)" 2
rm -rf ran
run 0 --json "${soft[@]}" -o ran -- ./attached_odd plain </dev/null
grep -q natively words && fail "natively, though it was recorded: $(cat words)"
expect "natively, in --json" "$(found native)" 0

# At code that the engine does not translate, or can't read: all up to there, a gap, and the program's own end; whether the
# instruction begins its block or not, and in a forked child.
page_is_code='lea 1f(%%rip), %%rdi; and $-4096, %%rdi; mov $4096, %%esi; mov $4, %%edx; mov $10, %%eax; syscall; 1:'
vsyscall='xor %%edi, %%edi; sub $128, %%rsp; mov $0xffffffffff600400, %%rax; call *%%rax; add $128, %%rsp'
grep -q vsyscall /proc/self/maps || vsyscall=$page_is_code
for instruction in "$vsyscall" "$page_is_code" 'int $0x80' 'rdgsbase %%rax' 'mov %%gs, %%eax' 'push %%gs; pop %%rax' sysenter '.byte 6' '.byte 0x0f, 0x0a' \
	'jmp 1f; 1: iretq' 'nop; iretq' 'jmp 1f; 1: int $0x80'; do
	build_target trail/untranslated.c -DINSTRUCTION="\"$instruction\""
	reason="code that the engine does not translate"
	[ "$instruction" != "$vsyscall" ] && [ "$instruction" != "$page_is_code" ] || reason="code that it can run and not read"
	for mode in "" fork; do
		# shellcheck disable=SC2086 # none, or one word
		bash -c './untranslated "$@"' untranslated $mode >native 2>/dev/null
		status=$?
		rm -rf ran
		# shellcheck disable=SC2086
		run $status "${soft[@]}" -o ran -- ./untranslated $mode
		grep -v '^{' out | cmp -s - native || fail "$instruction: prints $(cat out), not $(cat native)"
		grep -q "went on natively ($reason)" words || fail "$instruction: $(cat words)"
		timeout 60 "$waymark" trail --functions -n 0 ran >shown 2>&1
		grep -qw run shown || fail "$instruction $mode: its function is not in the trail: $(tail -3 words shown)"
		trail ran
		grep -q "trail:gap" shown || fail "$instruction $mode: no gap"
	done
done

# Processes that are released are not reported.
start_ready ./attached_odd plain
rm -rf ran
run 0 --json "${soft[@]}" -p "$pid" --for 200ms -o ran
grep -q natively words && fail "natively, though it was let go: $(cat words)"
exec 7>&-
wait "$pid" || fail "it was let go: status $?: $(cat said)"

# ---- recorded already ----

# The threads run the engine's copies of the code: another tracer would report those, and a change of the code would have no effect.
"$waymark" record "${soft[@]}" -o ran_first -- sh -c 'echo $$ >first_pid; exec ./ticker 1 1 1000000' >/dev/null 2>first_words &
tool=$!
first_is_translated()
{
	pid=$(cat first_pid 2>/dev/null) && [ "$(cat "/proc/${pid:-self}/comm")" = ticker ] && is_translated "$pid"
}
await first_is_translated || fail "the first recording does not begin: $(cat first_words)"
started+=("$pid")
for event in func:tick marker:ticker:tick trail/soft/ trail; do
	bad 1 "pid $pid: it is being recorded already, by thread" -e "$event" -p "$pid" --for 200ms
done
kill -0 "$pid" || fail "recorded twice: it is gone"
kill $tool
wait $tool
expect "the first recording" $? 143
# and afterwards it is not
start ./ticker 1 1 1000000
"$waymark" record "${soft[@]}" -p "$pid" --for 300ms -o let_go >/dev/null 2>words || fail "let go: $(cat words)"
records again -e marker:ticker:tick -p "$pid"

# ---- refused ----

# Known before the program runs.
for limit in v:RLIMIT_AS d:RLIMIT_DATA; do
	(
		ulimit -${limit%:*} 34000000
		rm -rf limited
		timeout 60 "$waymark" record "${soft[@]}" -o limited -- ./trailed l 2>words
		echo $? >status
	)
	expect "$limit" "$(cat status)" 1
	says "${limit#*:}"
done

# Later, by the engine itself: with its reason, and the program runs natively.
# arch_prctl(ARCH_SET_GS) is an error from now on, for what is executed, too
under=(python3 "$source_dir/tests/filter.py" 158:0x1001 --)
if "${under[@]}" /bin/true; then
	rm -rf ran
	timeout 60 "${under[@]}" "$waymark" record "${soft[@]}" -o ran -- \
		sh -c 'echo "it ran"' >out 2>words
	expect "refused by the engine" $? 1
	says "can't be run under the trail's engine: pid"
	says "the engine says: Operation not permitted"
	grep -q "it ran" out || fail "refused by the engine, it did not run natively"
else
	echo "skipped: no filter by python3"
fi

# The disk is full: the folder is named.
if mkdir small && mount -t tmpfs -o size=256k none small 2>/dev/null; then
	run 1 -e trail/soft/ -o small/trace -- sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3'
	says "there is no room for the rest of the trace: small/trace"
	umount small
else
	echo "skipped: may not mount"
fi

# The recorder is behind: children that have ended do not still run.
build_target trail/brood.c
mkfifo go
exec 8<>go
"$waymark" record "${soft[@]}" -o behind -- ./brood <go >out 2>words &
recorder=$!
await_text out ready
tracer=$(pgrep -P $recorder -x waymark-tracer) || fail "there is no tracer"
kill -STOP "$tracer"
echo >&8
await_text out over
sleep 2 # the recorder waits a second for children to end
kill -CONT "$tracer"
wait $recorder
expect "a recorder that is behind: status" $? 0
grep "still run" words && fail "children that have ended still run"

head -c 5000 "$WAYMARK_ENGINE" >cut.so
WAYMARK_ENGINE=$folder/cut.so bad 1 "this file is no engine for trails" "${soft[@]}" -- ./trailed l

exit $failed
