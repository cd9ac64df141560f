#!/bin/bash
# SPDX-License-Identifier: MIT
# What a traced program may do: each program of tests/inside/ runs alone, launched by `waymark record`,
# and attached to. Its output and exit status must be the same each time; what it emitted must be what
# the trace recorded and discarded; both readers must find the same events.
#
# INSIDE_ONLY=NAME runs the cases that match this glob. INSIDE_KEEP=1 leaves the traces. INSIDE_TIMES=N is
# how often the tool is killed, and how often it comes and goes.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

here=$source_dir/tests
build=$WAYMARK_BUILD
work=$folder
only=${INSIDE_ONLY:-*}
waymark=$work/bin/waymark
bin=$work/bin
agent=$build/inside/libwaymark-agent
jobs_max=3
killed=${INSIDE_TIMES:-25}
again=${INSIDE_TIMES:-50}
unset LD_PRELOAD WAYMARK_TOOL XDG_RUNTIME_DIR
ulimit -c 0
# the cases that limit descriptors count on those that are free; 255 is what this script is read from
for descriptor in /proc/self/fd/*; do
	descriptor=${descriptor##*/}
	[ "$descriptor" -le 2 ] || [ "$descriptor" -eq 255 ] || eval "exec $descriptor>&-"
done

clean_up()
{
	[ -n "${INSIDE_KEEP:-}" ] || rm -rf "$work"
}
trap clean_up EXIT

# ---- one recorded run ----

# count FILE: what was emitted
count()
{
	od -An -t u8 -N 8 "$1" | tr -d ' '
}

# account TRACE COUNT SLACK: emitted = recorded + discarded; SLACK that a hit was left in the middle
account()
{
	local trace=$1 emitted sums recorded discarded ours theirs
	emitted=$(count "$2")
	# it was refused: nothing may have been armed
	if [ "$3" = refused ] && ! [ -e "$trace" ]; then
		[ "$emitted" -eq 0 ] || echo "no trace, and $emitted events were emitted"
		return
	fi
	sums=$("$waymark" report --json "$trace" 2>&1) || {
		echo "report: $sums"
		return 1
	}
	sums=$(grep -o '"recorded":[0-9]*,"discarded":[0-9]*,"missing' <<<"$sums" | tr -cs '0-9' ' ')
	read -r recorded discarded <<<"$sums"
	if [ $((recorded + discarded)) -gt "$emitted" ] ||
		[ $((recorded + discarded + ${3/refused/0})) -lt "$emitted" ]; then
		echo "emitted $emitted, recorded $recorded, discarded $discarded"
		return 1
	fi
	if [ "$emitted" -eq 0 ]; then
		echo "nothing was emitted"
		return 1
	fi
	[ "$recorded" -le 200000 ] || return 0
	ours=$("$waymark" dump "$trace" | grep -c "in:")
	[ "$ours" -eq "$recorded" ] || echo "dump has $ours of $recorded events"
	command -v babeltrace2 >/dev/null || return 0
	theirs=$(babeltrace2 "$trace" 2>/dev/null | grep -c "in:")
	[ "$theirs" -eq "$ours" ] || echo "babeltrace2 has $theirs events, dump $ours"
}

# run FOLDER MODE PROGRAM...: leaves out, status, err, trace, count
run()
{
	local dir=$1 mode=$2 status pid
	shift 2
	mkdir -p "$dir"
	truncate -s 4096 "$dir/count"
	chmod 666 "$dir/count"
	export INSIDE_COUNT=$dir/count
	case $mode in
	alone)
		timeout -s KILL 30 "$@" >"$dir/out" 2>"$dir/err"
		status=$?
		;;
	launch)
		timeout -s KILL 40 "$waymark" record -o "$dir/trace" -e 'marker:in:*' "${options[@]}" -- \
			"$@" >"$dir/out" 2>"$dir/err"
		status=$?
		;;
	attach)
		INSIDE_WAIT=1 timeout -s KILL 30 "$@" >"$dir/out" 2>"$dir/program.err" &
		pid=$!
		# the program says that it is there: before, its number may still be timeout's or env's
		await has_said_pid "$dir" # else the recording fails
		timeout -s KILL 40 "$waymark" record -o "$dir/trace" -e 'marker:in:*' "${options[@]}" \
			-p "$(cat "$dir/pid")" >"$dir/record.out" 2>"$dir/err"
		echo $? >"$dir/record.status"
		wait $pid
		status=$?
		;;
	esac
	echo $status >"$dir/status"
}

# has_said_pid FOLDER: the number that the program there has left in its count; in the file pid then
has_said_pid()
{
	od -An -t u8 -j 4088 -N 8 "$1/count" | tr -d ' ' >"$1/pid"
	[ "$(cat "$1/pid")" != 0 ]
}

same()
{
	cmp -s "$1/out" "$2/out" && cmp -s "$1/status" "$2/status" && return
	echo "output or status differs: $(tail -1 "$2/out") status $(cat "$2/status")," \
		"alone: $(tail -1 "$1/out") status $(cat "$1/status")"
	tail -2 "$2/err"
}

took_part()
{
	[ "$(cat "$1/record.status")" -eq 0 ] || echo "record -p: $(tail -2 "$1/err")"
}

# try NAME SLACK MODES PROGRAM...
try()
{
	local name=$1 slack=$2 modes=$3 mode dir
	shift 3
	dir=$work/$name
	mkdir -p "$dir"
	run "$dir/alone" alone "$@" 2>/dev/null
	for mode in $modes; do
		run "$dir/$mode" "$mode" "$@" 2>/dev/null
		{
			same "$dir/alone" "$dir/$mode"
			[ "$mode$slack" = attachrefused ] || [ $mode = launch ] || took_part "$dir/$mode"
			account "$dir/$mode/trace" "$dir/$mode/count" "$slack"
		} | sed "s/^/$mode: /"
	done
}

running=0
started=()

# begin FUNCTION NAME ARGUMENTS...: in the background, a few at a time
begin()
{
	local name=$2
	# shellcheck disable=SC2053 # a glob is meant
	[[ $name == $only ]] || return 0
	if [ $running -ge $jobs_max ]; then
		wait -n
		running=$((running - 1))
	fi
	started+=("$name")
	(
		begun=$SECONDS
		"$@"
		echo $((SECONDS - begun)) >"$work/$name.seconds"
	) >"$work/$name.said" 2>&1 &
	running=$((running + 1))
}

case_is()
{
	begin try "$@"
}

compile()
{
	gcc -O2 -g -Wall -Wextra -I"$here/../include" "$@" || exit 1
}

# try_listening NAME SLACK MODES PROGRAM...: the tool starts the program itself, not env(1)
try_listening()
{
	export INSIDE_LISTEN=1
	try "$@"
}

# ---- a tool that comes, goes, stops or dies ----

# load FOLDER: start bin/threads load; its pid in $load, its end by closing descriptor 5
load()
{
	mkdir -p "$1"
	truncate -s 4096 "$1/count"
	mkfifo "$1/in"
	INSIDE_COUNT=$1/count "$bin/threads" load <"$1/in" >"$1/out" 2>"$1/err" &
	load=$!
	exec 5>"$1/in"
}

# unload FOLDER: it must end as it would
unload()
{
	exec 5>&-
	wait $load
	local status=$?
	[ $status -eq 2 ] && [ "$(cat "$1/out")" = "load: 2" ] ||
		echo "the program ended with status $status: $(cat "$1/out" "$1/err")"
}

# nothing_left FOLDER: nothing armed (nothing is emitted any more) within a second or so; no thread of
# ours a little later: one that waits for a tool which was killed on its way to it gives up after ten
nothing_left()
{
	await -s 3 emits_nothing "$1" || echo "still armed"
	await ! has_agent $load || echo "a thread is left: $(cat /proc/$load/task/*/comm | tr '\n' ' ')"
}

emits_nothing()
{
	local before
	before=$(count "$1/count")
	sleep 0.1 # the time in which nothing may come
	[ "$(count "$1/count")" = "$before" ]
}

# has_emitted FOLDER COUNT: more than so much
has_emitted()
{
	[ "$(count "$1/count")" -gt "$2" ]
}

# try_killed NAME TIMES: the tool is killed at any moment
try_killed()
{
	local dir=$work/$1 i tool
	load "$dir"
	for ((i = 0; i < $2; i++)); do
		# a folder each: after the kill, the recording's guardian still finishes it
		"$waymark" record -o "$dir/trace$i" -p $load >"$dir/record" 2>&1 5>&- &
		tool=$!
		sleep "0.$(printf '%03d' $((RANDOM % 60)))" # any moment, up to where it records
		kill -KILL $tool
		wait $tool 2>/dev/null
		kill -0 $load 2>/dev/null || break
	done
	nothing_left "$dir"
	# and it can be recorded again, as if nothing had been
	"$waymark" record -o "$dir/trace" --for 100ms -p $load >"$dir/record" 2>&1 ||
		echo "not to be recorded any more: $(cat "$dir/record")"
	"$waymark" report "$dir/trace" | grep -q in:fixed || echo "nothing was recorded at last"
	nothing_left "$dir"
	unload "$dir"
}

# try_again NAME TIMES: attach and detach, under load
try_again()
{
	local dir=$work/$1 i
	load "$dir"
	for ((i = 0; i < $2; i++)); do
		rm -rf "$dir/trace"
		"$waymark" record -o "$dir/trace" --for 3ms -p $load >"$dir/record" 2>&1 || {
			echo "time $i: $(cat "$dir/record")"
			break
		}
	done
	nothing_left "$dir"
	unload "$dir"
}

# try_stopped NAME: the tool is stopped for a while; the program must continue, losses must be counted
try_stopped()
{
	local dir=$work/$1 tool before
	load "$dir"
	"$waymark" record --buffer 256K --for 60s -o "$dir/trace" -e 'marker:in:*' -p $load >"$dir/record" 2>&1 5>&- &
	tool=$!
	# while it attaches the program does wait, and on a busy machine that takes long
	await has_emitted "$dir" 0 || echo "nothing is recorded: $(cat "$dir/record")"
	kill -STOP $tool
	# more than there is room for
	await has_emitted "$dir" $(($(count "$dir/count") + 20000)) || echo "the program waits for a tool that is stopped"
	# the same the other way
	kill -CONT $tool
	kill -STOP $load
	await has_state $load T || echo "the program does not stop"
	sleep 0.2 # the tool finds nothing new meanwhile
	before=$(count "$dir/count")
	kill -CONT $load
	await has_emitted "$dir" "$before" || echo "the program does not continue after the stop"
	exec 5>&-
	wait $tool || echo "record: $(cat "$dir/record")"
	unload "$dir"
	account "$dir/trace" "$dir/count" 0
}

# try_two NAME: two sessions; each sees all that is emitted while both are there
try_two()
{
	local dir=$work/$1 first second missing
	mkdir -p "$dir"
	truncate -s 4096 "$dir/count"
	load "$dir"
	timeout 20 "$waymark" record -o "$dir/first" -e 'marker:in:*' -p $load >"$dir/record1" 2>&1 5>&- &
	first=$!
	timeout 20 "$waymark" record -o "$dir/second" -e 'marker:in:*' -p $load >"$dir/record2" 2>&1 5>&- &
	second=$!
	await is_recording "$dir/first" || echo "the first does not record: $(cat "$dir/record1")"
	await is_recording "$dir/second" || echo "the second does not record: $(cat "$dir/record2")"
	exec 5>&-
	wait $first || echo "the first: $(cat "$dir/record1")"
	wait $second || echo "the second: $(cat "$dir/record2")"
	unload "$dir"
	"$waymark" dump "$dir/first" | grep -o 'count_one = [0-9]*' | sort >"$dir/first.txt"
	"$waymark" dump "$dir/second" | grep -o 'count_one = [0-9]*' | sort >"$dir/second.txt"
	# the later one has what the earlier one has, from its own first event on
	for missing in "$(comm -23 "$dir/first.txt" "$dir/second.txt" | wc -l)" \
		"$(comm -13 "$dir/first.txt" "$dir/second.txt" | wc -l)"; do
		[ "$missing" -eq 0 ] && missing=
		[ -z "$missing" ] && break
	done
	[ -z "$missing" ] || echo "neither of two sessions has all that the other has"
	cat "$dir/first.txt" "$dir/second.txt" | sort -u | wc -l >"$dir/all"
	[ "$(cat "$dir/all")" -eq "$(count "$dir/count")" ] ||
		echo "emitted $(count "$dir/count"), recorded $(cat "$dir/all") by either"
}

# ---- what is tried ----

mkdir -p "$work/bin"
chmod 755 "$work"
cp "$build/cli/waymark" "$build/inside/libwaymark-agent.so" "$work/bin/" || exit 1
for source in "$here"/inside/*.c; do
	name=$(basename "$source" .c)
	case $name in
	plugin) compile -shared -fPIC "$source" -o "$work/bin/plugin.so" ;;
	listens)
		compile "$source" -o "$work/bin/listens" "$agent.so" "-Wl,-rpath,\$ORIGIN"
		compile -static "$source" -o "$work/bin/listens_static" "$agent.a" -pthread
		compile -static-pie "$source" -o "$work/bin/listens_pie" "$agent.a" -pthread
		;;
	*) compile "$source" -o "$work/bin/$name" -pthread -ldl ;;
	esac
done
g++ -std=c++17 -O2 -g -Wall -Wextra -I"$here/../include" "$here/inside/throws.cc" -o "$work/bin/throws" \
	-pthread || exit 1
gcc -O0 -g -fno-omit-frame-pointer -I"$here/../include" "$here/inside/forks.c" -o "$work/bin/forks_O0" \
	-pthread || exit 1
options=()
both='launch attach'

for name in leaf fork storm threaded vfork spawn exec exec_other clone clone_vm daemon closefrom; do
	case_is $name 0 "$both" "$bin/forks" $name
done
case_is exec_thread 8 "$both" "$bin/forks" exec_thread
case_is exec_clean 0 "$both" "$bin/forks" exec_clean

for name in cancel exit_syscall main_leaves tiny_stacks coroutines; do
	case_is $name 0 "$both" "$bin/threads" $name
done
case_is cancel_async 200 "$both" "$bin/threads" cancel_async
for name in exit abort segv kill; do
	case_is $name 4 "$both" "$bin/threads" $name
done
case_is many 0 "$both" "$bin/threads" many

for name in handlers storm storm_on_stack deep; do
	case_is signals_$name 0 "$both" "$bin/signals" $name
done
case_is signals_jump 600 "$both" "$bin/signals" jump
case_is signals_jump_on_stack 600 "$both" "$bin/signals" jump_on_stack
case_is signals_overflow 40 "$both" "$bin/signals" overflow

if [ "$(id -u)" -eq 0 ]; then
	for name in setuid setresuid chroot unshare; do
		case_is $name 0 "$both" "$bin/rights" $name
	done
fi
for name in seccomp seccomp_first seccomp_all strict; do
	case_is $name 0 "$both" "$bin/rights" $name
done
# a child under a filter can't reach the tool, nor can one of a bare fork, and a child of root's
# does
# not write to its parent's store
fork_slack=0 bare_slack=0
[ "$(id -u)" -ne 0 ] || fork_slack=300 bare_slack=1000
case_is bare $bare_slack "$both" "$bin/forks" bare
case_is seccomp_fork $fork_slack "$both" "$bin/rights" seccomp_fork
case_is seccomp_all_kill 0 "$both" "$bin/rights" seccomp_all_kill
# limits that the program sets when it starts, or is started with; it may be recorded or not
for name in few_files no_files little_memory small_files no_threads no_locked_memory; do
	case_is $name refused "$both" "$bin/rights" $name
done
limits=
[ "$(id -u)" -eq 0 ] && limits=nproc=1 # who is not root has no thread for us then
for limit in $limits nofile=4:4 nofile=12:12 memlock=0 stack=65536 as=300000000; do
	case_is limited_${limit%%[=:]*}_${limit##*[=:]} 0 launch prlimit --$limit "$bin/forks" leaf
done

for name in constructor dlopen dlopen_threads crowded crowded_first remap layout; do
	case_is memory_$name 0 "$both" "$bin/memory" $name
done
# a thread is cancelled at each instruction of four hits
case_is unwinds_backtraces 0 "$both" "$bin/unwinds" backtraces
case_is unwinds_cancelled 600 "$both" "$bin/unwinds" cancelled
case_is throws 0 "$both" "$bin/throws" throws
case_is fork_O0 0 "$both" "$bin/forks_O0" fork
for name in listens listens_static listens_pie; do
	case_is $name 0 attach env INSIDE_LISTEN=1 "$bin/$name" listen
done
for name in listens_static listens_pie; do
	begin try_listening launched_$name 0 launch "$bin/$name" listen
done

begin try_killed killed "$killed"
begin try_again again "$again"
begin try_stopped stopped
begin try_two two

# ---- what came of it ----

wait
failed=()
for name in "${started[@]}"; do
	if [ -s "$work/$name.said" ]; then
		failed+=("$name")
	else
		echo "$name: right ($(cat "$work/$name.seconds") s)"
	fi
done
# last, so that the end of a log names them
for name in "${failed[@]}"; do
	echo "$name: FAILED"
	sed 's/^/	/' "$work/$name.said"
done
[ ${#failed[@]} -eq 0 ]
