/* SPDX-License-Identifier: MIT */
/* A library before libc, with a function of it that no one may call. */
#include <pthread.h>
#include <stdlib.h>
int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	(void)mutex;
	abort();
}
