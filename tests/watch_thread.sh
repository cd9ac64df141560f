#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches of variables that each thread has one of: whose, where they lie, and that they end with their thread.
# shellcheck source=tests/watch_setup.bash
. "$(dirname "$0")/watch_setup.bash"

cat >library.c <<'END2'
__thread unsigned long of_library;
void library_count(void) { of_library = of_library + 1; }
END2
cat >threads.c <<'END2'
/* threads [LIBRARY]: three threads write variables of their own when a line is read; then others get their memory, and do so too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread unsigned long own;
static __thread struct { int x, y; } pair;
static volatile int shared;
static unsigned long *volatile of_second;
static void (*library_count)(void);
static volatile int goes, ends, next_runs;

static void write_all(int sign)
{
	for (int i = 0; i < 20; i++) {
		own = own + 1;
		__asm__ volatile("" : : "r"(&own), "r"(&pair) : "memory");
		pair.y = sign * (i + 1);
		__asm__ volatile("" : : "r"(&pair) : "memory");
		if (library_count)
			library_count();
	}
}

static void *body(void *data)
{
	if (data) {
		if (library_count)
			library_count();
		printf("tid %d\n", gettid());
		of_second = &own;
	}
	while (!goes)
		usleep(1000);
	write_all(1);
	while (!ends)
		usleep(1000);
	return NULL;
}

/* All three at once, so that all memory that was left is used again. */
static void *next(void *data)
{
	next_runs++;
	while (next_runs < 3)
		usleep(100);
	write_all(-1);
	return data;
}

static void start(pthread_t *all, void *(*run)(void *))
{
	for (int i = 0; i < 3; i++)
		pthread_create(&all[i], NULL, run, i == 1 ? all : NULL);
}

int main(int argc, char **argv)
{
	pthread_t all[3], more[3];
	char line[80];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		library_count = (void (*)(void))dlsym(dlopen(argv[1], RTLD_NOW), "library_count");
	start(all, body);
	while (!of_second)
		usleep(1000);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		goes = 1;
		write_all(1);
		*of_second = 1000;
		usleep(200000);
		ends = 1;
		for (int i = 0; i < 3; i++)
			pthread_join(all[i], NULL);
		start(more, next);
		for (int i = 0; i < 3; i++)
			pthread_join(more[i], NULL);
		shared++;
		usleep(300000);
		puts("right");
		return 0;
	}
	return 1;
}
END2
cc -g -O1 -shared -fPIC library.c -o library.so && cc -g -O1 threads.c -o threads -lpthread -ldl || exit 1

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

# Its thread's, whichever thread writes there; and not the thread's that has the memory after it.
thread second "" 'watch:own/thread=TID/'
expect "second" "$(json recorded)" 21
expect "second: by another" "$(field_values second own new | grep -cx 1000)" 1
[ "$(json dropped)" -ge 20 ] || fail "second: of those that came after: $(json dropped)"
says "taken away before the end: the thread whose variable it was has ended"
thread member "" 'watch:pair.y/thread=TID/'
expect "member" "$(field_values member pair.y new | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 "
thread main "" 'watch:own/thread=main/'
expect "main" "$(field_values main own new | tr '\n' ' ')" "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 "
# Of a library that came late, where the thread has it since it used it.
thread late ./library.so 'watch:of_library/thread=TID/'
expect "of a library" "$(field_values late of_library new | head -20 | tr '\n' ' ')" "2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 "
expect "of a library: no more" "$(json recorded)" 20
# Of one that was there from the beginning, and of libc.
cat >early.c <<'END2'
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
void library_count(void);
int main(void)
{
	for (int i = 0; i < 5; i++) {
		library_count();
		open("/nonexistent", O_RDONLY);
		if (write(-1, "", 1) >= 0) return 1;
	}
	return 0;
}
END2
cc -g -O1 early.c -o early ./library.so || exit 1
watches early_out 0 -e watch:of_library/thread=main/ -- ./early
expect "of an early library" "$(field_values early_out of_library new | tr '\n' ' ')" "1 2 3 4 5 "
watches errno_out 0 -e 'watch:errno/4@libc.so.6/thread=main/' -- ./early
expect "errno" "$(field_values errno_out errno.4 new | tr '\n' ' ')" "2 9 2 9 2 9 2 9 2 9 "
# Each process's first, of a child's too.
cat >forks.c <<'END2'
#include <sys/wait.h>
#include <unistd.h>
static __thread volatile int mine;
int main(void)
{
	int status;
	mine = 1;
	if (!fork()) { mine = 2; _exit(0); }
	wait(&status);
	mine = 3;
	return status;
}
END2
cc -g -O1 forks.c -o forks || exit 1
watches forks_out 0 -e watch:mine/thread=main/ -- ./forks
expect "forks" "$(field_values forks_out mine new | tr '\n' ' ')" "1 2 3 "

# The number that a library had goes to the next one: what a thread has under it is no variable of that one's, until it has used it.
sed 's/of_library/of_another/; s/library_count(void) {.*/library_count(void) { of_another += 100; }/' library.c >another.c
cat >reuse.c <<'END2'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void (*volatile count)(void);
static volatile int done;
static void *body(void *data)
{
	printf("tid %d\n", gettid());
	count();
	done = 1;
	while (done != 2)
		usleep(1000);
	while (usleep(1000), done == 2)
		;
	for (int i = 0; i < 3; i++)
		count();
	done = 4;
	while (usleep(1000), done == 4)
		;
	for (int i = 0; i < 3; i++)
		count();
	return data;
}
int main(void)
{
	void *first = dlopen("./library.so", RTLD_NOW);
	pthread_t thread;
	char line[8];
	setvbuf(stdout, NULL, _IOLBF, 0);
	count = (void (*)(void))dlsym(first, "library_count");
	pthread_create(&thread, NULL, body, NULL);
	while (!done)
		usleep(1000);
	dlclose(first);
	count = (void (*)(void))dlsym(dlopen("./another.so", RTLD_NOW), "library_count");
	done = 2;
	puts("ready");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	done = 3;
	while (done != 4)
		usleep(1000);
	puts("used");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	done = 5;
	pthread_join(thread, NULL);
	return 0;
}
END2
cc -g -O1 -shared -fPIC another.c -o another.so && cc -g -O1 reuse.c -o reuse -lpthread -ldl || exit 1
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
bad 1 "the thread has no copy of the variable yet" -e watch:of_library/thread=main/ -p "$pid"
bad 1 "the process has no such thread: watch:own/thread=$$/: $$ is a thread of process $$" -e "watch:own/thread=$$/" -p "$pid"
bad 1 "the process has no such thread: watch:own/thread=4194303/: 4194303" -e watch:own/thread=4194303/ -p "$pid"
bad 1 "each thread has a variable of its own under that name" -e watch:own -p "$pid"
bad 1 "each thread has a variable of its own under that name" -e watch:errno/4@libc.so.6 -p "$pid"
bad 1 "all threads share it" -e "watch:shared/thread=$tid/" -p "$pid"
bad 1 "a watch has no such option" -e "watch:own/thread=first/" -p "$pid"
bad 1 "there is no such variable" -e "watch:none/thread=$tid/" -p "$pid"
exec 7>&-

# As an ordinary user.
if [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	chmod 755 "$folder" && mkdir -m 0700 users && chown 65534:65534 users && cp early forks library.so users/ && chmod 755 users/*
	(cd users && XDG_RUNTIME_DIR=$folder/users setpriv --reuid=65534 --regid=65534 --clear-groups timeout 60 "$waymark" record --json -o users_out \
		-e watch:mine/thread=main/ -- ./forks) >out 2>words || fail "as a user: $(cat words)"
	expect "as a user" "$(json hits) $(json missed) $(json unwatched)" "3 0 0"
fi
exit $failed
