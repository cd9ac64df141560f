#!/bin/bash
# SPDX-License-Identifier: MIT
# A watched program puts itself under a seccomp filter that would kill it for a hit's signal: the watches are gone before, and
# the tool reports it.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

cc -O1 -g "$source_dir/tests/targets/sandboxed.c" -o sandboxed -lpthread || exit 1
timeout 10 ./sandboxed prctl >alone 2>&1 && grep -q right alone || skip "no seccomp filters here: $(cat alone)"
timeout 10 ./sandboxed threads >alone 2>&1 && grep -q right alone || skip "no seccomp filters for all threads here"
because="a thread runs under a filter of its own"

for mode in prctl syscall both all strict; do
	watches $mode 0 -e watch:written -- ./sandboxed $mode
	grep -q right out || fail "$mode: $(cat out words)"
	says "taken away before the end: $because"
	expect "$mode: hits before" "$(json hits) $(json recorded) $(json missed)" "10 10 0"
done

# In all threads, while they write.
for i in 1 2 3; do
	watches threads 0 -e watch:written -- ./sandboxed threads
	grep -q right out || fail "threads, $i: $(cat out words)"
	says "taken away before the end: $because"
done

# By an instruction of its own it is seen late: such a filter must bear a signal, and this one does.
watches past 0 -e watch:written -- ./sandboxed past
grep -q right out || fail "past libc: $(cat out words)"
says "taken away before the end: $because"
expect "past libc" "$(json hits)" 20

# Nothing else of prctl(3) and syscall(3) is otherwise; who but asks, and a child of vfork(2), takes no watch away.
watches otherwise 0 -e watch:written -- ./sandboxed otherwise
grep -q right out || fail "otherwise: $(cat out words)"
expect "otherwise: hits" "$(json hits) $(json missed)" "20 0"
grep -q "taken away" words && fail "otherwise: $(cat words)"

# Detached while it sleeps: the stop makes it sleep from the start again, as its filter refuses restart_syscall(2).
run 0 --for 700ms -o asleep -e func:called -- ./sandboxed sleepily
await grep -q right out || fail "let go asleep: $(cat out words)"

# A tool that doesn't answer delays no thread for long.
rm -rf frozen
"$waymark" record -o frozen -e watch:written -- ./sandboxed late >late_out 2>late_words &
tool=$!
await_text late_out ready
kill -STOP $tool
await has_state $tool T || fail "the recorder does not stop"
touch go
await_text late_out right
kill -CONT $tool
wait $tool
expect "with a frozen tool" "$? $(tail -1 late_out)" "0 right"
exit $failed
