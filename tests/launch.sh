#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record of a program that it starts: environment, children, exec, signals, exit status.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

# recorded WANTED: so many events by the last run
recorded()
{
	expect "events" "$(json recorded)" "$1"
	expect "lost" "$(json discarded)" 0
}

run 0 --json -o plain -- ./ticker 10
recorded 12
expect "first event" "$("$waymark" dump plain | head -1 | grep -c 'ticker:run:begin')" 1

# The exit status is the program's.
run 3 --json -o status -- ./ticker 1 1 1 3
# shellcheck disable=SC2016 # $$ is the inner shell's
run 137 -o killed -- sh -c './ticker 5; kill -9 $$'

# Without --, found along PATH, through a script, under a folder with a space.
PATH=$folder:$PATH run 0 --json -o path ticker 10
recorded 12
printf '#!/bin/sh\nexec ./ticker "$@"\n' >script
chmod +x script
run 0 --json -o script_trace ./script 10
recorded 12
mkdir "a folder"
cp "$WAYMARK_AGENT" "a folder/libwaymark-agent.so"
WAYMARK_AGENT="$folder/a folder/libwaymark-agent.so" run 0 --json -o space -- ./ticker 10
recorded 12

# A stripped program has its markers.
strip -o stripped ticker
run 0 --json -o stripped_trace -- ./stripped 10
recorded 12

# Children: forked, executed, in the background; each under its own pid.
run 0 --json -o children -- sh -c './ticker 10; (./ticker 20 2); ./ticker 30 & wait'
recorded $((12 + 42 + 32))
run 0 --json --no-follow -e marker:ticker:tick -o alone -- sh -c 'exec ./ticker 10'
recorded 10

# A malloc of the program's own can be used again in a forked child before the agent does anything
# there.
build_target record/mallocs.c
expect "mallocs alone" "$(./mallocs)" "threads 1"
expect "mallocs" "$("$waymark" record -e 'marker:mallocs:*' -o mallocs_trace -- ./mallocs 2>/dev/null)" "threads 1"

# What LD_PRELOAD holds stays.
# shellcheck disable=SC2016 # the inner shell's
LD_PRELOAD=libm.so.6 run 1 -o preload -- sh -c 'case $LD_PRELOAD in *agent.so:libm.so.6) exit 0;; esac; exit 5'

# The program gets what comes in on stdin, and its own stdout.
expect "stdin to stdout" "$(echo hello | "$waymark" record -e ticker:tick -o cat -- cat 2>/dev/null)" hello

# SIGTERM to the recorder reaches the program; both end, the trace is whole.
"$waymark" record --json -o term -- ./ticker 10 1 1000000 >out 2>words &
recorder=$!
await_event term ticker:tick
kill -TERM $recorder
wait $recorder
expect "status after SIGTERM" $? 143
expect "events after SIGTERM" "$(events_in term)" "$(json recorded)"
[ "$(json recorded)" -gt 0 ] || fail "nothing was recorded before SIGTERM"

# Ctrl-C on a terminal: the kernel signals both. The rate before it counts what a flight recorder's buffer holds.
if command -v python3 >/dev/null; then
	python3 - "$waymark" >terminal 2>&1 <<-'END' || fail "Ctrl-C on a terminal: $(cat terminal)"
		import os, pty, re, signal, sys
		signal.alarm(60)
		pid, fd = pty.fork()
		if pid == 0:
		    os.execv(sys.argv[1], ["waymark", "record", "--policy", "cyclic", "-o", "terminal_trace", "--", "./ticker", "10", "1", "1000000"])
		said = b""
		while not re.search(rb"[1-9][0-9,]* events/s", said):
		    said += os.read(fd, 4096)
		os.write(fd, b"\x03")
		try:
		    while chunk := os.read(fd, 4096):
		        said += chunk
		except OSError:
		    pass
		status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
		print(said.decode(errors="replace"), status)
		sys.exit(not (status == 130 and b"the trace is in" in said))
	END
	"$waymark" report terminal_trace >/dev/null || fail "the trace after Ctrl-C does not read"
fi

# --for ends the recording, not the program.
run 4 --json --for 100ms -o short -- ./ticker 10 1 300 4
expect "events after --for" "$(events_in short)" "$(json recorded)"

# The default folder's name.
run 0 -- ./ticker 10
says "the trace is in waymark-2"

# A container without /proc: every kind of event has that one reason.
if [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; then
	for spec in 'marker:*:*' switch trail/soft/; do
		unshare --mount sh -c 'mount -t tmpfs none /proc && exec timeout 20 "$@"' - \
			"$waymark" record -e "$spec" -o no_proc -- ./ticker 3 2>words
		grep -q "no /proc can be read" words || fail "without /proc, $spec: $(cat words)"
		rm -rf no_proc
	done
fi

# The kernel gives a process of several threads no user namespace: the way round is named.
if unshare --user true 2>/dev/null; then
	run 1 -o own_users -- unshare --user ./ticker 3
	says "run waymark in the namespace: unshare OPTION... waymark record -- PROGRAM"
	timeout -k 5 60 unshare --map-root-user "$waymark" record --json -o inside_users -- ./ticker 3 >out 2>words
	expect "in a user namespace: status" $? 0
	expect "in a user namespace: recorded" "$(json recorded)" 5
else
	echo "no user namespace: none was tried"
fi

exit "$failed"
