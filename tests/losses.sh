#!/bin/bash
# SPDX-License-Identifier: MIT
# What a recording lost is in the trace, whatever the failure: a killed recorder, a full disk, files that are gone or added.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
needs_engine

build_target record/beat.c

# reported TRACE KEY: what report says of it
reported()
{
	"$waymark" report --json "$1" 2>/dev/null | python3 -c "import json, sys; print(json.load(sys.stdin)['$2'])"
}

# The recorder is killed long before a page is full: what came until then is there, and the trace has no proper end.
start ./beat 2000 20000
begin_record -o killed -p "$pid"
await_event killed beat:at 10
pkill -9 -P "$recorder" -x waymark
{ wait "$recorder"; } 2>/dev/null
has_ended() { [ "$(reported killed ended)" = False ]; }
await has_ended || fail "killed: it is said to have ended: $(reported killed ended)"
[ "$(events_in killed)" -ge 10 ] || fail "killed: $(events_in killed) events"
"$waymark" report killed >said || fail "killed: status $?"
grep -q "the recorder was killed" said || fail "killed: $(grep -A2 Losses said)"
! grep -q "Losses  *none$" said || fail "killed: it is said to be complete"
"$waymark" dump killed 2>words >said || fail "killed: dump: status $?"
grep -q "killed: its last 100 ms may be missing" words || fail "killed: dump: $(cat words)"

# With the policy cyclic nothing is written before the end, and of branches with last= neither.
in_memory=(events branches)
for asked in "-e marker:beat:at --policy cyclic" "-e trail/soft,last=1M/"; do
	rm -rf killed
	# shellcheck disable=SC2086 # options
	begin_record $asked -o killed -p "$pid"
	await grep -aqs "${in_memory[0]}" killed/facts || fail "killed: $asked: nothing in its facts"
	pkill -9 -P "$recorder" -x waymark
	{ wait "$recorder"; } 2>/dev/null
	await has_ended || fail "killed: $asked: it is said to have ended"
	"$waymark" report killed >said || fail "killed: $asked: status $?"
	grep -q "the recorder was killed: its ${in_memory[0]} were in memory alone, and are missing" said ||
		fail "killed: $asked: $(grep -A2 Losses said)"
	expect "killed: $asked: in memory" "$(reported killed in_memory)" "${in_memory[0]}"
	"$waymark" dump killed 2>words >said || fail "killed: $asked: dump: status $?"
	grep -q "was in memory alone is missing" words || fail "killed: $asked: dump: $(cat words)"
	in_memory=("${in_memory[@]:1}")
done

# A flight recorder has room for the newest, however many threads have ended: its 64 slots serve again.
build_target record/passes.c
run 0 --json --policy cyclic --buffer 256K -o recorder -- ./passes 300
"$waymark" dump recorder >said || fail "cyclic: dump: status $?"
grep -q 'pass:last.* number = 99\b' said || fail "cyclic: the newest event is missing: $(tail -2 said)"
expect "cyclic: events" $(($(json recorded) + $(json discarded))) 400

# A trace that ended says so, and its index is the writer's.
run 7 --json -o whole -- ./ticker 20000 3 1 7
expect "whole: ended" "$(reported whole ended)" True
expect "whole: recorded" "$(reported whole recorded)" "$(json recorded)"
expect "whole: discarded" "$(reported whole discarded)" "$(json discarded)"
emitted=$(($(json recorded) + $(json discarded)))

# damaged TEXT: the trace `copy` is said to be damaged, and no event is unaccounted for, now and once it is repaired
damaged()
{
	"$waymark" report copy >said 2>words
	expect "$1: status" $? 1
	grep -q -- "$1" words || fail "$1: $(cat words)"
	expect "$1: events" $(($(reported copy recorded) + $(reported copy discarded))) $emitted
	"$waymark" report --repair copy >said 2>words || fail "$1: repair: $(cat words)"
	"$waymark" report copy >said 2>words
	expect "$1, repaired: status" $? 0
	expect "$1, repaired: events" $(($(reported copy recorded) + $(reported copy discarded))) $emitted
	[ "$(reported copy discarded)" = "$(reported whole discarded)" ] || grep -q "Losses .*discarded" said ||
		fail "$1, repaired: $(grep Losses said)"
	if command -v babeltrace2 >/dev/null; then
		babeltrace copy >/dev/null 2>words || fail "$1: babeltrace2: $(cat words)"
	fi
	rm -rf copy
}

stream=$(cd whole && find . -type f -name '[0-9]*' -size +20k | sort | head -1)
other=$(cd whole && find . -type f -name '[0-9]*' -size +20k | sort | tail -1)
expect "two streams" "$([ "$stream" != "$other" ] && echo differ)" differ
cp -r whole copy
rm "copy/$stream"
damaged "the stream is missing"
cp -r whole copy
: >"copy/$stream"
damaged "its last packets are missing"
cp -r whole copy
cp "copy/$stream" "copy/$other"
damaged "another stream is in its place"
cp -r whole copy
cp "copy/$stream" copy/1-1-77
damaged "a stream that is not of this trace"
cp -r whole copy
rm copy/.index
"$waymark" report copy >said || fail "without an index: status $?"
grep -q "no index" said || fail "without an index: $(grep -A2 Losses said)"
rm -rf copy

# A full disk: the trace says of as many losses as the recorder did.
cat >full.sh <<'END'
mkdir room
mount -t tmpfs -o size=1m room room || exit 77
timeout -k 5 60 ./waymark record --json --buffer 1M -o room/full -- ./ticker 200000 2 1 7 >out 2>words
echo $? >status
./waymark report --json room/full >report.json 2>/dev/null
./waymark report room/full >said 2>/dev/null
exit 0
END
unshare -m bash full.sh 2>said || {
	echo "skipped: no file system can be mounted here: $(tail -1 said)"
	exit "$failed"
}
expect "full: status" "$(cat status)" 1
[ "$(json discarded)" -gt 0 ] || fail "full: nothing was lost"
lost=$(python3 -c 'import json; print(json.load(open("report.json"))["discarded"])')
kept=$(python3 -c 'import json; print(json.load(open("report.json"))["recorded"])')
expect "full: lost, in the trace" "$lost" "$(json discarded)"
expect "full: recorded, in the trace" "$kept" "$(json recorded)"
grep -q "Losses  *$lost events" said || fail "full: $(grep Losses said)"

# Room for no stream at all: the counts are no one's lie.
cat >fuller.sh <<'END'
mount -t tmpfs -o size=16k room room || exit 77
timeout -k 5 60 ./waymark record --json --buffer 1M -o room/full -- ./ticker 200000 2 1 7 >out 2>words
./waymark report room/full >said 2>/dev/null
umount room
mount -t tmpfs -o size=24k room room || exit 77
timeout -k 5 60 ./waymark record --policy cyclic -o room/full -- ./ticker 20000 2 1 7 2>unwritten
./waymark report room/full >>unwritten 2>/dev/null
umount room
mount -t tmpfs -o size=8k room room
timeout -k 5 60 ./waymark record --policy cyclic -o room/full -- ./ticker 2 1 1 7 2>nowhere
exit 0
END
unshare -m bash fuller.sh
grep -q "no room.*: room/full" nowhere || fail "fuller, cyclic: $(cat nowhere)"
grep -q "Losses .* discarded" unwritten && ! grep overwritten unwritten ||
	fail "fuller, cyclic: the buffer had room: $(cat unwritten)"
grep -q "Losses  *$(json discarded) events discarded (100.00% of all)" said || fail "fuller: $(grep Losses said)"
! grep -q "has changed its counts" said || fail "fuller: the program is blamed: $(grep -A2 Losses said)"

# A limit of file sizes is no full disk.
start ./beat 100000 50
timeout -k 5 60 prlimit --fsize=300000 "$waymark" record --json -p "$pid" -o limited >out 2>words
expect "limited: status" $? 1
grep -q "ulimit -f" words || fail "limited: $(cat words)"
expect "limited: cause" "$(reported limited write_error)" "File too large"
exit "$failed"
