#!/bin/bash
# SPDX-License-Identifier: MIT
# A process that is attached to while a session runs has the session's kernel events, with what it starts; or it is
# refused, and the others continue.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

"$waymark" stat -e page-faults -o probe true || skip "the kernel counts nothing here: $(cat probe)"
! is_sanitized libwaymark.so || skip "a program without a sanitizer can't link a library with one"
build_target joiner.c -L"$WAYMARK_BUILD" -lwaymark -Wl,-rpath,"$WAYMARK_BUILD"

under=() # a command that ./joiner is run by

# begin: a process that faults, sleeps and starts others until the test ends; its pid is in $pid
begin() { start bash -c 'while :; do (sleep 0.002); done'; }

# joins WORD SPEC...: ./joiner of $first and $later says WORD; the events are in ./events
joins()
{
	local word=$1
	timeout -k 5 60 "${under[@]}" ./joiner "$first" "$later" "${@:2}" >events 2>err || fail "joiner ${*:2}: $(cat err)"
	grep -q "^$word" err || fail "no '$word': $(cat err)"
}

# holds WHAT EXPRESSION: of the events as Python's list `e`, the pids `first` and `later`
holds()
{
	expect "$1" "$(python3 - "$first" "$later" "$2" <<'END'
import json, sys
e = sorted(map(json.loads, open("events")), key=lambda x: x["time_ns"])
first, later = int(sys.argv[1]), int(sys.argv[2])
of = lambda name, pid: [x for x in e if x["name"] == name and x["pid"] == pid]
print(eval(sys.argv[3]))
END
)" True
}

once='"aa" not in "".join(x["name"][7] for x in e if x["tid"] == later and x["name"] in ("switch:arrive", "switch:depart"))'

# With nothing loaded into it.
begin
first=$pid
begin
later=$pid
joins joined switch fault count:context-switches
for name in switch:arrive switch:depart switch:runnable fault:page task:name; do
	holds "the later process has $name" "len(of('$name', later)) > 0"
done
holds "no switch of it comes twice" "$once"
holds "what it starts is recorded" \
	'any(x["name"] == "switch:depart" and x["pid"] in {y["pid"] for y in e if y["name"] == "task:fork" and y["fields"]["parent_pid"] == later} for x in e)'
holds "counts are of both" \
	'max(x["fields"]["count"] for x in e if x["name"] == "count:context-switches") > len(of("switch:depart", later))'

# Refused as a whole, with the figures: the first is recorded as before.
kill -9 "$later"
start python3 -c 'import threading, time
for _ in range(60): threading.Thread(target=time.sleep, args=(1000,)).start()
open("crowded", "w")'
later=$pid
await [ -e crowded ] || fail "no 60 threads"
under=(bash -c 'ulimit -n $((100 + 32 * $(nproc))); exec "$@"' limited)
joins "refused: " switch fault
under=()
grep -q RLIMIT_NOFILE err || fail "no figures: $(cat err)"
holds "the refused process has no event" 'len(of("switch:depart", first)) > 0 and not [x for x in e if x["pid"] == later and x["name"] != "task:waker"]'
kill -9 "$first" "$later"

# A child of the first that was started since has inherited the events, and does not get them again: no switch comes or
# counts twice.
mkfifo pipe
for specs in "switch fault" "count:context-switches"; do
	rm -f go child
	start bash -c 'until [ -e go ]; do sleep 0.002; done; exec 9<>pipe; (while :; do read -rt 0.002 -u 9; done) & echo $! >child; wait'
	first=$pid
	later=-
	# shellcheck disable=SC2086 # several specs
	joins joined $specs
	later=$(cat child)
	switches=$(awk '/ctxt_switches/ { sum += $2 } END { print sum }' "/proc/$later/status")
	kill -9 "$first" "$later"
	if [ "$specs" = "switch fault" ]; then
		holds "the child's switches come once" "len(of('switch:depart', later)) > 50 and $once"
	else
		holds "the child's switches count once" "0 < max(x['fields']['count'] for x in e if x['name'] == 'count:context-switches') < 1.5 * $switches"
	fi
done

# With markers.
if ! lacks code-change >why; then
	start ./ticker 50 3 1000000
	first=$pid
	start ./ticker 50 3 1000000
	later=$pid
	joins joined marker:ticker:tick switch
	holds "its markers and its switches are there" "len(of('ticker:tick', later)) > 0 and len(of('switch:depart', later)) > 0"
	later=launch
	joins joined marker:ticker:tick switch
	later=$(sed -n 's/^joined //p' err)
	holds "a launched program has both from its first event on" \
		"min(x['time_ns'] for x in of('switch:arrive', later)) < min(x['time_ns'] for x in of('ticker:tick', later))"
fi
exit $failed
