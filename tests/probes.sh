#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes end to end, in unprepared programs: each hit is recorded, with its values, and the
# program computes what it would have computed.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# A function's entry, its arguments by debug information; each call is there.
launched entry func:add@probed ./probed 500
expect "add" "$(count entry probed:add)" 1000
expect "add: a, one each round, and once more by tail()" \
	"$(values entry probed:add a | sort -n | uniq -c | awk '$1 != 2' | wc -l)" 0
expect "add: b" "$(values entry probed:add b | awk '$1 < 0' | wc -l)" 500

# By register where no debug information names the arguments, typed on request, and what it returns.
launched types 'func:sum6/arg1:i8,arg2:i16,arg3:i32,arg4:i64,arg5:u8,arg6:u64,ret/' ./probed 300
expect "sum6: begin" "$(count types probed:sum6:begin)" 300
expect "sum6: end" "$(count types probed:sum6:end)" 300
expect "arg1" "$(values types probed:sum6:begin arg1 | tail -1)" 0
expect "arg2" "$(values types probed:sum6:begin arg2 | sort -u)" -2
expect "arg3" "$(whole types probed:sum6:begin arg3)" 300
expect "arg4" "$(values types probed:sum6:begin arg4 | tail -1)" -300
expect "arg5" "$(values types probed:sum6:begin arg5 | tail -1)" $((300 % 256))
expect "arg6" "$(values types probed:sum6:begin arg6 | sort -u)" 7
expect "ret" "$(values types probed:sum6:end ret | tail -1)" $((0 - 2 + 300 % 256 + 7))
launched floats 'func:scale/ret/' ./probed 9
expect "floating point" "$(values floats probed:scale:begin by | sort -u)" 0.5
expect "floating point returned" "$(values floats probed:scale:end ret | tail -1)" 4.5

# Recursion, longjmp, tail calls: spans as the calls were.
launched nested 'func:factorial/ret/' ./probed 120
expect "recursion" "$(count nested probed:factorial:begin)" 780
expect "recursion: returns" "$(count nested probed:factorial:end)" 780
"$waymark" report nested | grep -q unfinished && fail "recursion: a span has no end"
launched jumps 'func:jumps/ret/' ./probed 1000
expect "longjmp: entries" "$(count jumps probed:jumps:begin)" 1000
expect "longjmp: returns" "$(count jumps probed:jumps:end)" 500
launched tails 'func:tail/ret/' ./probed 100
expect "tail call: returns" "$(count tails probed:tail:end)" 100
expect "tail call: value" "$(values tails probed:tail:end ret | tail -1)" 101

# Strings: whole, NULL, behind a pointer that leads nowhere.
launched strings 'func:greet/arg1:str,arg2:str,arg3:str/' ./probed 20
expect "a string" "$(values strings probed:greet arg1 | tail -1)" 'customer 20'
expect "a NULL string and an unreadable one" \
	"$("$waymark" dump --event probed:greet strings | grep -o 'arg2 = .*' | sort -u)" \
	"arg2 = NULL, arg3 = (unreadable) }"

# A jump of one byte; one that is written within the first instruction; one behind a push. Returns too.
for name in lean hop past; do
	launched $name "func:$name/rdi:i32,ret:i32/" ./probed 400 3
	expect "$name: entries" "$(count $name probed:$name:begin)" 1200
	expect "$name: returns" "$(count $name probed:$name:end)" 1200
done
expect "past: argument" "$(values past probed:past:begin rdi | sort -n | tail -1)" 400
expect "hop: result" "$(values hop probed:hop:end ret | sort -n | head -1)" -63
expect "past: result" "$(values past probed:past:end ret | sort -n | tail -1)" 407

# Threads: each hit of each.
launched threads 'func:sum6' ./probed 2000 8
expect "threads" "$(count threads probed:sum6)" 16000
expect "threads: that many" "$(of_events threads probed:sum6 tid | sort -u | wc -l)" 8

# Addresses: an offset into the file, a line of the source.
offset=$(nm probed | awk '$3 == "add" { print "0x" $1 }')
offset=$(printf '0x%x' "$offset")
launched offset "addr:probed+$offset/arg1:i32/" ./probed 50
expect "addr: an offset" "$("$waymark" dump offset | wc -l)" 100
line=$(awk '/line of add/ { print NR }' "$probes_dir/probed.c")
launched line "addr:probed.c:$line" ./probed 50
expect "addr: a line" "$("$waymark" dump line | wc -l)" 100

# Several events at one place: an entry, a return, other fields, an address.
run 0 --json -o several -e func:add@probed -e 'func:add@probed/ret/' -e "addr:probed+$offset" \
	-e 'func:add@probed/arg2:u64/' -- ./probed 200
expect "several: discarded" "$(json discarded)" 0
expect "several: entries, with both kinds of fields" "$(count several probed:add)" 800
expect "several: begins" "$(count several probed:add:begin)" 400
expect "several: ends" "$(count several probed:add:end)" 400
expect "several: in all" "$("$waymark" dump --no-spans several | wc -l)" 2000

# Of one type, but not the same.
run 0 --json -o fields -e 'func:add@probed/edi/' -e 'func:add@probed/esi/' -e 'func:add@probed/esi,edi/' -- ./probed 20
expect "several: another field of one type" "$(values fields probed:add esi | wc -l)" 80
expect "several: both" "$(values fields probed:add edi | wc -l)" 80

# USDT: with the argument forms that the compiler chose, and a semaphore.
if [ -n "$has_sdt" ]; then
	launched usdt 'usdt:shop:order/arg1,arg2:str,arg3/' ./probed 400
	expect "usdt" "$(whole usdt shop:order arg1)" 400
	expect "usdt: a string" "$(values usdt shop:order arg2 | tail -1)" 'customer 400'
	expect "usdt: arg3" "$(values usdt shop:order arg3 | tail -1)" 2800
	launched both 'usdt:shop:*' ./probed 400
	expect "usdt: two by a glob" "$("$waymark" dump both | wc -l)" 800
	start ./probed 0 1 100
	await_running "$pid"
	run 0 --json --for 300ms -e usdt:shop:order -o semaphore -p "$pid"
	same_bytes "$pid" /probed "usdt"
	expect "the semaphore is lowered" \
		"$(gdb -p "$pid" -batch -ex 'p shop_order_semaphore' 2>/dev/null | sed -n 's/^\$1 = //p')" 0
fi

# A running program: attached to, let go, each byte put back, and it has computed rightly.
start ./probed 0 4 100 >sums
await_running "$pid"
for round in 1 2 3; do
	run 0 --json --for 300ms -e 'func:*@probed' -o "running$round" -p "$pid"
	expect "attached: discarded" "$(json discarded)" 0
	expect "attached: events" "$(events_in "running$round")" "$(json recorded)"
	[ "$(count "running$round" probed:add)" -gt 100 ] || fail "attached: few events of add"
	same_bytes "$pid" /probed "attached $round"
done
one=$(of_events running1 probed:sum6 tid | sort | uniq -c | sort -n | awk 'END { print $2 }')
of_events running1 probed:sum6 tid c | sed -n "s/^$one //p" >rounds
awk 'NR > 1 && $1 != last + 1 { exit 1 } { last = $1 }' rounds || fail "attached: a hole in a thread's calls"
"$waymark" record -o two -e func:sum6 -p "$pid" >/dev/null 2>words-two &
other=$!
await_event two probed:sum6
records three -e func:sum6 -p "$pid"
records_on two probed:sum6 || fail "two sessions: the first ended with the second"
kill -TERM $other
wait $other || fail "two sessions: $(cat words-two)"
# Another session's fields there, whichever comes first, and whichever goes first.
for first in sum6 'sum6/arg5:u8/'; do
	[ "$first" = sum6 ] && second='sum6/arg5:u8/' || second=sum6
	rm -rf two three
	"$waymark" record -o two -e "func:$first" -p "$pid" >/dev/null 2>words-two &
	other=$!
	await is_recording two || fail "two sessions, $first: the first: $(cat words-two)"
	run 0 --json --for 300ms -o three -e "func:$second" -p "$pid"
	expect "two sessions, $first: refused" "$(json refused)" 0
	records_on two probed:sum6 || fail "two sessions, $first: the first ended with the second"
	kill -TERM $other
	wait $other || fail "two sessions, $first: $(cat words-two)"
	[ "$(count three probed:sum6)" -gt 20 ] || fail "two sessions, $first: the second has too little"
	same_bytes "$pid" /probed "two sessions, $first"
done
"$waymark" record -o killed -e 'func:*@probed' -p "$pid" 2>words &
recorder=$!
await_event killed probed:add
[ -d killed ] || fail "nothing is recorded: $(cat words)"
kill -9 $recorder
wait $recorder 2>/dev/null
await_same_bytes "$pid" /probed "the tool was killed"
[ "$(count killed probed:add)" -gt 0 ] || fail "nothing is left of the killed recording"
# Kill the tool at any moment, with probes of all kinds: the agent restores the text of every module.
for round in $(seq 12); do
	rm -rf killed
	"$waymark" record -o killed -e 'func:*@probed/ret/' -e 'func:m*@libc.so.6' -e 'func:pthread*@libc.so.6/ret/' \
		${has_sdt:+-e 'usdt:shop:*'} -p "$pid" >/dev/null 2>&1 &
	recorder=$!
	disown $recorder
	sleep "0.$(printf %03d $((RANDOM % 500)))" # any moment
	kill -9 $recorder
done
await_same_bytes "$pid" '/\(probed\|libc.so.6\)$' "twelve kills"
# Kill the tool while it attaches, in a program without an agent. Within 3 s all text is as it was,
# the loader's too: the agent waits 10 s for a tool, and diverts the loader once one has come.
build_target record/alone.c
for ms in 5 8 11 14 17 20 24 28 32 40; do
	./alone &
	alone=$!
	executed $alone
	"$waymark" record -o killed -e func:called@alone -p $alone >/dev/null 2>&1 &
	recorder=$!
	disown $recorder $alone
	sleep "0.$(printf %03d $ms)"
	kill -9 $recorder
	files='\(/alone\|\.so[.0-9]*\)$'
	await -s 4 has_same_bytes $alone "$files" ||
		same_bytes $alone "$files" "killed ${ms} ms after its start"
	kill $alone
	rm -rf killed
done
# A function of libc's that others have put themselves in the way of is not for a thread's first hit.
build_target record/between.c -shared -fPIC -o between.so
run 0 -e 'func:*@libc.so.6' -o between -- env LD_PRELOAD="./between.so:$WAYMARK_AGENT" ./probed 100 4

# A program whose first thread has ended while others run.
headless=$pid
start ./alone headless
await has_state "$pid" Z || fail "its first thread does not end"
run 0 --json --for 500ms -e func:called@alone/ret,arg1/ -o headless.trace -p "$pid"
[ "$(count headless.trace alone:called:end)" -gt 10 ] ||
	fail "few events where the first thread has ended"
kill -0 "$pid" || fail "a program without its first thread did not outlive us"
kill -9 "$pid"
pid=$headless

# A tracer that came meanwhile keeps the jumps from being taken away: that is done when it has gone.
if command -v strace >/dev/null; then
	begin_record -o traced -e 'func:*@probed' -p "$pid"
	await_recording traced
	strace -f -qq -e trace=none -o /dev/null -p "$pid" 2>/dev/null &
	tracer=$!
	await is_traced "$pid" || fail "strace does not trace it"
	end_record 0 TERM
	sleep 1 # the agent tries in vain: nothing shows that
	kill $tracer
	wait $tracer 2>/dev/null
	await_same_bytes "$pid" /probed "a tracer came and went"
fi
kill "$pid"
await [ -s sums ]
grep -q ' wrong 0$' sums || fail "the attached program: $(cat sums)"

# A whole library of a running program; libc's own functions, the recording's among them.
start ./probed 0 2 100 >sums
await_running "$pid"
run 0 --json --for 500ms -e 'func:*@libc.so.6' -o libc -p "$pid"
[ "$(count libc 'libc*:strlen*')" -gt 0 ] || [ "$(json recorded)" -gt 0 ] || fail "libc: nothing was recorded"
same_bytes "$pid" /libc.so.6 "libc"
run 0 --json --for 300ms -e 'func:malloc/ret,arg1/' -e 'func:free/arg1:ptr/' -o malloc -p "$pid"
kill "$pid"

# Returns that are not recorded, since too many calls are under way, are no matter of the buffer.
build_target record/deep.c -g0
run 0 --json -o deep_trace -e 'func:descend@deep/ret/' -- ./deep
[ "$(json discarded)" -gt 0 ] || fail "50,000 calls under way: every return was recorded"
grep -q -- "--buffer" words && fail "a larger buffer is advised: $(cat words)"

exit "$failed"
