#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The cost of a trail by translation: soft.sh [--no-peers] WAYMARK ENGINE [NAME...]. NAMEs select
# measurements: gzip, sqlite3, lua, python, startup, attach, make, threads; without a NAME, all.
# Installed peers run once beside, on less input.
#
# A slowdown is of processor time, of all that runs, to that of the program by itself for 3 seconds and more, the median of rounds that
# alternate, the trail being one of the last moments; with `.files`, one that is written. Figures come as they are ready, so
# who has no more patience has those; after $WAYMARK_SOFT_S seconds (540) the rest is skipped. Exit status 77, with
# the reason, where it can't run.
# shellcheck disable=SC2317 # input_*: called by name
set -u
here=$(cd "$(dirname "$0")" && pwd)
peers=1
[ "${1:-}" != --no-peers ] || { peers=0 && shift; }
waymark=$(realpath "$1")
WAYMARK_ENGINE=$(realpath "$2") # not the installed one
export WAYMARK_ENGINE
shift 2
wanted=${*:-startup attach make gzip sqlite3 lua python threads}
rounds=${WAYMARK_BENCH_RUNS:-3}
until_s=${WAYMARK_SOFT_S:-540}
native_s=${WAYMARK_SOFT_NATIVE_S:-3.2} # at least 3, on a machine that is slower at times
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-soft.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

skip() { echo "$*"; exit 77; }

"$waymark" record -e trail/soft/ -o probe -- true >out 2>&1 || skip "no trail by translation: $(head -n1 out)"

figure() { awk "BEGIN { if (($2) != \"\") printf \"figure soft.%s %.4g %s\\n\", \"$1\", $2, \"$3\" }" 2>/dev/null; }
skipped() { echo "skipped soft.$1: $2"; }

# time_left NAME: whether there is; no program here runs for more than a few seconds natively
time_left()
{
	[ $SECONDS -lt "$until_s" ] && return 0
	skipped "$1" "$until_s s are over"
	return 1
}

# seconds COMMAND...: of processor time, of all it starts; what it prints goes to `out`
seconds()
{
	local TIMEFORMAT='%U %S'
	{ time timeout 200 "$@" <input >out 2>err; } 2>&1 | awk '{ print $1 + $2 }'
}

record() { seconds "$waymark" record -e "$1" -o "$work/trail" -- "${@:2}"; }
median() { sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
is_right() { cmp -s out wanted || { echo "$1: it prints something else" >&2; exit 1; }; }
reported() { tail -c 4000 out | LC_ALL=C sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; } # by record's --json
blocks() { sed -n 's/.*recorded \([0-9,]*\) blocks.*/\1/p' err | tr -d ,; }

# ---- the programs: an input of so many rounds ----

input_gzip()
{
	[ -f chunk ] || tar -cf - /usr/include /usr/share/doc /usr/share/perl 2>/dev/null | head -c 16M >chunk
	for ((i = 0; i < $1; i++)); do cat chunk; done
}

input_sqlite3()
{
	for ((i = 0; i < $1; i++)); do
		cat <<-END
			create table t(a integer primary key, b int, c text);
			with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
				insert into t select i, (i * 7919) % 100003, 'row ' || (i % 977) || ' text ' || i from n;
			create index tb on t(b);
			select count(*), sum(b), max(c) from t where b between 1000 and 60000;
			select c, count(*) from t group by substr(c, 1, 7) order by 2 desc, 1 limit 5;
			select sum(x.b * y.b) from t x join t y on x.a = y.b where x.c like '%9%';
			update t set c = c || 'z' where b % 3 = 0;
			delete from t where b % 5 = 0;
			select count(*), sum(length(c)) from t;
			drop table t;
		END
	done
}

input_lua()
{
	echo "local rounds = $1"
	cat <<-'END'
		local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
		local function tree(d) if d == 0 then return {} end return { tree(d - 1), tree(d - 1) } end
		local function count(t) if not t[1] then return 1 end return 1 + count(t[1]) + count(t[2]) end
		for round = 1, rounds do
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
}

input_python()
{
	echo "rounds = $1"
	cat <<-'END'
		import json, re
		class P:
		    def __init__(s, x, y): s.x = x; s.y = y
		    def add(s, o): return P(s.x + o.x, s.y + o.y)
		def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
		for r in range(rounds):
		    d = {}
		    for i in range(150000): d[i % 1000] = d.get(i % 1000, 0) + i
		    p = P(0, 0)
		    for i in range(60000): p = p.add(P(i, 1))
		    o = json.loads(json.dumps([{"k": i, "v": str(i) * 3, "l": [i, i + 1]} for i in range(5000)]))
		    t = " ".join(str(i * 7919 % 10007) for i in range(20000))
		    a = sorted((i * 7919) % 10007 for i in range(40000))
		    print(fib(22), sum(d.values()), p.x, o[77], len(re.findall(r"(\d)\1", t)), sum(x * y for x, y in zip(a, a[1:])))
	END
}

# ---- one program ----

# peer NAME PEER COMMAND...: the input is there, and $short
peer()
{
	local name=$1 what=$2 soft
	shift 2
	time_left "${name}_slowdown.$what" || return
	command -v "$1" >/dev/null || { skipped "${name}_slowdown.$what" "there is no $1" && return; }
	soft=$(seconds "$@")
	is_right "$what"
	figure "${name}_slowdown.$what" "$soft / $short" ratio
}

peers_of()
{
	local name=$1 program short
	shift
	program=$(command -v "$1")
	short=$(seconds "$@")
	cp out wanted
	peer "$name" valgrind_none valgrind -q --tool=none "$@"
	peer "$name" qemu qemu-x86_64 "$program" "${@:2}"
	if cc -shared -fPIC -O2 -o qemu.so "$here/soft_qemu.c" 2>err; then
		peer "$name" qemu_blocks qemu-x86_64 -plugin "$work/qemu.so" "$program" "${@:2}"
	else
		skipped "${name}_slowdown.qemu_blocks" "$(head -n1 err)"
	fi
}

# Blocks of a round, and what they take in files: of runs of one round and of two, whose start is the same.
count_blocks()
{
	local name=$1 soft native one bytes
	shift
	for i in 1 2; do
		"input_$name" $i >input
		native=$(seconds "$@")
		soft=$(record trail/soft/ "$@")
		bytes=$(du -sb trail | cut -f1)
		rm -rf trail
		[ $i = 2 ] || one=$(blocks)
	done
	round_blocks=$(($(blocks) - one))
	first_blocks=$((2 * one - $(blocks)))
	figure "bytes_per_block.$name.files" "$bytes / $(blocks)" bytes
	figure "${name}_slowdown.files" "$soft / $native" ratio
}

# program NAME COMMAND...: its figures
program()
{
	local name=$1 native soft count round_blocks first_blocks
	shift
	command -v "$1" >/dev/null || { skipped "${name}_slowdown" "there is no $1" && return; }
	time_left "${name}_slowdown" || return
	"input_$name" 2 >input
	native=$(seconds "$@")
	count=$(awk "BEGIN { count = int(2 * $native_s / ($native + 0.01)) + 1; print count < 2 ? 2 : count }")
	"input_$name" "$count" >input
	: >ratios
	: >added
	for ((round = 0; round < rounds; round++)); do
		[ $round = 0 ] || time_left "${name}_slowdown (round $((round + 1)))" || break
		native=$(seconds "$@")
		cp out wanted
		soft=$(record trail/soft,last=2M/ "$@")
		is_right "$name, recorded,"
		rm -rf trail
		awk "BEGIN { print $soft / $native }" >>ratios
		awk "BEGIN { print $soft - $native }" >>added
	done
	figure "${name}_slowdown" "$(median <ratios)" ratio
	figure "${name}_native_s" "$native" s
	time_left "$name's blocks" || return
	# of the newest: what the translation has come to
	timeout 200 "$waymark" record --json -e trail/soft,last=32M/ -o "$work/trail" -- "$@" <input >out 2>err
	rm -rf trail
	figure "bytes_per_block.$name" "$(reported words_bytes) / $(reported blocks)" bytes
	count_blocks "$name" "$@"
	figure "ns_per_block.$name" "$(median <added) * 1e9 / ($first_blocks + $count * $round_blocks)" ns
	if [ $peers = 1 ]; then
		"input_$name" 2 >input
		peers_of "$name" "$@"
	fi
}

# ---- others ----

# A start and an end, by the clock: the best of many, for nothing makes it faster than it is.
startup()
{
	local TIMEFORMAT=%R
	: >native
	: >soft
	for ((round = 0; round < 15; round++)); do
		{ time timeout 10 /bin/true; } 2>>native
		{ time "$waymark" record -e trail/soft,last=2M/ -o "$work/trail" -- /bin/true >out 2>&1; } 2>>soft
		rm -rf trail
	done
	figure startup_ms "($(sort -g soft | head -n1) - $(sort -g native | head -n1)) * 1000" ms
	figure startup_ms.median "($(median <soft) - $(median <native)) * 1000" ms
}

# attach_round PROCESSES THREADS: programs that run are recorded for a moment; the time that takes, for each, and how long one stood still, at most
attach_round()
{
	local TIMEFORMAT=%R pids=() args=() i
	for ((i = 0; i < $1; i++)); do
		./soft_gap "$2" >"gap.$i" &
		pids+=($!)
		args+=(-p $!)
	done
	sleep 0.2
	{ time timeout 30 "$waymark" record -e trail/soft/ "${args[@]}" --for 1ms -o "$work/trail" >out 2>&1; } 2>>took ||
		{ echo "attach: $(head -n1 out)" >&2; exit 1; }
	kill "${pids[@]}"
	wait "${pids[@]}" || { echo "attach: a program did not end well" >&2; exit 1; }
	for ((i = 0; i < $1; i++)); do raw gap_ms "gap.$i"; done | sort -g | tail -n1 >>still
	rm -rf trail
}

# By the clock, the best of many, as startup: of one program, of one with many threads, and of several at once.
attach()
{
	local kind
	cc -O2 -o soft_gap "$here/soft_gap.c" -pthread 2>err || { skipped attach "$(head -n1 err)" && return; }
	for kind in "1 0" "1 32 .threads_33" "4 0 .processes_4"; do
		# shellcheck disable=SC2086 # its parts
		set -- $kind
		: >took
		: >still
		for ((round = 0; round < 9; round++)); do attach_round "$1" "$2"; done
		figure "attach_ms${3:-}" "$(sort -g took | head -n1) * 1000 / $1" ms
		figure "attach_still_ms${3:-}" "$(sort -g still | head -n1)" ms
	done
}

# making KIND COUNT FIGURE: the clock and processor time of one fork and wait, or one thread; the
# best of many
making()
{
	local how
	: >making.native
	: >making.soft
	for ((round = 0; round < 9; round++)); do
		for how in native soft; do
			# shellcheck disable=SC2046
			timeout 60 $([ $how = native ] || recorder trail/soft/) ./soft_make "$1" "$2" \
				>out 2>err ||
				{ echo "soft_make $1: $(tail -n1 err)" >&2; exit 1; }
			rm -rf trail
			echo "$(raw clock) $(raw cpu)" >>making.$how
		done
	done
	for how in native soft; do
		figure "$3$([ $how = soft ] || echo .native)" \
			"$(sort -g making.$how | awk 'NR == 1 { print $1 }')" us
		figure "$3.cpu$([ $how = soft ] || echo .native)" \
			"$(sort -g -k2 making.$how | awk 'NR == 1 { print $2 }')" us
	done
}

make()
{
	cc -O2 -o soft_make "$here/soft_make.c" -pthread 2>err ||
		{ skipped make "$(head -n1 err)" && return; }
	making fork 200 fork_us
	making thread 1000 thread_us
}

raw() { awk -v name="$1" '$1 == "raw" && $2 == name { print $3 }' "${2:-out}"; }

# work THREADS ROUNDS [COMMAND...]: soft_work, recorded or not, into `out`
work()
{
	timeout 100 "${@:3}" ./soft_work "$1" "$2" >out 2>err || { echo "soft_work $*: $(tail -n1 err)" >&2; exit 1; }
	rm -rf trail
}

recorder() { echo "$waymark" record -e "${1:-trail/soft,last=2M/}" -o "$work/trail" --; }

# two_threads SUFFIX COMMAND...: as much again by a second thread; the best of a few
two_threads()
{
	local suffix=$1
	shift
	: >ones
	: >twos
	for ((round = 0; round < rounds + 2; round++)); do
		work 1 "$each" "$@" && echo "$(raw clock) $(raw cpu)" >>ones
		work 2 "$each" "$@" && echo "$(raw clock) $(raw cpu)" >>twos
	done
	figure "two_threads_scale$suffix" "2 * $(sort -g ones | awk 'NR == 1 { print $1 }') / $(sort -g twos | awk 'NR == 1 { print $1 }')" ratio
	figure "two_threads_scale$suffix.cpu" "4 * $(sort -g -k2 ones | awk 'NR == 1 { print $2 }') / $(sort -g -k2 twos | awk 'NR == 1 { print $2 }')" ratio
}

threads()
{
	local each native soft
	# -g: or gdb does not show what a function returned
	cc -O2 -g -o soft_work "$here/soft_work.c" -pthread 2>err || { skipped threads "$(head -n1 err)" && return; }
	work 1 200
	each=$(awk "BEGIN { print int(200 * 1.2 / $(raw cpu)) }")
	if [ "$(nproc)" -ge 2 ]; then
		two_threads .native
		# shellcheck disable=SC2046
		two_threads "" $(recorder)
	else
		skipped two_threads_scale "there is one CPU"
	fi
	for count in 1 2 4 8 16 32 64; do
		time_left "threads_$count" || return
		: >ratios
		for ((round = 0; round < rounds; round++)); do
			work "$count" $((each / count))
			native=$(raw cpu)
			cp out wanted
			# shellcheck disable=SC2046
			work "$count" $((each / count)) $(recorder)
			[ "$(raw sum)" = "$(raw sum wanted)" ] || { echo "soft_work: another sum" >&2; exit 1; }
			awk "BEGIN { print $(raw cpu) / $native }" >>ratios
		done
		figure "threads_${count}_slowdown" "$(median <ratios)" ratio
	done
	[ $peers = 0 ] || work_peers
}

# What only programs that are built for it, or tiny ones, can be recorded by: the same program beside.
work_peers()
{
	local native steps
	echo >input
	time_left work_slowdown.trace_pc || return
	native=$(seconds ./soft_work 1 300)
	sed -n /sum/p out >wanted
	figure work_slowdown "$(record trail/soft,last=2M/ ./soft_work 1 300) / $native" ratio
	rm -rf trail
	if cc -O2 -fsanitize-coverage=trace-pc -o soft_work_pc "$here/soft_work.c" -pthread 2>err; then
		figure work_slowdown.trace_pc "$(SOFT_WORK_RING=1 seconds ./soft_work_pc 1 300) / $native" ratio
	else
		skipped work_slowdown.trace_pc "$(head -n1 err)"
	fi
	command -v gdb >/dev/null || { skipped fib_slowdown.gdb_record "there is no gdb" && return; }
	# the first call of a small function: gdb does not know the instructions of the C library's
	steps=$(seconds gdb -q -batch -ex 'break fib' -ex run -ex 'delete' -ex 'record full' -ex finish --args ./soft_work 1 1)
	if grep -q 'Value returned.*= 377' out; then
		native=$(seconds gdb -q -batch -ex 'break fib' -ex run -ex 'delete' -ex finish --args ./soft_work 1 1)
		work 1 1
		figure fib_slowdown.gdb_record "($steps - $native) * 1e9 / $(raw fib_ns)" ratio
	else
		skipped fib_slowdown.gdb_record "$(tail -n1 err)"
	fi
}

case " $wanted " in *" startup "*) startup ;; esac
case " $wanted " in *" attach "*) attach ;; esac
case " $wanted " in *" make "*) make ;; esac
for name in gzip sqlite3 lua python; do
	case " $wanted " in *" $name "*) ;; *) continue ;; esac
	case $name in
	gzip) program gzip gzip -nc ;;
	sqlite3) program sqlite3 sqlite3 :memory: ;;
	lua) program lua lua5.4 - ;;
	python) program python /usr/bin/python3 - ;;
	esac
done
case " $wanted " in *" threads "*) threads ;; esac
exit 0
