#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes in libraries that come late, and programs that wait for a tool: for its word, or for room.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# A library that is loaded late, again and again: from its constructor on.
run 0 --json -e 'func:library_add/arg1:i32,arg2:i32,ret/' -o late -- ./loads ./libprobed.so 5 10
expect "dlopen: calls" "$(count late libprobed:library_add:begin)" 55
expect "dlopen: returns" "$(count late libprobed:library_add:end)" 55
expect "dlopen: constructors" "$(values late libprobed:library_add:begin arg1 | grep -c '^-1$')" 5

# A stopped tool holds the program back once, not at each of the 30 libraries that it loads.
run 0 --json -e 'func:library_add' -o stopped -- ./loads ./libprobed.so 30 1 stop
case $(json late_modules) in
30 | 31) ;;
*) fail "stopped: modules that came too late: $(json late_modules), expected 30, and perhaps the last" ;;
esac

# Likewise the first of 20 children, a second each if they all waited. Each writes to its parent's buffer meanwhile.
run 0 --json -e 'func:serve@forks' -o waiting -- ./forks 20 seconds
expect "stopped: what they did" "$(json recorded) $(json discarded)" "20 0"
expect "stopped: late" "$(json late_processes)" 0
[ "$(cat seconds)" -lt 15 ] || fail "stopped: 20 children were held back for $(cat seconds) s"

# Who waits for room makes no system call that the program has shut itself off from.
run 0 --json --policy block --buffer 1M -e 'func:serve/arg1/' -o shut_in -- ./shut 3000000
expect "shut in: recorded + discarded" $(($(json recorded) + $(json discarded))) 3000000
# Also one that might have slept until then.
for _ in 1 2 3; do
	rm -rf shut_late
	run 0 --json --policy block --buffer 256K -e 'func:serve/arg1/' -o shut_late -- \
		sh -c './shut 1000000 1300 >calls'
	expect "shut in late: recorded + discarded" $(($(json recorded) + $(json discarded))) "$(cat calls)"
done

exit "$failed"
