#!/bin/bash
# SPDX-License-Identifier: MIT
# A probe with an old marker's names has what the marker had: in dump, conditions, sums and reports.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

cc -O2 -DOLD -I"$source_dir/include" "$source_dir/tests/probes/moved.c" -o old &&
	cc -O2 -g "$source_dir/tests/probes/moved.c" -o moved &&
	cc -O2 "$source_dir/tests/probes/moved.c" -o bare || exit 1

# shown NAME ARGUMENT...: the events as dump prints them, without their times and threads
shown()
{
	"$waymark" dump "${@:2}" "$1" | sed 's/.* \(db:[a-z:]*\)/\1/'
	"$waymark" dump --json "${@:2}" "$1" | sed 's/"time[a-z_]*":[^,]*,//g; s/"[pt]id":[0-9]*,//g; s/"comm":"[a-z]*",//; s/"cpu":[0-9]*,//'
	! command -v babeltrace2 >/dev/null ||
		babeltrace "$1" | sed -n 's/.* db:\([a-z:]*\): { [^}]*}, /\1/p'
}

# same WHAT SPEC-OF-MARKERS SPEC-OF-PROBES [PROGRAM]: both traces have the same events
same()
{
	rm -rf before after
	run 0 --json -o before -e "$2" -- ./old
	run 0 --json -o after -e "$3" -- "./${4:-moved}"
	shown before --no-spans >wanted
	shown after --no-spans >got
	[ -s wanted ] || fail "$1: nothing is wanted"
	cmp -s wanted got || fail "$1: $(diff wanted got | head -n 6)"
}

query=func:run_statement/name=db:query,id=arg1,text=arg2:str
same "an event" db:query "$query/"
same "without debug information" db:query func:run_statement/name=db:query,id=arg1:i32,text=arg2:str/ bare
same "a span" db:fetch func:fetch/name=db:fetch,cursor=arg1,share,rows=ret/
grep -q 'db:fetch:end: { rows = -1 }' wanted || fail "a span's end: $(head wanted)"
same "conditions" 'db:query/if=id>20,if=text~"UP*"/' "$query,if=id>20,if=text~\"UP*\"/"
same "a condition on what the field is of" 'db:query/if=id<0/' "$query,if=arg1<0/"

# A call that is one event.
run 0 --json -o once -e 'func:fetch/name=db:fetch,cursor=arg1,rows=ret,if=rows<0/' -- ./moved
expect "calls that failed" "$(of_events once db:fetch cursor rows | xargs)" "0 -1 4 -1 8 -1 12 -1 16 -1 20 -1 24 -1 28 -1 32 -1 36 -1"

# Sums, at the end of record and in report.
for spec in "sum=id,by=text" "count,by=text,if=id>=0"; do
	rm -rf before after
	run 0 -o before -e "db:query/$spec/" -- ./old
	mv out wanted
	run 0 -o after -e "$query,$spec/" -- ./moved
	grep -q 'db:query' wanted || fail "$spec: nothing is wanted: $(cat wanted words)"
	cmp -s wanted out || fail "$spec: $(diff wanted out)"
	cmp -s <("$waymark" report --json before | grep -o '"sum":\[.*') <("$waymark" report --json after | grep -o '"sum":\[.*') ||
		fail "report: $spec: $("$waymark" report after)"
done
run 0 -o result -e 'func:fetch/name=db:fetch,rows=ret,max=rows/' -- ./moved
grep -q '^ *40  rows  *3900  db:fetch' out || fail "max=rows: $(cat out)"

# list shows the names; several functions of one name are named by their addresses.
"$waymark" list -e "$query/" ./moved >out || fail "list: status $?"
grep -q 'db:query' out && grep -q 'id .*text ' out || fail "list: $(cat out)"

# What can't be.
bad 1 'its event has the name of that of db:query: give it another' -e db:query -e "$query/" -- ./old
bad 1 'is a glob, and name= is for one event: write the whole name' -e 'func:run_*/name=db:query/' -- ./moved
bad 1 "is no event's name: SUBSYSTEM:EVENT, as db:query" -e func:fetch/name=fetch/ -- ./moved
run 1 -o none -e func:fetch/name=db:fetch,rows=ret/ -- ./bare
says 'the type of its result is unknown; name it: rows=ret:i32'
rm -rf none
run 1 -o none -e func:run_statement/id=numbre/ -- ./moved
says numbre
exit $failed
