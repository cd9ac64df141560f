#!/bin/bash
# SPDX-License-Identifier: MIT
# A process that is attached to while a session runs has the session's kernel events, with what it
# starts; or it is refused, and the others continue.
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
	timeout -k 5 60 "${under[@]}" ./joiner "$first" "$later" "${@:2}" >events 2>err ||
		fail "joiner ${*:2}: $(cat err)"
	grep -q "^$word" err || fail "no '$word': $(cat err)"
}

# holds WHAT EXPRESSION: of tests/kernel_join.py
holds()
{
	expect "$1" "$(python3 "$source_dir/tests/kernel_join.py" "$first" "$later" "$2")" True
}

# With nothing loaded into it.
begin
first=$pid
begin
later=$pid
sees_kernel=
[ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 1 ] || sees_kernel=1
joins joined switch fault ${sees_kernel:+count:context-switches} count:page-faults
for name in switch:arrive switch:depart switch:runnable fault:page task:name; do
	holds "the later process has $name" "len(of('$name', later)) > 0"
done
holds "no switch of it comes twice" 'switches_once(later)'
holds "what it starts is recorded" \
	'any(of("switch:depart", child) for child in children(later))'
holds "counts are of both" 'counted("page-faults") > len(of("fault:page", later)) > 0'
[ -z "$sees_kernel" ] ||
	holds "switches too" 'counted("context-switches") > len(of("switch:depart", later))'

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
holds "the others continue" 'of("switch:depart", first) != []'
holds "the refused process has no event" \
	'{x["name"] for x in e if x["pid"] == later} <= {"task:waker"}'
kill -9 "$first" "$later"

# A child of the first that was started since has inherited the events, and does not get them again:
# no switch comes or counts twice.
mkfifo pipe
for specs in "switch fault" ${sees_kernel:+count:context-switches}; do
	rm -f go child
	start bash -c 'until [ -e go ]; do sleep 0.002; done
		exec 9<>pipe
		(while :; do read -rt 0.002 -u 9; done) & echo $! >child; wait'
	first=$pid
	later=-
	# shellcheck disable=SC2086 # several specs
	joins joined $specs
	later=$(cat child)
	switches=$(awk '/ctxt_switches/ { sum += $2 } END { print sum }' "/proc/$later/status")
	kill -9 "$first" "$later"
	if [ "$specs" = "switch fault" ]; then
		# a turn has four events of switches at most, with its wake
		holds "the child's switches come" \
			'4 * (len(of("switch:depart", later)) + 1) >= len(switches(later)) > 4'
		holds "and once" 'switches_once(later)'
	else
		holds "the child's switches count once" \
			"0 < counted('context-switches') < 1.5 * $switches"
	fi
done

# With markers.
if ! lacks code-change >why; then
	start ./ticker 50 3 1000000
	first=$pid
	start ./ticker 50 3 1000000
	later=$pid
	joins joined marker:ticker:tick switch
	holds "its markers and its switches are there" \
		'of("ticker:tick", later) != [] != of("switch:depart", later)'
	later=launch
	joins joined marker:ticker:tick switch
	later=$(sed -n 's/^joined //p' err)
	holds "a launched program has both from its first event on" \
		'begins("switch:arrive", later) < begins("ticker:tick", later)'
fi
exit $failed
