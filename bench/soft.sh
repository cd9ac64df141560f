#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What a trail by translation costs programs: soft.sh WAYMARK ENGINE. Processor time, of all that runs, to that of the program by
# itself, the median of rounds that alternate; peers that are installed run once beside. The trail is one of the last
# moments, for the disk is no part of this. Exit status 77, with the reason, where it can't run.
set -u
waymark=$(realpath "$1")
WAYMARK_ENGINE=$(realpath "$2") # not the installed one
export WAYMARK_ENGINE
rounds=3
ring_bytes=$((1 << 20)) # half of last=2M
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-soft.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
TIMEFORMAT='%U %S'

skip() { echo "$*"; exit 77; }

"$waymark" record -e trail/soft/ -o probe -- true >out 2>&1 || skip "no trail by translation: $(head -n1 out)"

# seconds COMMAND...: of processor time; what it prints goes to `out`
seconds()
{
	{ time "$@" <input >out 2>err; } 2>&1 | awk '{ print $1 + $2 }'
}

recorded()
{
	timeout 120 "$waymark" record -e trail/soft,last=2M/ -o "$work/trail" -- "$@"
	rm -rf "$work/trail"
}

median()
{
	sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# program NAME COMMAND...: its figures
program()
{
	local name=$1 native soft blocks
	shift
	: >ratios
	for ((round = 0; round < rounds; round++)); do
		native=$(seconds timeout 120 "$@")
		cp out wanted
		soft=$(seconds recorded "$@")
		blocks=$(sed -n 's/.*recorded \([0-9,]*\) blocks.*/\1/p' err | tr -d ,)
		cmp -s out wanted || { echo "$name: recorded, it prints something else" >&2; exit 1; }
		awk "BEGIN { print $soft / $native }" >>ratios
	done
	echo "figure soft.${name}_slowdown $(median <ratios) ratio"
	echo "figure soft.${name}_native_s $native s"
	[ -z "$blocks" ] || awk "BEGIN { print \"figure soft.bytes_per_block.$name\", $ring_bytes / $blocks, \"bytes\" }"
	if command -v valgrind >/dev/null; then
		soft=$(seconds timeout 300 valgrind -q --tool=none "$@")
		cmp -s out wanted && awk "BEGIN { print \"figure soft.${name}_slowdown.valgrind_none\", $soft / $native, \"ratio\" }"
	fi
	if command -v qemu-x86_64 >/dev/null; then
		soft=$(seconds timeout 300 qemu-x86_64 "$(command -v "$1")" "${@:2}")
		cmp -s out wanted && awk "BEGIN { print \"figure soft.${name}_slowdown.qemu\", $soft / $native, \"ratio\" }"
	fi
}

# A start and an end, by the clock: the best of many, for nothing makes it faster than it is.
startup()
{
	TIMEFORMAT=%R
	for ((round = 0; round < 10; round++)); do
		{ time timeout 10 true; } 2>>native
		{ time "$waymark" record -e trail/soft,last=2M/ -o "$work/trail" -- true >out 2>&1; } 2>>soft
		rm -rf "$work/trail"
	done
	awk -v native="$(sort -g native | head -n1)" -v soft="$(sort -g soft | head -n1)" \
		'BEGIN { print "figure soft.startup_ms", (soft - native) * 1000, "ms" }'
}

tar -cf - /usr/include /usr/share/doc /usr/share/perl 2>/dev/null | head -c 80M >input
program gzip gzip -nc

cat >input <<-END
	create table t(a integer primary key, b int, c text);
	with recursive n(i) as (select 1 union all select i + 1 from n where i < 900000)
		insert into t select i, (i * 7919) % 100003, 'row ' || (i % 977) || ' text ' || i from n;
	create index tb on t(b);
	select count(*), sum(b), max(c) from t where b between 1000 and 60000;
	select c, count(*) from t group by substr(c, 1, 7) order by 2 desc, 1 limit 5;
	select sum(x.b * y.b) from t x join t y on x.a = y.b where x.c like '%9%';
	update t set c = c || 'z' where b % 3 = 0;
	delete from t where b % 5 = 0;
	select count(*), sum(length(c)) from t;
END
command -v sqlite3 >/dev/null && program sqlite3 sqlite3 :memory:

cat >input <<-'END'
	local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
	local function tree(d) if d == 0 then return {} end return { tree(d - 1), tree(d - 1) } end
	local function count(t) if not t[1] then return 1 end return 1 + count(t[1]) + count(t[2]) end
	for round = 1, 30 do
		print(fib(27), count(tree(14)))
		local t, s = {}, 12345
		for i = 1, 60000 do s = (s * 1103515245 + 12345) % 2147483648; t[i] = s end
		table.sort(t)
		local b = {}
		for i = 1, 60000 do b[#b + 1] = ("%d:%s"):format(i, string.rep("x", i % 7)) end
		local n = 0
		for w in table.concat(b, ","):gmatch("%d+") do n = n + #w end
		print(t[30000], n)
	end
END
command -v lua5.4 >/dev/null && program lua lua5.4 -

cat >input <<-'END'
	import json, re
	class P:
	    def __init__(s, x, y): s.x = x; s.y = y
	    def add(s, o): return P(s.x + o.x, s.y + o.y)
	def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
	for r in range(36):
	    d = {}
	    for i in range(150000): d[i % 1000] = d.get(i % 1000, 0) + i
	    p = P(0, 0)
	    for i in range(60000): p = p.add(P(i, 1))
	    o = json.loads(json.dumps([{"k": i, "v": str(i) * 3, "l": [i, i + 1]} for i in range(5000)]))
	    t = " ".join(str(i * 7919 % 10007) for i in range(20000))
	    a = sorted((i * 7919) % 10007 for i in range(40000))
	    print(fib(22), sum(d.values()), p.x, o[77], len(re.findall(r"(\d)\1", t)), sum(x * y for x, y in zip(a, a[1:])))
END
[ -x /usr/bin/python3 ] && program python /usr/bin/python3 -
startup
