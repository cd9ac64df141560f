/* SPDX-License-Identifier: MIT */
/*
 * Places nearer to each other than a jump is long: near ROUNDS [THREADS]. Each thread calls the
 * functions once a round, and ends with 1 if what they return is wrong. ROUNDS 0: until SIGTERM.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 64

int near_sum(int n);  /* 3 * (n + 1): points between single instructions */
int near_wall(int n); /* n + 1 */
int near_beside(int n);

__asm__(".text\n"
	".globl near_sum, near_one, near_two, near_three, near_four, near_wall, near_beside\n"
	".type near_sum, @function\n.type near_wall, @function\n.type near_beside, @function\n"
	".balign 16\n"
	"near_sum:\n.cfi_startproc\n"
	"lea 1(%rdi), %eax\n"
	"near_one: nop\n"
	"near_two: nop\n"
	"near_three: imul $3, %eax, %eax\n"
	"near_four: nop\n"
	"ret\n.cfi_endproc\n.size near_sum, . - near_sum\n"
	".skip 140, 0xf4\n"
	"near_wall:\n.cfi_startproc\n"
	"lea 1(%rdi), %eax\n"
	"ret\n.cfi_endproc\n.size near_wall, . - near_wall\n"
	"near_beside:\n.cfi_startproc\n"
	"lea 1(%rdi), %eax\n"
	"ret\n.cfi_endproc\n.size near_beside, . - near_beside\n"
	".byte 0x0f, 0x1f, 0x44, 0, 0\n"
	".skip 140, 0xf4\n");

static long rounds;
static volatile int wrong;
static volatile sig_atomic_t ended;

static void *run(void *unused)
{
	(void)unused;
	for (long i = 0; (!rounds || i < rounds) && !ended; i++)
		if (near_sum((int)i) != 3 * ((int)i + 1) || near_wall((int)i) != (int)i + 1 ||
		    near_beside((int)i) != (int)i + 1)
			wrong = 1;
	return NULL;
}

static void on_end(int number)
{
	(void)number;
	ended = 1;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t all[THREADS_MAX];

	rounds = argc > 1 ? atol(argv[1]) : 1;
	signal(SIGTERM, on_end);
	for (int i = 0; i < threads && i < THREADS_MAX; i++)
		if (pthread_create(&all[i], NULL, run, NULL))
			return 2;
	for (int i = 0; i < threads && i < THREADS_MAX; i++)
		pthread_join(all[i], NULL);
	printf("%s\n", wrong ? "wrong" : "right");
	return wrong;
}
