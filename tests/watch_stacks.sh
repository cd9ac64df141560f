#!/bin/bash
# SPDX-License-Identifier: MIT
# Watched where a signal is least welcome: small stacks, red zones, jumps out of handlers, faults, memory that goes, a program's own
# traps, forks. It behaves as natively, and all is recorded.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

build_target stacks.c

for mode in "coroutines 100" "small 1000" "red 2000" "jumps 2000" "faults 100" "memory 300" "traps 200"; do
	read -r mode hits <<<"$mode"
	watches "$mode" 0 -e watch:word -- ./stacks "$mode"
	grep -q right out || fail "$mode: $(cat out words)"
	expect "$mode: hits, recorded, missed" "$(json hits) $(json recorded) $(json missed)" "$hits $hits 0"
done

watches forks 0 -e watch:word/count/ -- ./stacks forks
grep -q right out || fail "forks: $(cat out words)"

# A handler on an alternate stack of SIGSTKSZ, where two signals' frames leave little room: all hits
# are recorded, and the memory below the stack stays unchanged.
for bytes in 8192 12000 14000; do
	watches alternate 0 -e watch:word -- ./stacks alternate $bytes
	grep -q right out || fail "alternate stack of $bytes bytes: $(cat out words)"
	expect "alternate stack of $bytes bytes: hits, recorded, missed, no room" \
		"$(json hits) $(json recorded) $(json missed) $(json discarded)" "5 5 0 0"
done

# Memory that is free, below the stack, where the signal's own frames are: the program's
# writes alone are recorded.
own=0
for bytes in $(seq 1024 512 4608); do
	start_ready ./stacks below "$bytes"
	(
		await_armed "$pid"
		echo >&7
	) &
	watches dead 0 -e 'watch:*below' -p "$pid"
	exec 7>&-
	await_text said right
	expect "$bytes bytes below the stack: recorded, missed, late" \
		"$(json recorded) $(json missed) $(json late)" "10 0 0"
	own=$((own + $(json own)))
done
[ $own -gt 0 ] || fail "the handler's own frames were not where anything was watched"

# What a hit takes of the stack that its thread is on, as waymark-hit(7) has it; with room for processors to come.
timeout 10 ./stacks deep >alone
watches deep 0 -e watch:word/bt=10/ -- ./stacks deep
bytes=$(sed -n 's/^deep: //p' out)
[ "$bytes" -gt "$(sed -n 's/^deep: //p' alone)" ] && [ "$bytes" -le 16000 ] || fail "a hit takes $bytes bytes of stack"
exit $failed
