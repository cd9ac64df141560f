#!/bin/bash
# SPDX-License-Identifier: MIT
# Sums are what the events of the full trace add up to: to the hit, whatever becomes of the process.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

command -v python3 >/dev/null || skip "no python3"
build_target filtered.c
cc -O2 -fPIC -shared -I"$source_dir/include" "$source_dir/tests/targets/filtered_late.c" -o late.so || exit 1

# recorded NAME WAY SPEC...: what the program does in that way, into ./NAME; its events, one a line, into NAME.events
recorded()
{
	local name=$1 way=$2 status=0 specs=() spec
	shift 2
	for spec; do specs+=(-e "$spec"); done
	[ "$way" != kill ] || status=137
	rm -rf "$name"
	run $status --json --buffer 64M -o "$name" "${specs[@]}" -- ./filtered "$way" ./late.so
	expect "$name, $way: discarded" "$(json discarded)" 0
	"$waymark" dump --json "$name" >"$name.events" || fail "$name, $way: dump"
}

# same WHAT KEYS FIELD [CONDITION]: ./some.events has rows that are what ./full.events adds up to
same()
{
	python3 "$source_dir/tests/sums.py" "$2" "$3" "${4:-True}" <full.events >wanted
	python3 "$source_dir/tests/sums.py" "$2" "$3" '"count" in f' <some.events >got
	[ -s wanted ] || fail "$1: nothing is wanted"
	cmp -s wanted got || fail "$1: $(diff wanted got | head -n 5)"
	[ "$(grep -c '"count"' some.events)" -lt $(($(wc -l <full.events) / 4)) ] || fail "$1: as many rows as events"
}

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

# ---- of the result: one event a call ----

recorded full plain 'func:place@filtered/thread,size,if=ret<1000000/'
recorded some plain 'func:place@filtered/sum=ret,min=ret,max=ret,by=thread/'
same "the result" 'f.thread' ret
recorded some plain 'func:wait_for@filtered/hist=duration,max=duration,by=is_slow/'
expect "slow and fast calls" "$("$waymark" report --sums --json some | python3 -c '
import json, sys
print(*sorted((row["by"], row["count"]) for row in json.load(sys.stdin)["sum"]))')" "('0', 16) ('1', 4)"

recorded some plain 'func:place@filtered/hist=ret,count/'
"$waymark" report --sums --json some | python3 -c '
import json, sys
rows = [(row["from"], row["count"]) for row in json.load(sys.stdin)["sum_bucket"]]
print(rows[0][0], rows[0][1], sum(count for _, count in rows), [start for start, _ in rows[1:]])' >got
expect "values below 0 are one bucket" "$(cat got)" "$(python3 -c '
below = sum(1 for round in range(2000) if round % 11 == 0 and round)
print(None, 8 * below, 16000, list(range(8)))')"

# ---- markers, also of a library that comes late ----

for way in plain fork kill; do
	recorded full "$way" 'shop:order'
	recorded some "$way" 'shop:order/sum=rows,min=rows,max=rows,by=thread/'
	same "order, $way" 'f.thread' rows
done
recorded some plain 'log:long_one/count/' 'log:scope/count/' 'log:count/by=count+number,sum=count,hist=number/'
expect "each end of a span" "$(python3 -c 'import json, sys
counts = {}
for line in open("some.events"):
	e = json.loads(line)
	if "fields" in e: counts[e["name"]] = counts.get(e["name"], 0) + e["fields"].get("count_2", e["fields"]["count"])
print(sorted(counts.items()))')" \
	"[('log:count:sum', 10), ('log:long_one:begin:sum', 10), ('log:long_one:end:sum', 10), ('log:scope:begin:sum', 10), ('log:scope:end:sum', 10)]"
expect "a field that is called count" "$("$waymark" report --sums --event log:count --json some | python3 -c '
import json, sys
print(sorted((row["by"], row["count"], row["sum"], row["p50"]) for row in json.load(sys.stdin)["sum"] if row["field"] == "count"))')" \
	"[('0, 0', 1, 0, None), ('1, 1', 1, 1, None), ('10, 2', 1, 10, None), ('100, 3', 1, 100, None), ('1000, 4', 1, 1000, None), ('10000, 5', 1, 10000, None), ('100000, 6', 1, 100000, None), ('1000000, 7', 1, 1000000, None), ('10000000, 8', 1, 10000000, None), ('100000000, 9', 1, 100000000, None)]"
recorded full late 'shop:late'
recorded some late 'shop:l*/sum=round,min=round,max=round,by=thread/'
same "late library" 'f.thread' round

# ---- what is hard to add up ----

build_target summed.c

# summed WAY OPTIONS: its sums are in ./some, as JSON in ./sums.json; its calls in $calls, lost ones in $lost
summed()
{
	local way=$1 options=$2
	rm -rf some
	run 0 --json --policy block -o some -e "func:take@summed/$options/" -- ./summed "$way"
	calls=$(sed -n 's/^calls //p' out)
	lost=$(json discarded)
	[ "$way" = handlers ] || expect "$way: discarded" "$lost" 0
	"$waymark" report --sums --json some >sums.json || fail "$way: report"
}

# of_sums EXPRESSION: of the list `rows` of a report's sums
of_sums()
{
	python3 -c 'import json, sys
rows = json.load(open("sums.json"))["sum"]
print(eval(sys.argv[1]))' "$1"
}

summed keys 'sum=number,by=number'
expect "keys: hits, sum, rows" \
	"$(of_sums 'sum(row["count"] for row in rows), sum(row["sum"] for row in rows), len(rows), rows[-1]["count"]')" \
	"($calls, $((calls * (calls - 1) / 2)), $(((1 << 20) + 1)), $((calls - (1 << 20))))"
"$waymark" report --sums -n 3 some >text
expect "keys: rows of text" "$(grep -c ' summed:take ' text)" 4
grep -q "^ *$((calls - 3)) .* (other)$" text || fail "keys: $(cat text)"
rm -rf some

summed texts 'text:str,count,by=text'
expect "texts: hits" "$(of_sums 'sum(row["count"] for row in rows)')" "$calls"
expect "texts: counts" "$(of_sums 'sorted(row["count"] for row in rows)')" "[100, 100, 100, 200]"

summed deep 'count,by=callchain,bt=64'
expect "deep: counts" "$(of_sums '[row["count"] for row in rows]')" "[100]"
expect "deep: callers" "$(of_sums 'rows[0]["by"].count("deep ")')" 64

# a handler's hit can't wait for a page
summed handlers 'count,by=number'
[ "$lost" -lt 10 ] || fail "handlers: $lost of $calls hits are lost"
expect "handlers: hits" "$(of_sums 'sum(row["count"] for row in rows)')" $((calls - lost))

# A child continues the hit that its parent's handler forked in. That hit may count in both, or be
# lost in the child; no other may.
for options in number count,by=number; do
	rm -rf some
	run 0 --json --policy block --buffer 64M -o some -e "func:take@summed/$options/" -- ./summed forks
	expect "forks, $options: children" "$(sed -n 's/^failed //p' out)" 0
done
calls=$(sed -n 's/^calls //p' out)
"$waymark" report --sums --json some >sums.json || fail "forks: report"
[[ $(cat words) == *"ran unrecorded"* ]] ||
	expect "forks: hits" "$(of_sums "-100 <= sum(row['count'] for row in rows) - $calls <= 100")" True

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
	"$waymark" report --sums --json killed >sums.json 2>words && [ "$(of_sums 'sum(row["count"] for row in rows)')" = 1000 ]
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
"$waymark" report --every 1s --json killed >sums.json || fail "intervals: report"
expect "intervals: all hits" "$(of_sums 'sum(row["count"] for row in rows)')" 1001
expect "intervals: the last" "$(of_sums '[row["count"] for row in rows if row["from_ns"] == rows[-1]["from_ns"]]')" "[1]"
expect "intervals: seconds" "$(of_sums 'rows[-1]["from_ns"] - rows[0]["from_ns"] >= 2000000000, {row["from_ns"] % 1000000000 for row in rows}')" \
	"(True, {0})"
process=$("$waymark" dump --json killed | python3 -c 'import json, sys; print({json.loads(line)["pid"] for line in sys.stdin}.pop())')
for only in --event=take --event='summed:*' --pid="$process" --tid="$process"; do
	"$waymark" report --sums "$only" --json killed >sums.json || fail "$only: report"
	expect "$only" "$(of_sums 'sum(row["count"] for row in rows)')" 1001
done
for only in --event=tak --pid=1 --tid=1; do
	"$waymark" report --sums "$only" killed >text 2>&1 && fail "$only: status 0: $(cat text)"
	grep -q "no such thing: sums" text || fail "$only: $(cat text)"
done
"$waymark" report --every 100ms killed >text 2>&1 && fail "intervals of less than a second: $(cat text)"

# ---- what can't be added up is refused before anything is armed ----

# refused SPEC WORDS: nothing is recorded, and the words say why
refused()
{
	rm -rf none
	run 1 -o none -e "$1" -- ./filtered
	grep -qF -e "$2" words || fail "$1: no '$2' in: $(cat words)"
}

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
