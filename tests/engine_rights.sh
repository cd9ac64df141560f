#!/bin/bash
# SPDX-License-Identifier: MIT
# What programs ask the kernel for that touches the engine itself: filters for all threads, other users, a gs of their own, memory where
# the engine's is, limits and descriptors. They print and end as natively.
# shellcheck source=tests/engine_setup.bash
. "$(dirname "$0")/engine_setup.bash"

targets=$WAYMARK_BUILD/tests/targets/engine
chmod 755 .

# same PROGRAM SCENE: natively and not
same()
{
	local program=$targets/engine-$1

	shift
	timeout -k 5 60 "$load" --native "$program" "$@" >native 2>&1
	echo "status $?" >>native
	timeout -k 5 60 "$load" "$engine" "$program" "$@" >translated 2>&1
	echo "status $?" >>translated
	[ "$(wc -l <native)" -gt 1 ] || fail "$program $* printed nothing"
	cmp -s native translated ||
		fail "$program $* (left after ${ENGINE_LOAD_STOP:-never}): $(diff native translated | head -20)"
}

# Some make the engine leave: then at that moment, and with an answer.
leaves()
{
	same "$@"
	ENGINE_LOAD_STATE=1 timeout -k 5 60 "$load" "$engine" "$targets/engine-$1" "${@:2}" 2>&1 |
		grep -q "^state 3 " || fail "$*: the engine did not leave"
}

# stays PROGRAM SCENE: and others don't.
stays()
{
	same "$@"
	ENGINE_LOAD_STATE=1 timeout -k 5 60 "$load" "$engine" "$targets/engine-$1" "${@:2}" 2>&1 |
		grep -q "^state 1 " || fail "$*: the engine left"
}

for scene in low breaks implied root descriptors locked maps ring; do
	same places $scene
done
for scene in user barriers dumpable tracer; do
	same rights $scene
done
for scene in fixed fixed_free between unmap_all stray attached; do
	stays places $scene
done
stays raised
leaves raised others
leaves breaks breaks
for scene in synced alone dispatch own_gs; do
	leaves rights $scene
done
# Asked to leave at any moment: who is in a system call leaves behind it, and still needs the engine's handlers and its own calls, so that is not
# the moment for filters.
for us in 0 3000 20000 100000; do
	export ENGINE_LOAD_STOP=$us
	for scene in user barriers dumpable; do
		same rights $scene
	done
done
exit $failed
