/* SPDX-License-Identifier: MIT */
#include "session/watch.h"

#include "base/array.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 2000000

struct watch {
	pthread_t thread;
	pthread_mutex_t lock; /* stores and count; stop */
	pthread_cond_t wake;
	const struct drain **stores;
	size_t count, room;
	unsigned int percent;
	int notify_fd, notify_signal;
	int stop;
	int told; /* atomic: the thread sets it, the session clears it */
};

static void tell(struct watch *watch)
{
	uint64_t one = 1;

	__atomic_store_n(&watch->told, 1, __ATOMIC_RELEASE);
	/* an eventfd that is full already says what there is to say */
	if (watch->notify_fd > 0 && write(watch->notify_fd, &one, sizeof(one)) < 0)
		errno = 0;
	if (watch->notify_signal > 0)
		kill(getpid(), watch->notify_signal);
}

static void look(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++) {
		const struct drain *drain = watch->stores[i];

		if (drain_used_bytes(drain) * 100 >= drain_buffer_bytes(drain) * watch->percent) {
			tell(watch);
			return;
		}
	}
}

static void *run(void *data)
{
	struct watch *watch = data;
	struct timespec until;

	pthread_mutex_lock(&watch->lock);
	while (!watch->stop) {
		if (!watch_told(watch))
			look(watch);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

int watch_new(struct watch **watch, int notify_fd, int notify_signal, unsigned int percent)
{
	struct watch *new = calloc(1, sizeof(*new));
	pthread_condattr_t attributes;
	sigset_t all, before;
	int err;

	if (!new)
		return -ENOMEM;
	new->notify_fd = notify_fd;
	new->notify_signal = notify_signal;
	new->percent = percent;
	pthread_mutex_init(&new->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&new->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	/* the owner's signals are for the owner's threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&new->thread, NULL, run, new);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		free(new);
		return -err;
	}
	*watch = new;
	return 0;
}

void watch_free(struct watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->stop = 1;
	pthread_cond_signal(&watch->wake);
	pthread_mutex_unlock(&watch->lock);
	pthread_join(watch->thread, NULL);
	pthread_cond_destroy(&watch->wake);
	pthread_mutex_destroy(&watch->lock);
	free(watch->stores);
	free(watch);
}

int watch_add(struct watch *watch, const struct drain *drain)
{
	int err;

	pthread_mutex_lock(&watch->lock);
	err = array_grow(&watch->stores, &watch->room, watch->count + 1, sizeof(*watch->stores));
	if (!err)
		watch->stores[watch->count++] = drain;
	pthread_mutex_unlock(&watch->lock);
	return err;
}

void watch_remove(struct watch *watch, const struct drain *drain)
{
	pthread_mutex_lock(&watch->lock);
	for (size_t i = 0; i < watch->count; i++)
		if (watch->stores[i] == drain)
			watch->stores[i--] = watch->stores[--watch->count];
	pthread_mutex_unlock(&watch->lock);
}

int watch_told(const struct watch *watch)
{
	return __atomic_load_n(&watch->told, __ATOMIC_ACQUIRE);
}

void watch_wind(struct watch *watch)
{
	__atomic_store_n(&watch->told, 0, __ATOMIC_RELEASE);
}
