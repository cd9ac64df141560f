#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record of trails: programs do what they do without, whatever ends the recording; what can't be recorded
# is refused in words.
# shellcheck source=tests/trail_setup.bash
. "$(dirname "$0")/trail_setup.bash"
needs_engine

# state_becomes PID STATE
state_becomes()
{
	await has_state "$1" "$2" || fail "state of $(ps -o stat=,comm= -p "$1"): expected $2"
}

# records_into RECORDER DIR: until it records the program that it started, and has begun to write; the program's number in $child
records_into()
{
	await has_stream "$1" "$2" || fail "$2: nothing is recorded"
}

has_stream()
{
	child=$(pgrep -P "$1" -x trailed) && [ -e "$2/$child-$child-1" ]
}

soft=(-e trail/soft/)
for ending in "${endings[@]}"; do
	ends "$ending" "by translation" "${soft[@]}"
	threads=1
	[[ ${ending#*:} == [vf] ]] && threads=2
	expect "${ending#*:}: threads" "$(json threads)" $threads
done
grep -q '"origin":"soft"' out || fail "--json names no origin"

keeps_streams "${soft[@]}"
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

"$waymark" record -v "${soft[@]}" -o guarded -- ./trailed n 100000 9>inherited >&- 2>&- &
recorder=$!
records_into $recorder guarded
program=$child
child_of $recorder waymark-guard
keeps_none "the guard" "$child"
child_of $recorder waymark-tracer
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
run 7 "${soft[@]}" -o scripted -- ./script

# Stopped and continued as by a shell, from within and from outside; and it is stopped meanwhile.
"$waymark" record "${soft[@]}" -o stopped -- ./trailed s 2>words &
recorder=$!
# Send SIGCONT until it has ended.
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
begin_record "${soft[@]}" -o paused -p "$pid"
await_recording paused
kill -STOP "$pid"
sleep 0.5 # nothing comes from it meanwhile
kill -CONT "$pid"
end_record 0 TERM
trail paused
goes_on "$pid" "it was stopped and continued while recorded"

# Attach, detach, again: it continues, with nothing left in it.
for number in 1 2 3 4 5; do
	run 0 --json "${soft[@]}" --for 200ms -o "attached$number" -p "$pid"
	goes_on "$pid" "attached to $number times"
	trail "attached$number"
done
[ "$(json instructions)" -gt 0 ] || fail "nothing of an attached program was recorded"
first=$pid
start ./trailed n 1000000
run 0 --json "${soft[@]}" --for 300ms -o both -p "$pid,$first"
expect "two processes: threads" "$(json threads)" 2

# The recorder is killed: the tracer lets go, and what was recorded is there.
for number in 1 2 3 4 5; do
	"$waymark" record "${soft[@]}" -o "killed$number" -p "$pid" 2>words &
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
"$waymark" record "${soft[@]}" -o orphaned -- ./trailed n 100000 2>words &
recorder=$!
records_into $recorder orphaned
kill -9 $recorder
wait $recorder 2>/dev/null
await ! is_traced "$child" || fail "the recorder that started it was killed: it is still traced"
goes_on "$child" "the recorder that started it was killed"
kill "$child"

# Ctrl-C ends program and recording; SIGTERM is passed on.
"$waymark" record "${soft[@]}" -o interrupted -- ./trailed n 100000 2>words &
recorder=$!
records_into $recorder interrupted
kill -TERM $recorder
wait $recorder
expect "SIGTERM is passed on" $? 143
trail interrupted
grep -v ' trail:thread: ' shown | tail -1 | grep trail:end >found || fail "the trail of an ended program has no end"

# With markers: one folder, all threads but the agent's own.
run 3 --json "${soft[@]}" -e 'marker:ticker:*' -o mixed -- ./ticker 10 2 1 3
expect "markers beside a trail" "$(json recorded)" 22
# A thread of the program's that has the name of one of these is the program's, to its end.
build_target record/named.c -static
run 0 --json "${soft[@]}" -o named_ran -- ./named 1
expect "named: threads" "$(json threads)" 3
expect "named: threads that ended" "$("$waymark" dump named_ran | grep -c 'trail:end: .* reason = 0')" 3
start_ready ./named
run 0 --json "${soft[@]}" --for 500ms -o named_at -p "$pid"
expect "named, attached: threads" "$(json threads)" 3
exec 7>&-
await has_ended "$pid"
trail mixed
"$waymark" report mixed >shown
grep -q 'ticker:tick *20' shown || fail "the report of both: $(cat shown)"
start ./ticker 5 2 1000000
bad 1 "soft takes no running program together with markers or probes" "${soft[@]}" -e marker:ticker:tick -p "$pid"
goes_on "$pid" "markers and a trail were refused"

# Functions too.
build_target late.c -O2 -DLIBRARY -fPIC -shared -o late.so
build_target late.c -O2
run 0 --json "${soft[@]}" -e func:early/ret/ -o functions -- ./late
expect "calls of a function" "$(json recorded)" 4
trail functions

# The flight recorder.
run 139 --json -e trail/soft,last=64K/ --on crash -o crash -- ./trailed k 11
says "by signal SIGSEGV; the last instructions:"
grep -q '"fired":true' out || fail "--on crash: $(cat out)"
# The folder has all that ran, with its code.
cp trailed going
run 139 -e trail/soft,last=64K/ --on crash -o gone -- ./going k 11
rm going
timeout 60 "$waymark" trail --instructions -n 0 gone >shown || fail "the trail of a program that is gone"
[ "$(grep -c 'syscall *$' shown)" -eq 2 ] || fail "the code of a program that is gone: $(tail -5 shown)"
! grep -q "(bad)" shown || fail "code that can't be read: $(grep -m 3 "(bad)" shown)"
run 139 -e trail/soft,last=64K/ --on signal:SEGV -o by_signal -- ./trailed k 11
says "by signal SIGSEGV"
run 8 -e trail/soft,last=64K/ --on signal:SIGALRM -o alarm -- ./trailed t 3
says "by signal SIGALRM"
run 7 --json -e trail/soft,last=64K/ --on exit -o at_exit -- ./trailed l 20000
says "of these blocks the first"
[ "$(json overwritten)" -gt 0 ] || fail "a small flight recorder held all"
trail at_exit
grep -v ' trail:thread: ' shown | tail -1 | grep trail:end >found || fail "the flight recorder's newest is not the end"
for on in crash signal:TERM exit; do
	[ $on != exit ] || continue
	run 7 --json -e trail/soft,last=64K/ --on $on -o "not_$on" -- ./trailed l 5
	says "--on $on: it did not come to that; no trace was written"
	[ ! -e "not_$on" ] || fail "--on $on: left a folder"
done
run 7 -e trail/soft,last=64K/ -o at_end -- ./trailed l 5
trail at_end

# The command line.
bad 2 "is for events in memory, --last 30s, or for a flight recorder of a trail, -e trail/last=64M/" --on crash -- ./trailed l
bad 2 "is for events in memory, --last 30s, or for a flight recorder of a trail, -e trail/last=64M/" -e trail/soft/ --on crash -- ./trailed l
bad 2 "there is no trigger crsh" -e trail/soft,last=64K/ --on crsh -- ./trailed l
says "did you mean crash?"
bad 2 "--on signal:NAME takes a signal, such as SEGV, RTMIN+1 or 11, not SEGW" -e trail/soft,last=64K/ --on signal:SEGW -- ./trailed l
bad 2 "leave out marker:a:b" -e trail/soft,last=64K/ -e marker:a:b --on crash -- ./trailed l
bad 1 "did you mean soft?" -e trail/sfot/ -- ./trailed l
WAYMARK_ENGINE=/nowhere bad 1 "libwaymark-trail.so, was not found" -e trail/soft/ -- ./trailed l
bad 1 "(column 7) takes a size from 64K to 64G" -e trail/last=12/ -- ./trailed l
bad 1 "has one trail spec" -e trail/soft/ -e trail/soft,last=1M/ -- ./trailed l
bad 1 "no slash behind" -e trail/soft -- ./trailed l
bad 1 "\"step\" (column 7) is no option of trail, which has auto, soft, pt, bts" -e trail/step/ -- ./trailed l
bad 1 "can't be read" -e trail:step -- ./trailed l
run 7 -v -e trail/auto/ -o auto -- ./trailed l 5
says "the trail's origin is"
says "not pt: "

# Programs.
bad 1 "No such file or directory: ./nothere" "${soft[@]}" -- ./nothere
bad 1 "Permission denied" "${soft[@]}" -- ./trail_words
printf 'what is this\n' >text
chmod +x text
bad 1 "no ELF program" "${soft[@]}" -- ./text
printf '\177ELF\1\1\1%057d' 0 >small
chmod +x small
bad 1 "not x86-64" "${soft[@]}" -- ./small
why=$(lacks int80)
if [ -z "$why" ] && as --32 "$source_dir/tests/targets/trail/old.S" -o old.o &&
	ld -m elf_i386 old.o -o old && ./old; [ $? -eq 9 ]; then
	bad 1 "not x86-64" "${soft[@]}" -- ./old
	run 9 "${soft[@]}" -o older -- ./trailed x ./old
	says "executed a program that is not x86-64; the trail ends there"
	trail older
	grep -q trail:gap shown || fail "no gap where a 32-bit program begins"
else
	echo "without 32-bit programs they are not tried${why:+: $why}"
fi

# Processes.
bad 1 "No such process: pid 4194305" "${soft[@]}" -p 4194305
start gdb -q -nx -batch -ex 'run' -ex 'shell sleep 100' --args ./trailed n 1000000 >/dev/null 2>&1
debugger=$pid
if command -v gdb >/dev/null; then
	child_of "$debugger" trailed
	await is_traced "$child" || fail "gdb does not trace the program"
	bad 1 "is traced by process $debugger" "${soft[@]}" -p "$child"
	kill -9 "$child" "$debugger"
else
	echo "without gdb a traced program is not tried"
fi

# Folders, files, rights.
mkdir full && touch full/something
run 1 "${soft[@]}" -o full -- ./trailed l
says "not empty"
if [ "$(id -u)" -eq 0 ]; then
	start ./trailed n 1000000
	chmod 755 "$folder"
	(cd /tmp && unset XDG_RUNTIME_DIR && exec setpriv --reuid 65534 --clear-groups \
		timeout 20 "$waymark" record "${soft[@]}" -o "/tmp/waymark-trail-$$" -p "$pid") >out 2>words
	expect "another user's process" $? 1
	says "it runs as user 0, we as user 65534"
	goes_on "$pid" "another user tried"
	cp trailed setuid
	chown nobody setuid
	chmod 4755 setuid
	bad 1 "setuid" "${soft[@]}" -- ./setuid
else
	echo "without root other users' processes are not tried"
fi

exit "$failed"
