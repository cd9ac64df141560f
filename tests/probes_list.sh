#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark list of what can be probed: each place with the form of its jump, or the reason against, nothing touched.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# list STATUS ARGUMENT...: its words in ./out and ./words
list()
{
	local wanted=$1 got
	shift
	timeout 60 "$waymark" list "$@" >out 2>words
	got=$?
	[ $got -eq "$wanted" ] || fail "list $*: status $got, expected $wanted: $(cat words)"
}

# shows REGEX: a line of the list
shows()
{
	grep -qE -- "$1" out || fail "expected '$1' in: $(head -40 out)"
}

list 0 --func '*' ./probed
shows '^probed:add  *function  *0x[0-9a-f]*  *byte  *safe  .*a int32, b int64 .*probed\.c +[0-9]+ '
shows '^probed:lean  *function  *0x[0-9a-f]*  *byte  *safe'
shows '^probed:hop  *function  *0x[0-9a-f]*  *first  *unsafe'
shows '^probed:past  *function  *0x[0-9a-f]*  *byte  *safe'
shows '^probed:split  *function  *0x[0-9a-f]*  *refused  *-  *the program jumps into the instruction'
shows '^[0-9]+ of [0-9]+ places can be probed, [0-9]+ of them safely beside uprobes'
whole=$(sed -n 's/^\([0-9]*\) of .*/\1/p' out)
lean=$(sed -n 's/^probed:lean  *function  *\(0x[0-9a-f]*\) .*/\1/p' out)
expect "lean's address" "$lean" "0x$(nm probed | awk '$3 == "lean" { sub(/^0*/, "", $1); print $1 }')"

# What a spec would record, and what it leaves out.
list 0 -e 'func:lean/safe/' ./probed
list 0 -e 'func:hop/safe/' ./probed
shows 'refused  *-  *a uprobe of another tool could leave wrong code behind here'
list 0 -e 'func:sum6/arg3,ret/' ./probed
shows ' arg3 int32  *ret int64 '
list 0 -e 'addr:probed.c:8' ./probed
list 1 -e marker:a:b ./probed
list 1 --func factoral ./probed
says "did you mean factorial?"
list 1 --func nothing ./probed
says "no such function"
list 1 --usdt=shop:nothing ./probed
list 1 --func '*' ./nothere
list 1 --func '*' "$source_dir/README.md"
list 2 --func '*'
list 2 --usdt 'shop:b*' ./probed
says "--usdt='shop:b*'"
list 2 --func '*' -p $$ libc.so.6
[ -z "$has_sdt" ] || {
	list 0 --usdt ./probed
	shows '^shop:order  *usdt  '
	list 0 -u'shop:b*' ./probed
	shows '^1 of 1 places'
}

# JSON that others read too.
list 0 --json --func '*' ./probed
if command -v python3 >/dev/null; then
	got=$(python3 -c '
import json, sys
places = json.load(open("out"))["probe"]
by_name = {place["name"]: place for place in places}
add, split = by_name["probed:add"], by_name["probed:split"]
assert add["form"] == "byte" and add["beside_uprobes"] == "safe"
assert add["kind"] == "function" and add["line"] > 0
past, hop = by_name["probed:past"], by_name["probed:hop"]
choices = [choice.split() for choice in past["choices"].split(", ")]
assert [int(choice[0], 16) - int(past["address"], 16) for choice in choices[:2]] == [0, 1]
assert hop["beside_uprobes"] == "unsafe" and hop["choices"].split(", ")[0].split()[1:] == ["first"]
assert add["fields"] == "a int32, b int64"
assert split["form"] == "refused" and split["reason"] and not split["choices"]
print(len([place for place in places if place["form"] != "refused"]))')
	expect "places in JSON" "$got" "$whole"
fi

# A process: what its memory has room for, and nothing comes into it. As many are armed.
start ./probed 0 1 1000
await_running "$pid"
list 0 --func '*@probed' -p "$pid"
expect "places of the process, and those without room" "$(($(sed -n 's/^\([0-9]*\) of .*/\1/p' out) +
	$(grep -c 'refused .*addresses that a jump can lead to from here' out)))" "$whole"
refused=$(grep -c ' refused ' out)
base=$(awk '/probed$/ { split($1, ends, "-"); print ends[1]; exit }' /proc/"$pid"/maps)
shows "^probed:lean  *function  *$(printf '0x%x' $((16#$base + lean)))  *byte  *safe"
list 0 --json --func 'past@probed' -p "$pid"
shows '"form":"byte","beside_uprobes":"safe","choices":"0x[0-9a-f]*, 0x[0-9a-f]* byte '
grep -q libwaymark /proc/"$pid"/maps && fail "a library of Waymark's was loaded into the process"
list 1 --func add -p 4194305
same_bytes "$pid" /probed "list"
run 0 -v --json --for 200ms -e 'func:*@probed' -o armed -p "$pid"
# lean's jump ends in lean_next, which has none then
expect "places that are refused" "$(json refused)" $((refused + 1))
says "another event's jump is too near to this place"

exit "$failed"
