#!/bin/bash
# SPDX-License-Identifier: MIT
# What `waymark watch` and `waymark doctor` say at each level of kernel.perf_event_paranoid, to root and to an ordinary user: what
# they can have is had, else the message names the level, and what it must be. In the guest, whose kernel is Debian's: other kernels
# know no 3 and take it for 2; 4 is Ubuntu's, and refuses what 3 does.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/../record_setup.bash"

[ -n "${WAYMARK_GUEST:-}" ] || skip "it changes the level of the whole machine, so in the guest alone: make guest"
level_file=/proc/sys/kernel/perf_event_paranoid
chmod 755 .
build_target watched.c

# by USER ARGUMENT...: waymark as that user; bounded
by()
{
	local user=$1
	shift
	if [ ! -d "run_$user" ]; then
		mkdir -m 0700 "run_$user"
		chown "$user" "run_$user"
	fi
	XDG_RUNTIME_DIR=$folder/run_$user timeout -k 2 30 runuser -u "$user" -- "$waymark" "$@" >out 2>words
}

# has USER: writes are reported
has()
{
	by "$1" watch -n 0 in_turn ./watched turn 3 1 || fail "$level: $1: status $?: $(cat words)"
	grep -q '^ *3 .*write_one' out || fail "$level: $1: $(cat out words)"
}

# refused USER: the program does not even begin
refused()
{
	by "$1" watch -n 0 in_turn ./watched turn 3 1 && fail "$level: $1 is let watch"
	grep -qx "waymark: perf_event_open(2) is not allowed: kernel.perf_event_paranoid is $level; it must be 2" words ||
		fail "$level: $1: not said: $(cat words)"
	[ ! -s out ] || fail "$level: $1: the program ran: $(cat out)"
}

# doctor USER: `finding NAME STATE [CHANGE]` asks what it printed, as lines of "AREA STATE NAME", then of "AREA NAME CHANGE"
doctor()
{
	asked=$1
	by "$1" doctor
}

# The trials of a doctor that has just ended may still hold debug registers: then it is asked again.
finding()
{
	local tries=1
	until is_found "$@"; do
		[ $((tries++)) -lt 3 ] || {
			fail "$level: doctor says of $1: $printed, expected $2 ${3:-}: $(grep -A1 " $1 " out)"
			return
		}
		sleep 1
		by "$asked" doctor
	done
}

is_found()
{
	set -- "$@" ""
	printed=$(awk -v name="$1" '$3 == name && !state { state = $2 } $2 == name { change = " " $3 " " $4 }
		END { print state change }' out)
	printed=${printed%,}
	[ -n "$3" ] || printed=${printed%% *}
	[ "$printed" = "$2${3:+ $3}" ]
}

for level in 4 3 2 1 0 -1; do
	echo $level >$level_file || fail "no level $level"
	expect "the level" "$(cat $level_file)" $level
	set_to="sysctl kernel.perf_event_paranoid"
	doctor nobody
	if [ $level -gt 2 ]; then
		finding perf-user absent "$set_to=2"
		finding breakpoints absent "$set_to=2"
		finding breakpoint-write unknown "$set_to=2"
	else
		finding perf-user fine
		finding breakpoints fine
		finding breakpoint-write fine
	fi
	if [ $level -gt 1 ]; then
		finding perf-kernel absent "$set_to=1"
	else
		finding perf-kernel fine
	fi
	if [ $level -gt 0 ]; then
		finding perf-cpu absent "$set_to=0"
		finding breakpoint-cpu unknown "$set_to=0"
	else
		finding perf-cpu fine
		finding breakpoint-cpu fine
	fi
	case $level in
	3) refused nobody ;;
	4)
		refused nobody
		has root
		doctor root
		finding perf-cpu fine
		finding breakpoints fine
		finding breakpoint-cpu fine
		;;
	2) has nobody ;;
	esac
done

# A program that waits is left as it was.
echo 3 >$level_file
level=3
start runuser -u nobody -- ./watched forever 0 1 >/dev/null
runs_watched() { watched=$(pgrep -u nobody -x watched) && is_running "$watched"; }
await runs_watched || fail "3: the program does not run"
by nobody watch --for 1s -n 0 in_turn -p "$watched" && fail "3: a running one may be watched"
grep -q "kernel.perf_event_paranoid is 3; it must be 2" words || fail "3, running: $(cat words)"
kill -0 "$watched" || fail "3: the program has ended"
kill -9 "$watched"
exit $failed
