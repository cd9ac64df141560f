#!/bin/bash
# SPDX-License-Identifier: MIT
# Debian's own programs, unmodified, with probes in them: they work on, their results are what they are
# without, every event that is due is there, and nothing is left in their code.
#
#	realprograms.sh [SECTION]...
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
# shellcheck source=tests/postgres.bash
. "$source_dir/tests/postgres.bash"

real=$source_dir/tests/real
python=/usr/bin/python3.11
chmod 755 "$folder" # other users' processes load the agent from here
ran=0
failed_before=0

trap 'pg_stop; cleanup' EXIT

# missing WHAT: this section can't run
missing()
{
	echo "skipped $section: $*"
}

# section_ran: it counts
section_ran()
{
	ran=$((ran + 1))
	[ "$failed" -eq "$failed_before" ] && echo "fine: $section"
	failed_before=$failed
}

# count TRACE NAME [JSON]: events of that name, whose line of JSON has that in it
count()
{
	"$waymark" dump --json "$1" | grep -F "\"name\":\"$2\"" | grep -cF -- "${3:-}"
}

# code_is_whole WHAT PID: within the two seconds that are allowed for it
code_is_whole()
{
	timeout 60 python3 "$real/same_text.py" "$2" 2 >words 2>&1 || fail "$1: code was left changed: $(head -n 3 words)"
}

# ---- Python's own probes ----
python_usdt()
{
	[ -x $python ] || { missing "no $python"; return; }
	$python -S -E "$real/calls.py" >wanted
	run 0 --json --buffer 64M -o py -e 'usdt:python:function__*/arg1:str,arg2:str,arg3/' \
		-e usdt:python:line -- $python -S -E "$real/calls.py"
	expect "python's output" "$(grep -v '^{' out)" "$(cat wanted)"
	expect "python: lost" "$(json discarded)" 0
	"$waymark" dump --json py >py.json
	for pair in fib:1973 thrower:210 catcher:10 cube:300; do
		for edge in entry return; do
			expect "python: function__$edge of ${pair%:*}" \
				"$(grep -F "\"python:function__$edge\"" py.json | grep -cF "\"arg2\":\"${pair%:*}\"")" \
				"${pair#*:}"
		done
	done
	[ "$(grep -cF '"python:line"' py.json)" -gt 8000 ] || fail "python: few lines were recorded"
	expect "python: the file of each fib" \
		"$(grep -F '"arg2":"fib"' py.json | grep -vcF "\"arg1\":\"$real/calls.py\"")" 0
	section_ran
}

# ---- every function of two libraries, in a program that runs ----
works_start()
{
	rm -f input works
	mkfifo input
	$python -S -E "$real/works.py" forever <input >works 2>&1 &
	pid=$!
	started+=("$pid")
	exec {input}>input
	await grep -qs 'under way' works || fail "works.py doesn't come under way: $(cat works)"
}

works_end()
{
	exec {input}>&-
	wait "$pid" || fail "$1: works.py ended with status $?: $(tail -n 3 works)"
	grep -q '^all of .* alike' works || fail "$1: $(tail -n 3 works)"
}

# libraries_attached NAME OPTION...
libraries_attached()
{
	local name=$1 distinct
	shift
	works_start
	for turn in 1 2; do
		rm -rf libraries
		run 0 --json --buffer 64M --for 500ms -o libraries -p "$pid" "$@"
		"$waymark" report libraries >sums 2>&1 || fail "$name: report: $(cat sums)"
		distinct=$(grep -cE '^lib(z|sqlite3):[^ ]+ +[0-9]+ ' sums)
		[ "$distinct" -gt 20 ] || fail "$name: only $distinct functions were seen: $(cat words)"
		code_is_whole "$name, time $turn" "$pid"
		await ! has_agent "$pid" || fail "$name, time $turn: the agent stays"
	done
	works_end "$name"
}

libraries()
{
	[ -x $python ] || { missing "no $python"; return; }
	$python -S -E "$real/works.py" 3 >wanted || { missing "python has no zlib or sqlite3"; return; }
	run 0 --json --buffer 64M --policy cyclic -o libz -e 'func:*@libz.so.1' -- $python -S -E "$real/works.py" 3
	expect "all of libz: the results" "$(grep -v '^{' out)" "$(cat wanted)"
	# python loads SQLite later: it runs until its functions are armed, and on
	$python -S -E "$real/works.py" 200 >longer
	run 0 --json --buffer 64M --policy cyclic -o sqlite -e 'func:*@libsqlite3.so.0' -- \
		$python -S -E "$real/works.py" 200
	expect "all of SQLite: the results" "$(grep -v '^{' out)" "$(cat longer)"
	run 0 --json --buffer 64M --policy cyclic -o returns -e 'func:*@libz.so.1/ret/' \
		-e 'func:*@libsqlite3.so.0/ret/' -- $python -S -E "$real/works.py" 200
	expect "all returns: the results" "$(grep -v '^{' out)" "$(cat longer)"

	# What is counted by the program's own code: three rounds of four threads.
	run 0 --json -o adler -e 'func:deflateInit2_@libz.so.1/arg1,arg2/' -e 'func:inflateEnd@libz.so.1/ret:i32/' \
		-- $python -S -E "$real/works.py" 3
	expect "deflateInit2_" "$(count adler libz:deflateInit2_)" 48
	expect "inflateEnd's returns" "$(count adler libz:inflateEnd:end '"ret":0')" 48

	libraries_attached "functions" -e 'func:*@libz.so.1' -e 'func:*@libsqlite3.so.0'
	libraries_attached "returns" -e 'func:*@libz.so.1/ret/' -e 'func:*@libsqlite3.so.0/ret,arg1,arg2/'
	section_ran
}

# ---- malloc and its family, in sixteen threads ----
allocations()
{
	local family=()
	for function in malloc/ret,arg1/ calloc/ret,arg1,arg2/ realloc/ret,arg1,arg2/ free/arg1/; do
		family+=(-e "func:${function%%/*}@libc.so.6/${function#*/}")
	done
	cc -O2 "$real/allocations.c" -o allocations -lpthread || { fail "allocations.c"; return; }
	run 0 --json --buffer 128M -o family "${family[@]}" -- ./allocations 300
	expect "allocations: the results" "$(grep -v '^{' out)" "all blocks were whole"
	expect "allocations: lost" "$(json discarded)" 0
	"$waymark" dump --json family | python3 "$real/allocations_test.py" 300 >words 2>&1 ||
		fail "allocations: $(cat words)"
	# the whole of libc, while it works
	run 0 --json --buffer 64M --policy cyclic -o libc -e 'func:*@libc.so.6' -- ./allocations 100
	expect "all of libc: the results" "$(grep -v '^{' out)" "all blocks were whole"
	section_ran
}

# ---- PostgreSQL under pgbench ----
# postgres_record NAME OPTION...: of all its processes, while twenty clients work
postgres_record()
{
	local name=$1
	shift
	rm -rf pg
	run 0 --json --buffer 4M --for 2s -o pg -p "$pids" "$@"
	expect "$name: clients' trouble" "$(grep -cE 'ERROR|aborted' pgbench.log)" 0
	[ -z "$(pg_complaints)" ] || fail "$name: $(pg_complaints)"
}

# has_backends POSTMASTER COUNT: so many clients of the user waymark are served
has_backends()
{
	[ "$(pgrep -c -P "$1" -f '^postgres: waymark ')" -ge "$2" ]
}

postgres()
{
	local clients parent pids
	pg_find >why || { missing "$(cat why)"; return; }
	pg_start 4 >why || { missing "no server: $(cat why)"; pg_stop; return; }
	parent=$(head -n 1 "$pg_folder/data/postmaster.pid")
	# its clients last until pg_clients_end. To attach to all takes a slow machine 10 s.
	pg_run pgbench -n -c 20 -j 2 -T 3600 >pgbench.log 2>&1 &
	clients=$!
	await has_backends "$parent" 20 || fail "pgbench's clients do not come: $(tail -n 3 pgbench.log)"
	pids=$(pg_pids) # before others come that go again; these stay for all three recordings

	# nothing shows when all are attached to: a query every 300 ms until the recording has ended
	rm -f recorded
	(for _ in $(seq 100); do [ ! -e recorded ] || break; sleep 0.3; pg_run psql -Atc "select 'a late one'"; done | sort -u >late) &
	postgres_record "transactions" -e 'usdt:postgresql:transaction__*' \
		-e 'usdt:postgresql:query__start/arg1:str/'
	touch recorded
	wait $!
	expect "a query of a new backend" "$(cat late)" "a late one"
	"$waymark" dump --json pg >pg.json
	[ "$(grep -cF '"postgresql:transaction__commit"' pg.json)" -gt 20 ] || fail "few commits were recorded"
	[ "$(grep -F '"postgresql:transaction__start"' pg.json | grep -o '"pid":[0-9]*' | sort -u | wc -l)" \
		-ge 20 ] || fail "not all backends were recorded"
	[ "$(grep -F '"postgresql:query__start"' pg.json | grep -cF 'UPDATE pgbench_accounts')" -gt 20 ] ||
		fail "few queries have their text"
	[ "$(grep -cF "a late one" pg.json)" -gt 0 ] || fail "a backend that came later wasn't recorded"

	postgres_record "functions" -e 'func:Exec*@postgres/ret/' -e 'func:LWLock*@postgres/arg1/' \
		-e 'func:heap_*@postgres/ret,arg1/' -e 'func:pg_parse_query@postgres/ret,arg1:str/'

	# Few of its 71 places can't be taken: where their jumps lead is in use this time, or the heap may grow there.
	rm -f recorded
	(for _ in $(seq 100); do [ ! -e recorded ] || break; sleep 0.3; pg_run psql -Atqc checkpoint; done) & # likewise
	postgres_record "all of USDT" -e 'usdt:postgresql:*'
	touch recorded
	wait $!
	pg_clients_end $clients || fail "pgbench ended with status $?: $(tail -n 3 pgbench.log)"
	grep -q '^number of failed transactions: 0 ' pgbench.log || fail "pgbench: $(cat pgbench.log)"
	expect "pgbench's own books" "$(pg_books)" t
	"$waymark" dump --json pg >pg.json
	python3 "$real/pairs.py" checkpoint__start checkpoint__done 1 <pg.json >words 2>&1 ||
		fail "USDT's checkpoints: $(cat words)"
	if [ "$(json refused)" = 0 ]; then
		python3 "$real/pairs.py" query__plan__start query__plan__done 20 <pg.json >words 2>&1 ||
			fail "USDT's plans: $(cat words)"
	else
		[ "$(grep -o '"name":"[^"]*"' out | sort -u | wc -l)" -le 8 ] || fail "refused: $(cat out)"
		grep -q 'heap or a stack may grow' out || fail "refused: $(cat out)"
	fi
	for pid in $(pg_pids | tr , ' '); do
		# a backend may end meanwhile, the postmaster may not
		timeout 60 python3 "$real/same_text.py" "$pid" 2 >words 2>&1 ||
			{ [ "$pid" != "$parent" ] && ! kill -0 "$pid" 2>/dev/null; } ||
			fail "postgres: code was left changed: $(head -n 3 words)"
	done
	kill -0 "$parent" || fail "the postmaster is gone"
	pg_stop
	section_ran
}

[ $# -gt 0 ] || set -- python libraries allocations postgres
for section in "$@"; do
	case $section in
	python)
		# where the kernel puts the heap as far away as Linux 6.18 does, most of its places can't be taken
		if [ -z "${WAYMARK_ONE_LAYOUT-}" ] && setarch -R true 2>/dev/null; then
			WAYMARK_ONE_LAYOUT=1 setarch -R bash "$source_dir/tests/realprograms.sh" python || { [ $? = 77 ] || fail "python"; }
			section_ran
		else
			python_usdt
		fi
		;;
	libraries) libraries ;;
	allocations) allocations ;;
	postgres) postgres ;;
	*) fail "there is no section $section" ;;
	esac
done
[ $ran -gt 0 ] || [ $failed -ne 0 ] || skip "none of the programs is installed"
exit $failed
