#!/bin/bash
# SPDX-License-Identifier: MIT
# Living beside strace, gdb and USDT's readers: what markers do when no tool is there (nothing), and
# what happens when a debugger holds the program, or looks at one whose sites are armed.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

# A program with markers makes the system calls of one without, and no others.
if command -v strace >/dev/null; then
	build_target ticker.c -O2 -g0 -DWAYMARK_DISABLE -o bare
	for program in bare ticker; do
		# names alone: addresses and sizes differ between any two programs
		strace -f -qq -e trace='!futex,set_robust_list,rseq,madvise,exit' -o log ./$program 100 2 2 ||
			fail "strace $program"
		sed 's/^[0-9]* *//; s/(.*//; /^[+-]/d; /^</d' log | sort >"calls.$program"
	done
	grep -q clone calls.ticker || fail "strace printed nothing"
	diff calls.bare calls.ticker >differs || fail "system calls of markers: $(cat differs)"

	# Started under a tracer, a program may not stop its own threads: a jump of several bytes is refused by name, and all else
	# is recorded. With nothing else there is no recording.
	build_target record/traced.c
	"$waymark" list --func pass ./traced | grep -q '^traced:pass .* first ' || fail "the form of pass: $("$waymark" list --func pass ./traced)"
	timeout 60 strace -f -qq -o log "$waymark" record --json -e marker:traced:round -e func:pass@traced -o traced_trace \
		-- ./traced >out 2>words
	expect "markers under strace: status" $? 0
	expect "markers under strace: recorded" "$(json recorded)" 5
	grep -q '"subject":"traced:pass","text":"another process traces it already"' out || fail "under strace: $(cat out)"
	timeout 60 strace -f -qq -o log "$waymark" record -e func:pass@traced -o traced_alone -- ./traced >out 2>words
	expect "a jump alone under strace: status" $? 1
	says "another process traces it already: pid"
else
	echo "no strace: what markers do by themselves was not looked at"
fi

# The standard note is there for others.
cc -O2 -I"$source_dir/include" "$source_dir/examples/sdt.c" -o sdt || exit 1
readelf -n sdt 2>/dev/null | grep -A3 stapsdt >note || fail "no .note.stapsdt"

if command -v gdb >/dev/null; then
	gdb -batch -ex 'info probes stap' ./sdt >probes 2>&1
	grep -q stap probes || fail "gdb sees no probe: $(cat probes)"

	start ./ticker 1 1 1000000
	await_running "$pid"

	# While a debugger holds the program, an attach is refused, and says so.
	mkfifo let_go
	exec 8<>let_go
	gdb -q -batch -ex 'shell touch held' -ex 'shell head -n 1 let_go' -p "$pid" >gdb.log 2>&1 &
	debugger=$!
	await [ -e held ] || fail "gdb does not come: $(cat gdb.log)"
	run 1 --for 1s -o refused -p "$pid"
	says "another process traces it already"
	echo >&8
	wait $debugger
	[ ! -e refused ] || fail "a refused attach left a folder"

	# A debugger on a program that is being recorded: backtraces, breakpoints, and on it goes.
	begin_record --json -o both -p "$pid"
	await_event both ticker:
	timeout 30 gdb -q -batch -ex 'info threads' -ex 'break usleep' -ex continue -ex bt \
		-ex 'delete' -ex detach -p "$pid" >gdb.log 2>&1
	grep -q 'in main' gdb.log || fail "gdb's backtrace: $(tail -n 5 gdb.log)"
	await_event both ticker: $(($(events_so_far both ticker:) + 100)) # recording resumes when gdb has left
	end_record 0 TERM
	expect "lost beside gdb" "$(json discarded)" 0
	[ "$(events_in both)" -gt 100 ] || fail "few events beside gdb"
	kill -0 "$pid" || fail "the program did not outlive gdb and us"
else
	echo "no gdb: debuggers were not tried"
fi
# Under valgrind a program is recorded if it was started so; into one that runs, no agent comes, and the cause is named.
runs_valgrind()
{
	readlink "/proc/$pid/exe" | grep -q '/valgrind/none-'
}
if command -v valgrind >/dev/null; then
	run 0 --json -o valgrind -- valgrind -q --tool=none ./ticker 20
	[ "$(json recorded)" -gt 20 ] || fail "valgrind: $(cat out words)"
	[ "$(found unrecorded)" = 0 ] || fail "valgrind: the program is said to be unrecorded: $(cat out)"
	start valgrind -q --tool=none ./ticker 1 1 1000000
	await runs_valgrind || fail "valgrind does not come"
	run 1 --for 1s -o valgrind_attached -p "$pid"
	says "runs its program under valgrind"
	kill -9 "$pid"
else
	echo "no valgrind: it was not tried"
fi

exit $failed
