#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record of trails: programs do what they do without, whatever ends the recording; what can't be recorded
# is refused in words.
# shellcheck source=tests/trail_setup.bash
. "$(dirname "$0")/trail_setup.bash"

# state_becomes PID STATE
state_becomes()
{
	await has_state "$1" "$2" || fail "state of $(ps -o stat=,comm= -p "$1"): expected $2"
}

# steps RECORDER DIR: until it steps through the program that it started, and has begun to write; the program's number in $child
steps()
{
	await has_steps "$1" "$2" || fail "$2: nothing is recorded"
}

has_steps()
{
	child=$(pgrep -P "$1" -x trailed) && [ -e "$2/$child-$child-1" ]
}

step=(-e trail/step/)
for ending in "${endings[@]}"; do
	ends "$ending" "by single steps" "${step[@]}"
	threads=1
	[[ ${ending#*:} == [vf] ]] && threads=2
	expect "${ending#*:}: threads" "$(json threads)" $threads
done
grep -q '"origin":"step"' out || fail "--json names no origin"

keeps_streams "${step[@]}"
# What the tool starts keeps none of the tool's descriptors.
keeps_none()
{
	local descriptor
	for descriptor in "/proc/$2/fd"/*; do
		case $(readlink "$descriptor") in
		"$folder"*) fail "$1 has $(readlink "$descriptor")" ;;
		esac
	done
}

"$waymark" record -v "${step[@]}" -o guarded -- ./trailed n 100000 9>inherited >&- 2>&- &
recorder=$!
steps $recorder guarded
program=$child
child_of $recorder waymark-guard
keeps_none "the guard" "$child"
child_of $recorder waymark-step
keeps_none "the tracer" "$child"
state_becomes "$child" S
kill "$program"
wait $recorder

# By hardware, or a line that says why not.
for origin in pt bts; do
	timeout 60 "$waymark" record -e "trail/$origin/" -o "by_$origin" -- ./trailed l 20 2>words
	case $? in
	1) grep -qE "^waymark: .+: $origin(: .+)?$" words || fail "$origin: $(cat words)" ;;
	7) trail "by_$origin" ;;
	*) fail "$origin: $(cat words)" ;;
	esac
done

# A script's interpreter is what runs.
printf '#!%s/trailed l\n' "$folder" >script
chmod +x script
run 7 "${step[@]}" -o scripted -- ./script

# Stopped and continued as by a shell, from within and from outside; and it is stopped meanwhile.
"$waymark" record "${step[@]}" -o stopped -- ./trailed s 2>words &
recorder=$!
# It stops at each step, so its own stop can't be seen from outside: send SIGCONT until it has ended.
has_ended_continued()
{
	pid=$(pgrep -P $recorder -x trailed) && kill -CONT "$pid" 2>/dev/null
	has_ended $recorder
}
await has_ended_continued || fail "stopped by itself, it does not continue"
wait $recorder
expect "stopped by itself" $? 6
trail stopped
start ./trailed n 1000000
begin_record "${step[@]}" -o paused -p "$pid"
await_recording paused
kill -STOP "$pid"
sleep 0.5 # nothing comes from it meanwhile
kill -CONT "$pid"
end_record 0 TERM
trail paused
goes_on "$pid" "it was stopped and continued while recorded"
state_becomes "$pid" S
kill -STOP "$pid"
run 0 "${step[@]}" --for 300ms -o asleep -p "$pid"
state_becomes "$pid" T
kill -CONT "$pid"

# Attach, detach, again: it continues, without a trace of a step.
for number in 1 2 3 4 5; do
	run 0 --json "${step[@]}" --for 200ms -o "attached$number" -p "$pid"
	goes_on "$pid" "attached to $number times"
	trail "attached$number"
done
[ "$(json instructions)" -gt 0 ] || fail "nothing of an attached program was recorded"
first=$pid
start ./trailed n 1000000
run 0 --json "${step[@]}" --for 300ms -o both -p "$pid,$first"
expect "two processes: threads" "$(json threads)" 2

# The recorder is killed: who steps lets go, and what was recorded is there.
for number in 1 2 3 4 5; do
	"$waymark" record "${step[@]}" -o "killed$number" -p "$pid" 2>words &
	recorder=$!
	await_event "killed$number" trail:blocks
	sleep 0.$number # different moments
	kill -9 $recorder
	wait $recorder 2>/dev/null
	await ! is_traced "$pid" || fail "the recorder was killed: the program is still traced"
	goes_on "$pid" "the recorder was killed"
done
expect "who traces it then" "$(field "$pid" TracerPid)" 0
trail killed1
grep -q trail:blocks shown || fail "nothing is left of the killed recording"
"$waymark" record "${step[@]}" -o orphaned -- ./trailed n 100000 2>words &
recorder=$!
steps $recorder orphaned
kill -9 $recorder
wait $recorder 2>/dev/null
await ! is_traced "$child" || fail "the recorder that started it was killed: it is still traced"
goes_on "$child" "the recorder that started it was killed"
kill "$child"

# Ctrl-C ends program and recording; SIGTERM is passed on.
"$waymark" record "${step[@]}" -o interrupted -- ./trailed n 100000 2>words &
recorder=$!
steps $recorder interrupted
kill -TERM $recorder
wait $recorder
expect "SIGTERM is passed on" $? 143
trail interrupted
grep -v ' trail:thread: ' shown | tail -1 | grep trail:end >found || fail "the trail of an ended program has no end"

# With markers: one folder, all threads but the agent's own.
run 3 --json "${step[@]}" -e 'marker:ticker:*' -o mixed -- ./ticker 10 2 1 3
expect "markers beside a trail" "$(json recorded)" 22
expect "the threads of a program with an agent" "$(json threads)" 3
# A thread of the program's that has the name of one of these is the program's, to its end.
build_target record/named.c -static
for origin in step soft; do
	engine=$WAYMARK_BUILD/inside/engine/libwaymark-trail.so
	[ $origin = step ] || [ -e "$engine" ] || continue
	WAYMARK_ENGINE=$engine run 0 --json -e trail/$origin/ -o "named_$origin" -- ./named 1
	expect "named, $origin: threads" "$(json threads)" 3
	expect "named, $origin: threads that ended" "$("$waymark" dump "named_$origin" | grep -c 'trail:end: .* reason = 0')" 3
	start_ready ./named
	WAYMARK_ENGINE=$engine run 0 --json -e trail/$origin/ --for 500ms -o "named_at_$origin" -p "$pid"
	expect "named, attached, $origin: threads" "$(json threads)" 3
	exec 7>&-
	await has_ended "$pid"
done
trail mixed
"$waymark" report mixed >shown
grep -q 'ticker:tick *20' shown || fail "the report of both: $(cat shown)"
start ./ticker 5 2 1000000
run 0 --json "${step[@]}" -e marker:ticker:tick --for 1s -o mixed_attached -p "$pid"
[ "$(json recorded)" -gt 0 ] || fail "attached with a trail: no markers"
[ "$(json blocks)" -gt 0 ] || fail "attached with markers: no trail"
goes_on "$pid" "markers and a trail"
"$waymark" record "${step[@]}" -e marker:ticker:tick -o mixed_killed -p "$pid" 2>words &
recorder=$!
await_event mixed_killed ticker:tick
kill -9 $recorder
wait $recorder 2>/dev/null
await ! is_traced "$pid" || fail "markers and a trail, the recorder killed: the program is still traced"
goes_on "$pid" "markers and a trail, the recorder killed"
run 0 --json -e marker:ticker:tick --for 1s -o mixed_after -p "$pid"
[ "$(json recorded)" -gt 0 ] || fail "no marker is hit after a recorder of trails was killed"

# Functions too; but not those of libraries that come while it is stepped through.
build_target late.c -O2 -DLIBRARY -fPIC -shared -o late.so
build_target late.c -O2
run 0 --json "${step[@]}" -e func:early/ret/ -e func:late/ret/ -o functions -- ./late
# a jump of one byte needs no stop, so the agent can store the later one; it can't store others in a process that is stepped
if [ "$(json refused)" = 0 ]; then
	expect "calls of a function" "$(json recorded)" 6
else
	expect "calls of a function" "$(json recorded)" 4
	says "steps through the process itself"
fi
trail functions

# The flight recorder.
run 139 --json -e trail/last=64K/ --on crash -o crash -- ./trailed k 11
says "by signal SIGSEGV; the last instructions:"
grep -q '"fired":true' out || fail "--on crash: $(cat out)"
# The folder has all that ran, with its code.
cp trailed going
run 139 -e trail/last=64K/ --on crash -o gone -- ./going k 11
rm going
timeout 60 "$waymark" trail --instructions -n 0 gone >shown || fail "the trail of a program that is gone"
[ "$(grep -c 'syscall *$' shown)" -eq 2 ] || fail "the code of a program that is gone: $(tail -5 shown)"
! grep -q "(bad)" shown || fail "code that can't be read: $(grep -m 3 "(bad)" shown)"
run 139 -e trail/last=64K/ --on signal:SEGV -o by_signal -- ./trailed k 11
says "by signal SIGSEGV"
run 8 -e trail/last=64K/ --on signal:SIGALRM -o alarm -- ./trailed t 3
says "by signal SIGALRM"
run 7 --json -e trail/last=64K/ --on exit -o at_exit -- ./trailed l 20000
says "of these blocks the first"
[ "$(json overwritten)" -gt 0 ] || fail "a small flight recorder held all"
trail at_exit
grep -v ' trail:thread: ' shown | tail -1 | grep trail:end >found || fail "the flight recorder's newest is not the end"
for on in crash signal:TERM exit; do
	[ $on != exit ] || continue
	run 7 --json -e trail/last=64K/ --on $on -o "not_$on" -- ./trailed l 5
	says "--on $on: it did not come to that; no trace was written"
	[ ! -e "not_$on" ] || fail "--on $on: left a folder"
done
run 5 -e trail/last=1M/ --on marker:ticker:tick -o on_marker -- ./ticker 3 1 1 5
says "-> tick"
says "the last instructions:"
trail on_marker
start ./ticker 1 1 1000000
run 0 -e trail/last=1M/ --on marker:ticker:tick -o on_attached -p "$pid"
says "of process $pid"
goes_on "$pid" "a marker was awaited in it"
bad 1 "no marker matches: ticker:tock" -e trail/last=1M/ --on marker:ticker:tock -p "$pid"
run 7 -e trail/last=64K/ -o at_end -- ./trailed l 5
trail at_end

# The command line.
bad 2 "is for a flight recorder: -e trail/last=64M/" --on crash -- ./trailed l
bad 2 "is for a flight recorder: -e trail/last=64M/" -e trail/step/ --on crash -- ./trailed l
bad 2 "there is no trigger crsh" -e trail/last=64K/ --on crsh -- ./trailed l
says "did you mean crash?"
bad 2 "--on signal:NAME takes a signal, such as SEGV, RTMIN+1 or 11, not SEGW" -e trail/last=64K/ --on signal:SEGW -- ./trailed l
bad 2 "leave out marker:a:b" -e trail/last=64K/ -e marker:a:b --on crash -- ./trailed l
bad 1 "did you mean step?" -e trail/stpe/ -- ./trailed l
WAYMARK_ENGINE=/nowhere bad 1 "libwaymark-trail.so, was not found" -e trail/soft/ -- ./trailed l
bad 1 "(column 7) takes a size from 64K to 64G" -e trail/last=12/ -- ./trailed l
bad 1 "has one trail spec" -e trail/step/ -e trail/last=1M/ -- ./trailed l
bad 1 "no slash behind" -e trail/step -- ./trailed l
bad 1 "can't be read" -e trail:step -- ./trailed l
run 7 -v -e trail/auto/ -o auto -- ./trailed l 5
says "the trail's origin is"
says "not soft: "

# Programs.
bad 1 "No such file or directory: ./nothere" "${step[@]}" -- ./nothere
bad 1 "Permission denied" "${step[@]}" -- ./trail_words
printf 'what is this\n' >text
chmod +x text
bad 1 "no ELF program" "${step[@]}" -- ./text
printf '\177ELF\1\1\1%057d' 0 >small
chmod +x small
bad 1 "not x86-64" "${step[@]}" -- ./small
why=$(lacks int80)
if [ -z "$why" ] && as --32 "$source_dir/tests/targets/trail/old.S" -o old.o &&
	ld -m elf_i386 old.o -o old && ./old; [ $? -eq 9 ]; then
	bad 1 "not x86-64" "${step[@]}" -- ./old
	run 9 "${step[@]}" -o older -- ./trailed x ./old
	says "executed a program that is not x86-64; the trail ends there"
	trail older
	grep -q trail:gap shown || fail "no gap where a 32-bit program begins"
else
	echo "without 32-bit programs they are not tried${why:+: $why}"
fi

# Processes.
bad 1 "No such process: pid 4194305" "${step[@]}" -p 4194305
start gdb -q -nx -batch -ex 'run' -ex 'shell sleep 100' --args ./trailed n 1000000 >/dev/null 2>&1
debugger=$pid
if command -v gdb >/dev/null; then
	child_of "$debugger" trailed
	await is_traced "$child" || fail "gdb does not trace the program"
	bad 1 "is traced by process $debugger" "${step[@]}" -p "$child"
	kill -9 "$child" "$debugger"
else
	echo "without gdb a traced program is not tried"
fi

# Folders, files, rights.
mkdir full && touch full/something
run 1 "${step[@]}" -o full -- ./trailed l
says "not empty"
(
	ulimit -f 16
	run 1 --json "${step[@]}" -o limited -- ./trailed l 20000
	says "there is no room for the rest of the trace"
	exit "$failed"
) || failed=1
timeout 60 "$waymark" trail --last 1 limited >/dev/null 2>&1 || fail "what stood before the limit can't be read"
if [ "$(id -u)" -eq 0 ]; then
	start ./trailed n 1000000
	chmod 755 "$folder"
	(cd /tmp && unset XDG_RUNTIME_DIR && exec setpriv --reuid 65534 --clear-groups \
		timeout 20 "$waymark" record "${step[@]}" -o "/tmp/waymark-trail-$$" -p "$pid") >out 2>words
	expect "another user's process" $? 1
	says "it runs as user 0, we as user 65534"
	goes_on "$pid" "another user tried"
	cp trailed setuid
	chown nobody setuid
	chmod 4755 setuid
	bad 1 "setuid" "${step[@]}" -- ./setuid
else
	echo "without root other users' processes are not tried"
fi

exit "$failed"
