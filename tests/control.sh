#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark control: what a running recording records is changed from another terminal, all or nothing.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

build_target record/changed.c -pthread
target=changed

# begin NAME OPTION...: record the running $target into NAME; the recorder is $recorder
begin()
{
	local dir=$1
	shift
	start_ready "./$target"
	program=$pid
	"$waymark" record -o "$dir" -p "$program" "$@" >"$dir.words" 2>&1 &
	recorder=$!
	started+=("$recorder")
	await [ -S "$dir/.control" ] || fail "$dir: no recorder listens: $(cat "$dir.words")"
}

# end NAME: the recording and the program
end()
{
	kill -TERM "$recorder"
	wait "$recorder" || fail "$1: the recorder's status: $? $(cat "$1.words")"
	kill -0 "$program" || fail "$1: the program is gone"
	kill -9 "$program"
	[ ! -e "$1/.control" ] || fail "$1: the socket was left behind"
	"$waymark" report "$1" >report || fail "$1: report"
	grep -q "lost none" "$1.words" || fail "$1: $(cat "$1.words")"
}

# control STATUS WORD...: its exit status; what it says is in ./out and ./words
control()
{
	local status=$1
	shift
	timeout 60 "$waymark" control "$@" >out 2>words
	local got=$?
	expect "control $*: $(cat words)" $got "$status"
}

# refused WORDS WORD...: it fails, and says so
refused()
{
	local said=$1
	shift
	control 1 "$@"
	grep -q -- "$said" words || fail "control $*: expected '$said' in: $(cat words)"
}

count() { "$waymark" dump --event "$2" "$1" 2>/dev/null | wc -l; }
has_more() { [ "$(count "$1" "$2")" -gt "$3" ]; }

# comes NAME EVENT: more of it come; stays NAME EVENT OTHER: none come while others do
comes() { await has_more "$1" "$2" "$(count "$1" "$2")" || fail "$1: no $2 comes"; }
stays()
{
	local before others
	# what was recorded by then has to be in the folder
	others=$(count "$1" "$3")
	await has_more "$1" "$3" $((others + 100)) || fail "$1: no $3 comes"
	before=$(count "$1" "$2") others=$(count "$1" "$3")
	await has_more "$1" "$3" $((others + 100)) || fail "$1: no $3 comes"
	expect "$1: $2 behind its end" "$(count "$1" "$2")" "$before"
}

# ---- markers and probes ----

begin code -e marker:changed:first -e marker:changed:child
control 0 code add 'marker:changed:s*'
comes code changed:second
control 0 code remove marker:changed:first
stays code changed:first changed:second
control 0 code add func:one
comes code changed:one
control 0 code add func:two
comes code changed:two
comes code changed:one
control 0 code remove func:one
stays code changed:one changed:two
# children are forked all the time: they have what their parent has now
children() { "$waymark" dump code 2>/dev/null | grep -vF "$program/" >of_children; grep -c "changed:$1" of_children; }
await eval '[ "$(children two)" -gt 3 ]' || fail "no child has the new probe"
control 0 code list
expect "list" "$(tr '\n' ' ' <out)" "marker:changed:child marker:changed:s* func:two "
control 0 --json "$recorder" list
expect "--json" "$(python3 -c 'import json; print([s["spec"] for s in json.load(open("out"))["spec"]][-1])')" func:two

# ---- bad input, by name ----

# where no breakpoint fires, watches are refused for that
! no_watches=$(lacks breakpoint-write) || echo "left out, watches: $no_watches"
refused "no such function: func:no_such\|there is no such function" code add func:no_such
refused "can't be read" code add bad:::spec
refused "given twice" code add func:two
refused "it is not recorded now" code remove func:one
refused "neither added nor removed" code add trail
refused "neither added nor removed" code add marker:changed:first/count=context-switches/
[ -n "$no_watches" ] || refused "no such variable" code add watch:no_such
refused "no recording runs here" . list
refused "no recording runs here" no_such_folder list
refused "no recording runs here" $$ list
# a folder may be anyone's: its link leads to no other socket
mkdir linked && ln -s "$PWD/code/.control" linked/.control
refused "no recording runs here" linked list
rm linked/.control && touch linked/.control
refused "no recording runs here" linked list
control 2 code
control 2 code change func:one
control 2 code add
control 2 code list func:one
control 2 code add "func:$(printf '%1200s' x)"
control 0 --help
grep -q '^Usage: waymark control' out || fail "--help: $(cat out)"
control 0 code list
expect "nothing has changed" "$(tr '\n' ' ' <out)" "marker:changed:child marker:changed:s* func:two "
if [ "$(id -u)" = 0 ]; then
	chmod 755 . code
	setpriv --reuid=65534 --regid=65534 --clear-groups timeout 20 "$waymark" control code list >out 2>words
	got=$?
	expect "another user" "$got $(grep -c "another user's" words)" "1 1"
	# a socket of one's own in another's folder answers no one but its owner
	python3 -c 'import socket, os
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind("linked/.control.new"); s.listen(1)
os.chown("linked/.control.new", 65534, 65534); os.chmod("linked/.control.new", 0o777)
os.rename("linked/.control.new", "linked/.control"); s.settimeout(60); s.accept()' &
	await [ -S linked/.control ] || fail "no socket of another user"
	refused "another user's" linked list
	wait $!
fi

# ---- clients that are odd: many that say nothing, half a message, too much, and one that is killed ----

python3 - code/.control <<'PY' || fail "odd clients"
import socket, sys
def client():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(30)
    s.connect(sys.argv[1])
    return s
for request in b"", b"add", b"add ", b"add\0func:one", b"frobnicate x", b"remove " + b"x" * 4000, b"\xff" * 64:
    s = client()
    s.send(request)
    answer = s.recv(4096) if request else b""
    assert not request or int.from_bytes(answer[:4], "little", signed=True) < 0, (request, answer)
    s.close()
flood = [client() for _ in range(6)]
s = client()
s.send(b"list")
answer = s.recv(4096)
assert answer[:4] == bytes(4) and b"func:two\t\n" in answer, answer
s.close()
PY
"$waymark" control code add marker:changed:first &
kill -9 $!
comes code changed:two
end code
python3 - "$("$waymark" report --json code)" <<'PY' || fail "report: $(cat report)"
import json, sys
changes = json.loads(sys.argv[1])["change"]
assert ("", "marker:changed:s*") in [(c["removed"] or "", c["added"] or "") for c in changes], changes
assert ("func:one", "") in [(c["removed"] or "", c["added"] or "") for c in changes], changes
assert all(0 < c["gap_ns"] < 10**11 for c in changes), changes
PY

# ---- a long list ----

many=()
for number in {1..600}; do many+=(-e "marker:none:$number*"); done
begin long -e marker:changed:first "${many[@]}"
control 0 long list
expect "a list of many" "$(wc -l <out)" 601
kill -9 "$recorder" "$program"

# ---- watches ----

if [ -z "$no_watches" ]; then
	begin watches -e marker:changed:child
	control 0 watches add watch:alpha
	comes watches watch:alpha
	control 0 watches add watch:beta
	comes watches watch:beta
	control 0 watches remove watch:alpha
	stays watches watch:alpha watch:beta
	# all registers are taken: what is there stays
	for address in 1 2 3; do control 0 watches add "watch:beta/if=value==$address/"; done
	refused "." watches add watch:alpha
	comes watches watch:beta
	end watches
	grep -q missed watches.words && fail "$(cat watches.words)"

	# local variables: of a function that was entered long before; and those that stay go on
	cat >entered.c <<-'C'
		#include <stdio.h>
		#include <unistd.h>
		volatile long last;
		__attribute__((noinline)) void inner(long i) { volatile long b = i; last = b; }
		int main(void)
		{
			volatile long a = 0;
			for (puts("ready"), fflush(stdout);; usleep(1000))
				inner(++a);
		}
	C
	cc -O1 -g -o entered entered.c || exit 1
	target=entered begin locals -e func:inner -e watch:inner::b -e watch:main::a
	control 0 locals remove watch:inner::b
	comes locals watch:main::a
	control 0 locals remove watch:main::a
	stays locals watch:main::a entered:inner
	control 0 locals add watch:main::a
	comes locals watch:main::a
	end locals
fi

# ---- the kernel's events ----

if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 1 ] || [ "$(id -u)" = 0 ]; then
	begin kernel -e marker:changed:child
	control 0 kernel add sample:cpu-clock/freq=1000/
	comes kernel sample:cpu-clock
	control 0 kernel add switch
	comes kernel switch:depart
	control 0 kernel remove sample:cpu-clock/freq=1000/
	stays kernel sample:cpu-clock switch:depart
	end kernel
fi

# what was missed before a change is reported at the end
if [ "$(id -u)" = 0 ]; then
	cp /bin/true setuid && chmod 4755 setuid && chmod 755 . && mkfifo gate && chmod 644 gate
	# shellcheck disable=SC2016 # the shell's own
	setpriv --reuid=65534 --regid=65534 --clear-groups bash -c 'read -r <gate; ./setuid; exec sleep 300' &
	program=$! && started+=("$program")
	"$waymark" record -o before -p "$program" -e switch >before.words 2>&1 &
	recorder=$! && started+=("$recorder")
	await [ -S before/.control ] || fail "before: no recorder listens: $(cat before.words)"
	control 0 before list # it is answered once all is armed
	echo >gate
	await eval '[ "$(cat /proc/$program/comm)" = sleep ]'
	control 0 before add fault
	end before
	grep -q "1 process executed a program with more privileges" before.words || fail "before: $(cat before.words)"
fi

# ---- without an agent: what can't be armed is refused, and children go on being recorded ----

departs() { "$waymark" dump --event switch:depart children 2>/dev/null | grep -c "sh-$child "; }
more_departs() { [ "$(departs)" -gt "$1" ]; }
if [ "$(id -u)" = 0 ]; then
	"$waymark" record -o children -e switch -- sh -c '
		(while sleep 0.01; do :; done) &
		until [ -e go ]; do sleep 0.01; done
		(while sleep 0.01; do :; done) &
		echo $! >late && wait' >children.words 2>&1 &
	recorder=$!
	await [ -S children/.control ] || fail "children: no recorder listens: $(cat children.words)"
	child_of "$recorder" sh
	first=$child
	child_of "$first" sh
	started+=("$child" "$first" "$recorder")
	await more_departs 0 || fail "no child is recorded"
	control 0 children add sample:cpu-clock
	await more_departs "$(departs)" || fail "the child is not recorded any more"
	control 0 children add sample:page-faults
	refused "another spec records the same event" children add sample:faults
	await more_departs "$(departs)" || fail "the child is not recorded any more"
	[ -n "$no_watches" ] || refused "without an agent" children add watch:alpha
	for spec in func:one 'marker:changed:*'; do refused "without an agent" children add "$spec"; done
	for spec in switch sample:cpu-clock sample:page-faults; do control 0 children remove "$spec"; done
	touch go
	await [ -s late ]
	control 0 children add switch
	await more_departs "$(departs)" || fail "without events for a while: the child is not recorded any more"
	kill -9 "$child"
	child=$(cat late)
	started+=("$child")
	await more_departs "$(departs)" || fail "a child that came while there were no events is not recorded"
	kill -TERM "$recorder"
	wait "$recorder"
	grep -q "lost none" children.words || fail "children: $(cat children.words)"
	kill -9 "$child" "$first" 2>/dev/null # the recording may have ended with them
	"$waymark" report --json children >report
	python3 - <<-'PY' || fail "a change that was undone is not in the trace"
		import json
		changes = [(c["removed"] or "", c["added"] or "") for c in json.load(open("report"))["change"]]
		at = changes.index(("", "sample:faults"))
		assert changes[at + 1] == ("sample:faults", ""), changes
	PY
fi

# a child that began before the recording is not recorded, and its own children are not either
if [ "$(id -u)" = 0 ]; then
	sh -c '(until [ -e fork ]; do sleep 0.01; done
		(while sleep 0.01; do :; done) &
		echo $! >grandchild && wait) &
		echo $! >child
		while sleep 0.01; do :; done' &
	program=$! && started+=("$program")
	await [ -s child ]
	"$waymark" record -o strangers -p "$program" -e switch >strangers.words 2>&1 &
	recorder=$! && started+=("$recorder" "$(cat child)")
	await [ -S strangers/.control ] || fail "strangers: no recorder listens: $(cat strangers.words)"
	control 0 strangers list # it is answered once all is armed
	touch fork
	await [ -s grandchild ]
	started+=("$(cat grandchild)")
	control 0 strangers add fault
	comes strangers switch:depart
	end strangers
	"$waymark" dump --event switch:depart strangers 2>/dev/null | grep "sh-$(cat grandchild) " &&
		fail "a child of a process that is not recorded is recorded"
fi

# ---- a recorder that is killed ----

begin killed -e marker:changed:first
comes killed changed:first
kill -9 "$recorder"
wait "$recorder"
refused "no recording runs here" killed list
refused "no recording runs here" "$recorder" list
kill -0 "$program" || fail "the program has ended with its recorder"
exit $failed
