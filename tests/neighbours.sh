#!/bin/bash
# SPDX-License-Identifier: MIT
# Living beside strace, gdb and USDT's readers: what markers do when no tool is there (nothing), and
# what happens when a debugger holds the program, or looks at one whose sites are armed.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

# A program with markers makes the system calls of one without, and no others.
if command -v strace >/dev/null; then
	cc -O2 -DWAYMARK_DISABLE -I"$source_dir/include" "$source_dir/tests/targets/ticker.c" \
		-o bare -lpthread || exit 1
	for program in bare ticker; do
		# names alone: addresses and sizes differ between any two programs
		strace -f -qq -e trace='!futex,set_robust_list,rseq,madvise,exit' -o log ./$program 100 2 2 ||
			fail "strace $program"
		sed 's/^[0-9]* *//; s/(.*//; /^[+-]/d; /^</d' log | sort >"calls.$program"
	done
	grep -q clone calls.ticker || fail "strace told nothing"
	diff calls.bare calls.ticker >differs || fail "system calls of markers: $(cat differs)"
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
	sleep 0.2

	# While a debugger holds the program, an attach is refused, and says so.
	gdb -q -batch -ex 'shell touch held' -ex 'shell sleep 4' -p "$pid" >gdb.log 2>&1 &
	debugger=$!
	for ((i = 0; i < 100; i++)); do
		[ -e held ] && break
		sleep 0.1
	done
	run 1 --for 1s -o refused -p "$pid"
	says "another process traces it already"
	wait $debugger
	[ ! -e refused ] || fail "a refused attach left a folder"

	# A debugger on a program that is being recorded: backtraces, breakpoints, and on it goes.
	"$waymark" record --json --for 5s -o both -p "$pid" >both.json 2>both.words &
	recorder=$!
	sleep 1
	timeout 30 gdb -q -batch -ex 'info threads' -ex 'break usleep' -ex continue -ex bt \
		-ex 'delete' -ex detach -p "$pid" >gdb.log 2>&1
	grep -q 'in main' gdb.log || fail "gdb's backtrace: $(tail -n 5 gdb.log)"
	wait $recorder || fail "recording beside gdb: $(cat both.words)"
	sed -n 's/.*"discarded":\([0-9]*\).*/\1/p' both.json | grep -qx 0 || fail "lost beside gdb"
	[ "$(events_in both)" -gt 100 ] || fail "few events beside gdb"
	kill -0 "$pid" || fail "the program did not outlive gdb and us"
else
	echo "no gdb: debuggers were not tried"
fi
exit $failed
