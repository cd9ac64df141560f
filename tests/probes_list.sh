#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark list of what can be probed: each place with its tier or the reason against, nothing touched.
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
shows '^probed:add  *function  *0x[0-9a-f]*  *several  .*probed\.c:[0-9]+$'
shows '^    a int32, b int64$'
shows '^probed:lean  *function  *0x[0-9a-f]*  *punned'
shows '^probed:tiny  *function  *0x[0-9a-f]*  *refused  the function ends before'
shows '^[0-9]+ of [0-9]+ places can be probed$'
whole=$(sed -n 's/^\([0-9]*\) of .*/\1/p' out)
address=$(sed -n 's/^probed:add  *function  *\(0x[0-9a-f]*\) .*/\1/p' out)
expect "add's address" "$address" "0x$(nm probed | awk '$3 == "add" { sub(/^0*/, "", $1); print $1 }')"

# What a spec would record.
list 0 -e 'func:sum6/arg3,ret/' ./probed
shows '^    arg3 int32; ret int64$'
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
places = json.load(open("out"))
by_name = {place["name"]: place for place in places}
add, tiny = by_name["probed:add"], by_name["probed:tiny"]
assert add["tier"] == "several" and add["kind"] == "function" and add["line"] > 0
assert [field["name"] for field in add["fields"]] == ["a", "b"]
assert tiny["tier"] == "refused" and tiny["reason"]
print(len([place for place in places if place["tier"] != "refused"]))')
	expect "places in JSON" "$got" "$whole"
fi

# A process: the same places where they lie there, and nothing comes into it.
start ./probed 0 1 1000
await_running "$pid"
list 0 --func '*@probed' -p "$pid"
expect "places of the process" "$(sed -n 's/^\([0-9]*\) of .*/\1/p' out)" "$whole"
base=$(awk '/probed$/ { split($1, ends, "-"); print ends[1]; exit }' /proc/"$pid"/maps)
shows "^probed:add  *function  *$(printf '0x%x' $((16#$base + address)))  *several"
grep -q libwaymark /proc/"$pid"/maps && fail "something of ours was loaded into the process"
list 1 --func add -p 4194305
same_bytes "$pid" /probed "list"

exit "$failed"
