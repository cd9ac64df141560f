#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches and a trail in one recording: the trail leads up to the very store, it is kept where that was asked for, and the
# program does what it did before.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
needs breakpoint-access breakpoint-execute
needs_engine

cc -O1 -g "$source_dir/tests/targets/written.c" -o written -lpthread || exit 1
clears='watch:state/if=value==0,trail/'

# hit DIR N FIELD: of the Nth event of state
hit()
{
	of_events "$1" watch:state "$3" | sed -n "$2p"
}

# leads DIR N WAY: the trail of the Nth event's thread ends in the store of the event, in clear(), and it came WAY there
leads()
{
	local dir=$1 number=$2 way=$3 tid at
	tid=$(hit "$dir" "$number" tid)
	"$waymark" trail --instructions --json --tid "$tid" -n 40 --to "event:watch:state#$number" "$dir" >way 2>way_words ||
		fail "$dir, hit $number: $(cat way_words)"
	at=$(grep '"type":"instruction"' way | tail -1)
	[[ $at == *"\"address\":\"$(hit "$dir" "$number" ip)\",\"function\":\"clear\""* ]] ||
		fail "$dir, hit $number: not the store at $(hit "$dir" "$number" ip): $at"
	grep '"type":"trail_event"' way | tail -1 | grep -q SIGTRAP || fail "$dir, hit $number: no signal behind the store"
	expect "$dir, hit $number: the way" "$(sed -n 's/.*"address":"[^"]*","function":"\(left\|right\)".*/\1/p' way | tail -1)" "$way"
}

# planted DIR N: the way of the thread of the Nth event, as the program said it
planted()
{
	sed -n "s/^$(hit "$1" "$2" tid) //p" out
}

# Each thread's own store, with the path to it; what led to the others is overwritten.
watches kept 7 -e trail/soft,last=1M/ -e "$clears" -- ./written 2000 4
expect "kept: hits, filtered, missed" "$(json hits) $(json filtered) $(json missed)" "8000 7996 0"
expect "kept: of them" "$(json kept) $(json unkept)" "4 0"
says "the trail up to 4 hits was kept"
[ "$(json overwritten)" -gt 10000 ] || fail "kept: $(json overwritten) blocks were overwritten"
for number in 1 2 3 4; do
	leads kept "$number" "$(planted kept "$number")"
done
"$waymark" dump kept >/dev/null 2>whole || fail "kept: $(cat whole)"
grep -q damage whole && fail "kept: $(cat whole)"

# Of one that does not come nothing is kept, nor what led to those that the condition leaves out.
watches none 7 -e trail/soft,last=1M/ -e 'watch:state/if=value==77777777,trail/' -- ./written 200 2
expect "none: kept" "$(json kept)" 0
says "the trail up to no hits was kept"
grep -q 'trail:' <("$waymark" dump none) && fail "none: there is a trail"

# No more than 64, and what was not kept is not shown as if it were.
watches many 7 -e trail/soft,last=64K/ -e watch:state/trail/ -- ./written 100 1
expect "many: kept" "$(json kept) $(json unkept)" "64 36"
says "the trail up to 64 hits was kept; up to 36 more it was not"
timeout 20 "$waymark" trail --to event:watch:state#64 many >/dev/null 2>&1 || fail "many: the last that was kept"
timeout 20 "$waymark" trail --to event:watch:state#65 many >/dev/null 2>words && fail "many: the way to one that was not kept"
says "a trail that leads up to this hit: event:watch:state#65"

# Of chosen modules, the program's own stores; and with all of a trail in the folder.
watches only 7 -e trail/soft,last=1M,only=main/ -e "$clears" -- ./written 100 2
expect "only: kept" "$(json kept)" 2
leads only 1 "$(planted only 1)"
leads only 2 "$(planted only 2)"
watches all 7 -e trail/soft/ -e 'watch:state/if=value==0/' -- ./written 100 2
leads all 1 "$(planted all 1)"
leads all 2 "$(planted all 2)"

# What a program sees of its signals is as without a trail.
for mode in masks handlers traps read fork spawn; do
	watches $mode 0 -e trail/soft,last=1M/ -e watch:in_turn -- ./watched $mode 20
	grep -q right out || fail "$mode: $(cat out)"
	expect "$mode: missed" "$(json missed)" 0
done
watches raw 0 -e trail/soft,last=1M/ -e watch:in_turn -- ./watched raw_masks 20
grep -q right out || fail "raw: $(cat out)"
expect "raw: all are accounted for" $(($(json taken) + $(json missed))) 20
watches replaces 0 -e trail/soft,last=1M/ -e watch:in_turn -- ./watched replaces
grep -q right out || fail "replaces: $(cat out)"
watches raise 133 -e trail/soft,last=1M/ -e watch:in_turn -- ./watched raise
watches exec 0 -e trail/soft,last=1M/ -e watch:in_turn/trail/ -- ./watched exec
grep -q right out || fail "exec: $(cat out)"
expect "exec: kept, as what is executed has no trail" "$(json hits) $(json kept)" "11 1"

# What the engine writes in the kernel's place is no event: here signals' frames.
build_target stacks.c
watches own 0 -e trail/soft,last=1M/ -e "watch:area[$((65536 + 16384 - 1024))]" -- \
	./stacks alternate 16384
expect "frames: events, missed" "$(json recorded) $(json missed)" "0 0"
expect "frames: own" "$(json own)" "$(json hits)"

# The recorder is killed: the program continues, and what was kept is there.
"$waymark" record -o killed -e trail/soft,last=1M/ -e 'watch:state/if=value==1000,trail/' -- ./written 500000 2 >killed_out 2>&1 &
tool=$!
# Once all of it is written: that is when no more comes.
signals() { timeout 5 "$waymark" dump killed 2>/dev/null | grep -c ' trail:signal: '; }
has_all_signals()
{
	local before
	before=$(signals)
	[ "$before" -ge 2 ] || return
	sleep 0.3 # the time in which nothing may come
	[ "$(signals)" = "$before" ]
}
await -s 40 has_all_signals || fail "killed: nothing was kept: $(cat killed_out)"
kill -9 "$tool"
wait "$tool" 2>/dev/null
await -s 40 grep -q "done\|wrong" killed_out
timeout 20 "$waymark" trail -n 5000 killed >way 2>words || fail "killed: $(cat words)"
grep -q 'signal SIGTRAP.* at change' way || fail "killed: the way to what was kept: $(cat way)"
grep -q "done" killed_out || fail "killed: the program did not end well: $(cat killed_out)"

# What can't be.
bad 1 "$clears: trail needs a flight recorder: -e trail/last=64M/" -e "$clears" -- ./written
bad 1 "without last= all of a trail is kept" -e trail/soft/ -e "$clears" -- ./written
bad 1 "soft: the code of a watch for calls (:x) runs as a translation" -e trail/soft/ -e watch:change:x -- ./written
bad 1 "a watch from outside would report the translation's addresses" -e trail/soft,last=1M/ -e watch:state/outside,trail/ -- ./written
bad 1 "soft: a local variable's function runs as a translation, elsewhere" \
	-e trail/soft/ -e watch:mode_read::value -- ./watched
exit $failed
