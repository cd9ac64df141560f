/* SPDX-License-Identifier: MIT */
/*
 * A program that is slow now and then. Three clerks look up stock, which takes microseconds; they
 * wait for milliseconds, while another thread holds the lock.
 *
 *	cc -g -O1 -pthread locks.c -o locks
 *	waymark record --locks -o locks.trace -- ./locks
 *	waymark report --locks locks.trace
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#define CLERKS 3
#define LOOKUPS 3000

static pthread_mutex_t stock_lock = PTHREAD_MUTEX_INITIALIZER;
static long stock[16];

__attribute__((noinline)) static long stock_find(size_t item)
{
	long found;

	pthread_mutex_lock(&stock_lock);
	found = stock[item];
	pthread_mutex_unlock(&stock_lock);
	return found;
}

/* The culprit: it writes with the lock held. */
__attribute__((noinline)) static void stock_save(void)
{
	pthread_mutex_lock(&stock_lock);
	usleep(5000);
	pthread_mutex_unlock(&stock_lock);
}

static void *look_up(void *data)
{
	long sum = 0;

	pthread_setname_np(pthread_self(), "clerk");
	for (size_t i = 0; i < LOOKUPS; i++) {
		sum += stock_find(i % 16);
		usleep(100);
	}
	return sum ? data : NULL;
}

static void *save(void *data)
{
	pthread_setname_np(pthread_self(), "saver");
	for (int i = 0; i < 60; i++) {
		usleep(5000);
		stock_save();
	}
	return data;
}

int main(void)
{
	pthread_t clerks[CLERKS], saver;

	for (int i = 0; i < CLERKS; i++)
		pthread_create(&clerks[i], NULL, look_up, NULL);
	pthread_create(&saver, NULL, save, NULL);
	for (int i = 0; i < CLERKS; i++)
		pthread_join(clerks[i], NULL);
	pthread_join(saver, NULL);
	return 0;
}
