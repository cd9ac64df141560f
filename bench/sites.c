/* SPDX-License-Identifier: MIT */
/*
 * A program with 10,000 markers many:* (made by gen_sites.sh) and one marker one:site. A thread
 * passes all of them again and again, a second passes one:site, until standard input ends.
 */
#include <pthread.h>
#include <unistd.h>
#include <waymark/marker.h>

void sites_pass(int i);

static int stopping;

static void *pass_many(void *data)
{
	(void)data;
	for (int i = 0; !__atomic_load_n(&stopping, __ATOMIC_RELAXED); i++) {
		sites_pass(i);
		usleep(100); /* leave the CPU to the agent, on a machine that has but two */
	}
	return NULL;
}

static void *pass_one(void *data)
{
	(void)data;
	for (int i = 0; !__atomic_load_n(&stopping, __ATOMIC_RELAXED); i++) {
		WAYMARK(one, site, i);
		usleep(100);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	char byte;

	pthread_create(&threads[0], NULL, pass_many, NULL);
	pthread_create(&threads[1], NULL, pass_one, NULL);
	while (read(0, &byte, 1) > 0)
		;
	__atomic_store_n(&stopping, 1, __ATOMIC_RELAXED);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return 0;
}
