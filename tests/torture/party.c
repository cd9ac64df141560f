/* SPDX-License-Identifier: MIT */
#include "tests/torture/party.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTIES_MAX 16

__thread volatile int party_is_parked;
static uint32_t *party_pause, *party_parked;

void *party_map(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *shared;

	if (fd < 0)
		return NULL;
	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared == MAP_FAILED ? NULL : shared;
}

void party_begin(uint32_t *pause, uint32_t *parked, void (*handler)(int))
{
	struct itimerval every = { .it_interval = { 0, 1000 }, .it_value = { 0, 1000 } };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	party_pause = pause;
	party_parked = parked;
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
}

int party_run(void *(*const all[])(void *), unsigned int count, uint32_t *ready)
{
	pthread_t threads[PARTIES_MAX];

	for (unsigned int i = 0; i < count; i++)
		if (i >= PARTIES_MAX ||
		    pthread_create(&threads[i], NULL, all[i], (void *)(uintptr_t)i))
			return 2;
	party_signals(SIG_BLOCK); /* the main thread is no party */
	__atomic_store_n(ready, 1, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int is_paused(void)
{
	return __atomic_load_n(party_pause, __ATOMIC_ACQUIRE);
}

void party_gate(void)
{
	if (!is_paused())
		return;
	party_is_parked = 1; /* before the count: from there on no handler counts */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_fetch_add(party_parked, 1, __ATOMIC_SEQ_CST);
	while (is_paused())
		usleep(200);
	__atomic_fetch_sub(party_parked, 1, __ATOMIC_SEQ_CST);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	party_is_parked = 0;
}

void party_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGPROF);
	pthread_sigmask(how, &set, NULL);
}

void party_fork(void (*child)(unsigned int turn), unsigned int turn)
{
	int status = 0;
	pid_t pid;

	party_signals(SIG_BLOCK);
	pid = fork();
	if (!pid)
		child(turn);
	party_signals(SIG_UNBLOCK);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "victim: a child ended with status %x\n", (unsigned int)status);
		abort();
	}
}
