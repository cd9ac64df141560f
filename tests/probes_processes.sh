#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes in processes as users have them: forked, executed, loading late, deleted, replaced, another's.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# A prefork server that runs: its children that are there, and those that come.
start ./prefork 6 0
sleep 0.3
run 0 --json --for 500ms --tree -e func:serve -o tree -p "$pid"
expect "--tree: processes" "$("$waymark" dump tree | awk '{ print $4 }' | sort -u | wc -l)" 6
for child in 0 1 2 3 4 5; do
	"$waymark" dump tree | sed -n "s/.* child = $child, round = \([0-9]*\).*/\1/p" |
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
sleep 0.2
run 0 --json --for 1s -e func:serve -o forked -p "$pid"
expect "forked: discarded" "$(json discarded)" 0
"$waymark" dump forked | awk '{ print $4 }' | sort | uniq -c | awk '$1 != 200 { n++ } $1 == 200 { whole++ }
	END { if (whole < 5 || n > 8) exit 1 }' ||
	fail "forked: children are not recorded from their first call to their last:
$("$waymark" dump forked | awk '{ print $4 }' | sort | uniq -c | sort -n | head -20)"

# Thousands of places, one with two events: a child takes over what its parent had, and declares what it
# really passes.
run 0 --json --for 1s -e func:serve -e func:serve/rdi:ptr/ -e 'func:*@libc.so.6' -o brood -p "$pid"
children() {
	"$waymark" dump brood | grep 'prefork:serve' | awk '{ print $4 }' | sort | uniq -c
}
children | awk '$1 == 400 { whole++ } END { exit whole < 5 }' ||
	fail "brood: children are not recorded from their first call to their last:
$(children | sort -n | head -20)"
grep -o 'stream_id = [0-9]*' brood/metadata | sort | uniq -c |
	awk '$1 > 1000 { all++ } $1 < 500 { few++ } END { exit !(all && few > 5) }' ||
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

# A library that is loaded late, again and again: from its constructor on.
run 0 --json -e 'func:library_add/arg1:i32,arg2:i32,ret/' -o late -- ./loads ./libprobed.so 5 10
expect "dlopen: calls" "$(count late libprobed:library_add:begin)" 55
expect "dlopen: returns" "$(count late libprobed:library_add:end)" 55
expect "dlopen: constructors" "$(values late libprobed:library_add:begin arg1 | grep -c '^-1$')" 5

# A tool that stands still holds the program back once, not at each of the 30 libraries that it loads.
run 0 --json -e 'func:library_add' -o stopped -- ./loads ./libprobed.so 30 1 stop
case $(json late_modules) in
30 | 31) ;;
*) fail "stopped: modules that came too late: $(json late_modules), expected 30, and perhaps the last" ;;
esac

# Likewise the first of 20 children, a second each if they all waited; each one's loss is told.
run 0 --json -e 'func:serve@forks' -o waiting -- ./forks 20 seconds
expect "stopped: what they did" "$(json discarded)" 20
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

# Deleted and replaced binaries: what runs is what is read.
cp probed going
start ./going 0 1 1000
sleep 0.2
rm going
run 0 --json --for 300ms -e func:add -o deleted -p "$pid"
[ "$(count deleted 'going*:add')" -gt 10 ] || fail "a deleted binary: nothing was recorded"
printf 'int add(int a) { return a; } int main(void) { return add(0); }' | cc -x c -O0 - -o going
run 0 --json --for 300ms -e func:add -o replaced -p "$pid"
[ "$(count replaced 'going*:add')" -gt 10 ] || fail "a replaced binary: nothing was recorded"
kill "$pid"

# In namespaces of its own: files are found as the process sees them.
if [ "$(id -u)" -eq 0 ] && unshare --mount --pid --fork --mount-proc true 2>/dev/null; then
	mkdir -p root own
	cp probed root/inner
	# shellcheck disable=SC2016 # expanded by the inner shell
	start unshare --mount --pid --fork --mount-proc --kill-child sh -c \
		'mount -t tmpfs none "$1" && cp root/inner "$1" && exec "$1"/inner 0 1 1000' - "$folder/own"
	sleep 0.5
	inner=$(pgrep -f "^$folder/own/inner 0 1 1000" | head -1)
	run 0 --json --for 300ms -e func:add -o contained -p "$inner"
	[ "$(count contained inner:add)" -gt 10 ] || fail "in a container: nothing was recorded"
	kill -9 "$inner" 2>/dev/null
else
	echo "without namespaces of its own a program is not tried"
fi

# A container has files of its own, none of them the agent, and a program that is its process 1.
rootfs()
{
	mkdir -p "$1/proc" "$1/tmp" "$1/bin" || return
	cp probed "$1/bin/inner" && cp prefork "$1/bin" || return
	ldd probed | grep -o '/[^ ]*' | while read -r library; do
		mkdir -p "$1/${library%/*}" && cp "$library" "$1/$library" || return
	done
}
# shellcheck disable=SC2016 # expanded by the inner shell
enter='mount -t proc proc "$1/proc" && exec chroot "$@"'
if [ "$(id -u)" -eq 0 ] && rootfs "$folder/root" &&
	unshare --mount --pid --fork --kill-child sh -c "$enter" - "$folder/root" /bin/inner 1 >/dev/null 2>&1; then
	for way in "" "--user --map-root-user"; do
		# shellcheck disable=SC2086 # words
		start unshare $way --mount --pid --fork --kill-child sh -c "$enter" - "$folder/root" \
			/bin/inner 0 1 1000
		sleep 0.5
		inner=$(pgrep -xf '/bin/inner 0 1 1000' | head -1)
		for round in 1 2; do
			run 0 --json --for 300ms -e func:add -o "own$round" -p "$inner"
			[ "$(count "own$round" inner:add)" -gt 10 ] ||
				fail "in a container of its own ($way, $round): nothing was recorded"
			rm -rf "own$round"
		done
		same_bytes "$inner" /inner "in a container"
		kill -9 "$inner"
	done
	start unshare --mount --pid --fork --kill-child sh -c "$enter" - "$folder/root" /bin/prefork 3 200
	sleep 0.3
	inner=$(pgrep -xf '/bin/prefork 3 200' | head -1)
	run 0 --json --for 1s -e func:serve -o forked_inside -p "$inner"
	[ "$("$waymark" dump forked_inside | awk '{ print $4 }' | sort | uniq -c | awk '$1 == 200' | wc -l)" -gt 4 ] ||
		fail "in a container: children are not recorded from their first call to their last"
	kill -9 "$inner"
	expect "what is left in a container" "$(ls "$folder/root/tmp/waymark-$(id -u)")" libwaymark-agent.so
	# A root without /proc, where no probe can be placed.
	start chroot "$folder/root" /bin/inner 0 1 1000
	sleep 0.3
	run 1 --json --for 300ms -e func:add -o no_proc -p "$pid"
	says "the process sees no /proc"
	kill -9 "$pid"
	# ... and without the agent's file, for what is started there.
	run 124 --for 4s -e func:clock_nanosleep -o no_agent -- timeout 6 chroot "$folder/root" /bin/inner 0 1 1000
	says "1 child process ran unrecorded"
	says "/bin/inner: the agent library was not found"
else
	echo "without a root of its own a program is not tried"
fi

# Too few descriptors: for the agent's file, for its sockets, and for a second tool, which the agent, with
# no way to let it in, must not wait for in circles.
if command -v prlimit >/dev/null; then
	start ./probed 0 1 1000
	sleep 0.2
	for few in 3 4; do
		prlimit --pid "$pid" --nofile=$few:
		run 1 --for 100ms -e func:add -o few -p "$pid"
		says "can't open as many files as the agent needs"
		rm -rf few
	done
	prlimit --pid "$pid" --nofile=64:
	"$waymark" record --for 20s -e func:add -o first -p "$pid" >/dev/null 2>&1 &
	first=$!
	for ((i = 0; i < 200; i++)); do
		agent=$(grep -lx waymark /proc/"$pid"/task/*/comm 2>/dev/null) && break
		sleep 0.05
	done
	sleep 1
	prlimit --pid "$pid" --nofile=3:
	run 1 --for 100ms -e func:add -o second -p "$pid"
	says "can't open as many files as the agent needs"
	before=$(awk '{ print $14 + $15 }' "${agent%comm}stat")
	("$waymark" record --for 100ms -e func:add -o third -p "$pid" >/dev/null 2>&1) &
	sleep 2
	after=$(awk '{ print $14 + $15 }' "${agent%comm}stat")
	[ $((after - before)) -lt 25 ] || fail "a tool that can't be let in: the agent works in circles"
	kill -INT "$first"
	wait
	kill "$pid"
fi

# musl's programs: refused for what they are, and no worse for being started by what is recorded.
if command -v musl-gcc >/dev/null && musl-gcc -O2 "$probes_dir/prefork.c" -o other_libc 2>/dev/null; then
	run 1 -e func:serve -o musl -- ./other_libc 1 1
	says "not glibc 2.34"
	start ./other_libc 1 0
	sleep 0.2
	run 1 -e func:serve -o musl -p "$pid"
	says "not glibc 2.34"
	kill -9 "$pid"
	pkill -9 -P "$pid"
	musl-gcc -O2 -x c -o some_other - <<<'int main(void) { return 7; }'
	run 7 -e func:serve -o musl -- sh -c './some_other; exit $?'
fi

# Stripped: what the dynamic symbols name is there, the rest is refused by name.
cp libprobed.so whole.so
strip libprobed.so
run 0 --json -e func:library_add -o stripped -- ./loads ./libprobed.so 1 10
expect "a stripped library" "$(count stripped libprobed:library_add)" 11

# An allocator of the program's own that keeps threads' parts in a list: none may vanish from memory.
cc -O2 "$probes_dir/allocator.c" -o allocator -lpthread || exit 1
(exec ./allocator) &
allocator=$!
sleep 0.2
for round in 1 2; do
	run 0 --json --for 300ms -e func:work@allocator -o "allocator$round" -p "$allocator"
	[ "$(count "allocator$round" allocator:work)" -gt 10 ] || fail "an allocator of its own: nothing was recorded"
	sleep 0.3
done
kill "$allocator"
wait "$allocator" || fail "an allocator of its own: the program ended with $?"

# Another user's process: root may, others may not.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$folder"
	start env -u XDG_RUNTIME_DIR setpriv --reuid 65534 --clear-groups ./probed 0 1 1000
	sleep 0.3
	run 0 --json --for 300ms -e func:add -o others -p "$pid"
	[ "$(count others probed:add)" -gt 10 ] || fail "another user's process: nothing was recorded"
fi

exit "$failed"
