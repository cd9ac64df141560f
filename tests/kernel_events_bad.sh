#!/bin/bash
# SPDX-License-Identifier: MIT
# Kernel events where something is in the way: names that are nearly right, no tracefs, no
# perf_event_open(2), too few descriptors, a recorder that is held, a cgroup that goes, threads that
# come and go, another user.
# shellcheck source=tests/tracefs_setup.bash
. "$(dirname "$0")/tracefs_setup.bash"
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

for name in switching relays; do
	cp "$WAYMARK_BUILD/tests/targets/$name" . || skip "not built"
done
"$waymark" stat -e page-faults -o probe true || skip "the kernel counts nothing here: $(cat probe)"
chmod 755 .

# refused WORDS ARGUMENT...: record fails, with WORDS, and leaves no folder
refused()
{
	local words=$1 got
	shift
	timeout -k 5 60 "${as[@]}" "$waymark" record -o refused "$@" >out 2>err </dev/null
	got=$?
	[ $got -eq 1 ] || fail "record $*: status $got, expected 1: $(cat err)"
	grep -qF -e "$words" err || fail "record $*: no '$words' in: $(cat err)"
	[ ! -e refused ] || fail "record $*: a folder is left"
}
as=()

# json WHAT: of the summary of a recording in ./out
json() { python3 -c 'import json, sys; print(json.load(open("out"))[sys.argv[1]])' "$1"; }

# counts EVENT DIR: how many of them the trace has
counts() { "$waymark" dump --event "$1" "$2" | grep -c " $1: "; }

# has_descriptors PID: it has opened events of the kernel
has_descriptors() { find "/proc/$1/fd" -lname 'anon_inode:*perf_event*' 2>/dev/null | grep -q .; }

# ---- names ----

refused "did you mean page-faults?" -e count:page-fauls true
refused "did you mean cpu-clock?" -e sample:cpu-clok/freq=99/ true
refused "no such event" -e count:r1c0x true
refused "no such event" -e count: true
refused "\"fast\" (column 18) is no option of sample" -e sample:cpu-clock/fast/ true

# ---- CPUs, which have no other events ----

specs=(trail trail/soft/ 'trail/soft,last=1M/' 'marker:*:*' func:main/ret/ usdt:a:b addr:./switching+0)
# where no breakpoint fires, watches are refused for that
if no_watches=$(lacks breakpoint-write); then echo "left out, watches: $no_watches"; else specs+=(watch:x); fi
for scope in -a "-C 0" "-a -G /sys/fs/cgroup"; do
	for spec in "${specs[@]}"; do
		# shellcheck disable=SC2086 # scopes are words
		refused "$spec: CPUs have the kernel's events alone; name a process" $scope --for 1s -e "$spec"
		# shellcheck disable=SC2086
		refused "$spec: CPUs have the kernel's events alone; name a process" $scope --for 1s -e fault -e "$spec"
	done
	# shellcheck disable=SC2086
	refused "marker:*:*: CPUs have the kernel's events alone; leave them out" $scope -e 'marker:*:*' ./switching
done

# ---- a recorder that does not come to read: what the kernel's ring has no room for is counted ----

# is_reading PID: its first thread is in read(2) of its standard input, so it neither starts threads
# nor has faults
is_reading() { grep -qs '^0 0x0 ' "/proc/$1/syscall"; }

# held DIR PAGES OPTION...: record a program that has so many faults while the recorder is stopped
held()
{
	local dir=$1 pages=$2
	shift 2
	rm -f go && mkfifo go
	./switching 1 "$pages" <go >said &
	pid=$!
	started+=("$pid")
	exec 7>go
	await is_reading "$pid" || fail "the program does not wait for its input"
	"$waymark" record --json -o "$dir" -e fault -e count:page-faults -p "$pid" "$@" \
		>out 2>words 7>&- &
	recorder=$!
	await_recording "$dir"
	kill -STOP "$recorder"
	await has_state "$recorder" T || fail "$1: the recorder does not stop"
	exec 7>&-
	await grep -q ^tids said || fail "the program does not end"
	kill -CONT "$recorder"
	wait "$recorder" || fail "record: $(cat words)"
}

held held 150000
faults=$(of_events held count:page-faults count | tail -n 1)
written=$(counts fault:page held)
lost=$(json discarded)
[ "$lost" -gt 0 ] || fail "the ring had room for all: $written"
# beside them the kernel records that each thread ends, of those that were there at the begin
expect "faults that were counted: recorded and lost" \
	$((written + $(counts task:exit held) + lost)) \
	$((faults + $(counts task:name held)))

# what the ring had room for is recorded, although the buffer is smaller
held small 15000 --buffer 64K
expect "lost with a small buffer" "$(json discarded)" \
	"$(of_events small kernel:lost count | awk '{ sum += $1 } END { print sum + 0 }')"

# ---- threads that come and go ----

./relays 1000 200 >said &
pid=$!
started+=("$pid")
await grep -q ready said
"$waymark" record --json -o threads -e switch -p "$pid" >out 2>words &
recorder=$!
await_event threads ' task:exit: ' 150
kill -TERM "$recorder"
wait "$recorder" || fail "record: $(cat words)"
kill "$pid"
expect "lost" "$(json discarded)" 0
"$waymark" dump --json threads | python3 -c '
import json, sys
events = list(map(json.loads, sys.stdin))
def of(name):
    return {event["tid"] for event in events if event["name"] == name}
short = of("task:fork") & of("task:exit")
print("%d threads began and ended" % len(short))
sys.exit(not (len(short) > 100 and short <= of("switch:arrive")))' ||
	fail "a thread that came and went never ran"

# a thread that executes a program gets the number of the first
"$waymark" record --json -o executed -e switch ./relays 0 1 "$(type -P true)" >out 2>words ||
	fail "record: $(cat words)"
of_events executed task:fork tid >second
of_events executed task:exit tid >ends
expect "ends: of the first, of the second, of the first" \
	"$(wc -l <ends) $(sed -n 2p ends)" "3 $(cat second)"
expect "the first arrives at once" \
	"$(of_events executed '*' name tid | grep -A1 "^task:exit $(cat second)$" | tail -n 1)" \
	"switch:arrive $(head -n 1 ends)"

# ---- too few descriptors ----

(ulimit -n 24 && refused "descriptors" -e switch -e fault ./switching 1 1; exit $failed) || failed=1

# ---- no perf_event_open(2) ----

as=(python3 "$source_dir/tests/filter.py" 298 --)
refused "perf_event_open" -e switch ./switching 1 1
as=()

# ---- a cgroup that goes, no tracefs; as another user ----

[ "$(id -u)" -eq 0 ] || { echo "not root: the rest is left out"; exit $failed; }

# the folder of cgroups of version 2
groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=$groups/waymark-test-$$
if [ -n "$groups" ] && mkdir "$group" 2>/dev/null; then
	"$waymark" record --json -o group -a -G "$group" --for 1s -e switch -e fault \
		-e count:page-faults >out 2>words &
	recorder=$!
	await_recording group
	sh -c 'echo $$ >"$1/cgroup.procs" && exec ./switching 2 50' sh "$group" >said
	rmdir "$group" || fail "the cgroup stays"
	wait "$recorder" || fail "record of a cgroup that went: $(cat words)"
	"$waymark" dump --json group | python3 -c '
import json, sys
ran, told = set(), set()
for x in map(json.loads, sys.stdin):
    if x["name"] not in ("task:waker", "count:page-faults"):
        (ran if x["name"] in ("switch:arrive", "task:fork") else told).add(x["tid"])
print(sorted(told - ran))' >others
	expect "threads outside of the cgroup" "$(cat others)" "[]"
	[ "$(counts fault:page group)" -ge 50 ] || fail "the cgroup has $(counts fault:page group) faults"
	refused "$group" -a -G "$group" -e switch --for 1s
fi

# as on a new machine
# shellcheck disable=SC2016 # for that shell
as=(unshare -m sh -c 'for folder in tracing debug; do
		[ ! -d /sys/kernel/$folder ] || mount -t tmpfs none /sys/kernel/$folder || exit
	done && exec "$@"' sh)
"${as[@]}" "$waymark" record -o untraced -e switch ./switching 3 1 >out 2>words ||
	fail "without tracefs: $(cat words)"
grep -q "switches have no wakes.*: as root, mount -t tracefs" words ||
	fail "nothing says that wakes are missing: $(cat words)"
refused ": tracefs is not mounted: as root, mount -t tracefs" -e tracepoint:sched:sched_switch true
as=()
expect "wakes" "$(counts switch:wake untraced)" 0
[ "$(counts switch:runnable untraced)" -gt 0 ] ||
	fail "nothing reports how long threads waited for a CPU"
[ "$(counts switch:depart untraced)" -gt 3 ] || fail "no switches without tracefs"

# in a time namespace, where the kernel's records have another clock
for ahead in 100000 -1; do
	unshare -T -f --monotonic $ahead true 2>/dev/null || break
	unshare -T -f --monotonic $ahead "$waymark" record -o "time$ahead" -e switch -e fault \
		./switching 3 50 >out 2>words </dev/null ||
		fail "in a time namespace: $(cat words)"
	[ "$(counts fault:page "time$ahead")" -ge 50 ] ||
		fail "$ahead s ahead: $(counts fault:page "time$ahead") faults"
	"$waymark" dump --json "time$ahead" | python3 -c '
import json, sys
times = [json.loads(line)["time_ns"] for line in sys.stdin]
sys.exit(max(times) - min(times) > 60e9)' || fail "$ahead s ahead: the events are of different times"
done

user=$(getent passwd nobody | cut -d: -f1)

# a program with more privileges: the kernel ends the events of its thread as if it had ended. Other
# tests may run one meanwhile: it has a name of its own.
name=setuid$$
cp switching $name && chmod 4755 $name
as=(setpriv --reuid "$user" --clear-groups "./$name")
if [ -n "$user" ] && ! findmnt -no OPTIONS -T . | grep -q nosuid; then
	"$waymark" record -o ended -e switch "${as[@]}" 3 1 </dev/null >out 2>words ||
		fail "a setuid program: $(cat words)"
	grep -q "1 process executed a program with more privileges" words ||
		fail "nothing says so: $(cat words)"
	# records_cpus: whether nothing was lost; a busy machine has more switches than a late
	# recorder takes
	records_cpus()
	{
		rm -rf cpus
		"$waymark" record --json -o cpus -a -e switch --buffer 64M >out 2>words &
		recorder=$!
		await has_descriptors "$recorder" && await_recording cpus
		"${as[@]}" 3 1 </dev/null >said
		kill -TERM "$recorder"
		wait "$recorder" || fail "record -a: $(cat words)"
		[ "$(json discarded)" -eq 0 ]
	}
	await records_cpus || fail "events of CPUs are lost each time: $(cat words)"
	! grep -q "more privileges" words || fail "the events of CPUs do not end: $(cat words)"
	"$waymark" dump --json cpus | python3 -c '
import json, sys
e = [x for x in map(json.loads, sys.stdin) if x["name"] in ("task:exit", "task:name")]
pids = {x["pid"] for x in e if x["name"] == "task:name" and x["fields"]["name"] == sys.argv[1]}
print(len(pids), sum(x["name"] == "task:exit" and x["tid"] in pids for x in e))' $name >exits
	expect "setuid programs, and their ends" "$(cat exits)" "1 1"
fi

level=$(cat /proc/sys/kernel/perf_event_paranoid)
if [ -n "$user" ] && [ "$level" -eq 2 ]; then
	mkdir theirs && chmod 777 theirs
	as=(setpriv --reuid "$user" --clear-groups)
	cd theirs || exit 1
	refused "kernel.perf_event_paranoid" -a -e switch --for 1s
	refused "can't be read" -e tracepoint:sched:sched_switch ../switching 1 1
	[ -n "$no_watches" ] || refused "kptr_restrict" -e watch:do_exit@kernel:w ../switching 1 1
	"${as[@]}" "$waymark" record -o trace -e switch -e fault ../switching 3 50 >out 2>words ||
		fail "an ordinary user: $(cat words)"
	grep -q "user space alone" words || fail "nothing says what is left out: $(cat words)"
	[ "$("${as[@]}" "$waymark" dump --event fault:page trace | wc -l)" -ge 50 ] ||
		fail "faults are missing"
fi
exit $failed
