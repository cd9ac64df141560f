/* SPDX-License-Identifier: MIT */
/*
 * A hit that doesn't end: held:forbidden's string can't be read while it is armed, and the handler
 * of that fault, on a stack of its own, stays until SIGUSR1; then "let on" is printed. Meanwhile
 * another thread continues with held:tick. Until it is killed.
 */
#define _GNU_SOURCE
#include <waymark/marker.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static char *forbidden; /* a page without access */
static volatile sig_atomic_t let_on;

static void on_let_on(int signal)
{
	let_on = signal;
}

static void on_fault(int signal)
{
	(void)signal;
	while (!let_on)
		usleep(1000);
	mprotect(forbidden, 4096, PROT_READ | PROT_WRITE);
}

static void *tick(void *data)
{
	for (int i = 0;; i++) {
		WAYMARK(held, tick, i);
		usleep(1000);
	}
	return data;
}

int main(void)
{
	static char above[32768];
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = above, .ss_size = sizeof above };
	sigset_t usr1;
	pthread_t thread;

	forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	signal(SIGUSR1, on_let_on);
	sigaction(SIGSEGV, &action, NULL);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	if (pthread_create(&thread, NULL, tick, NULL))
		return 1;
	pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
	while (!let_on) {
		WAYMARK(held, forbidden, (char *)forbidden);
		usleep(1000);
	}
	printf("let on\n");
	fflush(stdout);
	for (;;)
		pause();
}
