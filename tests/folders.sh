#!/bin/bash
# SPDX-License-Identifier: MIT
# record --rotate and --last: each event is in one folder, whatever becomes of the program; what is in
# memory is written when a trigger comes; folders that can't be had are named.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

command -v python3 >/dev/null || skip "no python3"
build_target record/paced.c -pthread
needs_engine

# numbers DIR...: of all db:query in these folders, in order of their coming
numbers()
{
	local dir
	for dir; do "$waymark" dump --json --event db:query "$dir" || fail "dump $dir"; done |
		python3 -c 'import json, sys
for line in sys.stdin:
    print(json.loads(line)["fields"]["number"])'
}

# whole NAME COUNT DIR...: these folders have 0 to COUNT - 1 once each, and lost none
whole()
{
	local name=$1 count=$2 dir
	shift 2
	numbers "$@" >got
	seq 0 $((count - 1)) | cmp -s - got || fail "$name: $(wc -l <got) numbers of $count, $(sort -n got | uniq -d | wc -l) twice"
	for dir; do
		"$waymark" report "$dir" >report || fail "$name: report $dir"
		grep -q '^Losses *none' report || fail "$name, $dir: $(cat report)"
	done
}

# begin NAME OPTION...: record a running ./paced into NAME; the recorder is $recorder, it $program
begin()
{
	local dir=$1
	shift
	start_ready ./paced serve
	program=$pid
	"$waymark" record -o "$dir" -p "$program" "$@" 7>&- >"${dir##*/}.words" 2>&1 &
	recorder=$!
	started+=("$recorder")
	await timeout 60 "$waymark" control "$dir" list >out 2>words || fail "$dir: no recorder answers: $(cat "$dir.words")"
}

# pass COUNT: the program passes so many more, and says so
pass()
{
	local before
	before=$(wc -l <said)
	printf '%d\n' "$1" >&7
	await eval "[ \$(wc -l <said) -gt $before ]" || fail "it did not pass $1"
}

# end NAME [STATUS]: the program ends, and the recording with it
end()
{
	local got
	exec 7>&-
	wait "$recorder"
	got=$?
	expect "$1: the recorder's status: $(cat "${1##*/}.words")" $got "${2:-0}"
}

control() { timeout 60 "$waymark" control "$@" >out 2>words || fail "control $*: $(cat words)"; }

# ---- rotation: each event is in one folder ----

begin turned --rotate 1h
for count in 1000 1 0 20000; do
	pass "$count"
	control turned rotate
done
pass 500
end turned
expect "the folders" "$(ls turned | tr '\n' ' ')" "0001 0002 0003 0004 0005 "
whole "rotated" 21501 turned/000?
grep -q '5 traces were written to turned, from 0001 to 0005' turned.words || fail "words: $(cat turned.words)"
"$waymark" report --json turned/0005 >json || fail "report --json"
expect "an event of the last part" "$(python3 -c 'import json; print(json.load(open("json"))["recorded"])')" 500
if command -v babeltrace2 >/dev/null; then
	expect "babeltrace2, second folder" "$(babeltrace2 turned/0002 | grep -c 'db:query')" 1
fi

# the numbers continue in a folder that has some, and the oldest go
begin turned --rotate 1h --keep 3
for count in 1 1 1; do
	pass "$count"
	control turned rotate
done
end turned
expect "the newest three" "$(ls turned | tr '\n' ' ')" "0007 0008 0009 "

# by size: each look at a buffer finds no more than it holds; threads and children; a full disk does not lose what
# was written before
run 0 --json --rotate 1M --buffer 1M --policy block -o sized -- ./ticker 20000 4 12
expect "by size: lost" "$(json discarded)" 0
[ -d sized/0003 ] || fail "by size: $(ls sized)"
total=0
for dir in sized/*; do
	total=$((total + $("$waymark" dump --event ticker:tick "$dir" | wc -l)))
done
expect "by size: events" $total $((20000 * 4 * 12))
run 0 --rotate 1M --policy block -o forked -- ./paced fork 200000
whole "a child of fork" 400000 forked/*
run 137 --rotate 1M --policy block -o killed -- ./paced kill 200000
whole "killed" 200000 killed/*

# ---- the recorder is killed: what was written stays readable ----

begin cut --rotate 1h
pass 1000
control cut rotate
pass 1000
recorded_by_now() { [ "$("$waymark" dump --event db:query cut/0002 2>/dev/null | wc -l)" = 1000 ]; }
await recorded_by_now || fail "cut: parts are not written"
kill -9 "$recorder"
wait "$recorder" 2>/dev/null
whole "the recorder was killed" 2000 cut/0001 cut/0002
exec 7>&-

# ---- memory: at the end, for so long, of so much ----

run 0 --last 1h -o all -- ./paced plain 5000
whole "all of it" 5000 all/0001
run 0 --last 1M --policy block -o some -- ./ticker 20000 4 12
"$waymark" dump --event ticker:tick some/0001 | wc -l >count
[ "$(cat count)" -gt 10000 ] && [ "$(cat count)" -lt 200000 ] || fail "the last 1M: $(cat count) events"
"$waymark" report some/0001 | grep -q '^Losses *none' || fail "what went before is no loss"
[ "$(du -sk some | cut -f1)" -lt 1600 ] || fail "1M takes $(du -sk some)"
run 134 --last 1h --on crash -o crash -- ./paced abort 100
whole "crash" 100 crash/0001
run 0 --last 1h --on crash -o none -- ./paced plain 100
[ ! -e none ] || fail "no crash, and a folder: $(ls none)"
grep -q "no trigger came" words || fail "no crash: $(cat words)"

run 255 --last 1h --on crash -o none -- sh -c 'exit 255'
[ ! -e none ] || fail "a status is no crash"
# of two triggers of one marker either comes; 2m is a time, 2M a size
run 0 --last 2m --on 'marker:db:query/if=number==900000/' --on 'marker:db:query/if=number==50/' -o either -- ./paced plain 300000
[ -d either/0001 ] || fail "the second trigger: $(cat words)"
expect "two minutes of it" "$(numbers either/0001 | head -n 1)" 0

# ---- memory: whenever a trigger comes ----

begin kept --last 1h --on 'func:answer@paced/if=arg1==7/' --on 'marker:db:query/if=number==1500/' --on signal:USR2
pass 1000
written() { [ -d "kept/$1" ] && grep -q "are in kept/$1" kept.words; }
printf 'answer 6\n' >&7
printf 'answer 7\n' >&7
await written 0001 || fail "the function: $(cat kept.words)"
whole "the function's snapshot" 1000 kept/0001
pass 1000
await written 0002 || fail "the marker: $(cat kept.words)"
# it has what came up to the marker, and maybe more
numbers kept/0002 >got
[ "$(wc -l <got)" -ge 1501 ] || fail "the marker's snapshot: $(wc -l <got)"
seq 0 $(($(wc -l <got) - 1)) | cmp -s - got || fail "the marker's snapshot has holes"
kill -USR2 "$recorder"
await written 0003 || fail "the signal: $(cat kept.words)"
whole "the signal's snapshot" 2000 kept/0003
control kept snapshot
expect "its name" "$(cat out)" kept/0004
control --json kept snapshot
expect "its name as JSON" "$(python3 -c 'import json; print(json.load(open("out"))["written"][0]["dir"])')" kept/0005
end kept
expect "nothing at the end" "$(ls kept | tail -n 1)" 0005

# a trigger that comes 1,000 times: as often as is allowed, two of 12 in ten minutes; the rest is counted
begin often --last 1h --on marker:db:query --per-hour 12
pass 1
await [ -d often/0001 ] || fail "often: $(cat often.words)"
pass 1
await [ -d often/0002 ] || fail "often: $(cat often.words)"
pass 998
end often
expect "not more often" "$(ls often | tr '\n' ' ')" "0001 0002 "
grep -q '998 more triggers made no snapshot' often.words || fail "often: $(cat often.words)"

# ---- bad input, by name ----

# refused STATUS WORDS OPTION...
refused()
{
	local status=$1 said=$2
	shift 2
	run "$status" "$@" -- ./paced plain 1
	grep -q -- "$said" words || fail "record $*: expected '$said' in: $(cat words)"
}
refused 2 "takes a time, as 30s, or a size" --last 3parsecs
refused 2 "1s or more" --rotate 1ms
refused 2 "exclude each other" --last 1s --rotate 1s
refused 2 "is for --last and --rotate" --keep 3
refused 2 "takes USR1 or USR2" --last 1s --on signal:SEGV
refused 2 "a recording of one folder" --rotate 1s --compress
refused 1 "a trail is written to one folder" --last 1s -e trail
refused 1 "a trail is written to one folder" --rotate 1s -e trail
refused 1 "the cyclic policy" --last 1s --policy cyclic
refused 1 "no field of a marker" --last 1s --on 'marker:db:query/if=tid==1/'
refused 1 "an event of a marker or a probe" --last 1s --on switch
refused 1 "an event of a marker or a probe" --last 1s --on 'func:answer/count/'
mkdir -m 0777 shared
refused 1 "another user" --last 1s -o shared
refused 1 "Not a directory" --rotate 1h -o paced
# an older trace, another recording's folder, and what is not ours stay as they are
run 0 -o older -- ./paced plain 10
cp -a older same
refused 1 "not empty" -o older
refused 1 "not empty" --rotate 1h -o older
diff -r older same || fail "the older trace has changed"
begin busy --rotate 1h
refused 1 "by another program" --rotate 1s -o busy
pass 5
end busy
whole "beside another" 5 busy/0001
run 0 --rotate 1h -o stuck -- ./paced plain 1
touch stuck/0001/note
run 0 --rotate 1h -o stuck -- ./paced plain 1
mkdir stuck/00001 && ln -s /nowhere stuck/0003
begin stuck --rotate 1h --keep 2
for _ in 1 2 3; do control stuck rotate; done
end stuck
expect "what can't be removed stays, and no more" "$(ls stuck | tr '\n' ' ')" "00001 0001 0003 0006 0007 "
grep -q "stuck/0001 can't be removed" stuck.words || fail "stuck: $(cat stuck.words)"
run 0 --last 1h --on 'marker:db:query/if=nothing==1/' -o misfit -- ./paced plain 10
grep -q "10 events of --on's markers have no such field" words || fail "no such field: $(cat words)"
"$waymark" report turned >out 2>words && fail "a folder of folders is no trace"
grep -q "turned/0009" words || fail "report of a folder of folders: $(cat words)"

# a disk that is full: named, and the recording continues
if [ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=400k none disk 2>/dev/null; then
	begin disk/full --last 1h --on signal:USR1
	pass 60000
	kill -USR1 "$recorder"
	await grep -q "no room" full.words || fail "full: $(cat full.words)"
	rm -rf disk/full/0001
	pass 10
	kill -0 "$recorder" || fail "full: the recorder is gone"
	end disk/full 1
	grep -q "1 snapshots could not be written whole" full.words || fail "full: $(cat full.words)"
	umount disk || fail "umount"
else
	echo "left out, a full disk: no file system can be mounted here"
fi
exit $failed
