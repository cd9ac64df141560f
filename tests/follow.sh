#!/bin/bash
# SPDX-License-Identifier: MIT
# Live events through libwaymark's API; children that a process forks.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

# A program without a sanitizer can't link a library with one.
if ! is_sanitized libwaymark.so; then
	build_target follower.c -L"$WAYMARK_BUILD" -lwaymark -Wl,-rpath,"$WAYMARK_BUILD"
	start ./ticker 50 3 1000000
	await_running "$pid"
	timeout 60 ./follower "$pid" || fail "reading live"
	kill -0 "$pid" || fail "the program is gone"
fi

# What an attached process forks is recorded as well, also what is executed then.
build_target record/server.c

# record_forks NAME: of the server $pid
record_forks()
{
	begin_record --json -o "$1" -p "$pid"
	await_event "$1" server:parent 6
	end_record 0 INT
	recorded_forks "$1"
}

# recorded_forks NAME [COUNT]: as many events of children as of the parent, without COUNT that are reported as unrecorded
recorded_forks()
{
	local parents children unrecorded=${2:-0}
	expect "$1: discarded" "$(json discarded)" 0
	"$waymark" dump "$1" >events
	parents=$(grep -c server:parent events)
	children=$(grep -c server:child events)
	[ "$parents" -gt 5 ] || fail "$1: only $parents events of the parent"
	# at the start and the end one may be missing
	if [ $((children - parents)) -gt 2 ] || [ $((parents - children - unrecorded)) -gt 2 ]; then
		fail "$1: $parents events of the parent, $children of its children, $unrecorded unrecorded"
	fi
}

start ./server
await_running "$pid"
record_forks forks
run 0 --json --no-follow --for 300ms -e server:parent -o nofork -p "$pid"
expect "--no-follow: events of children" "$("$waymark" dump nofork | grep -c server:child)" 0

# unrecorded NAME: how many processes of the program NAME the last run lists as unrecorded
unrecorded() { found unrecorded-program "$1"; }

# Children write to their parent's buffer until they have their own. They are recorded from their first instruction, also
# where the tool comes to them late, or never: then their parent gave up its rights before it
# forked. Where a parent has rights, its children wait for the tool instead; one that can't reach it
# is reported.
build_target record/many.c -O2
mkdir empty
start sh -c 'while :; do :; done'
busy=$pid
start sh -c 'while :; do :; done'
# records_all NAME PROCESSES EVENTS ARGUMENT...: all of them, none lost, none late
records_all()
{
	local name=$1 processes=$2 events=$3
	shift 3
	run 0 --json -o "$name" "$@"
	expect "$name: recorded" "$(json recorded)" "$events"
	expect "$name: processes" "$(json processes)" "$processes"
	expect "$name: discarded" "$(json discarded)" 0
	expect "$name: late" "$(found late-processes)" 0
	expect "$name: unrecorded" "$(found unrecorded)" 0
}
records_all unwaited 301 300 -- ./many nothing 300 1
records_all blocked 101 100 --policy block -- ./many nothing 100 1
records_all probed 101 100 -e func:probed -- ./many nothing 100 0
kill "$busy" "$pid"
if [ "$(id -u)" -eq 0 ]; then
	chmod 755 "$folder"
	records_all user 2 1000 -- ./many user 1 1000
	run 0 --json -o root -- sh -c 'cd empty && exec ../many root 1 1000'
	expect "root: unrecorded" "$(unrecorded many)" 1
	expect "children by their own pids" \
		"$(of_events user many:child pid tid | awk '$1 == $2' | wc -l)" 1000
	# over the cap, each child's losses are counted as its own
	run 0 --json --buffer 128K -o cap -- ./many user 3 100000
	expect "cap: all" $(($(json recorded) + $(json discarded))) 300000
	[ "$(json discarded)" -gt 0 ] || fail "cap: nothing was lost"
	expect "cap: children that lost" \
		"$("$waymark" report cap | grep -cE "^many +([0-9]+) +\\1 +[1-9]")" 3
	# a child that outlives its parent is recorded to its end; or until the recorder has ended
	begin_record --json --wait-all -o outlives -- ./many user 1 10 "$PWD/over1"
	await_event outlives many:more 50
	touch over1
	end_record 0
	expect "outlives: children" "$("$waymark" dump outlives | grep -c many:child)" 10
	expect "outlives: discarded" "$(json discarded)" 0
	has_store()
	{
		grep -q memfd:waymark-store "/proc/$child/maps"
	}
	lacks_store()
	{
		! has_store
	}
	run 0 --json -o left -- ./many user 1 10 "$PWD/over2"
	child=$(pgrep -f "^./many user .*$PWD/over2")
	await lacks_store || fail "a child of a recording that has ended still writes"
	touch over2
	begin_record -o killed -- ./many user 1 10 "$PWD/over3"
	await_event killed many:more 50
	child=$(pgrep -f "^./many user .*$PWD/over3")
	has_store || fail "a child has no store to write to"
	kill -9 "$(pgrep -P "$recorder" -x waymark || echo "$recorder")"
	wait "$recorder"
	await lacks_store || fail "a child whose recorder was killed still writes"
	touch over3
	# capabilities of the program's thread alone: libc ends a program whose threads differ
	cc -O1 -g "$source_dir/tests/targets/capable.c" -o capable || exit 1
	for mode in less daemon plain kept raw forked begins; do
		if ! timeout 20 ./capable $mode >alone; then
			echo "no such capabilities here, $mode: $(cat alone)"
			continue
		fi
		run 0 --json -o "capable_$mode" -e func:called -- ./capable $mode
		case $mode in
		less | daemon | plain) expected="2 0" ;;
		*) expected="1 1" ;;
		esac
		expect "$mode: in part" "$(json recorded) $(unrecorded capable)" "$expected"
		grep -q right out || fail "$mode: $(cat out words)"
	done
	# what it executes then is recorded; the folder of sockets is open to it as it is root again
	run 0 --json -o capable_executes -e func:called -- ./capable returns ./capable none
	expect "executes: recorded, unrecorded" "$(json recorded) $(unrecorded capable)" "3 1"
	# a child in another PID namespace, which cannot reach the tool, is reported
	if ./many apart 1 0; then
		run 0 --json -o apart -- ./many apart 1 1000
		expect "apart: all" $(($(json recorded) + $(json discarded))) 1000
		expect "apart: unrecorded" "$(unrecorded many)" 1
	fi
fi

# An agent that is given no processor is quiet late: who is forked until then is recorded as the parent is, or reported as
# unrecorded.
mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' |
	while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)
if [ ${#cpus[@]} -gt 1 ] && command -v chrt >/dev/null; then
	start taskset -c "${cpus[1]}" ./server
	await_running "$pid"
	server=$pid
	begin_record --json --for 1s -o late -p "$server"
	await_recording late
	for task in /proc/"$server"/task/*; do # all but the program's own thread
		task=${task##*/}
		[ "$task" = "$server" ] || { taskset -cp "${cpus[0]}" "$task" && chrt -i -p 0 "$task"; } >/dev/null
	done
	start taskset -c "${cpus[0]}" sh -c 'while :; do :; done'
	end_record 0
	kill "$pid" "$server"
	recorded_forks late "$(unrecorded server)"
fi

# The agent disarms for seconds, with its lock held, as strace delays it. A fork waits 200 ms for that lock: then the child
# is unrecorded, and is reported.
if command -v strace >/dev/null; then
	start ./server
	await_running "$pid"
	server=$pid
	begin_record --json -o disarms -p "$server"
	await_event disarms server:parent 6
	agent=$(grep -ls '^waymark' /proc/"$server"/task/*/comm | cut -d/ -f5 | paste -sd,)
	start strace -o delayed -e trace=membarrier -e inject=membarrier:delay_enter=600000 -p "$agent"
	await is_traced "${agent##*,}" || fail "strace does not trace the agent"
	end_record 0 INT
	kill "$server"
	recorded_forks disarms "$(unrecorded server)"
	[ "$(unrecorded server)" -gt 0 ] || fail "disarms: no child is reported"
fi

# Root records another user's process, and its children find the session too.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$folder"
	start env -u XDG_RUNTIME_DIR setpriv --reuid 65534 --clear-groups ./server
	await_running "$pid"
	record_forks others
fi

# Programs that the agent can't enter are reported once each, however they are executed.
build_target record/sleeps.c -static -o still
run 0 --json -o refused_all -- sh -c './still & ./still & ./ticker 10 & exec ./still'
expect "static programs" "$(unrecorded still)" 3
expect "programs" "$(grep -o '"kind":"unrecorded-program"' out | wc -l)" 1
expect "recorded beside them" "$(json recorded)" 12
expect "reported in words" "$(grep -c "^  3: .*/still: the program is statically linked" words)" 1
run 0 --json -o vforked -- python3 -c 'import subprocess; subprocess.run("./still"); subprocess.run(["./ticker", "10"])'
expect "executed by vfork(2)" "$(unrecorded still)" 1
run 0 --json -o leaderless_trace -- sh -c './still alone; ./ticker 10'
expect "static programs whose first thread has ended" "$(unrecorded still)" 1
if cc -m32 "$source_dir/tests/targets/record/sleeps.c" -o narrow 2>/dev/null; then
	run 0 --json -o narrow_trace -- sh -c './narrow; ./ticker 10'
	expect "32-bit programs" "$(unrecorded narrow)" 1
fi
if musl-gcc "$source_dir/tests/targets/record/sleeps.c" -o foreign 2>/dev/null && ./foreign; then
	run 0 --json -o foreign_trace -- sh -c './foreign; ./ticker 10'
	expect "programs of another C library" "$(unrecorded foreign)" 1
fi
if [ "$(id -u)" -eq 0 ]; then
	build_target record/sleeps.c -o privileged
	chown nobody privileged && chmod 4755 privileged
	run 0 --json -o privileged_trace -- sh -c './privileged; ./ticker 10'
	expect "setuid programs" "$(unrecorded privileged)" 1
	run 0 --json -o shut_out -- sh -c 'chroot --userspec=65534:65534 / /bin/sleep 0.5; ./ticker 10'
	expect "without root's privileges" "$(unrecorded sleep)" 1
	grep -q "user 65534 can't reach the folder" words || fail "no reason for sleep: $(cat words)"
fi
# Executed under a filter that kills for what the agent does: it stays out, and the program runs.
# memfd_create(2), membarrier(2), socket(2), connect(2), prctl(2)
shut="python3 $source_dir/tests/filter.py kill:319 kill:324 kill:41 kill:42 kill:157 --"
if $shut /bin/true; then
	cp /bin/sleep filtered
	run 0 --json -o shut_trace -- sh -c "./ticker 10; exec $shut ./filtered 0.5"
	expect "executed under a filter" "$(unrecorded filtered)" 1
	grep -q "executed under a seccomp filter" words || fail "the filter is not named: $(cat words)"
fi
# The agent's own memory does not fit the program's limit: the agent says so, however soon the program ends.
run 0 --json -o limited -- sh -c '(ulimit -v 40000; ./ticker 10); ./ticker 10'
expect "limited memory" "$(unrecorded ticker)" 1
expect "recorded beside it" "$(json recorded)" 12
"$waymark" report --json limited >out || fail "report of limited"
expect "limited memory, in the trace" "$(grep -oE '/ticker","processes":[0-9]+' out | grep -oE '[0-9]+$')" 1
expect "limited memory, to people" "$("$waymark" report limited | grep -c "/ticker  *1  Cannot allocate memory")" 1
run 1 --json -o executed -- sh -c 'ulimit -v 40000; ./ticker 10 & wait; exec ./ticker 10'
expect "limited memory in the launched process" "$(unrecorded ticker)" 2
# The tool starts a program under that limit, and gives the reason. The tool is stopped before the
# agent looks for it, and continues when the program has ended.
build_target record/slow.c -DSTOPS -o brief
brief_has_ended()
{
	has_child "$recorder" brief && [ "$(ps -o state= -p "$child")" = Z ]
}
if (ulimit -v 40000 && "$waymark" --version >/dev/null 2>&1); then
	(ulimit -v 40000 && exec "$waymark" record -o brief_trace -- ./brief) >out 2>words &
	recorder=$!
	await brief_has_ended || fail "the program under a limit does not end: $(cat words)"
	kill -CONT "$recorder"
	wait "$recorder"
	expect "limited memory of both: status" $? 1
	says "Cannot allocate memory: ./brief"
else
	echo "under a limit of its memory waymark does not start"
fi
cp /bin/sleep lasting
run 0 --json -o bare -- sh -c 'env -i ./lasting 4; ./lasting 3; ./ticker 10'
expect "without our environment" "$(unrecorded lasting)" 1

# Short programs behind vfork(2), whose parent has no agent's word for them.
cat >brief.py <<'END'
import subprocess
for _ in range(20):
    subprocess.run(["./lasting", "0.2"], env={}, close_fds=False)
END
run 1 --json -e 'marker:*:*' -o briefly -- python3 brief.py
[ "$(unrecorded lasting)" -ge 10 ] || fail "short programs of vfork: $(unrecorded lasting) of 20"

# A program that daemonises: the recording ends with it and says which children still run, or waits.
build_target record/daemon.c
run 0 --json --wait-all -o daemon_all -- ./daemon
expect "daemon, --wait-all" "$(json recorded)" 125
run 0 --json -o daemon_first -- ./daemon
says "1 recorded child process still runs"
says "--wait-all"

exit "$failed"
