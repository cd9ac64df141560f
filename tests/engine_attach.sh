#!/bin/bash
# SPDX-License-Identifier: MIT
# The engine enters running programs and leaves them, whichever process is killed, and they behave as natively; those that
# it can't enter are reported apart and continue.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
for name in attached attached_odd; do
	cc -O1 -g "$source_dir/tests/targets/$name.c" -o $name -lpthread -lm || exit 1
done
soft=(-e trail/soft/)

# ended WHAT: the program started last, which said "right" into ./said and ended with 0
ended()
{
	local status
	await -s 30 has_ended "$pid" || fail "$1: it does not end"
	wait "$pid"
	status=$?
	[ $status -eq 0 ] && grep -q '^right$' said || fail "$1: status $status: $(cat said)"
}

# measured: what the process has: mappings, descriptors
measured()
{
	echo "$(grep -c . /proc/$pid/maps) mappings, $(ls /proc/$pid/fd | wc -l) descriptors, $(grep VmSize /proc/$pid/status)"
}

# attached [FILE]: the program with threads of all kinds, until there is a file ./stop; its words are in ./said, or in FILE
attached()
{
	rm -f stop "${1:-said}"
	./attached 300 >"${1:-said}" &
	pid=$!
	started+=("$pid")
	await_text "${1:-said}" ready
}

# settled: its threads come and go, so it may be looked at with one more stack
settled()
{
	await is_measured "$1" || fail "$2: $(measured), and before: $1"
}

is_measured()
{
	[ "$(measured)" = "$1" ]
}

# ---- twenty times, and nothing of it stays ----

attached
before=$(measured)
for round in $(seq 20); do
	kill -0 "$pid" 2>/dev/null || break
	rm -rf ran
	run 0 --json "${soft[@]}" -p "$pid" --for 100ms -o ran
	[ "$(json blocks)" -gt 0 ] || fail "round $round: no blocks"
	# on a busy machine the last thread may be led out after the command has ended
	await ! has_engine "$pid" || fail "round $round: the engine is still there"
done
settled "$before" "after twenty recordings"

# ---- what ran, and by whom ----

rm -rf ran
tids=$(ls /proc/$pid/task)
run 0 "${soft[@]}" -p "$pid" --for 1s -o ran
timeout 60 "$waymark" trail --functions -n 0 ran >functions 2>words || fail "trail --functions: $(cat words)"
for name in mix turn busy vectors locks; do
	grep -qw "$name" functions || fail "$name has run, and the trail does not say so"
done
timeout 60 "$waymark" trail -n 1 ran >branches 2>words || fail "trail: $(cat words)"
missing=0
for tid in $tids; do
	grep -q -- "-$tid (process $pid)" branches || missing=$((missing + 1))
done
# those that come and go may have gone before
[ $missing -le 1 ] || fail "$missing threads have no trail: $tids"
touch stop
ended "taken over and given back"

# ---- code on pages that another thread provides, eight at a time ----

touch feed
rm -f said
"$WAYMARK_BUILD/tests/targets/engine/engine-fed" attached >said &
pid=$!
started+=("$pid")
await test -s said
if grep -q ready said; then
	rm -rf ran
	run 0 "${soft[@]}" -p "$pid" --for 300ms -o ran
	rm feed
	ended "with userfaultfd(2)"
fi

# ---- killed at any time: the tool, who traces, both ----

attached
before=$(measured)
for round in $(seq 30); do
	kill -0 "$pid" 2>/dev/null || break
	rm -rf ran
	"$waymark" record "${soft[@]}" -p "$pid" -o ran >/dev/null 2>&1 &
	tool=$!
	disown $tool
	sleep "0.$(printf %03d $((RANDOM % 400)))" # any moment, up to where it records
	# The tracer, not any child of the tool: the tool also tries permissions in children, and does not need their answer.
	tracer=$(field "$pid" TracerPid)
	# The last round's tracer, whose tool is gone, may still lead threads out.
	[ "$(field "$tracer" PPid)" = $tool ] || tracer=
	case $((round % 3)) in
	0) kill -9 $tool ;;
	1) kill -9 ${tracer:-$tool} ;;
	2) kill -9 $tool $tracer ;;
	esac 2>/dev/null
	await has_ended $tool || fail "round $round: the tool continues"
	await ! is_traced "$pid" || fail "round $round: the program is still traced"
done
# The last may still be at giving it back.
can_be_recorded()
{
	rm -rf ran
	timeout 60 "$waymark" record "${soft[@]}" -p "$pid" --for 100ms -o ran >/dev/null 2>words
}
await -s 30 can_be_recorded || fail "after thirty kills it can't be recorded: $(cat words)"
settled "$before" "after thirty kills: $(cat words)"
touch stop
ended "whose recorders were killed"

# Killed before it has written into the memory that it has for the engine's file.
while read -r type _ at _ _ bytes _; do
	[ "$type" != LOAD ] || engine_end=$((at + bytes))
done < <(readelf -lW "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so")
start_ready ./attached_odd left $(((engine_end + 4095) / 4096 * 4096 + 8192))
rm -rf ran
run 0 "${soft[@]}" -p "$pid" --for 100ms -o ran
exec 7>&-
ended "whose recorder was killed at once"

# ---- two at once ----

attached said_other
other=$pid
attached
rm -rf ran
run 0 --json "${soft[@]}" -p "$pid" -p "$other" --for 500ms -o ran
timeout 60 "$waymark" trail -n 1 ran >branches 2>words || fail "trail: $(cat words)"
for process in $pid $other; do
	grep -q "(process $process)" branches || fail "process $process has no trail"
done
touch stop
ended "one of two"
wait $other || fail "the other of two: $(cat said_other)"

# ---- programs of others ----

# has_computed PID TICKS: it has had so much CPU time, or it has ended
has_computed()
{
	has_ended "$1" || [ "$(cpu_ticks "$1")" -ge "$2" ]
}

# computes COMMAND...: prints the same as without
computes()
{
	timeout 60 "$@" >wanted
	"$@" >said &
	pid=$!
	started+=("$pid")
	for _ in 1 2 3 4; do
		await has_computed "$pid" $(($(cpu_ticks $pid) + 10)) || fail "$1: it does not run"
		! has_ended $pid || break
		rm -rf ran
		timeout 60 "$waymark" record "${soft[@]}" -p $pid --for 200ms -o ran >/dev/null 2>words ||
			! grep -qs "^State:.*[RSD] (" "/proc/$pid/status" || fail "$1: $(cat words)"
	done
	wait $pid || fail "$1: status $?"
	cmp -s wanted said || fail "$1: $(head -c 300 said), natively $(head -c 300 wanted)"
}

cat >sum.py <<'PY'
import hashlib, threading
def work(n, out):
    text = b""
    for i in range(40000):
        text = hashlib.sha256(text + str(i * n).encode()).digest()
    out[n] = text.hex()
out = {}
threads = [threading.Thread(target=work, args=(n, out)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
for round in range(20):
    out[round % 4] += str(sum(i * i for i in range(60000)))
print(sorted(out.items()))
PY
if python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))'); then
	computes "$python" sum.py
else
	echo "skipped: no python3"
fi
if command -v sqlite3 >/dev/null; then
	computes sqlite3 :memory: "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500000) select sum(i * i % 7), count(distinct i % 1000) from n;"
else
	echo "skipped: no sqlite3"
fi
command -v redis-server >/dev/null || echo "skipped: no redis-server"

# ---- memory of its own where the engine's was: what the tool unmaps at the end is the engine's alone ----

start_ready ./attached_odd over
rm -rf ran
run 0 "${soft[@]}" -p "$pid" -o ran --for 1s
grep -q natively words && fail "memory where the engine's was: $(cat words)"
exec 7>&-
ended "memory where the engine's was"

# ---- threads that raise faults and handle them: one may come as they are led in or out ----

mkfifo faults_end
"$WAYMARK_BUILD/tests/targets/storms" faults <faults_end >said 2>&1 &
pid=$!
started+=("$pid")
exec 7>faults_end
await test -s said || fail "the program that raises faults does not begin"
blocks=0
for round in $(seq 20); do
	kill -0 "$pid" 2>/dev/null || break
	rm -rf ran
	run 0 --json "${soft[@]}" -p "$pid" --for 50ms -o ran
	blocks=$((blocks + $(json blocks)))
done
[ $blocks -gt 0 ] || fail "no blocks in 20 recordings of faults"
exec 7>&-
await has_ended "$pid" || fail "the program that raises faults does not end"
wait "$pid" || fail "the program that raises faults: status $?: $(cat said)"

# ---- a signalfd(2) that it had before ----

start_ready ./attached_odd signalfd
rm -rf ran
"$waymark" record "${soft[@]}" -p "$pid" --for 50s -o ran >/dev/null 2>words &
tool=$!
await is_translated "$pid" || fail "a signalfd: it is not recorded: $(cat words)"
kill -SEGV "$pid"
await grep -q got said || fail "what it blocks does not come to its signalfd while it is recorded"
kill -TERM $tool
wait $tool || fail "a signalfd: status $?: $(cat words)"
exec 7>&-
ended "a signalfd"

# ---- a handler of a thread that is out of the engine, while another is in it ----

# It returns through the engine's file.

start_ready ./attached_odd handler
pc_of() { awk '{ print $NF }' "/proc/$pid/syscall"; }
await grep -qs '^0 0x0 ' "/proc/$pid/syscall"
pc=$(pc_of)
main_is_out() { [ "$(pc_of)" = "$pc" ]; }
rm -rf ran
"$waymark" record "${soft[@]}" -p "$pid" --for 50s -o ran >/dev/null 2>words &
tool=$!
await is_translated "$pid" || fail "a handler: it is not recorded: $(cat words)"
kill -USR2 "$pid"
await pgrep -P "$pid" >/dev/null || fail "a handler: no child of vfork"
kill -TERM $tool
await main_is_out || fail "a handler: main does not come out of the engine"
kill -FPE "$pid"
await grep -q in said || fail "a handler: it does not begin"
wait $tool
rm -rf ran
run 0 "${soft[@]}" -p "$pid" --for 100ms -o ran
exec 7>&-
ended "a handler while the engine leaves"

# ---- its children ----

start sh -c 'while :; do /bin/true; done'
rm -rf ran
run 0 --json "${soft[@]}" -p "$pid" -o ran --for 1s
says "went on unrecorded: trail/soft/ follows no children of a program that was running before"
[ "$(json unfollowed)" -gt 0 ] || fail "children of a program that ran before are not reported: $(cat out)"
rm -rf ran
run 0 --json "${soft[@]}" --no-follow -p "$pid" -o ran --for 1s
expect "its children were not asked for: unfollowed" "$(json unfollowed)" 0
kill -9 "$pid"

# ---- those that can't be taken ----

# refused HOW WORDS: refused by name, and the program continues untouched
refused()
{
	start_ready ./attached_odd "$1"
	rm -rf trace
	run 1 "${soft[@]}" -p "$pid" -o trace --for 100ms
	says "$2"
	exec 7>&-
	ended "$1"
}

refused filter "is under a seccomp filter"
refused gs "uses the gs segment"
refused addresses "RLIMIT_AS"
refused descriptors "can't have a memfd"
refused vfork "vfork(2)"
if [ "$(ulimit -l)" = unlimited ] || [ "$(id -u)" = 0 ]; then
	refused locked "mlockall(2)"
else
	echo "skipped: may not lock memory"
fi

for how in plain leaderless rseq sigwait; do
	start_ready ./attached_odd $how
	rm -rf ran
	run 0 "${soft[@]}" -p "$pid" -o ran --for 300ms
	exec 7>&-
	ended $how
done

# A thread that can't be stopped for a while delays no other: the other runs under the engine meanwhile, and natively again when the attach fails.
attached
first=$pid
mv said said_first
start_ready ./attached_odd vfork
rm -rf trace
"$waymark" record "${soft[@]}" -p "$pid" -p "$first" -o trace --for 100ms >/dev/null 2>words &
tool=$!
goes_on_meanwhile()
{
	is_translated "$first" && ! has_ended $tool
}
await goes_on_meanwhile || fail "the first of two is stopped until the second is taken"
wait $tool && fail "one of two can't be taken, and yet the recording goes well"
says "vfork(2)"
[ ! -e trace ] || fail "one of two can't be taken, and there is a trace"
exec 7>&-
ended "vfork, with another"
touch stop
wait "$first" && grep -q '^right$' said_first || fail "the other of one in vfork(2): $(cat said_first)"

# Stopped: it stays stopped until SIGCONT.
start_ready ./attached_odd plain
kill -STOP "$pid"
await has_state "$pid" T || fail "it does not stop"
rm -rf trace
run 1 "${soft[@]}" -p "$pid" -o trace --for 100ms
says "kill -CONT $pid"
[ "$(sed -n 's/State:\t\(.\).*/\1/p' "/proc/$pid/status")" = T ] || fail "it was stopped, and is not"
kill -CONT "$pid"
exec 7>&-
ended "stopped"

# Recorded already.
start_ready ./attached_odd plain
rm -rf ran trace
"$waymark" record "${soft[@]}" -p "$pid" -o ran --for 50s 2>/dev/null >&2 &
tool=$!
await is_translated "$pid" || fail "the first of two recordings does not begin"
run 1 "${soft[@]}" -p "$pid" -o trace --for 100ms
says "it is being recorded already"
kill -TERM $tool
wait $tool || fail "the first of two recordings: status $?"
exec 7>&-
ended "recorded twice at once"

# Traced by another.
if command -v strace >/dev/null; then
	start_ready ./attached_odd plain
	strace -o /dev/null -p "$pid" 2>/dev/null &
	tool=$!
	await is_traced "$pid" || fail "strace does not trace it"
	rm -rf trace
	run 1 "${soft[@]}" -p "$pid" -o trace --for 100ms
	says "is traced by process"
	kill $tool
	wait $tool 2>/dev/null
	exec 7>&-
	ended "traced"

	# By another when the recording ends: what is ours goes when he does.
	start sh -c 'while :; do :; done'
	rm -rf ran
	"$waymark" record "${soft[@]}" -p "$pid" -o ran --for 50s >/dev/null 2>words &
	tool=$!
	await is_translated "$pid" || fail "traced by another at the end: it is not recorded: $(cat words)"
	strace -o /dev/null -p "$pid" 2>/dev/null &
	tracer=$!
	await is_traced "$pid" || fail "strace does not trace it"
	kill -TERM $tool
	wait $tool || fail "traced by another at the end: $(cat words)"
	is_traced "$pid" || fail "strace is not there"
	kill $tracer
	wait $tracer 2>/dev/null
	await ! has_engine "$pid" || fail "traced by another at the end: the engine is still there"
	kill "$pid"
else
	echo "skipped: no strace"
fi

# Its markers are being recorded: refused by name, and their recording continues.
start ./ticker 1 1 1000000
rm -rf ran trace
"$waymark" record -e 'marker:*:*' -p "$pid" -o ran >/dev/null 2>words_marker &
tool=$!
await is_recording ran || fail "markers: $(cat words_marker)"
run 1 "${soft[@]}" -p "$pid" -o trace --for 100ms
says "markers or probes are recorded in it"
kill -TERM $tool
wait $tool || fail "markers: status $?: $(cat words_marker)"
kill -0 "$pid" || fail "the program with markers is gone"

# Of 32 bits.
why=$(lacks int80)
printf '.globl _start\n_start: mov $29, %%eax\nint $0x80\njmp _start\n' >narrow.s
if [ -z "$why" ] && as --32 narrow.s -o narrow.o 2>/dev/null && ld -m elf_i386 narrow.o -o narrow 2>/dev/null; then
	start ./narrow
	if ! has_ended "$pid"; then
		rm -rf trace
		run 1 "${soft[@]}" -p "$pid" -o trace --for 100ms
		says "not x86-64"
		kill -0 "$pid" || fail "the program of 32 bits is gone"
	fi
else
	echo "skipped: ${why:-nothing of 32 bits can be built}"
fi

exit $failed
