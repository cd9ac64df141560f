# SPDX-License-Identifier: MIT
# Shared by the tests of whole programs: a folder of the test's own, where it runs, and how it reports failures.
# shellcheck shell=bash disable=SC2034 # what is set here is used there
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/waymark-test-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0

# skip WHY: the test can't run here
skip()
{
	echo "$*"
	exit 77
}

# lacks TRIAL...: print the reason of the first of these trials (target/trial/trial.def) that does not work here; 1: all work
lacks()
{
	local words
	! words=$("$WAYMARK_BUILD/cli/waymark" doctor "$@") || return
	awk '/^GROUP/ { at = index($0, "FOUND"); next } at && NF && $2 != "fine" { print substr($0, at); exit }' <<<"$words" |
		grep . || echo "waymark doctor $*: no answer"
}

# needs TRIAL...: skip the test, with the trial's reason, on a machine where one of these does not work
needs()
{
	local why
	"$WAYMARK_BUILD/cli/waymark" doctor "$@" >/dev/null 2>&1
	[ $? -ne 2 ] || { echo "FAILED: there is no such trial: $*" && exit 1; }
	! why=$(lacks "$@") || skip "$why"
}

# flags_unkept PROGRAM: print what tests/probes/flags.c is not to compare here. Virtual machines were seen that lose NT (0x4000) of a
# program that runs natively; every other flag must be kept.
flags_unkept()
{
	local lost
	lost=$("$1" 1000 | sed -n 's/.* flags //p' | sort -u)
	case $lost in
	"") echo 0 ;;
	0x4000) echo 0x4000 ;;
	*) echo "natively flags are lost: $lost" >&2 && return 1 ;;
	esac
}

# is_sanitized FILE: that file of the build folder was built for a sanitizer
is_sanitized()
{
	[ "$(nm -D "$WAYMARK_BUILD/$1" | grep -cE "__((asan|tsan)_init|ubsan_handle)")" -gt 0 ]
}

# fail WHAT: the test continues; it ends with `exit $failed`
fail()
{
	echo "FAILED: $*"
	failed=1
}

# expect WHAT GOT WANTED
expect()
{
	[ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

# build_target FILE [OPTION]...: compile tests/targets/FILE to ./NAME, without its ending, or to
# what -o says; or the test ends
build_target()
{
	local name=${1##*/} compiler=cc
	[ "${name##*.}" != cc ] || compiler=c++
	$compiler -O1 -g -I"$source_dir" -I"$source_dir/include" -o "${name%.*}" \
		"$source_dir/tests/targets/$1" "${@:2}" -lpthread -ldl || exit 1
}

# await [-s SECONDS] [!] COMMAND...: until COMMAND succeeds, or with "!" until it fails. Runs it every 20 ms, for some
# 20 s at most, or SECONDS. Returns 1 if that never happened: then the caller fails the test, with words.
await()
{
	local await_until=$((SECONDS + 20)) await_negated=

	[ "$1" != -s ] || { await_until=$((SECONDS + $2)) && shift 2; }
	[ "$1" != '!' ] || { await_negated=1 && shift; }
	until if [ "$await_negated" ]; then ! "$@"; else "$@"; fi; do
		[ $SECONDS -lt $await_until ] || return 1
		sleep 0.02 # every wait for an event comes here
	done
}

# await_text FILE TEXT: until a line of FILE matches TEXT, a basic regular expression
await_text()
{
	await grep -qs -e "$2" "$1" || fail "$1 has no line with '$2': $(tail -n 3 "$1")"
}

# is_recording DIR: a thread's stream is in that trace, with something in it
is_recording()
{
	local stream
	for stream in "$1"/*-*; do
		[ ! -s "$stream" ] || return 0
	done
	return 1
}

# ---- what /proc shows of a process ----

# executed PID: until it is a program, and no more the copy of this shell that bash forks for it
executed()
{
	await ! is_shell_copy "$1" || fail "process $1 executes no program"
}

is_shell_copy()
{
	[ "/proc/$1/exe" -ef "/proc/$BASHPID/exe" ] && cmp -s "/proc/$1/cmdline" "/proc/$$/cmdline"
}

# has_ended PID: gone, or a zombie that has no other thread
has_ended()
{
	local others

	[ -d "/proc/$1" ] || return 0
	others=("/proc/$1/task"/*)
	[ ${#others[@]} -le 1 ] && ! grep -qs '^State:.[^ZX]' "/proc/$1/status"
}

# has_state PID LETTERS: its first thread's state is one of these
has_state()
{
	grep -qs "^State:.[$2]" "/proc/$1/status"
}

# field PID NAME: the first word of that field of /proc/PID/status; nothing, if the process is gone
field()
{
	awk -v name="$2:" '$1 == name { print $2 }' "/proc/$1/status" 2>/dev/null
}

# is_traced PID: by a debugger, by strace, or by a recorder for as long as that needs it
is_traced()
{
	grep -qs '^TracerPid:.[1-9]' "/proc/$1/status"
}

# has_agent PID: threads of the agent are there: a session records it
has_agent()
{
	grep -qs '^waymark' "/proc/$1/task"/*/comm
}

# has_trap PID SigCgt|SigIgn|SigBlk: a thread of its catches, ignores or blocks SIGTRAP. That is the mask's bit 4: the
# second digit from the right is odd.
has_trap()
{
	grep -qs "^$2:.*[13579bdf].$" "/proc/$1/task"/*/status
}

# cpu_ticks PID: the CPU time of all its threads, in hundredths of a second; 0 when it has ended
cpu_ticks()
{
	local line="" fields

	{ read -r line <"/proc/$1/stat"; } 2>/dev/null
	# behind the name, which may have spaces: user time and system time are fields 12 and 13
	read -ra fields <<<"${line##*) }"
	echo $((${fields[11]:-0} + ${fields[12]:-0}))
}

# naps PID: how often its threads have slept so far
naps()
{
	cat "/proc/$1/task"/*/status 2>/dev/null | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum + 0 }'
}

# await_running PID: until main() runs: a thread is in nanosleep(2), as most programs of these tests are again and again,
# or the process has had more CPU time than loading takes
await_running()
{
	await is_running "$1" || fail "process $1 does not run its main(): $(grep -s '^State' "/proc/$1/status")"
}

is_running()
{
	is_napping "$1" || [ "$(cpu_ticks "$1")" -ge 5 ]
}

# is_napping PID [COUNT]: one of its threads, or so many, are in nanosleep(2): system call 35, or 230
is_napping()
{
	[ "$(grep -lsE '^(35|230) ' "/proc/$1/task"/*/syscall | wc -l)" -ge "${2:-1}" ]
}

# goes_on PID WHEN: the process, which naps again and again, is not stopped or dead
goes_on()
{
	local before

	before=$(naps "$1")
	await has_napped "$1" $((before + 10)) || fail "$2: process $1 does not continue: $(grep -s '^State' "/proc/$1/status")"
}

has_napped()
{
	[ "$(naps "$1")" -ge "$2" ]
}
