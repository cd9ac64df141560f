#!/bin/bash
# SPDX-License-Identifier: MIT
# Signals under the software engine: programs print what they see, end as they end, leave the cores that they leave, natively and
# under the engine; both must be the same.
# shellcheck source=tests/engine_setup.bash
. "$(dirname "$0")/engine_setup.bash"

targets=$WAYMARK_BUILD/tests/targets/engine
grep -qw avx /proc/cpuinfo || skip "the programs need AVX"
ulimit -c unlimited 2>words || true
has_cores=
[ "$(cat /proc/sys/kernel/core_pattern)" = core ] && [ "$(ulimit -c)" = unlimited ] && has_cores=1

# one WAY PROGRAM ARGUMENT...: what it printed, its status, its core
one()
{
	local core
	rm -f core*
	timeout -k 5 60 "$load" "$@" 2>&1 | head -c 1000000
	echo "status ${PIPESTATUS[0]}"
	[ -z "$has_cores" ] && return
	for core in core*; do
		[ -e "$core" ] && "$load" --core "$core"
	done
}

# same PROGRAM ARGUMENT...
same()
{
	local program=$targets/engine-$1
	shift
	one --native "$program" "$@" >native
	one "$engine" "$program" "$@" >translated
	[ "$(wc -l <native)" -gt 1 ] || fail "$program $* printed nothing"
	diff native translated >differ ||
		fail "$program $* (left after ${ENGINE_LOAD_STOP:-never}): $(head -20 differ)"
}

for program in frames masks queues traps faults stacks returns jumps threads 'threads exec' 'storm 1' 'filters within' \
	'waits descriptors' 'waits masks' 'waits waited' 'waits crowd' 'waits sources' 'waits interrupted' \
	'waits orphaned' contexts; do
	# shellcheck disable=SC2086 # a program and its argument
	same $program
done
ENGINE_LOAD_FILTER=1 same filters
for how in abort term quit kill trap-sent realtime segv-sent full-stack no-stack blocked ignored no-restorer segv fpe ill trap \
	general null bus step frame; do
	same deaths "$how"
done
same deaths segv threads
same deaths abort threads

# The engine is asked to leave at any moment: the program continues as natively. Signal frames name the last trap, which may be Waymark's then.
for us in 0 3000 20000 100000 400000; do
	export ENGINE_LOAD_STOP=$us
	for program in masks queues traps stacks returns threads 'storm 1' 'waits descriptors' 'waits masks' 'waits crowd'; do
		# shellcheck disable=SC2086 # a program and its argument
		same $program
	done
	same deaths segv
done
exit $failed
