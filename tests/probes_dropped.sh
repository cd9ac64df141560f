#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes in daemons that dropped root. Such a process is not dumpable, so the kernel does not let it
# stop its own threads. The tool stops them for it, where the tool may trace the process.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

[ "$(id -u)" -eq 0 ] || skip "without root no program drops it"
chmod 755 "$folder"
cc -O2 "$probes_dir/dropped.c" -o dropped -lpthread || exit 1

# has_children PID COUNT
has_children()
{
	[ "$(pgrep -c -P "$1")" -ge "$2" ]
}

# doctor_says PATTERN: of $child. Its status is not looked at: where no breakpoint fires, no way may be left.
doctor_says()
{
	grep -q "$1" <<<"$("$waymark" doctor -p "$child")"
}

drops_root()
{
	doctor_says 'watches from inside .* it may not stop'
}

# stopper_of PID: the process of Waymark's that stops its threads is in $stopper
stopper_of()
{
	local folder
	for stopper in $(pgrep -x waymark-stop); do
		for folder in "/proc/$stopper/fd"/*; do
			[ "$(readlink "$folder")" != "/proc/$1/task" ] || return 0
		done
	done
	return 1
}

# is_forgotten PID: no agent, no stopper and no tracer is left
is_forgotten()
{
	! has_agent "$1" && ! stopper_of "$1" && ! is_traced "$1"
}

# are_unbroken TRACE: each of 4 threads has called pass() with one number after the other
are_unbroken()
{
	of_events "$1" dropped:pass rdi | awk '
		{ thread = int($1 / 16777216) }
		thread in last && $1 != last[thread] + 1 { bad = 1 }
		{ last[thread] = $1 }
		END { for (thread in last) count++; exit bad || count != 4 }'
}

shows_limit()
{
	"$waymark" list -p "$pid" | grep -q "process $pid (ticker) .*RLIMIT_NPROC is 0"
}

# callers TRACE EVENT: how many processes have passed that event
callers()
{
	of_events "$1" "$2" pid | sort -u | wc -l
}

# ---- a prefork server: all but the first of its children have dropped root ----

start env -u XDG_RUNTIME_DIR ./prefork 3 0 65534
await has_children "$pid" 3 || fail "the server has not forked 3 children"
child=$(pgrep -n -P "$pid")
await drops_root || fail "doctor: $("$waymark" doctor -p "$child")"
doctor_says 'fine  *markers and probes  .*not dumpable, so waymark stops its threads for it' ||
	fail "doctor: $("$waymark" doctor -p "$child")"
for process in "$child" "$pid"; do
	"$waymark" list --func pass -p "$process" >out 2>words
	grep -q '^prefork:pass .* first ' out || fail "list: $(cat out words)"
done
run 0 --json --tree --for 1s -e func:serve -e func:pass -o tree -p "$pid"
for event in serve pass; do
	expect "tree: who calls $event()" "$(callers tree "prefork:$event")" 3
done
expect "tree: in JSON" "$(found refused)" 0
run 0 --json --for 300ms -e func:pass -o alone -p "$child"
[ "$(count alone prefork:pass)" -gt 10 ] || fail "one child: nothing was recorded"
for other in $(pgrep -P "$pid"); do
	await is_forgotten "$other" || fail "something is left in child $other"
	same_bytes "$other" /prefork "a child that dropped root"
done
kill -9 "$pid"

# One that may not have any threads: the others are recorded, and the limit is named.
start env -u XDG_RUNTIME_DIR ./prefork 3 0 65534 0
await has_children "$pid" 3 || fail "the server has not forked 3 children"
child=$(pgrep -n -P "$pid")
await drops_root || fail "doctor: $("$waymark" doctor -p "$child")"
limit="its RLIMIT_NPROC is 0.*--pid $child --nproc"
doctor_says "absent  *markers and probes  .*$limit" ||
	fail "doctor: $("$waymark" doctor -p "$child")"
"$waymark" list --func serve -p "$child" >out 2>words
grep -q '^prefork:serve .* refused .*RLIMIT_NPROC is 0' out || fail "list: $(cat out words)"
run 0 --json --tree --for 1s -e func:serve -o threadless -p "$pid"
expect "threadless: who serves" "$(callers threadless prefork:serve)" 1
says "its RLIMIT_NPROC is 0, for all processes of user 65534"
says "raise it: prlimit --pid $child --nproc=unlimited"
expect "threadless: in JSON" "$(found unrecorded-program prefork)" 2
kill -9 "$pid"

# A tool of root's without the capability, as in containers, may not see such a child's memory. What
# the child has from its parent is recorded nevertheless.
if command -v setpriv >/dev/null; then
	setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace -- timeout -k 5 60 "$waymark" record --json \
		-e func:serve -e func:pass -o bounded -- timeout 2 ./prefork 3 0 65534 >out 2>words
	for event in serve pass; do
		expect "without the capability: who calls $event()" "$(callers bounded "prefork:$event")" 3
	done
	expect "without the capability: discarded" "$(json discarded)" 0

	# the list of markers names the limit, too
	start setpriv --reuid=65534 --clear-groups prlimit --nproc=0:0 ./ticker 1000000 1 1000
	await_running "$pid"
	await shows_limit || fail "list of markers: $("$waymark" list -p "$pid")"
	"$waymark" list --json -p "$pid" | grep -q '"name":"ticker:tick".*"refused":"[^"]*RLIMIT_NPROC is 0' ||
		fail "list of markers, JSON: $("$waymark" list --json -p "$pid")"
	kill -9 "$pid"
fi

# ---- a daemon with threads ----

start env -u XDG_RUNTIME_DIR ./dropped 4 65534
await_running "$pid"
child=$pid
await drops_root || fail "doctor: $("$waymark" doctor -p "$child")"
for round in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf round
	run 0 --json --for 50ms -e func:pass/rdi:u32/ -o round -p "$pid"
	expect "round $round: discarded" "$(json discarded)" 0
	are_unbroken round || fail "round $round: a call is missing, or a thread: $(cat words)"
	await is_forgotten "$pid" || fail "round $round: something is left"
	same_bytes "$pid" /dropped "round $round"
done

# The tool is killed: its stopper takes the jump away, and ends.
begin_record --for 50s -e func:pass/rdi:u32/ -o killed -p "$pid"
await_recording killed
stopper_of "$pid" || fail "no process of the tool's stops the threads"
kill -9 "$(pgrep -P "$recorder" -x waymark)"
wait "$recorder"
await is_forgotten "$pid" || fail "the tool was killed: something is left"
same_bytes "$pid" /dropped "the tool was killed"
goes_on "$pid" "the tool was killed"

# The stopper is killed: the agent asks for another.
begin_record --for 50s -e func:pass/rdi:u32/ -o stopper -p "$pid"
await_recording stopper
stopper_of "$pid" && kill -9 "$stopper"
end_record 0 INT
are_unbroken stopper || fail "the stopper was killed: a call is missing"
await is_forgotten "$pid" || fail "the stopper was killed: something is left"
same_bytes "$pid" /dropped "the stopper was killed"

# Both are killed: the program runs through the jump until the next recording takes it away.
begin_record --for 50s -e func:pass/rdi:u32/ -o both -p "$pid"
await_recording both
kill -STOP "$(pgrep -P "$recorder" -x waymark)"
stopper_of "$pid" && kill -9 "$stopper"
kill -9 "$(pgrep -P "$recorder" -x waymark)"
wait "$recorder"
await is_forgotten "$pid" || fail "both were killed: something is left"
goes_on "$pid" "both were killed"
run 0 --json --for 300ms -e func:pass/rdi:u32/ -o next -p "$pid"
are_unbroken next || fail "after both were killed: a call is missing"
await is_forgotten "$pid" || fail "after both were killed: something is left"
same_bytes "$pid" /dropped "after both were killed"
kill "$pid"

exit "$failed"
