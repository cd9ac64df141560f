# SPDX-License-Identifier: MIT
# Shared by the tests of `waymark record`: a program with markers, small checks.
# shellcheck shell=bash disable=SC2034 # what is set here is used there
# shellcheck source=tests/folder_setup.bash
. "$(dirname "${BASH_SOURCE[0]}")/folder_setup.bash"

started=()

# Another process may have the number of one that has ended: those that the test has started are in its folder.
cleanup()
{
	local process
	for process in "${started[@]}"; do
		case $(readlink "/proc/$process/cwd") in
		"$folder"*) kill -9 "$process" 2>/dev/null ;;
		esac
	done
	rm -rf "$folder"
}
trap cleanup EXIT

# The tests leave the user's own sockets alone, and nothing outside their folder.
export XDG_RUNTIME_DIR=$folder/run
mkdir -m 0700 "$XDG_RUNTIME_DIR"

# start COMMAND...: in the background until the test ends; its pid in $pid, which is the program's when this returns
start()
{
	"$@" &
	pid=$!
	started+=("$pid")
	disown "$pid" # else the shell reports that it was killed
	executed "$pid"
}

# start_ready COMMAND...: the same, from when it says "ready" on; its words are in ./said, its input is descriptor 7
start_ready()
{
	rm -f in said
	mkfifo in
	"$@" <in >said &
	pid=$!
	started+=("$pid")
	exec 7>in
	await grep -qs ready said || fail "$*: it is not ready: $(cat said)"
}

# child_of PID NAME: waits until a child of that process runs that program; its pid in $child
child_of()
{
	await has_child "$1" "$2" || fail "process $1 has no child that runs $2"
}

has_child()
{
	child=$(pgrep -P "$1" -x "$2")
}

command -v cc >/dev/null || skip "no C compiler"
[ -e "$WAYMARK_BUILD/inside/libwaymark-agent.so" ] || skip "the agent is not built"
# Copies, since other users may not be let into the build folder.
cp "$WAYMARK_BUILD/cli/waymark" "$WAYMARK_BUILD/inside/libwaymark-agent.so" . || exit 1
waymark=$folder/waymark
export WAYMARK_AGENT=$folder/libwaymark-agent.so
# a test without markers sets no_ticker: to compile it takes 6 s in the guest
[ -n "${no_ticker:-}" ] || cc -O2 -I"$source_dir/include" "$source_dir/tests/targets/ticker.c" -o ticker -lpthread || exit 1

# needs_engine: programs get a copy of the engine, too; without one the test is skipped
needs_engine()
{
	[ -e "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so" ] || skip "the engine is not built"
	cp "$WAYMARK_BUILD/inside/engine/libwaymark-trail.so" . || exit 1
	export WAYMARK_ENGINE=$folder/libwaymark-trail.so
}

# needs_oracle: of the command, trail/auto/ is single steps from now on, which other origins are held against
needs_oracle()
{
	cp "$WAYMARK_BUILD/tests/trail_oracle/waymark-oracle" waymark || exit 1
}

# has_engine PID: the engine is mapped there
has_engine()
{
	grep -qs waymark-trail "/proc/$1/maps"
}

# is_translated PID: it runs under the engine, and the tracer that brought the engine in has gone
is_translated()
{
	has_engine "$1" && ! is_traced "$1"
}

# run STATUS ARGUMENT...: waymark record, its words in ./words; bounded
run()
{
	local wanted=$1 got
	shift
	timeout -k 5 120 "$waymark" record "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "record $*: status $got, expected $wanted: $(cat words)"
}

# records NAME ARGUMENT...: a running program, for 200 ms into the folder NAME; for longer where the machine
# is so busy that the program does not come by once
records()
{
	local name=$1 length
	shift
	for length in 200ms 2s 10s; do
		rm -rf "$name"
		run 0 --json --for $length -o "$name" "$@"
		[ "$(json recorded)" -gt 0 ] && return
		echo "record $*: nothing in $length"
	done
	fail "record $*: nothing was recorded"
}

# begin_record ARGUMENT...: as run, in the background until end_record; its pid in $recorder
begin_record()
{
	timeout -k 5 120 "$waymark" record "$@" >out 2>words &
	recorder=$!
}

# end_record STATUS [SIGNAL]: the recorder ends with STATUS, by itself or by SIGNAL
end_record()
{
	local got
	[ $# -lt 2 ] || kill "-$2" "$recorder" 2>/dev/null
	wait "$recorder"
	got=$?
	[ $got -eq "$1" ] || fail "record: status $got, expected $1: $(cat words)"
}

# await_recording DIR: until a recording has written the first of its streams there
await_recording()
{
	await is_recording "$1" || fail "nothing is recorded into $1: $(cat words)"
}

# await_event DIR TEXT [COUNT]: until a recording has written one such event there, or so many
await_event()
{
	await has_event "$@" || fail "$1: no '$2' came${3:+, or fewer than $3}"
}

has_event()
{
	[ "$(events_so_far "$1" "$2")" -ge "${3:-1}" ]
}

# records_on DIR TEXT: a recording there still gets such events. The first may be older.
records_on()
{
	local had
	for _ in 1 2 3; do
		had=$(events_so_far "$1" "$2")
		await has_event "$1" "$2" $((had + 1)) || return
	done
}

# events_so_far DIR TEXT: how many events have that text in what a recording has written there
events_so_far()
{
	"$waymark" dump "$1" 2>/dev/null | grep -c -- "$2"
}

# bad STATUS TEXT ARGUMENT...: refused with these words; the folder ./trace is not made
bad()
{
	local status=$1 text=$2
	shift 2
	run "$status" -o trace "$@"
	says "$text"
	grep -q "^waymark" words || fail "record $*: no line begins with the command's name"
	[ ! -e trace ] || fail "record $*: left a trace folder behind"
	rm -rf trace
}

# says TEXT: the last run said so
says()
{
	grep -qF -- "$1" words || fail "expected '$1' among: $(cat words)"
}

# json MEMBER: its number in the last run's --json, of several the last
json()
{
	sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" out | tail -n 1
}

# found KIND [NAME]: what the last run's findings of that kind count; of subjects whose last part is NAME
found()
{
	python3 -c 'import json, sys
text = open("out").read() # the program may have written before
findings = json.loads(text[text.index("{\"dir\""):])["finding"]
print(sum(one["count"] or 1 for one in findings if one["kind"] == sys.argv[1] and
	(len(sys.argv) < 3 or one["subject"].split("/")[-1] == sys.argv[2])))' "$@"
}

# of_events DIR EVENT FIELD...: of each event of that name, or of all where that is "*", in order of
# time, these fields of its own, or its pid, tid or name: a line of words, where it has all of them
of_events()
{
	"$waymark" dump --json "$1" | python3 -c '
import json, sys
for event in map(json.loads, sys.stdin):
    has = {**event, **event.get("fields", {})}
    if sys.argv[1] in (event.get("name"), "*") and has.keys() >= set(sys.argv[2:]):
        values = (has[key] for key in sys.argv[2:])
        print(*(v if isinstance(v, str) else json.dumps(v) for v in values))' "${@:2}"
}

# It holds every stream's file open: one for each thread that there was.
babeltrace()
{
	(
		ulimit -Sn "$(ulimit -Hn)"
		exec babeltrace2 "$@"
	)
}

# Events in a trace as babeltrace2 reads them, without its facts; with it missing, what we read ourselves.
events_in()
{
	local status

	if command -v babeltrace2 >/dev/null; then
		babeltrace "$1" 2>troubles | grep -vc ' waymark:[a-z_]*: {'
		status=${PIPESTATUS[0]}
		[ "$status" = 0 ] || echo "babeltrace2 $1: status $status: $(cat troubles)" >&2
	else
		"$waymark" dump --no-spans "$1" | wc -l
	fi
}
