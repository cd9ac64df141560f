/* SPDX-License-Identifier: MIT */
/*
 * Markers, a USDT probe and functions, in several threads, whose hits handlers judge.
 *
 *	handled plain|fork|exec THREADS ROUNDS
 *	handled serve THREADS		says "ready", continues until killed
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

static int rounds;

__attribute__((noinline)) long place(long size, int colour)
{
	__asm__ volatile("" : "+r"(size), "+r"(colour) : : "memory");
	return size % 11 ? colour : -size;
}

/*
 * A USDT probe as <sys/sdt.h> writes it: shop:sent, with a long. The nops behind it have room for a
 * jump wherever the program was loaded; a single nop has none in one of some 25 processes.
 */
static __attribute__((noinline)) void sent(long round)
{
	__asm__ volatile("990: nop\n .rept 8\n nop\n .endr\n"
			 ".pushsection .note.stapsdt, \"\", \"note\"\n"
			 ".balign 4\n .long 8, 992f - 991f, 3\n .asciz \"stapsdt\"\n"
			 "991: .quad 990b, _.stapsdt.base, 0\n"
			 ".asciz \"shop\"\n .asciz \"sent\"\n .asciz \"-8@%0\"\n"
			 "992: .balign 4\n .popsection\n"
			 ".ifndef _.stapsdt.base\n"
			 ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
			 ".weak _.stapsdt.base\n .hidden _.stapsdt.base\n"
			 "_.stapsdt.base: .space 1\n .size _.stapsdt.base, 1\n"
			 ".popsection\n.endif\n"
			 :
			 : "r"(round));
}

static void pass(int thread, int round)
{
	void *taken = malloc(777);

	__asm__ volatile("" : "+r"(taken) : : "memory");
	free(taken);
	WAYMARK(shop, order, thread, round, round & 1 ? "SELECT" : "UPDATE");
	sent(round);
	place(round, thread);
}

static void *run(void *number)
{
	int thread = (int)(long)number;

	for (int i = 0; i < rounds || !rounds; i++) {
		pass(thread, i);
		if (!rounds)
			usleep(1000);
	}
	return NULL;
}

static void run_all(int threads)
{
	pthread_t all[64];

	for (long i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, run, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;

	mallopt(M_ARENA_MAX, 1);
	rounds = argc > 3 ? atoi(argv[3]) : 0;
	if (!rounds)
		puts("ready");
	fflush(stdout);
	run_all(threads);
	if (!strcmp(argv[1], "fork")) {
		pid_t child = fork();

		if (!child) {
			run_all(threads);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	if (!strcmp(argv[1], "exec"))
		execl("/proc/self/exe", "handled", "plain", argv[2], argv[3], NULL);
	return 0;
}
