#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches of variables that each thread has one of: whose, where they lie, and that they end with their thread.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

build_target watch/library.c -DOF=__thread -shared -fPIC -o library.so
build_target watch/threads.c

# thread NAME LIBRARY SPEC: with TID in it for the second thread's; they go once it is armed
thread()
{
	start_ready ./threads ${2:+"$2"}
	tid=$(sed -n 's/^tid //p' said)
	(
		await_armed "$pid"
		echo >&7
	) &
	watches "$1" 0 -e "${3/TID/$tid}" -p "$pid"
	exec 7>&-
	wait "$!"
	grep -q right said || fail "$1: $(cat said)"
	expect "$1: missed" "$(json missed)" 0
	expect "$1: all are accounted for" "$(json hits)" $(($(json taken) + $(json dropped)))
}

# Its thread's, whichever thread writes there; and not the thread's that has the memory after it: its 20 hits are dropped, or as
# many of them as come before the watch is taken away.
thread second "" 'watch:own/thread=TID/'
expect "second" "$(json recorded)" 21
expect "second: by another" "$(field_values second own new | grep -cx 1000)" 1
says "taken away before the end: the thread whose variable it was has ended"
thread member "" 'watch:pair.y/thread=TID/'
expect "member" "$(field_values member pair.y new | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 "
thread main "" 'watch:own/thread=main/'
expect "main" "$(field_values main own new | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 "
# Of a library that came late, where the thread has it since it used it.
thread late ./library.so 'watch:in_library/thread=TID/'
expect "of a library" "$(field_values late in_library new | head -20 | tr '\n' ' ')" \
	"2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 "
expect "of a library: no more" "$(json recorded)" 20
# Of one that was there from the beginning, and of libc.
build_target watch/early.c ./library.so
watches early_out 0 -e watch:in_library/thread=main/ -- ./early
expect "of an early library" "$(field_values early_out in_library new | tr '\n' ' ')" "1 2 3 4 5 "
watches errno_out 0 -e 'watch:errno/4@libc.so.6/thread=main/' -- ./early
expect "errno" "$(field_values errno_out errno/4 new | tr '\n' ' ')" "2 9 2 9 2 9 2 9 2 9 "
# Each process's first, of a child's too.
build_target family.c
watches forks_out 0 -e watch:mine/thread=main/ -- ./family runs
expect "forks" "$(field_values forks_out mine new | tr '\n' ' ')" "1 2 3 "

# The number that a library had goes to the next one: what a thread has under it is no variable of that one's, until it has used it.
build_target watch/library.c -DOF=__thread -DBY=100 -Din_library=of_another -shared -fPIC \
	-o another.so
build_target watch/reuse.c
start_ready ./reuse
tid=$(sed -n 's/^tid //p' said)
bad 1 "the thread has no copy of the variable yet" -e "watch:of_another@another.so/thread=$tid/" -p "$pid"
echo >&7
await_text said used
(
	await_armed "$pid"
	echo >&7
) &
watches reused 0 -e "watch:of_another@another.so/thread=$tid/" -p "$pid"
exec 7>&-
expect "of a library in another's place" "$(field_values reused of_another new | tr '\n' ' ')" "400 500 600 "

# What can't be.
start_ready ./threads ./library.so
tid=$(sed -n 's/^tid //p' said)
bad 1 "the thread has no copy of the variable yet" -e watch:in_library/thread=main/ -p "$pid"
bad 1 "the process has no such thread: watch:own/thread=$$/: $$ is a thread of process $$" -e "watch:own/thread=$$/" -p "$pid"
bad 1 "the process has no such thread: watch:own/thread=4194303/: 4194303" -e watch:own/thread=4194303/ -p "$pid"
bad 1 "each thread has a variable of its own under that name" -e watch:own -p "$pid"
bad 1 "each thread has a variable of its own under that name" -e watch:errno/4@libc.so.6 -p "$pid"
bad 1 "all threads share it" -e "watch:shared/thread=$tid/" -p "$pid"
bad 1 "takes a number from 1 on" -e "watch:own/thread=first/" -p "$pid"
bad 1 "there is no such variable" -e "watch:none/thread=$tid/" -p "$pid"
exec 7>&-

# As an ordinary user.
if [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	chmod 755 "$folder" && mkdir -m 0700 users && chown 65534:65534 users &&
		cp family users/ && chmod 755 users/*
	(cd users && XDG_RUNTIME_DIR=$folder/users setpriv --reuid=65534 --regid=65534 --clear-groups \
		timeout 60 "$waymark" record --json -o users_out -e watch:mine/thread=main/ -- \
		./family runs) >out 2>words || fail "as a user: $(cat words)"
	expect "as a user" "$(json hits) $(json missed) $(json unwatched)" "3 0 0"
fi
exit $failed
