#!/bin/bash
# SPDX-License-Identifier: MIT
# Threads, children and limits under the engine: what programs print, and how they end, is what they do natively.
# shellcheck source=tests/engine_setup.bash
. "$(dirname "$0")/engine_setup.bash"

targets=$WAYMARK_BUILD/tests/targets

# same PROGRAM ARGUMENT...: natively and not
same()
{
	local program=$targets/$1

	shift
	timeout 60 "$load" --native "$program" "$@" >native 2>&1
	echo "status $?" >>native
	timeout 120 "$load" "$engine" "$program" "$@" >engine 2>&1
	echo "status $?" >>engine
	cmp -s native engine || fail "$program $*: $(diff native engine)"
}

# A small program's core has little of the engine, whose mappings are 36 GB.
core_is_small()
{
	(ulimit -c unlimited && timeout 60 "$load" "$engine" "$targets/engine-crowds" dies >said 2>&1)
	grep -q "with a core" said && [ -e core ] || return # it may go elsewhere
	[ "$(stat -c %s core)" -lt 200000000 ] || fail "the core has $(stat -c %s core) bytes"
	rm -f core
}

same engine-kinds
for scene in sequence crowd "crowd 1000" cancel main_goes "main_goes 4" group_ends another_executes signals; do
	# shellcheck disable=SC2086 # two words
	same engine-crowds $scene
done
for scene in descriptors late filtered; do
	same engine-limits $scene
done
# A limit of its memory, or a lock of all of it, would count the engine's: the engine leaves.
for scene in address_space data threads outside locked; do
	same engine-limits $scene
	ENGINE_LOAD_STATE=1 timeout 60 "$load" "$engine" "$targets/engine-limits" $scene 2>&1 |
		grep -q "^state 3 " || fail "engine-limits $scene: the engine did not leave"
done
core_is_small
# A filter for all threads kills at rt_sigreturn(2), by which the others leave: each must have returned before.
cc -O1 -g "$source_dir/tests/targets/sandboxed.c" -o sandboxed -lpthread || exit 1
if [ "$(timeout 10 ./sandboxed threads 2>&1)" = right ]; then
	for round in {1..30}; do
		got=$(timeout 20 "$load" "$engine" ./sandboxed threads 2>&1)
		[ "$? $got" = "0 right" ] || fail "a filter for all threads, round $round: $got"
	done
fi
# Who may lock no more than a limit locks the program's memory, not the engine's: without the right to pass it by, root too.
limited=(setpriv --bounding-set=-ipc_lock --)
"${limited[@]}" true 2>/dev/null || limited=()
for limit in 8192 64; do
	for program in engine-limits engine/engine-places; do
		native=$(ulimit -l $limit && "${limited[@]}" timeout 60 "$load" --native "$targets/$program" locked 2>&1)
		got=$(ulimit -l $limit && "${limited[@]}" timeout 60 "$load" "$engine" "$targets/$program" locked 2>&1)
		[ "$got" = "$native" ] || fail "$program locked, of $limit KiB: $got; natively: $native"
	done
done
# Too little address space for the engine, from the beginning: the program runs without it.
said=$(ulimit -v 4000000 && timeout 60 "$load" "$engine" sh -c 'echo runs; exit 9' 2>&1)
[ "$? $said" = "9 runs" ] || fail "limited from the beginning: $said"
exit $failed
