#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes in processes that see other files, have few descriptors, or are another user's.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# In namespaces of its own: files are found as the process sees them.
if [ "$(id -u)" -eq 0 ] && unshare --mount --pid --fork --mount-proc true 2>/dev/null; then
	mkdir -p root own
	cp probed root/inner
	# shellcheck disable=SC2016 # expanded by the inner shell
	start unshare --mount --pid --fork --mount-proc --kill-child sh -c \
		'mount -t tmpfs none "$1" && cp root/inner "$1" && exec "$1"/inner 0 1 1000' - "$folder/own"
	child_of "$pid" inner
	await_running "$child"
	run 0 --json --for 300ms -e func:add -o contained -p "$child"
	[ "$(count contained inner:add)" -gt 10 ] || fail "in a container: nothing was recorded"
	kill -9 "$child" 2>/dev/null

	# Two that share a /tmp, where their agents' sockets are, and are process 1 each.
	twins=()
	for which in twin_a twin_b; do
		cp probed "$which"
		start unshare --mount --pid --fork --mount-proc --kill-child "./$which" 0 1 1000
		child_of "$pid" "$which"
		await_running "$child"
		twins+=("$child")
	done
	"$waymark" record --for 20s -e func:add -o first_alone -p "${twins[0]}" >first.words 2>&1 &
	alone=$!
	await is_recording first_alone || fail "a first container: nothing is recorded: $(cat first.words)"
	run 0 --json --for 300ms -e func:add -o second_alone -p "${twins[1]}"
	[ "$(count second_alone twin_b:add)" -gt 10 ] || fail "a second container: nothing was recorded"
	kill -TERM "$alone"
	wait "$alone" || fail "a first container: $(cat first.words)"
	[ "$(count first_alone twin_a:add)" -gt 10 ] || fail "a first container: nothing was recorded"
	run 0 --json --for 300ms -e func:add -o both -p "${twins[0]},${twins[1]}"
	for which in twin_a twin_b; do
		[ "$(count both "$which:add")" -gt 10 ] || fail "two containers: nothing of the $which"
	done
	kill -9 "${twins[@]}"
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
if [ "$(id -u)" -eq 0 ] && rootfs "$folder/apart" &&
	unshare --mount --pid --fork --kill-child sh -c "$enter" - "$folder/apart" /bin/inner 1 >/dev/null 2>&1; then
	for way in "" "--user --map-root-user"; do
		# shellcheck disable=SC2086 # words
		start unshare $way --mount --pid --fork --kill-child sh -c "$enter" - "$folder/apart" \
			/bin/inner 0 1 1000
		child_of "$pid" inner
		await_running "$child"
		for round in 1 2; do
			run 0 --json --for 300ms -e func:add -o "own$round" -p "$child"
			[ "$(count "own$round" inner:add)" -gt 10 ] ||
				fail "in a container of its own ($way, $round): nothing was recorded"
			rm -rf "own$round"
		done
		same_bytes "$child" /inner "in a container"
		kill -9 "$child"
	done
	# by a link that leads on from the container's root
	ln -s /bin/inner "$folder/apart/bin/linked"
	start unshare --mount --pid --fork --kill-child sh -c "$enter" - "$folder/apart" /bin/linked 0 1 1000
	child_of "$pid" linked
	await_running "$child"
	run 0 --json --for 300ms -e func:add@linked -o linked -p "$child"
	[ "$(count linked linked:add)" -gt 10 ] || fail "by a link in a container: nothing was recorded"
	kill -9 "$child"
	start unshare --mount --pid --fork --kill-child sh -c "$enter" - "$folder/apart" /bin/prefork 3 200
	child_of "$pid" prefork
	await_running "$child"
	run 0 --json --for 1s -e func:serve -o forked_inside -p "$child"
	[ "$(of_events forked_inside '*' pid | sort | uniq -c | awk '$1 == 200' | wc -l)" -gt 4 ] ||
		fail "in a container: children are not recorded from their first call to their last"
	kill -9 "$child"
	expect "what is left in a container" "$(ls "$folder/apart/tmp/waymark-$(id -u)")" libwaymark-agent.so
	# A root without /proc, where no probe can be placed.
	start chroot "$folder/apart" /bin/inner 0 1 1000
	await_running "$pid"
	run 1 --json --for 300ms -e func:add -o no_proc -p "$pid"
	says "no /proc can be read"
	kill -9 "$pid"
	# ... and without the agent's file, for what is started there.
	run 124 -e func:clock_nanosleep -o no_agent -- timeout 1 chroot "$folder/apart" /bin/inner 0 1 1000
	says "1 process ran unrecorded"
	says "/bin/inner: the agent library was not found: its root has no $folder/libwaymark-agent.so: copy it there, or attach with -p"
else
	echo "without a root of its own a program is not tried"
fi

# Too few descriptors: for the agent's file, for its sockets, and for a second tool, which the agent, with
# no way to let it in, must not wait for in circles.
if command -v prlimit >/dev/null; then
	start ./probed 0 1 1000
	await_running "$pid"
	for few in 3 4; do
		prlimit --pid "$pid" --nofile=$few:
		run 1 --for 100ms -e func:add -o few -p "$pid"
		says "can't open as many files as are needed"
		rm -rf few
	done
	prlimit --pid "$pid" --nofile=64:
	timeout -k 5 60 "$waymark" record --for 50s -e func:add -o first -p "$pid" >/dev/null 2>&1 &
	first=$!
	await is_recording first || fail "nothing is recorded before descriptors are few"
	agent=$(grep -lx waymark /proc/"$pid"/task/*/comm)
	prlimit --pid "$pid" --nofile=3:
	run 1 --for 100ms -e func:add -o second -p "$pid"
	says "can't open as many files as are needed"
	before=$(awk '{ print $14 + $15 }' "${agent%comm}stat")
	timeout -k 5 60 "$waymark" record --for 100ms -e func:add -o third -p "$pid" >/dev/null 2>&1 &
	third=$!
	sleep 2 # the time in which the agent may do next to nothing
	after=$(awk '{ print $14 + $15 }' "${agent%comm}stat")
	[ $((after - before)) -lt 25 ] || fail "a tool that can't be let in: the agent works in circles"
	prlimit --pid "$pid" --nofile=64:
	kill "$first" # by SIGTERM: a script's jobs ignore SIGINT
	wait "$first" "$third"
	kill "$pid"
fi

# Another user's process: root may, others may not.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$folder"
	start env -u XDG_RUNTIME_DIR setpriv --reuid 65534 --clear-groups ./probed 0 1 1000
	await_running "$pid"
	run 0 --json --for 300ms -e func:add -o others -p "$pid"
	[ "$(count others probed:add)" -gt 10 ] || fail "another user's process: nothing was recorded"
fi

exit "$failed"
