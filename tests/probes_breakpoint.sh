#!/bin/bash
# SPDX-License-Identifier: MIT
# Breakpoints: only on request, only where no jump can stand unless it is said; the program's own SIGTRAP,
# its masks, children and registers are as they were; where a breakpoint might kill it is refused by name.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

cc -O2 -g "$probes_dir/traps.c" -o traps -lpthread || exit 1
at()
{
	printf '0x%x' $((0x$(nm traps | awk -v name="$1" '$3 == name { print $1 }')))
}
# shellcheck disable=SC2054 # the commas are of the specs
specs=(-e func:overlapped/breakpoint/ -e func:looped/breakpoint=always,ret/
	-e func:lone/breakpoint=always,rdi/
	-e func:changes_none/breakpoint=always/
	-e "addr:traps+$(at red_zone_middle)/breakpoint=always/"
	-e "addr:traps+$(at keeps_middle)/breakpoint=always,rbx,rcx/" -e func:main/breakpoint=always/)

# What list says.
"$waymark" list traps --func overlapped --func changes_none >list
grep -q "overlapped.*refused.*; breakpoint, on request" list || fail "list: $(cat list)"
grep -q "changes_none.*several" list || fail "list: $(cat list)"
grep -q "^1 more by a breakpoint, on request: /breakpoint/" list || fail "list: $(cat list)"
"$waymark" list --json traps --func overlapped | grep -q '"on_request":"breakpoint"' ||
	fail "list --json says nothing of a breakpoint"

# Without a request there is none; the better way is taken where it can be.
start ./traps plain 0
await_running "$pid"
bad 1 "jump into the middle" -e func:overlapped -p "$pid"
kill -TERM "$pid"
run 0 -o better -e func:changes_none/breakpoint/ -e func:overlapped/breakpoint/ -- ./traps plain 10
expect "a jump where one can stand" "$(count better traps:changes_none)" 22

# What sees to breakpoints in libc is none of what was asked for.
run 0 --json -o alone -e func:overlapped/breakpoint/ -- ./traps plain 10
expect "sites of one breakpoint" "$(json sites)" 1

# What the program does about its signals, registers and children is as it was.
for mode in plain handlers masks cancels restarts tiny children; do
	run 0 --json -o "$mode" "${specs[@]}" -- ./traps "$mode" 100 4
	grep -q right out || fail "$mode: the program does not say that all was right: $(cat words)"
	[ "$(json recorded)" -gt 1000 ] || fail "$mode: $(json recorded) events"
	expect "$mode: discarded" "$(json discarded)" 0
done
expect "each hit: overlapped" "$(count plain traps:overlapped)" 401
expect "each hit: looped" "$(count plain traps:looped:begin)" 401
expect "each return" "$(count plain traps:looped:end)" 401
expect "what it returns" "$(values plain traps:looped:end ret | tail -1)" 102
expect "each hit: lone" "$(count plain traps:lone)" 401
expect "registers" "$(values plain "traps:+$(at keeps_middle)" rbx | sort -u)" 2
for mode in raise trap long_trap trap_blocked trap_ignored; do
	run 133 -o "$mode" "${specs[@]}" -- ./traps "$mode"
done

# Attached, again and again, under threads that run.
start ./traps plain 0 8
await_running "$pid"
for _ in 1 2 3 4 5; do
	rm -rf attached
	run 0 --json -o attached "${specs[@]}" --for 100ms -p "$pid"
	[ "$(json recorded)" -gt 100 ] || fail "attached: $(json recorded) events: $(cat words)"
done
has_trap "$pid" SigCgt && fail "attached: the handler is not gone"
same_bytes "$pid" traps attached
same_bytes "$pid" libc.so attached
bad 1 "with all signals blocked" -e func:strlen/breakpoint=always/ -p "$pid"
kill -TERM "$pid"

# A tool that dies leaves nothing behind; nor do children that outlive it.
start ./traps forked 0 2
parent=$pid
await_running "$parent"
start "$waymark" record -o killed "${specs[@]}" -p "$parent" >/dev/null 2>&1
await has_trap "$parent" SigCgt || fail "armed: the handler is not there"
kill -9 "$pid"
await ! has_trap "$parent" SigCgt || fail "killed: the handler is not gone"
same_bytes "$parent" traps killed
pkill -TERM -P "$parent"
kill -TERM "$parent"

# Refused, and nothing changed.
for mode in ignored:ignores masks:'blocks SIGTRAP while it runs' blocked:'a thread blocks SIGTRAP'; do
	start ./traps "${mode%%:*}" 0 1
	await_running "$pid"
	case $mode in
	ignored*) await has_trap "$pid" SigIgn ;;
	blocked*) await has_trap "$pid" SigBlk ;; # half a second later
	esac || fail "$mode: it does not do that"
	bad 1 "${mode#*:}" -e func:overlapped/breakpoint/ -p "$pid"
	same_bytes "$pid" traps "$mode"
	run 1 --json -o "refused-${mode%%:*}" -e func:overlapped/breakpoint/ -p "$pid"
	grep -q "\"name\":\"traps:overlapped\",\"module\":\"[^\"]*/traps\",\"address\":$(($(at overlapped)))," out ||
		fail "$mode: where it was refused, as linked: $(cat out)"
	expect "${mode%%:*}: refused" "$(json refused)" 1
	kill -TERM "$pid"
done

# Past libc, while they are armed: they are taken away, and who asked is told.
for mode in blocked:'a thread blocks SIGTRAP' replaced:'past the C library'; do
	run 0 -v -o "late-${mode%%:*}" -e func:overlapped/breakpoint/ -- ./traps "${mode%%:*}" 2000000 1
	says "${mode#*:}"
	grep -q right out || fail "$mode: $(cat words)"
done

exit $failed
