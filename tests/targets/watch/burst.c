/* SPDX-License-Identifier: MIT */
/* Stores faster than anyone reads after SIGUSR1, and a few times after SIGUSR2. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>
volatile uint64_t word;
static volatile sig_atomic_t begun, again;
static void on_begin(int number)
{
	begun = number;
}
static void on_again(int number)
{
	again = number;
}
static void *body(void *number)
{
	while (!begun)
		usleep(1000);
	for (uint64_t i = 1; i <= 60000; i++)
		word = (uint64_t)(uintptr_t)number << 32 | i;
	return NULL;
}
int main(void)
{
	pthread_t other;
	signal(SIGUSR1, on_begin);
	signal(SIGUSR2, on_again);
	pthread_create(&other, NULL, body, (void *)1);
	body(NULL);
	pthread_join(other, NULL);
	close(1);
	while (!again)
		usleep(1000);
	for (int i = 0; i < 5; i++)
		__atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
	word = 5;
	__atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
}
