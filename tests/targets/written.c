/* SPDX-License-Identifier: MIT */
/*
 * For tests of trails that lead to a write: threads change `state` in turn, and each of them clears
 * it once, in the round that its way says, by way of `left` or `right`: which is what it prints.
 *
 *	written ROUNDS THREADS		left for threads of an even number
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile unsigned int state = 5;
static volatile unsigned int noise;
static int rounds;

__attribute__((noinline)) static void change(unsigned int to)
{
	state = to;
}

__attribute__((noinline)) static void clear(void)
{
	state = 0;
}

__attribute__((noinline)) static void left(void)
{
	noise += 3;
	clear();
	noise++;
}

__attribute__((noinline)) static void right(void)
{
	noise += 5;
	clear();
	noise += 2;
}

static void *work(void *data)
{
	int number = (int)(long)data, when = rounds / 2 + number * 7;

	printf("%ld %s\n", syscall(SYS_gettid), number % 2 ? "right" : "left");
	fflush(stdout);
	for (int i = 0; i < rounds; i++) {
		if (i == when)
			(number % 2 ? right : left)();
		else
			change((unsigned int)i + 1);
		for (int j = 0; j < 20; j++)
			noise += (unsigned int)(i * j);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t made[16];
	int threads = count > 2 ? atoi(words[2]) : 1;

	rounds = count > 1 ? atoi(words[1]) : 100;
	for (int i = 0; i < threads; i++)
		pthread_create(&made[i], NULL, work, (void *)(long)i);
	for (int i = 0; i < threads; i++)
		pthread_join(made[i], NULL);
	puts(state ? "done" : "wrong");
	return 7;
}
