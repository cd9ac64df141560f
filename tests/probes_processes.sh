#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes in processes as users have them: forked, executed, deleted, replaced, with another libc or allocator.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# has_children PID COUNT
has_children()
{
	[ "$(pgrep -c -P "$1")" -ge "$2" ]
}

# A prefork server that runs: its children that are there, and those that come.
start ./prefork 6 0
await has_children "$pid" 6 || fail "the server has not forked 6 children"
run 0 --json --for 500ms --tree -e func:serve -o tree -p "$pid"
expect "--tree: processes" "$(of_events tree '*' pid | sort -u | wc -l)" 6
for child in 0 1 2 3 4 5; do
	of_events tree prefork:serve child round | sed -n "s/^$child //p" |
		awk 'NR > 1 && $1 != last + 1 { bad = 1 } { last = $1 } END { exit bad || !NR }' ||
		fail "--tree: a hole in what child $child did"
done
run 0 --json --for 300ms -e func:serve -o alone -p "$pid"
expect "without --tree the children are left alone" "$("$waymark" dump alone | wc -l)" 0
for other in $(pgrep -P "$pid"); do
	same_bytes "$other" /prefork "a child"
done
kill -9 "$pid"
start ./prefork 3 200
await_running "$pid"
run 0 --json --for 1s -e func:serve -o forked -p "$pid"
expect "forked: discarded" "$(json discarded)" 0
of_events forked '*' pid | sort | uniq -c | awk '$1 != 200 { n++ } $1 == 200 { whole++ }
	END { if (whole < 5 || n > 8) exit 1 }' ||
	fail "forked: children are not recorded from their first call to their last:
$(of_events forked '*' pid | sort | uniq -c | sort -n | head -20)"

# Thousands of places, one with two events: a child takes over what its parent had, and declares what it
# really passes.
run 0 --json --for 2s -e func:serve -e func:serve/rdi:ptr/ -e 'func:*@libc.so.6' -o brood -p "$pid"
children() {
	of_events brood prefork:serve pid | sort | uniq -c
}
children | awk '$1 == 400 { whole++ } END { exit whole < 5 }' ||
	fail "brood: children are not recorded from their first call to their last:
$(children | sort -n | head -20)"
grep -o 'stream_id = [0-9]*' brood/metadata | sort | uniq -c |
	awk '$1 > 1000 { all++ } $1 < 500 { few++ } END { exit !(all && few >= 5) }' ||
	fail "brood: children were sent all again"

# Started through a script that executes another, in a shell that forks one more.
cat >wrapper <<'END'
#!/bin/sh
./probed 10
exec env SHOP=1 ./probed 20
END
chmod +x wrapper
run 0 --json -e func:sum6@probed -o wrapped -- ./wrapper
expect "a wrapper script" "$(count wrapped probed:sum6)" 30

# One that lost the agent's name on the way.
run 124 --for 4s -e func:clock_nanosleep -o unset -- timeout 6 env -u LD_PRELOAD ./probed 0 1 1000
says "/probed: the program was started without the agent in its environment"

# Deleted and replaced binaries: what runs is what is read.
cp probed going
start ./going 0 1 1000
await_running "$pid"
rm going
run 0 --json --for 300ms -e func:add -o deleted -p "$pid"
[ "$(count deleted 'going*:add')" -gt 10 ] || fail "a deleted binary: nothing was recorded"
printf 'int add(int a) { return a; } int main(void) { return add(0); }' | cc -x c -O0 - -o going
run 0 --json --for 300ms -e func:add -o replaced -p "$pid"
[ "$(count replaced 'going*:add')" -gt 10 ] || fail "a replaced binary: nothing was recorded"
kill "$pid"

# musl's programs: refused for what they are, and no worse for being started by what is recorded.
if command -v musl-gcc >/dev/null && musl-gcc -O2 "$probes_dir/prefork.c" -o other_libc 2>/dev/null; then
	run 1 -e func:serve -o musl -- ./other_libc 1 1
	says "not glibc 2.34"
	start ./other_libc 1 0
	await_running "$pid"
	run 1 -e func:serve -o musl -p "$pid"
	says "not glibc 2.34"
	kill -9 "$pid"
	musl-gcc -O2 -x c -o some_other - <<<'int main(void) { return 7; }'
	run 7 -e func:serve -o musl -- sh -c './some_other; exit $?'
fi

# Stripped: what the dynamic symbols name is there, the rest is refused by name.
cp libprobed.so whole.so
strip libprobed.so
run 0 --json -e func:library_add/arg1:i32/ -o stripped -- ./loads ./libprobed.so 1 10 armed
expect "a stripped library" "$(values stripped libprobed:library_add arg1 | grep -vc '^-1$')" 10

# An allocator of the program's own that keeps threads' parts in a list: none may vanish from memory.
cc -O2 "$probes_dir/allocator.c" -o allocator -lpthread || exit 1
timeout -k 5 60 ./allocator &
bounded=$!
child_of "$bounded" allocator
await_running "$child"
for round in 1 2; do
	run 0 --json --for 300ms -e func:work@allocator -o "allocator$round" -p "$child"
	[ "$(count "allocator$round" allocator:work)" -gt 10 ] || fail "an allocator of its own: nothing was recorded"
	await ! has_agent "$child" || fail "an allocator of its own: the agent stays"
done
kill "$child"
wait "$bounded" || fail "an allocator of its own: the program ended with $?"

exit "$failed"
