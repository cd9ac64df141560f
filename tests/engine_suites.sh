#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs as Debian ships them, and their own suites, do under the engine what they do natively: case by case the same result,
# byte by byte the same output; once more with SIGALRM at 1 kHz. And what was recorded reads to its last block.
#
#	engine_suites.sh [SECTION]...
#
# PYTHON_MODULES: modules of Python's own suite, instead of the few that every run has.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"
# shellcheck source=tests/postgres.bash
. "$source_dir/tests/postgres.bash"
waymark=$WAYMARK_BUILD/cli/waymark
real=$source_dir/tests/real
chmod 755 "$folder"
export PYTHONDONTWRITEBYTECODE=1
ran=0
limit=250 # seconds, of one recording
preload=()

missing()
{
	echo "skipped: $*"
}

# same WHAT COMMAND...: its output, what it says, and its status are those of a native run; the last of it is in the trail
same()
{
	local what=$1
	shift
	timeout -k 5 "$limit" env "${preload[@]}" "$@" <input >native 2>native.words
	echo "status $?" >>native
	rm -rf trail
	timeout -k 5 "$limit" "$waymark" record -v -o trail -e trail/soft,last=4M/ -- env "${preload[@]}" "$@" <input >engine 2>words
	echo "status $?" >>engine
	grep -v '^waymark: ' words >engine.words
	cmp -s native engine || fail "$what: $(diff native engine | head -n 5; grep '^waymark: ' words | tail -n 3)"
	cmp -s native.words engine.words || fail "$what says: $(diff native.words engine.words | head -n 5)"
	timeout 60 "$waymark" trail -n 3 trail >shown 2>words || fail "$what: its trail can't be read: $(tail -n 3 words)"
	[ -s shown ] || fail "$what: its trail is empty"
	ran=$((ran + 1))
}

# twice WHAT COMMAND...: also with SIGALRM at 1 kHz
twice()
{
	same "$@"
	preload=(LD_PRELOAD="$folder/alarmed.so")
	same "$1, with SIGALRM," "${@:2}"
	preload=()
}

python()
{
	local module python=/usr/bin/python3
	[ -d /usr/lib/python3.11/test ] || { missing "python: its suite is not installed (libpython3.11-testsuite)"; return; }
	for module in ${PYTHON_MODULES:-test_generators test_exceptions test_coroutines test_threading_local test_weakref}; do
		same "python's $module" $python -E "$real/cases.py" "$module"
	done
	preload=(LD_PRELOAD="$folder/alarmed.so")
	same "python's test_struct, with SIGALRM," $python -E "$real/cases.py" test_struct
	preload=()
}

lua()
{
	local lua
	lua=$(command -v lua5.4) || { missing "lua: not installed"; return; }
	cat >work.lua <<-'END'
		local words, text = {}, string.rep("the quick brown fox ", 200)
		for word in text:gmatch("%a+") do words[word] = (words[word] or 0) + 1 end
		local names = {}
		for name in pairs(words) do names[#names + 1] = name .. words[name] end
		table.sort(names)
		print(table.concat(names, " "))
		local function walk(n) if n > 0 then walk(n - 1) coroutine.yield(n) end end
		local sum = 0
		for n in coroutine.wrap(function() walk(150) end) do sum = sum + n end
		print(sum, pcall(error, { 1 }), select("#", table.unpack(names)))
		local made = {}
		for i = 1, 60000 do made[i] = setmetatable({ i }, { __gc = function() sum = sum + 1 end }) made[i - 300] = nil end
		made = nil collectgarbage()
		print(sum, string.format("%.14g", math.pi ^ 7), load("return 6 * 7")())
	END
	twice "lua" "$lua" work.lua
}

sqlite()
{
	local sqlite
	sqlite=$(command -v sqlite3) || { missing "sqlite3: not installed"; return; }
	cat >work.sql <<-'END'
		create table t(a integer primary key, b text, c real);
		with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
			insert into t select i, hex(i * 7919 % 10007), i / 7.0 from n;
		create index tb on t(b);
		select count(*), sum(a), round(avg(c), 6) from t where b like '3%';
		select b, count(*) from t group by substr(b, 1, 2) order by 2 desc, 1 limit 7;
		begin; delete from t where a % 3 = 0; savepoint s; update t set c = -c; rollback to s; commit;
		select count(*), total(c) from t join (select a x from t where a < 500) on x = a;
		select group_concat(value) from (select value from json_each('[3,1,2]') order by value);
		pragma integrity_check;
	END
	cp work.sql input
	twice "sqlite3" "$sqlite" :memory:
	: >input
}

perl()
{
	cat >work.pl <<-'END'
		use strict; use warnings;
		my %count; my $text = join " ", map { "w" . ($_ * 7919 % 997) } 1 .. 20000;
		$count{$1}++ while $text =~ /\b(w(?:\d)(?=\d*5)\d*)\b/g;
		print "$_ $count{$_}\n" for (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 9];
		local $SIG{USR1} = sub { print "a signal\n" }; kill USR1 => $$;
		eval { die { code => 7 } }; print "died of $@->{code}\n";
		my $child = fork // die; exit 3 unless $child; waitpid $child, 0; print $? >> 8, "\n";
		open my $pipe, "-|", "echo from a pipe" or die; print <$pipe>; close $pipe;
		print length(pack("w*", 1 .. 3000)), " ", join(",", unpack("(A2)*", "abcdef")), "\n";
		sub deep { my $n = shift; $n ? 1 + deep($n - 1) : 0 } no warnings; print deep(3000), "\n";
	END
	twice "perl" /usr/bin/perl work.pl
}

gcc()
{
	command -v cc >/dev/null || { missing "gcc: not installed"; return; }
	command cc -E "$source_dir/base/elf.c" -I"$source_dir" -I"$source_dir/include" -D_GNU_SOURCE -o work.i 2>words ||
		{ fail "gcc: $(head -n 2 words)"; return; }
	same "gcc" cc -w -O1 -S -o - work.i
	same "g++, linking" sh -c 'echo "int main() { try { throw 7; } catch (int n) { return n; } }" >t.cc; c++ -o t t.cc; ./t'
}

postgres()
{
	local status
	pg_find >why || { missing "postgres: $(cat why)"; return; }
	pg_folder=$(mktemp -d "${TMPDIR:-/tmp}/waymark-pg.XXXXXX")
	[ ${#pg_as[@]} -eq 0 ] || chown -R "${pg_as[2]}:${pg_as[4]}" "$pg_folder"
	rm -rf trail
	timeout -k 5 "$limit" "$waymark" record -v -o trail -e trail/soft,last=4M/ -- env -i PATH="$pg_bin:/usr/bin:/bin" HOME="$pg_folder" LC_ALL=C \
		"${pg_as[@]}" initdb -D "$pg_folder/data" -U waymark -A trust -N --no-instructions >out 2>words
	status=$?
	[ $status -eq 0 ] || fail "initdb: status $status: $(tail -n 3 out words)"
	cat >work.sql <<-'END'
		create temp table t as select i, md5(i::text) m from generate_series(1, 3000) i;
		select count(*), min(m), max(m), sum(length(m)) from t where m < '8';
		select i % 7, count(*) from t group by 1 order by 1;
	END
	cp work.sql input
	same "postgres --single" env -i PATH="$pg_bin:/usr/bin:/bin" LC_ALL=C "${pg_as[@]}" "$pg_bin/postgres" --single -c log_checkpoints=off \
		-D "$pg_folder/data" template1
	: >input
	rm -rf "$pg_folder" "$pg_folder.log"
}

node()
{
	command -v node >/dev/null || { missing "node: not installed"; return; }
	cat >work.js <<-'END'
		const { Worker, isMainThread, parentPort } = require('worker_threads');
		function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
		if (!isMainThread) parentPort.postMessage(fib(20));
		else {
			const made = Array.from({ length: 300 }, (_, i) => new Function('x', `return x * ${i} % 97`));
			let sum = 0;
			for (let k = 0; k < 100; k++) for (const one of made) sum = (sum + one(k)) % 1000003;
			let caught = 0;
			for (let i = 0; i < 5000; i++) try { if (i % 3 === 0) throw new Error(i); caught += i } catch (e) { caught-- }
			console.log(sum, caught, fib(22), 'abcabc'.replace(/(b)(c)/g, '$2$1'), JSON.stringify([...Array(5).keys()]));
			new Worker(__filename).on('message', value => console.log('worker', value));
		}
	END
	same "node" node work.js
}

stress()
{
	local one
	command -v stress-ng >/dev/null || { missing "stress-ng: not installed"; return; }
	for one in "cpu 1 --cpu-ops 20" "sigsegv 1 --sigsegv-ops 2000" "sigpending 1 --sigpending-ops 2000" "sigq 1 --sigq-ops 2000" \
		"timer 1 --timer-ops 2000" "context 1 --context-ops 200" "pthread 1 --pthread-ops 30"; do
		rm -rf trail
		# shellcheck disable=SC2086 # words
		timeout -k 5 "$limit" "$waymark" record -v -o trail -e trail/soft,last=4M/ -- stress-ng --verify --timeout 30 --$one >out 2>&1 ||
			fail "stress-ng --$one: $(grep -v '^waymark: ' out | tail -n 3)"
		ran=$((ran + 1))
	done
}

: >input
command -v cc >/dev/null || skip "no C compiler"
cc -O2 -shared -fPIC -o alarmed.so "$real/alarmed.c" || exit 1
"$waymark" record -e trail/soft/ -o probe -- true >out 2>&1 || skip "no trail by translation: $(head -n 1 out)"
sections=("$@")
[ $# -gt 0 ] || sections=(python lua sqlite perl gcc postgres node stress)
for section in "${sections[@]}"; do
	before=$failed failed=0
	case $section in
	python) python ;;
	lua) lua ;;
	sqlite) sqlite ;;
	perl) perl ;;
	gcc) gcc ;;
	postgres) postgres ;;
	node) node ;;
	stress) stress ;;
	*) fail "there is no section $section" ;;
	esac
	[ "$failed" -ne 0 ] || echo "fine: $section"
	failed=$((failed | before))
done
[ "$ran" -gt 0 ] || skip "nothing of it is installed"
exit "$failed"
