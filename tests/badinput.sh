#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record given what it can't do: a clear line, a status, nothing left behind.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

# The command line.
bad 2 "name a process with -p, or a program"
bad 2 "either -p or a program" -p 1 ./ticker
bad 2 "--pid takes numbers, such as 12 or 12,34, not 12x" -p 12x
bad 2 "--pid takes numbers, such as 12 or 12,34, not -5" -p -5
bad 2 "--buffer takes a size, such as 64M or 1.5GiB, not 12Q" --buffer 12Q ./ticker
bad 2 "--for takes seconds, or a number with ns, us, ms, s, min, h or d, not soon" --for soon ./ticker
bad 2 "did you mean block?" --policy blok ./ticker
bad 2 "did you mean strict?" --strikt ./ticker

# Event specs.
bad 1 "given twice" -e marker:ticker:tick -e ticker:tick ./ticker
bad 1 "no such event to count" -e count:cyles ./ticker
bad 1 "freq=0/: \"freq=0\" (column 18) takes a number from 1 to" -e sample:cpu-clock/freq=0/ ./ticker
bad 1 'is no option of switch, which has callchain' -e switch/x/ ./ticker
bad 2 "-G is for -a or -C" -G /sys/fs/cgroup ./ticker
bad 1 "can't be read" -e ticker ./ticker
bad 1 "can't be read" -e '' ./ticker

# Programs.
bad 1 "No such file or directory: ./nothere" ./nothere
bad 1 "Permission denied" ./out
printf '#!/no/such/interpreter\n' >script
chmod +x script
bad 1 "No such file or directory: /no/such/interpreter" ./script
printf 'what is this\n' >text
chmod +x text
bad 1 "no ELF program" ./text
printf '\177ELF\1\1\1%057d' 0 >small
chmod +x small
bad 1 "not x86-64" ./small
{ printf '\177ELF\2\1\1'; head -c 9 /dev/zero; printf '\2\0\267\0'; head -c 200 /dev/zero; } >foreign
chmod +x foreign
bad 1 "not x86-64" ./foreign
if echo 'int main(void) { return 0; }' | cc -static -x c - -o static 2>/dev/null; then
	bad 1 "statically linked" ./static
fi
WAYMARK_AGENT=/no/such/agent.so bad 1 "agent library was not found: /no/such/agent.so" ./ticker

# Processes.
bad 1 "No such process: pid 4194305" -p 4194305
sh -c 'exit 0' &
gone=$!
wait $gone
bad 1 "pid $gone" -p $gone
if [ "$(id -u)" -eq 0 ]; then
	bad 1 "pid 2" -p 2
	cp ticker setuid
	chown nobody setuid
	chmod 4755 setuid
	bad 1 "setuid" ./setuid
	start ./ticker 1 1 1000000
	roots=$pid
	if command -v setpriv >/dev/null; then
		chmod 755 "$folder"
		(cd /tmp && unset XDG_RUNTIME_DIR && exec setpriv --reuid 65534 --clear-groups \
			timeout 20 "$waymark" record -o "/tmp/waymark-badinput-$$" -p "$roots") >out 2>words
		expect "another user's process: status" $? 1
		says "pid $roots"
		[ ! -e "/tmp/waymark-badinput-$$" ] || fail "another user's process: a folder is left"
	fi
fi

# A listening program with more privileges than its caller: only root may record it.
as_nobody=(env -C /tmp -u XDG_RUNTIME_DIR setpriv --reuid 65534 --regid 65534 --clear-groups)
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
	echo "without root and setpriv no setgid program is tried"
elif findmnt -nT "$folder" -o OPTIONS | grep -q nosuid; then
	echo "on a file system without set-user-ID no setgid program is tried"
else
	chmod 755 "$folder"
	build_target record/listens.c "$WAYMARK_AGENT" -Wl,-rpath,"$folder"
	cp listens setgid
	chgrp 4242 setgid
	chmod 2755 setgid
	for program in "listens" "listens undumpable" "setgid"; do
		# shellcheck disable=SC2086 # a program and its argument
		"${as_nobody[@]}" "$folder"/$program &
		listener=$!
		started+=("$listener")
		await test -S "/tmp/waymark-65534/$listener.agent" || fail "$program does not listen"
		"${as_nobody[@]}" timeout 20 "$waymark" record -e 'marker:*:*' --for 200ms -o "/tmp/waymark-badinput-$$" -p "$listener" >out 2>words
		got=$?
		rm -rf "/tmp/waymark-badinput-$$"
		if [ "$program" = listens ]; then
			expect "$program, recorded by its user" $got 0
		else
			expect "$program, recorded by its user" $got 1
			says "it accepts only root"
		fi
		run 0 --json --for 200ms -o "by_root_$program" -p "$listener"
		[ "$(json recorded)" -gt 0 ] || fail "$program: root records nothing: $(cat words)"
		kill "$listener"
	done
fi

# In a user namespace of its own an ordinary user records its own child.
if "${as_nobody[@]}" unshare --user --map-root-user true 2>/dev/null; then
	chmod 755 "$folder"
	"${as_nobody[@]}" unshare --user --map-root-user bash -c 'mkdir -m 700 "$2"
		export XDG_RUNTIME_DIR=$2 # not /tmp/waymark-0, which is for root
		"$1/ticker" 1 1 100000 &
		while kill -0 $! && [ "$(cat /proc/$!/comm)" != ticker ]; do sleep 0.02; done
		timeout 20 "$1/waymark" record -e "marker:ticker:*" --for 200ms -o "$2/trace" -p $!
		status=$?
		kill $!
		exit $status' - "$folder" "/tmp/waymark-badinput-$$" >out 2>words
	expect "a child in a user namespace: status" $? 0
	rm -rf "/tmp/waymark-badinput-$$"
fi

# The reason of a refusal is the process's own rules, and not a file that is missing.
build_target record/landlocked.c
./landlocked / >said &
if pid=$! && await grep -q ready said; then
	started+=("$pid")
	rm -rf landlocked_trace
	run 0 -e func:usleep --for 200ms -o landlocked_trace -p "$pid"
	kill "$pid"
	start_ready ./landlocked
	bad 1 "Permission denied: its own rules (Landlock" -e func:usleep -p "$pid"
	! grep -q "agent library was not found" words || fail "Landlock: $(cat words)"
	kill "$pid"
	exec 7>&-
else
	echo "no Landlock here"
fi

# Too little memory: the limit is named.
start prlimit --as=40000000 ./ticker 1 1 1000000
await is_napping "$pid"
bad 1 "a limit of its memory is too low (RLIMIT_AS" -p "$pid"
kill "$pid"

# A static program is one in a chroot, too, where no folder for sockets can be made.
if [ "$(id -u)" -eq 0 ] && [ -x static ]; then
	echo '#include <unistd.h>
int main(void) { return pause(); }' | cc -static -x c - -o waits
	mkdir root
	cp waits root
	chroot root /waits &
	pid=$!
	started+=("$pid")
	executed "$pid"
	await has_state "$pid" S
	bad 1 "statically linked" -e func:main -p "$pid"
	kill "$pid"
fi

# A container without /sys has CPUs, too.
if [ "$(id -u)" -eq 0 ] && ! lacks perf-user >/dev/null; then
	unshare -m bash -c 'mount -t tmpfs none /sys && "$@"' - timeout 20 "$waymark" record -e sample:cpu-clock -o no_sys ./ticker >out 2>words
	expect "without /sys: status" $? 0
fi

# Its user records it from before it gives up being dumpable: that includes the children that it forks then.
if [ -x listens ]; then
	build_target record/server.c
	"${as_nobody[@]}" timeout 30 "$waymark" record --json -o "/tmp/waymark-badinput-$$" \
		-e server:child -- "$folder/server" 5 >out 2>words
	expect "children of a process that is not dumpable: events" "$(json recorded)" 5
	rm -rf "/tmp/waymark-badinput-$$"
fi

# Another user has made the folder of this user's sockets: tools and programs meet in private ones.
taken=/tmp/waymark-64003
if [ -x listens ] && [ ! -e /run/user/64003 ] && mkdir "$taken" 2>/dev/null; then
	chmod 777 "$taken"
	as_them=("${as_nobody[@]/65534/64003}" timeout 30)
	"${as_them[@]}" "$waymark" record --json -o "/tmp/waymark-badinput-$$" -- "$folder/ticker" 5 >out 2>words
	expect "launched with the folder taken" $? 0
	[ "$(json recorded)" -gt 0 ] || fail "launched with the folder taken: no event"
	rm -rf "/tmp/waymark-badinput-$$"
	"${as_nobody[@]/65534/64003}" "$folder/listens" &
	listener=$!
	started+=("$listener")
	"${as_nobody[@]/65534/64003}" "$folder/ticker" 1 1 1000000 &
	other=$!
	started+=("$other")
	await has_agent "$listener" || fail "the program does not listen"
	await_running "$other"
	for process in "$listener" "$other"; do
		# a process may trace only its own children where Yama says so
		[ "$process" = "$listener" ] || [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ] || continue
		"${as_them[@]}" "$waymark" record --json --for 1s -o "/tmp/waymark-badinput-$$" -p "$process" >second 2>second_words &
		second=$!
		run 0 --json --for 200ms -o "by_root_$process" -p "$process"
		[ "$(json recorded)" -gt 0 ] || fail "root records nothing with the folder taken: $(cat words)"
		wait "$second" || fail "attached with the folder taken: $(cat second_words)"
		mv second out
		[ "$(json recorded)" -gt 0 ] || fail "attached with the folder taken: no event"
		rm -rf "/tmp/waymark-badinput-$$"
	done
	kill "$listener" "$other"
	expect "sockets in a folder of another user" "$(ls "$taken")" ""
	rmdir "$taken"
	rm -rf "$taken"-*
fi

# No folder for sockets can be written to: the remedy is named.
cat >read_only.sh <<'END'
mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp && mount --bind "$1" "$1" && mount -o remount,rw,bind "$1" &&
	cd "$1" || exit 77
[ ! -d /run/user/0 ] || mount -t tmpfs -o ro tmpfs /run/user/0
timeout 20 "$2" record -o read_only -- ./ticker 1 2>launched_words
launched=$?
./ticker 1 1 1000000 &
timeout 20 "$2" record -o read_only -p $! 2>words
attached=$?
kill $!
echo $launched $attached
END
if [ "$(id -u)" -eq 0 ] && got=$(unset XDG_RUNTIME_DIR && unshare -m sh read_only.sh "$folder" "$waymark" 2>/dev/null); then
	expect "a read-only /tmp" "$got" "1 1"
	for words in launched_words words; do
		grep -q "/tmp/waymark-0: Read-only file system" $words || fail "a read-only /tmp: $(cat $words)"
		grep -q "set XDG_RUNTIME_DIR to a folder of yours" $words || fail "a read-only /tmp, remedy: $(cat $words)"
	done
fi

# Names that match nothing in a process: the message suggests similar ones.
start ./ticker 1 1 1000000
await_running "$pid"
bad 1 "did you mean ticker:tick" -e marker:ticker:tikc -p "$pid"
run 1 -e 'nothing:*' -p "$pid" -o awaited --for 200ms
says "nothing:*: no marker matches: waiting for a module that has it"
says "nothing:*: no marker matches"
kill -0 "$pid" || fail "the process did not outlive the refusals"

# A program that is started may load a match later: it runs, and the message comes at its end.
run 1 -e marker:ticker:tikc -o unmatched -- ./ticker 5
says "marker:ticker:tikc: no marker matches"
says "did you mean ticker:tick"
run 9 -e marker:ticker:tikc -o unmatched9 -- ./ticker 5 1 1 9

# Names that others chose: no terminal obeys them.
hostile=$'\e[31mevil\nname\xc2\x9b'
run 1 -o hostile -e "func:$hostile@ticker" -p "$pid"
says 'x1b[31mevil\x0aname\xc2\x9b'
"$waymark" list "./$hostile" 2>words && fail "a file that isn't there was listed"
says 'x1b[31mevil\x0aname\xc2\x9b'
# the status depends on where the kernel put the program: the place may be refused
"$waymark" record -v -o hostile -e func:main -- bash -c "cp ticker \"\$1\" && \"\$1\" 1" - "./$hostile" >out 2>words
! grep -q $'\e\|\xc2\x9b' words || fail "a name reached the terminal as it is: $(cat -v words)"

# A process that changes its own counts.
build_target record/boasts.c
run 0 -o boasts_trace -- ./boasts
says "this machine cannot produce so many events: a process has changed its counts"

# Without descriptors a message names what they were for, and no other cause.
start ./ticker 1 1 1000000
for ((most = 6; most < 16; most++)); do
	for spec in func:tick trail/soft/ switch; do
		(ulimit -n $most && exec timeout 20 "$waymark" record -p "$pid" -e "$spec" \
			--for 20ms -o "few_$most") 2>words
		! grep -E "administrator|was ended|no module|Too many open files(: )?$" words ||
			fail "$most descriptors, $spec: $(cat words)"
		rm -rf "few_$most"
	done
done
kill "$pid"

# Output folders: refused before the program is started, and left as they were.
mkdir full
touch full/precious
run 1 -o full -- sh -c 'touch ran'
says "the output folder is not empty: full"
[ -e full/precious ] || fail "what was in the folder is gone"
run 1 -o text/trace -- sh -c 'touch ran'
says "Not a directory"
run 1 -o /proc/trace -- sh -c 'touch ran'
run 1 -o no/such/parent -- sh -c 'touch ran'
[ ! -e ran ] || fail "the program ran though nothing could be recorded"
mkdir -m 700 empty
run 0 -o empty -- ./ticker 5
run 1 -o empty -- ./ticker 5
says "not empty"

# Folders that another user can put files or links in.
mkdir -m 777 open
run 1 -o open -- sh -c 'touch ran'
says "another user owns it or can write to it: open"
mkdir -m 700 behind
ln -s behind link
run 1 -o link -- sh -c 'touch ran'
says "another user owns it or can write to it: link"
expect "files behind the link" "$(ls behind)" ""
[ ! -e ran ] || fail "the program ran though nothing could be recorded"
if [ "$(id -u)" -eq 0 ]; then
	mkdir -m 700 foreign_folder
	chown 65534 foreign_folder
	run 1 -o foreign_folder -- ./ticker 5
	says "another user owns it or can write to it: foreign_folder"
	expect "files in another user's folder" "$(ls -A foreign_folder)" ""
	chown 65534 empty
	for change in "report --repair" "compress" "compress -d"; do
		# shellcheck disable=SC2086 # a command and its option
		"$waymark" $change empty >out 2>words && fail "$change: another user's trace was changed"
		says "another user owns it or can write to it: empty"
	done
fi

# The default folder is a new one, however many there are by its name.
mkdir crowd
(
	cd crowd || exit
	now=$(date +%s)
	for ((second = now; second < now + 10; second++)); do
		stem=waymark-$(date -d "@$second" +%Y%m%d-%H%M%S)
		mkdir "$stem" "$stem"-{2..120}
	done
	"$waymark" record -- ../ticker 5 >../out 2>../words
)
expect "the default folder" "$(basename "$(dirname crowd/*/metadata)" | sed 's/.*-//')" 121
run_in_crowd=$(find crowd -mindepth 1 -maxdepth 1 | wc -l)
# shellcheck disable=SC2086 # several words
# after the trace's first file, and before it
for what in "-- ./nothere" "-e ticker -- ../ticker"; do
	(cd crowd && "$waymark" record $what >../out 2>../words) &&
		fail "record $what came to something"
	expect "folders after record $what" \
		"$(find crowd -mindepth 1 -maxdepth 1 | wc -l)" "$run_in_crowd"
done

# A buffer past a limit: the figure and the limit's name.
(
	ulimit -f 1000
	bad 1 "less memory than was asked for: 1073741824 bytes asked, RLIMIT_FSIZE" --buffer 1G ./ticker
	exit "$failed"
) || failed=1
bad 1 "less memory than was asked for" --buffer 9000G ./ticker

exit "$failed"
