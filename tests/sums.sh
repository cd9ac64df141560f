#!/bin/bash
# SPDX-License-Identifier: MIT
# Sums are what the events of the full trace add up to: to the hit, whatever becomes of the process.
# shellcheck source=tests/filtered_setup.bash
. "$(dirname "$0")/filtered_setup.bash"

# same WHAT KEYS FIELD [CONDITION]: ./some.events has rows that are what ./full.events adds up to
same()
{
	python3 "$source_dir/tests/sums.py" "$2" "$3" "${4:-True}" <full.events >wanted
	python3 "$source_dir/tests/sums.py" "$2" "$3" '"count" in f' <some.events >got
	[ -s wanted ] || fail "$1: nothing is wanted"
	cmp -s wanted got || fail "$1: $(diff wanted got | head -n 5)"
	[ "$(grep -c '"count"' some.events)" -lt $(($(wc -l <full.events) / 4)) ] ||
		fail "$1: as many rows as events"
}

# reported [OPTION]... DIR: its sums, as JSON in ./sums.json; the words in ./text
reported() { "$waymark" report --sums --json "$@" >sums.json 2>text || fail "report $*: $(cat text)"; }

# of_sums EXPRESSION: of tests/sum_rows.py
of_sums() { python3 "$source_dir/tests/sum_rows.py" "$1"; }

# ---- functions: eight threads, a child of fork, a kill ----

for way in plain fork kill; do
	recorded full "$way" 'func:place@filtered/thread,size,name:str,colour/'
	recorded some "$way" 'func:place@filtered/sum=size,min=size,max=size,by=thread+colour/'
	same "place, $way" '(f.thread, f.colour)' size
	recorded some "$way" 'func:place@filtered/name:str,sum=size,min=size,max=size,by=name+thread/'
	same "a text, $way" '(f.thread, f.name)' size
done
recorded full plain 'func:place@filtered/thread,size,name:str,colour/'
recorded some plain 'func:place@filtered/count/'
same "count" '"all"' ''
recorded some plain 'func:place@filtered/sum=size,min=size,max=size,by=thread,if=size>=1990/'
same "with a condition" 'f.thread' size 'f.size >= 1990'

recorded some plain 'func:place@filtered/count/' 'func:plac?@filtered/count/'
same "one function, by two specs" '"all"' ''

# ---- values have the names that they have in events ----

recorded some plain 'func:place@filtered/count,by=colour+thread,if=thread==3/'
reported some
expect "enumerators" "$(of_sums 'sorted(columns("by", "count"))')" "[('BLUE, 3', 667), ('GREEN, 3', 1333)]"
recorded some plain 'func:place@filtered/sum=size,by=arg4/'
reported some
expect "enumerators of an argument by its number" "$(of_sums 'sorted(columns("by"))')" "[('BLUE',), ('GREEN',)]"
recorded some plain 'log:painted/count,by=colour/'
reported some
expect "labels of a marker" "$(of_sums 'sorted(columns("by", "count"))')" "[('BLUE', 4), ('GREEN', 6)]"

# by=pid: parent and child; each is in one of them alone
recorded some fork 'func:place@filtered/count,by=pid/'
reported some
expect "by process" "$(of_sums 'columns("count"), len(set(columns("by")))')" "([(16000,), (16000,)], 2)"

# ---- of the result: one event a call ----

recorded full plain 'func:place@filtered/thread,size,if=ret<1000000/'
recorded some plain 'func:place@filtered/sum=ret,min=ret,max=ret,by=thread/'
same "the result" 'f.thread' ret
recorded some plain 'func:wait_for@filtered/hist=duration,max=duration,by=is_slow/'
reported some
expect "slow and fast calls" "$(of_sums 'sorted(columns("by", "count"))')" "[('0', 16), ('1', 4)]"
recorded some plain 'func:place@filtered/hist=ret,count/'
reported some
# of 2,000 rounds each eleventh but the first has -round, the others the thread's number
expect "values below 0 are one bucket" "$(of_sums 'columns("from", of=buckets)[0], buckets[0]["count"]')" \
	"((None,), $((8 * (1999 / 11))))"
expect "values from 0 on" "$(of_sums '[row["from"] for row in buckets[1:]], hits()')" \
	"([0, 1, 2, 3, 4, 5, 6, 7], 16000)"

# ---- markers, also of a library that comes late ----

for way in plain fork kill; do
	recorded full "$way" 'shop:order'
	recorded some "$way" 'shop:order/sum=rows,min=rows,max=rows,by=thread/'
	same "order, $way" 'f.thread' rows
done
recorded some plain 'log:long_one/count/' 'log:scope/count/'
reported some
expect "each end of a span" "$(of_sums 'sorted(columns("event", "count"))')" \
	"[('log:long_one:begin', 10), ('log:long_one:end', 10), ('log:scope:begin', 10), ('log:scope:end', 10)]"
recorded some plain 'log:count/by=count+number,sum=count,hist=number/'
reported some
expect "a field that is called count" "$(of_sums 'sorted(
	columns("by", "count", "sum", of=[row for row in rows if row["field"] == "count"]))[1:4]')" \
	"[('1, 1', 1, 1), ('10, 2', 1, 10), ('100, 3', 1, 100)]"
expect "all of them" "$(of_sums 'hits()')" $((2 * 10))
recorded full late 'shop:late'
recorded some late 'shop:l*/sum=round,min=round,max=round,by=thread/'
same "late library" 'f.thread' round

# ---- what is hard to add up ----

build_target summed.c

# summed WAY OPTIONS: what it does is in ./some, the report in ./sums.json; its calls in $calls
summed()
{
	rm -rf some
	run 0 --json --policy block --buffer 64M -o some -e "func:take@summed/$2/" -- ./summed "$1"
	calls=$(sed -n 's/^calls //p' out)
	[ "$1" = forks ] || expect "$1: discarded" "$(json discarded)" 0
	reported some
}

summed keys 'sum=number,by=number'
expect "keys: hits, sum, rows" \
	"$(of_sums 'hits(), sum(row["sum"] for row in rows), len(rows), rows[-1]["count"]')" \
	"($calls, $((calls * (calls - 1) / 2)), $(((1 << 20) + 1)), $((calls - (1 << 20))))"
"$waymark" report --sums -n 3 some >text
expect "keys: rows of text" "$(grep -c ' summed:take ' text)" 4
grep -q "^ *$((calls - 3)) .* (other)$" text || fail "keys: $(cat text)"
rm -rf some

summed texts 'text:str,count,by=text'
expect "texts: hits" "$(of_sums 'hits()')" "$calls"
expect "texts: counts" "$(of_sums 'sorted(row["count"] for row in rows)')" "[100, 100, 100, 200]"

summed deep 'count,by=callchain,bt=64'
expect "deep: counts" "$(of_sums '[row["count"] for row in rows]')" "[100]"
expect "deep: callers" "$(of_sums 'rows[0]["by"].count("deep ")')" 64

summed handlers 'count,by=number'
expect "handlers: hits" "$(of_sums 'hits()')" "$calls"

# A child continues the hit that its parent's handler forked in. That hit may count in both, or be
# lost in the child; no other may.
run 0 -o events -e 'func:take@summed/number/' -- ./summed forks
expect "forks, events: children that failed" "$(sed -n 's/^failed //p' out)" 0
summed forks 'count,by=number'
expect "forks: children that failed" "$(sed -n 's/^failed //p' out)" 0
[[ $(cat words) == *"ran unrecorded"* ]] ||
	expect "forks: hits" "$(of_sums "-100 <= hits() - $calls <= 100")" True

summed threads 'count'
expect "threads: hits" "$(of_sums '[row["count"] for row in rows]')" "[$calls]"

# by=caller is the caller of by=callchain
summed threads 'count,by=caller'
caller=$(of_sums '[row["by"] for row in rows]')
[[ $caller == "['some ("*"summed.c:"* ]] || fail "caller: $caller"
summed threads 'count,by=callchain,bt=1'
expect "callers" "$(of_sums '[row["by"] for row in rows]')" "$caller"

# ---- the recorder is killed: what was added up a second before is in the trace ----

# is_added_up: the thousand calls are in what the recorder has written
is_added_up()
{
	"$waymark" report --sums --json killed >sums.json 2>words && [ "$(of_sums 'hits()')" = 1000 ]
}
start_ready "$waymark" record -o killed -e 'func:take@summed/count,by=number/' -- ./summed wait
recorder=$pid
child_of "$recorder" summed
await is_added_up || fail "killed recorder: $(cat words sums.json)"
kill -9 "$recorder"
await has_ended "$recorder"
echo >&7
await has_ended "$child"
grep -q 'went on' said || fail "killed recorder: its program did not continue"
is_added_up || fail "killed recorder, afterwards: $(cat words sums.json)"

# ---- apart for each interval; of one event, process or thread ----

rm -rf killed
start_ready "$waymark" record -o killed -e 'func:take@summed/count,by=number/' -- ./summed wait
recorder=$pid
await is_added_up || fail "intervals: $(cat words sums.json)"
later=$(($(date +%s) + 3))
until [ "$(date +%s)" -ge $later ]; do sleep 0.1; done # intervals are of seconds
echo >&7
await has_ended "$recorder"
reported --every 1s killed
expect "intervals: all hits" "$(of_sums 'hits()')" 1001
expect "intervals: the last" "$(of_sums '[row["count"] for row in rows if row["from_ns"] == rows[-1]["from_ns"]]')" \
	"[1]"
expect "intervals: seconds" "$(of_sums 'seconds()[-1] - seconds()[0] >= 2, {at % 1 for at in seconds()}')" \
	"(True, {0.0})"
process=$("$waymark" dump --json killed | sed -n 's/.*"pid":\([0-9]*\).*/\1/p' | sort -u)
for only in --event=take --event='summed:*' --pid="$process" --tid="$process"; do
	reported "$only" killed
	expect "$only" "$(of_sums 'hits()')" 1001
done
for only in --event=tak --pid=1 --tid=1; do
	"$waymark" report --sums "$only" killed >text 2>&1 && fail "$only: status 0: $(cat text)"
	grep -q "no such thing: sums" text || fail "$only: $(cat text)"
done
"$waymark" report --every 100ms killed >text 2>&1 &&
	fail "intervals of less than a second: $(cat text)"

# ---- what can't be added up is refused before anything is armed ----

# refused SPEC WORDS: nothing is recorded, and the words say why
refused()
{
	rm -rf none
	run 1 -o none -e "$1" -- ./filtered
	grep -qF -e "$2" words || fail "$1: no '$2' in: $(cat words)"
}

# which calls failed: constants by their names, texts with quotes
rm -rf some
"$waymark" record -o some -e 'func:open@libc.so.6/count,if=ret<0,by=errno+file/' -- cat /none >text 2>words &&
	fail "cat /none: status 0"
grep -qxE ' +1  libc:open  ENOENT, "/none"' text || fail "failed calls: $(cat text words)"

rm -rf none
run 1 --policy cyclic -o none -e 'func:place@filtered/count/' -- ./filtered
grep -q 'cyclic would overwrite sums' words || fail "cyclic: $(cat words)"
refused 'func:place@filtered/sum=siz/' 'siz; did you mean size?'
refused 'func:place@filtered/name:str,sum=name/' "can't be added up"
refused 'func:place@filtered/size,count/' 'has size, which no sum has'
refused 'func:place@filtered/ret,count/' 'has ret, which no sum has'
refused 'func:place@filtered/args,count/' 'leave args out'
refused 'func:place@filtered/by=hist_a,count/' 'begins as what hist= makes'
refused 'shop:order/sum=rowz/' 'no field rowz; did you mean rows?'
refused 'shop:order/sum=price/' "can't be added up"
refused 'shop:query/sum=sql/' "can't be added up"
rm -rf none
run 1 -o none -e 'shop:order/sum=rows/' -e 'shop:ord*' -- ./filtered
grep -q 'another spec' words || fail "two specs of a marker: $(cat words)"
rm -rf none
run 1 -o none -e 'func:place@filtered/count/' -e 'func:place@filtered/count,if=size>5/' -- ./filtered
grep -q 'another spec adds up the same' words || fail "two specs of a function: $(cat words)"

exit $failed
