#!/bin/bash
# SPDX-License-Identifier: MIT
# Watched where a signal is least welcome: small stacks, red zones, jumps out of handlers, faults, memory that goes, a program's own
# traps, forks. It does what it does alone, and all is told.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

cc -O1 -g "$source_dir/tests/targets/stacks.c" -o stacks -lpthread || exit 1

for mode in "coroutines 100" "small 1000" "red 2000" "jumps 2000" "faults 100" "memory 300" "traps 200"; do
	read -r mode hits <<<"$mode"
	watches "$mode" 0 -e watch:word -- ./stacks "$mode"
	grep -q right out || fail "$mode: $(cat out words)"
	expect "$mode: hits, told, missed" "$(json hits) $(json recorded) $(json missed)" "$hits $hits 0"
done

watches forks 0 -e watch:word/count/ -- ./stacks forks
grep -q right out || fail "forks: $(cat out words)"

# What a hit takes of the stack that its thread is on, as waymark-watch(1) has it; with room for processors to come.
timeout 10 ./stacks deep >alone
watches deep 0 -e watch:word/bt=10/ -- ./stacks deep
bytes=$(sed -n 's/^deep: //p' out)
[ "$bytes" -gt "$(sed -n 's/^deep: //p' alone)" ] && [ "$bytes" -le 16000 ] || fail "a hit takes $bytes bytes of stack"
exit $failed
