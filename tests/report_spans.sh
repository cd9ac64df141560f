#!/bin/bash
# SPDX-License-Identifier: MIT
# The tables of spans that waymark report prints, against the same computed from every event of the
# dump: all, by fields, callers and callees. Markers and functions, nested, in two threads.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

build_target record/requests.c

"$waymark" record -o trace -e 'web:*' -e 'func:look_up/ret,args/' -- ./requests >words 2>&1 ||
	skip "no functions can be probed here: $(cat words)"

# Each span: name, thread, begin, ticks, self, caller, what, ret. They nest.
"$waymark" dump --json trace | python3 -c '
import json, sys
first = None
for e in map(json.loads, sys.stdin):
    first = first or e["time_ns"] # awk has 53 bits
    if "name" in e and e["name"].split(":")[-1] in ("begin", "end"):
        f = e["fields"]
        print(e["tid"], e["time_ns"] - first, *e["name"].rsplit(":", 1), f.get("what", "-"), f.get("ret", "-"))' >events
awk '$4 == "begin" { n = ++depth[$1]; name[$1, n] = $3; at[$1, n] = $2; in_it[$1, n] = 0; what[$1, n] = $5; next }
	{ n = depth[$1]--; ns = $2 - at[$1, n]; caller = n > 1 ? name[$1, n - 1] : "-"; in_it[$1, n - 1] += ns
	if (name[$1, n] != $3) print "not nested" > "/dev/stderr"
	print $3, $1, at[$1, n], ns, ns - in_it[$1, n], caller, what[$1, n], $6 }' events >spans
[ "$(wc -l <spans)" -ge 3000 ] || fail "there are $(wc -l <spans) spans: $(head -3 events)"

# same WHAT COLUMNS: the rows in ./got have the calls of those in ./wanted, and their times to 2 ns a
# call, by which a time of the wall clock is off
same()
{
	join -j 1 <(sort wanted) <(sort got) | awk -v columns="$2" '
		function off(a, b) { return a > b ? a - b : b - a }
		$2 != $(2 + columns) { print; next }
		{ for (i = 3; i < 2 + columns; i++) if (off($i, $(i + columns)) > 2 * $2 + 2) { print; next } }' >differ
	[ ! -s differ ] || fail "$1: $(head -3 differ)"
	expect "$1: rows" "$(wc -l <got)" "$(wc -l <wanted)"
	[ -s wanted ] || fail "$1: nothing was computed"
}

# rows TABLE COLUMN...: of the last report --json
rows() { python3 -c '
import json, sys
for row in json.load(open("sums"))[sys.argv[1]]:
    print(*(row[c] if row[c] is not None else "-" for c in sys.argv[2:]))' "$@"; }

"$waymark" report --json --spans trace >sums
rows span name calls total_ns self_ns max_ns | awk '$2' >got # --json has those of zero, too
awk '{ n[$1]++; t[$1] += $4; s[$1] += $5; m[$1] = $4 > m[$1] ? $4 : m[$1] }
	END { for (k in n) print k, n[k], t[k], s[k], m[k] }' spans >wanted
same "spans" 4
expect "sorted by total" "$(rows span total_ns)" "$(rows span total_ns | sort -rn)"
"$waymark" report --json --spans --sort p99 --top 2 trace >sums
expect "--sort, --top" "$(rows span p99_ns)" "$(rows span p99_ns | sort -rn | head -2)"

"$waymark" report --json --by what,tid --top 0 trace >sums
rows span name by calls total_ns self_ns | sed 's/, /,/; s/ /|/' | grep -v '|-,' >got
awk '$7 != "-" { k = $1 "|" $7 "," $2; n[k]++; t[k] += $4; s[k] += $5 }
	END { for (k in n) print k, n[k], t[k], s[k] }' spans >wanted
same "--by a field and the thread" 3
"$waymark" report --json --by ret --event look_up trace >sums
rows span by calls total_ns >got
awk '$1 ~ /look_up/ { n[$8]++; t[$8] += $4 } END { for (k in n) print k, n[k], t[k] }' spans >wanted
same "--by the result of a function" 2
"$waymark" report --json --by what --event web:request --min 100us trace >sums
rows span by calls total_ns >got
awk '$1 == "web:request" && $4 >= 100000 { n[$7]++; t[$7] += $4 } END { for (k in n) print k, n[k], t[k] }' spans >wanted
same "--min" 2

"$waymark" report --json --callers look_up trace >sums
rows span_call caller callee calls total_ns self_ns max_ns | sed 's/ /|/' >got
awk '/look_up/ { k = $6 "|" $1; n[k]++; t[k] += $4; s[k] += $5; m[k] = $4 > m[k] ? $4 : m[k] }
	END { for (k in n) print k, n[k], t[k], s[k], m[k] }' spans >wanted
same "--callers" 4
[ "$(wc -l <wanted)" -eq 3 ] || fail "look_up was called in: $(cat wanted)"

# The slowest: those whose times are the longest, with the fields of both ends.
"$waymark" report --json --slowest 10 --min 20us --event web:request trace >sums
rows slow duration_ns tid arguments result >got
sort -k4,4rn spans | awk '$1 == "web:request" { print $4, $2, $7, NR }' | head -10 >wanted
paste -d ' ' wanted got | awk 'function off(a, b) { return a > b ? a - b : b - a }
	off($1, $5) > 4 || $2 != $6 || index($0, "what = \"" $3 "\", i = ") == 0 || !/ found = [0-9]+$/' >differ
[ ! -s differ ] || fail "--slowest: $(cat differ)"
expect "--slowest: rows" "$(wc -l <got)" 10
"$waymark" report --slowest 2 --event look_up trace >text
grep -qE '^ *BEGIN  *DURATION  *SELF  *THREAD  *TID  *SPAN  *ARGUMENTS  *RESULT$' text || fail "--slowest: $(cat text)"
grep -qE ' requests:look_up +.*[0-9] +ret = [0-9]+$' text || fail "--slowest, of functions: $(cat text)"
grep -q -- '^-- [0-9]* more: --slowest N$' text || fail "--slowest: how many more: $(cat text)"

# As text: only what has rows.
"$waymark" report --by what --event web:request trace >text
grep -q '^SPAN  *BY  *CALLS  *TOTAL  *SELF  *MEAN  *P50  *P99  *MAX$' text || fail "text: $(cat text)"
grep -q '^web:request  order ' text || fail "text: $(cat text)"
"$waymark" report --spans trace >text
expect "spans of zero are hidden" "$(grep -c ':never ' text)" 0

# What is wrong.
refused()
{
	local due=$1 words=$2
	shift 2
	"$waymark" report "$@" >out 2>err
	expect "report $*" $? "$due"
	grep -qF -- "$words" err || fail "report $*: $(cat err)"
}
refused 1 "spans with a field wath" --by wath trace
refused 2 "did you mean total?" --spans --sort tottal trace
run 1 -o empty -e 'none:none' -- true
"$waymark" report empty >text || fail "an empty trace: $?"
expect "begins of an empty trace" "$(grep -c '^Begin' text)" 0
refused 1 "no such thing: spans of that length" --slowest 3 --min 1000s trace
refused 2 "takes a number from 1" --slowest 0 trace
refused 2 "at most" --by what,tid,pid,comm trace
refused 1 "no such thing: samples or calls of that function" --callers nothing trace
exit $failed
