#!/bin/bash
# SPDX-License-Identifier: MIT
# A program under the engine is killed at any moment: its trail is exact up to there. And where there is no room for the trail, that is
# said, and the program does what it does.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
targets=$WAYMARK_BUILD/tests/targets

for spec in trail/soft/ trail/soft,last=64K/; do
	timeout 200 python3 "$source_dir/tests/engine_killed.py" "$waymark" "$targets/engine/engine-ruler" "${ENGINE_KILLED:-10}" $spec >said 2>&1 ||
		fail "killed, $spec: $(head -10 said)"
done

# The recorder is killed while it enters programs, one after the other: they continue without it.
cat >chain.sh <<'SH'
echo $1 | cat | tr 0-9 a-j
[ $1 -ge 25 ] || exec sh chain.sh $(($1 + 1))
echo right
SH
sh chain.sh 0 >wanted
for round in $(seq $((${ENGINE_KILLED:-10} * 3))); do
	rm -rf killed out # what is waited for below is not the last round's
	"$waymark" record -e trail/soft/ -o killed -- sh chain.sh 0 2>words >out &
	recorder=$!
	await [ -s out ] || fail "killed while programs are entered, $round: nothing runs: $(cat words)"
	sleep "0.$(printf %03d $((RANDOM % 400)))" # any moment, up to the last program
	read -ra tracers <"/proc/$recorder/task/$recorder/children"
	kill -9 $recorder "${tracers[0]}" 2>/dev/null
	wait $recorder 2>/dev/null
	await grep -q right out
	cmp wanted out || fail "killed while programs are entered, $round: $(wc -l <out) lines: $(cat words)"
done

# A thousand threads at once, all recorded.
for spec in trail/soft/ trail/soft,last=4M/; do
	rm -rf crowd
	timeout 100 "$waymark" record -e $spec -o crowd -- "$targets/engine-crowds" crowd 1000 >out 2>words
	expect "a crowd, $spec" $? 0
	[ "$(cat out)" = 20000 ] || fail "a crowd, $spec: $(cat out)"
	grep -q "of 1001 threads" words || fail "a crowd, $spec: $(cat words)"
	timeout 100 "$waymark" trail -n 1 crowd >shown 2>words || fail "a crowd's trail: $(cat words)"
done

# No room for the trail: the program does what it does, and each block that is not in the trace is
# counted, by record and by report. of_json FILE KEY...: what is there, 0 where that is nothing
of_json()
{
	python3 -c 'import json, sys
at = json.load(open(sys.argv[1]))
for key in sys.argv[2:]:
    at = at[0] if isinstance(at, list) else at
    at = at.get(key) or {} if isinstance(at, dict) else at
print(at or 0)' "$@"
}

# threads_in REPORT: of how many threads it has a trail
threads_in()
{
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("trail", [{"threads": 0}])[0]["threads"])' "$1"
}

# full SIZE SPEC
full()
{
	mount -t tmpfs -o size="$1" tmpfs room 2>words || return 0
	timeout 100 "$waymark" record --json -e "$2" -o room/full -- sh -c 'exec gzip -nc data >by_engine' >out 2>words
	expect "a full disk of $1, $2" $? 1
	grep -q "no room for the rest of the trace" words || fail "a full disk of $1, $2: $(cat words)"
	grep -q "of these blocks [0-9,]* are not in the trace" words || fail "a full disk of $1, $2: all are in it: $(cat words)"
	"$waymark" report --json room/full >reported 2>words || fail "a full disk of $1, $2: report: $(cat words)"
	unwritten=$(of_json out recorded_trail unwritten)
	expect "a full disk of $1, $2: blocks" "$(of_json reported trail blocks)" \
		$(($(of_json out recorded_trail blocks) - $(of_json out recorded_trail overwritten) - unwritten))
	expect "a full disk of $1, $2: of them missing" "$(of_json reported unwritten_blocks)" "$unwritten"
	expect "a full disk of $1, $2: of threads" "$(of_json reported unwritten_threads)" "$(of_json out recorded_trail unwritten_threads)"
	expect "a full disk of $1, $2: threads" "$(threads_in reported)" \
		$(($(of_json out recorded_trail threads) - $(of_json out recorded_trail unwritten_threads)))
	cmp compressed by_engine || fail "a full disk of $1, $2: another output"
	[ "$unwritten" -gt 0 ] || fail "a full disk of $1, $2: nothing is missing"
	"$waymark" report room/full >said 2>words
	grep -q "Losses  *not all could be written: No space left" said || fail "a full disk of $1, $2: $(grep -A2 Losses said)"
	umount room
}

mkdir room
head -c 300000 "$waymark" >data
gzip -nc data >compressed
full 20k trail/soft/
for size in 28k 100k 300k; do
	full $size trail/soft/
	full $size trail/soft,last=64M/
done
exit $failed
