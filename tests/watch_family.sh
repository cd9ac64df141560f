#!/bin/bash
# SPDX-License-Identifier: MIT
# A watched program's children: each is watched as its parent is, from its first instruction on, with values of its own.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"
cc -O1 -g "$source_dir/tests/targets/family.c" -o family -lpthread || exit 1

# family MODE COUNT HITS PROCESSES: all hits of that many processes are in the trace
family()
{
	watches "$1" 0 -e watch:word -- ./family "$1" "$2"
	grep -q right out || fail "$1: $(cat out)"
	! grep -q wrong out || fail "$1: $(cat out)"
	expect "$1: hits, taken, recorded" "$(json hits) $(json taken) $(json recorded)" "$3 $3 $3"
	expect "$1: processes" "$(told_processes "$1")" "$4"
	expect "$1: missed, late, unwatched" "$(json missed) $(found late-processes) $(json unwatched)" "0 0 0"
	chains "$1"
}

# told_processes DIR: how many of them wrote
told_processes() { of_events "$1" watch:word pid | sort -u | wc -l; }

# chains DIR: in each process, each old value is the new one before; an executed program begins again
chains()
{
	local broken
	broken=$("$waymark" dump "$1" |
		sed -n 's/.* \([0-9]*\) watch:word: .* old = \([^,]*\), new = \([^,]*\),.*/\1 \2 \3/p' |
		awk '{ if ($1 in last && last[$1] != $2 && $2 != 0) n++; last[$1] = $3 } END { print n + 0 }')
	expect "$1: broken links" "$broken" 0
}

family many 100 301 101
family crowd 100 201 101
family chain 4 35 5
family thread 3 10 4
family daemon 1 6 2
# what a child executes is another program; 1 and 1, then 1, 1 and 2 of its child: five processes' numbers are three
family execs 1 6 3
# 1, 3 times 1 and a vfork's that is not seen; each of three programs 4
family spawns 3 16 7

# More at once than a usual queue of connections has room for.
watches crowd_300 0 -e watch:word -- ./family crowd 300
expect "300 children" "$(json hits) $(json taken)" "601 601"

# Killed while they are being armed.
watches dies 0 -e watch:word -- ./family killed 300
grep -q right out || fail "killed: $(cat out)"
expect "killed: unwatched" "$(json unwatched)" 0

# Left alone, where that is asked.
watches alone 0 --no-follow -e watch:word -- ./family many 5
expect "--no-follow: hits" "$(json hits)" 6

# All four registers; and in a child where another tool holds one, the watch continues without it, with a report.
watches four 0 -e watch:word -e watch:other -e watch:third -e watch:fourth -- ./family four
expect "four words" "$(json recorded) $(json missed)" "9 0"

# An executed program without the variable is no failure; nor is an address of another program.
build_target family.c -no-pie -fno-pie -o runs
address=$("$waymark" list -e watch:word runs 2>/dev/null | grep -o '0x[0-9a-f]*' | head -1)
spec_number=1
for spec in word "${address:-0}/4"; do
	watches by_$spec_number 0 -e "watch:$spec" -- ./runs runs
	spec_number=$((spec_number + 1))
	expect "$spec: hits" "$(json hits)" 3
	expect "$spec: unwatched" "$(json unwatched)" 0
done
# The tool waits for a named program, whichever process executes it.
watches waits 0 -e watch:word@runs -- sh -c '/bin/true; ./runs runs; ./runs runs'
says "waits: no module that is called so is loaded yet"
expect "two programs of a shell's" "$(json hits)" 6
watches nowhere 1 -e watch:word@runs -- /bin/true
says "watch:word@runs: was armed nowhere: the process has no module of this name"
# A program that can't be watched continues, with a report.
watches ignores 1 -e watch:word@family -- sh -c "trap '' TRAP; exec ./family many 3"
grep -q right out || fail "ignores: $(cat out)"
says "4 processes went on with something unwatched that came later; the first: pid"
says "the program ignores SIGTRAP"
expect "ignores: unwatched" "$(json unwatched)" 4

# Running processes, two at a time, and their children to come; the tool is killed, and none is hurt.
start ./family forever 0 >family_out
one=$pid
start ./watched forever 0 2 >watched_out
two=$pid
await_running "$one"
await_running "$two"
bad 1 "no such variable" -e watch:word -p "$one" -p "$two"
watches both 0 --for 500ms -e watch:word@family -e watch:in_turn@watched -p "$one" -p "$two"
[ "$("$waymark" dump both | grep -c 'watch:word')" -gt 10 ] || fail "the first of two: $(cat words)"
[ "$("$waymark" dump both | grep -c 'watch:in_turn')" -gt 10 ] || fail "the second of two: $(cat words)"
expect "both: missed" "$(json missed)" 0
# has_family COUNT: so many of them live, without the first; their numbers are in $all
# Children that can't reach the tool, for their parent gave up its rights: Waymark reports that
# they were unwatched. (What markers record there comes to their parent's buffer.)
if [ "$(id -u)" = 0 ]; then
	watches unreached 0 -e watch:word -- ./family dropped 3
	expect "children that can't reach the tool: hits, unrecorded" \
		"$(json hits) $(found unrecorded-program family)" "1 3"
	says "3 processes ran unrecorded"
fi

has_family()
{
	all=$(ps -eo pid=,state=,comm=,sid= | awk -v sid="$(ps -o sid= -p $$ | tr -d ' ')" -v one="$one" \
		'$2 != "Z" && $3 == "family" && $4 == sid && $1 != one { print $1 }')
	[ "$(echo "$all" | wc -w)" -ge "$1" ]
}

for round in 1 2 3; do
	"$waymark" record -o killed$round -e watch:word -- ./family forever 10 >killed_out 2>&1 &
	tool=$!
	child_of $tool family # killed before, there is no program
	sleep 0.$((round * 2)) # different moments
	kill -9 $tool
	wait $tool 2>/dev/null
	await has_family 11
	expect "killed after 0.$((round * 2)) s: how many live on" "$(echo "$all" | wc -w)" 11
	# shellcheck disable=SC2086 # numbers
	kill -9 $all
done
exit $failed
