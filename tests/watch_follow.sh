#!/bin/bash
# SPDX-License-Identifier: MIT
# Expressions that are followed: the value's registers go where the pointers lead. No value of another place is shown,
# and what may be missed is counted.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
cc -O1 -g "$source_dir/tests/targets/followed.c" -o followed -lpthread -ldl || exit 1
echo "long room[4];" | cc -shared -fPIC -x c - -o room.so || exit 1

# values DIR NAME VALUES: the new values of its events
values()
{
	expect "$1: values of $2" "$(field_values "$1" "$2" new | tr '\n' ' ')" "$3"
}

# follows FIELD: of what the last recording says of the pointers
follows()
{
	json "$1"
}

# exact NAME: in a program of one thread nothing may be missed, and each old value is exact
exact()
{
	grep -q right out || fail "$1: the program: $(cat out)"
	expect "$1: may be missed" "$(follows exposed) $(follows unseen) $(follows astray) $(json missed)" "0 0 0 0"
	expect "$1: inexact" "$(json inexact)" 0
	reports "$1"
}

# A list whose second node changes. The nodes before it and after it are written too.
watches walk 0 -e 'watch:head->next->value/follow/' -- ./followed walk 6
exact walk
values walk 'head->next->value' "100 101 102 103 104 105 "
expect "what was at the new place" "$(field_values walk 'head->next->value' old | tr '\n' ' ')" "0 9000 9001 9002 9003 9004 "
expect "before and after" "$(field_values walk 'head->next->value' how | sort -u)" 1
expect "moves of the list" "$(follows moves)" 7

# A store that writes the value and a pointer to it: nothing is missed.
watches ring 0 -e 'watch:ring.next->next/follow/' -- ./followed ring 4
exact ring
expect "writes of a ring" "$(json hits) $(follows moves)" "12 9"
expect "old and new values that are the ring" "$("$waymark" dump ring |
	sed -n 's/.* old = \(.*\), new = \(.*\), how.*/\1 \2/p' |
	awk 'NR == 1 { ring = $1 } { old += $1 == ring; new += $2 == ring } END { print old, new }')" "8 4"
watches once 0 -e 'watch:head->next->value/follow/' -- ./followed once 3
exact once
values once 'head->next->value' "100 200 101 201 102 202 "

# The program's main thread has ended, so it has no memory.
watches leader 0 -e 'watch:head->next->value/follow/' -- ./followed leader 6
values leader 'head->next->value' "100 101 102 103 104 105 "
expect "missed once the main thread has ended" "$(follows unseen) $(follows astray) $(json missed) $(json inexact)" "0 0 0 0"

# Null, set, null again: it waits.
watches waits 0 -e 'watch:empty->value/follow/' -- ./followed wait 4
exact waits
values waits 'empty->value' "10 11 12 13 "
expect "moves from null and back" "$(follows moves)" 8
expect "the pointer that it waits for" "$(follows waits)" 1
"$waymark" watch -f 'empty->value/follow/' ./followed wait 2 >out 2>words || fail "watch: $? $(cat words)"
says "waiting for empty"
says "follows 1 pointer: moved 4 times"

# Pointers to what is not mapped, is not the program's, is null but for some bytes, is not aligned.
watches stray 0 -e 'watch:head->value/follow/' -- ./followed stray 10
exact stray
values stray 'head->value' "10 11 12 13 14 15 16 17 18 19 "
expect "places that can't be watched" "$(follows unplaced)" 6

# A larger value, and conditions.
watches pair 0 -e 'watch:head->value/follow,if=value>12,count/' -- ./followed stray 10
expect "counted, with a condition" "$(json hits) $(json filtered) $(json counted)" "10 3 7"

# The kernel's change makes no hit: the first write of the old place says so, and is not shown.
watches kernel 0 -e 'watch:head->value/follow/' -- ./followed kernel
values kernel 'head->value' "1 2 "
[ "$(follows exposed)" -gt 0 ] || fail "the kernel's change of the pointer is not counted"

# A signal that was blocked: what is written meanwhile is missed, and each such move counts.
watches blocked 0 -e 'watch:head->value/follow/' -- ./followed blocked 3
values blocked 'head->value' "100 101 102 "
expect "moves after a blocked signal" "$(follows exposed)" 3

# A library that the pointer led to is unloaded.
watches unload 0 -e 'watch:head->value/follow/' -- ./followed unload 3
exact unload
values unload 'head->value' "100 200 101 201 102 202 "

# A forked child has its own.
watches family 0 -e 'watch:head->value/follow/' -- ./followed family
values family 'head->value' "1 21 2 "
expect "processes" "$(json processes)" 2

# Threads that write under a lock: all of it is there, in order. That there is a lock is not known, so each move counts.
watches locked 0 -e 'watch:head->value/follow/' -- ./followed locked 40
expect "all writes under a lock" "$(json hits) $(json missed) $(follows astray)" \
	"$(sed -n 's/written //p' out) 0 0"
[ "$(follows exposed)" -ge 39 ] || fail "moves beside other threads: $(follows exposed)"

# Without one: once a pointer's change is recorded, each thread has at most one event of a write before it.
watches race 0 -e watch:head -e 'watch:head->value/follow/' -- ./followed race 40
[ "$(follows astray)" -gt 0 ] || fail "no hit of a race is astray"
[ "$(follows exposed)" -ge 39 ] || fail "moves of a race: $(follows exposed)"
"$waymark" dump race | python3 "$source_dir/tests/watch_follow/race.py" || fail "a race shows values of another place"

# The program ends while registers move.
watches leaves 0 -e 'watch:head->value/follow/' -- ./followed leave 100

# The tool is killed while a thread waits for it: the program continues, and what follows has all registers.
start_ready ./followed long
for _ in 1 2 3; do
	"$waymark" record -p "$pid" -o killed -e 'watch:head->value/follow/' >/dev/null 2>&1 &
	tool=$!
	await_armed "$pid"
	kill -9 "$tool"
	wait "$tool" 2>/dev/null
	rm -rf killed
done
run 0 --json -o after -p "$pid" --for 300ms -e 'watch:head->value/follow/' -e 'watch:empty->value/follow/'
tr -d '\n' <out | grep -q '"hits": *[1-9]' || fail "after a kill nothing is seen: $(cat out)"
exec 7>&-
await has_ended "$pid" || fail "after a kill the program does not end"
grep -q right said || fail "after a kill the program: $(cat said)"

# The program is killed while registers move: that it has no memory any more is not a pointer that leads nowhere.
for _ in 1 2 3 4 5; do
	start_ready ./followed long
	"$waymark" record --json -p "$pid" -o killed -e 'watch:head->value/follow/' >out 2>&1 &
	tool=$!
	await_armed "$pid"
	kill -9 "$pid"
	wait "$tool"
	expect "the pointer that a killed program waits for" "$(follows waits)" 0
	exec 7>&-
	rm -rf killed
done

# What can't be followed, by its own words.
bad 1 "head, head->next, head->next->next, head->next->next->next take a register each" \
	-e 'watch:head->next->next->next->value/follow/' -- ./followed walk
bad 1 "no pointer is on the way" -e 'watch:head/follow/' -- ./followed walk
bad 1 "from outside a pointer's change is seen too late" -e 'watch:head->value/follow,outside/' -- ./followed walk
exit $failed
