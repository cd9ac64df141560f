/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>
#include <waymark/probe.h>
WM_PROBE(install, ordered, int);
static int is_over, calls;
static void add(void *data, int value)
{
	*(int *)data += value;
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}
static void *pass(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		WAYMARK(install, ordered, 1);
	return unused;
}
int main(void)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, pass, NULL);

	for (int i = 0; i < 20 && !err; i++) {
		int *sum = malloc(sizeof(*sum));
		struct wm_probe *probe;

		*sum = 1000;
		__atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
		err = wm_probe_add_install_ordered(&probe, add, sum);
		while (!err && __atomic_load_n(&calls, __ATOMIC_RELAXED) < 100)
			;
		if (!err)
			err = wm_probe_remove(probe);
		if (!err && *sum < 1100)
			err = 1;
		free(sum);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	return pthread_join(thread, NULL) || err;
}
