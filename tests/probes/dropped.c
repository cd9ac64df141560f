/* SPDX-License-Identifier: MIT */
/*
 * A daemon that drops root: dropped THREADS USER. Each thread calls pass(number), with number =
 * thread * 2^24 + round, and round from 0 on. Aborts where pass() returns another number.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int pass(int number); /* a jump: the bytes behind its opcode have to change */

#if defined __x86_64__
__asm__(".pushsection .text\n"
	".globl pass\n.type pass, @function\n"
	"pass:\n.cfi_startproc\n.byte 0xe9\n.long 1f - . - 4\n.cfi_endproc\n"
	".size pass, . - pass\n"
	".space 32, 0xcc\n"
	"1:	movl %edi, %eax\n	ret\n"
	".popsection\n");
#else
int pass(int number)
{
	return number;
}
#endif

static void *work(void *thread)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	int first = (int)(intptr_t)thread << 24;

	for (int round = 0;; round = (round + 1) & 0xffffff) {
		if (pass(first | round) != (first | round))
			abort();
		if (round % 16 == 0)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 4, user = argc > 2 ? atoi(argv[2]) : 65534;

	for (intptr_t thread = 0; thread < threads; thread++) {
		pthread_t made;

		if (pthread_create(&made, NULL, work, (void *)thread))
			return 2;
	}
	if (setgroups(0, NULL) || setgid((gid_t)user) || setuid((uid_t)user))
		return 2;
	for (;;)
		pause();
}
