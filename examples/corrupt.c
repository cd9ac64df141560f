/* SPDX-License-Identifier: MIT */
/*
 * A program whose books don't add up. Four tellers move money between accounts; a clerk writes
 * names on them. Someone else than a teller changes a balance. Who?
 *
 *	cc -g -O1 -pthread corrupt.c -o corrupt
 *	waymark watch 'accounts[2].cents' ./corrupt
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define ACCOUNTS 4
#define TELLERS 4
#define TRANSFERS 250
#define EACH_CENTS 100000

static struct account {
	char owner[8];
	long cents;
} accounts[ACCOUNTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void transfer(struct account *from, struct account *to, long cents)
{
	pthread_mutex_lock(&lock);
	from->cents -= cents;
	to->cents += cents;
	pthread_mutex_unlock(&lock);
}

/* The bug: a name of eight letters has nine bytes. */
__attribute__((noinline)) static void write_name(struct account *account, const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++)
		account->owner[i] = name[i];
	account->owner[i] = '\0';
}

static void *transfers(void *data)
{
	unsigned int seed = (unsigned int)(size_t)data;

	for (int i = 0; i < TRANSFERS; i++) {
		seed = seed * 1103515245 + 12345;
		transfer(&accounts[seed >> 16 & 3], &accounts[seed >> 20 & 3],
			 1 + (seed >> 8 & 127));
	}
	return NULL;
}

static void *keep_names(void *data)
{
	static const char *const names[] = { "ada", "barbara", "margaret", "grace" };

	usleep(1000);
	for (int i = 0; i < ACCOUNTS; i++)
		write_name(&accounts[i], names[i]);
	return data;
}

int main(void)
{
	pthread_t tellers[TELLERS], clerk;
	long sum = 0;

	for (int i = 0; i < ACCOUNTS; i++)
		accounts[i].cents = EACH_CENTS;
	for (size_t i = 0; i < TELLERS; i++)
		pthread_create(&tellers[i], NULL, transfers, (void *)(i + 1));
	pthread_create(&clerk, NULL, keep_names, NULL);
	for (int i = 0; i < TELLERS; i++)
		pthread_join(tellers[i], NULL);
	pthread_join(clerk, NULL);
	for (int i = 0; i < ACCOUNTS; i++)
		sum += accounts[i].cents;
	printf("%ld cents are there, of %d\n", sum, ACCOUNTS * EACH_CENTS);
	return sum != (long)ACCOUNTS * EACH_CENTS;
}
