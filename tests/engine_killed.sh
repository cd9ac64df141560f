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

# No room for the trail.
mkdir room
if mount -t tmpfs -o size=300k tmpfs room 2>words; then
	head -c 1000000 "$waymark" >data
	gzip -nc data >compressed
	for spec in trail/soft/ trail/soft,last=64M/; do
		timeout 100 "$waymark" record -e $spec -o room/full -- gzip -nc data >by_engine 2>words
		expect "a full disk, $spec" $? 1
		grep -q "could not be written" words || fail "a full disk, $spec: $(cat words)"
		grep -q "lacks some of these blocks: waymark report room/full" words ||
			fail "a full disk, $spec: all blocks are in the trace: $(cat words)"
		cmp compressed by_engine || fail "a full disk, $spec: another output"
		rm -rf room/full
	done
	umount room
fi
exit $failed
