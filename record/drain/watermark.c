/* SPDX-License-Identifier: MIT */
#include "record/drain/watermark.h"

#include "base/array.h"
#include "base/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define LOOK_NS 2000000

struct watermark {
	pthread_t thread;
	pthread_mutex_t lock; /* guards stores, count and stop */
	pthread_cond_t wake;
	const struct drain **stores;
	size_t count, room;
	unsigned int percent;
	int notify_fd, notify_signal;
	int stop;
	int reported; /* atomic: the thread sets it, the session clears it */
};

static void report(struct watermark *watermark)
{
	__atomic_store_n(&watermark->reported, 1, __ATOMIC_RELEASE);
	notify_send(watermark->notify_fd, watermark->notify_signal);
}

static void look(struct watermark *watermark)
{
	for (size_t i = 0; i < watermark->count; i++) {
		const struct drain *drain = watermark->stores[i];

		if (drain_used_bytes(drain) * 100 >=
		    drain_buffer_bytes(drain) * watermark->percent) {
			report(watermark);
			return;
		}
	}
}

static void *run(void *data)
{
	struct watermark *watermark = data;
	struct timespec until;

	pthread_mutex_lock(&watermark->lock);
	while (!watermark->stop) {
		if (!watermark_told(watermark))
			look(watermark);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOOK_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&watermark->wake, &watermark->lock, &until);
	}
	pthread_mutex_unlock(&watermark->lock);
	return NULL;
}

int watermark_new(struct watermark **watermark, int notify_fd, int notify_signal,
		  unsigned int percent)
{
	struct watermark *new = calloc(1, sizeof(*new));
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
	/* leave the owner's signals to the owner's threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&new->thread, NULL, run, new);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		free(new);
		return -err;
	}
	*watermark = new;
	return 0;
}

void watermark_free(struct watermark *watermark)
{
	if (!watermark)
		return;
	pthread_mutex_lock(&watermark->lock);
	watermark->stop = 1;
	pthread_cond_signal(&watermark->wake);
	pthread_mutex_unlock(&watermark->lock);
	pthread_join(watermark->thread, NULL);
	pthread_cond_destroy(&watermark->wake);
	pthread_mutex_destroy(&watermark->lock);
	free(watermark->stores);
	free(watermark);
}

int watermark_add(struct watermark *watermark, const struct drain *drain)
{
	int err;

	pthread_mutex_lock(&watermark->lock);
	err = array_grow(&watermark->stores, &watermark->room, watermark->count + 1,
			 sizeof(*watermark->stores));
	if (!err)
		watermark->stores[watermark->count++] = drain;
	pthread_mutex_unlock(&watermark->lock);
	return err;
}

void watermark_remove(struct watermark *watermark, const struct drain *drain)
{
	pthread_mutex_lock(&watermark->lock);
	for (size_t i = 0; i < watermark->count; i++)
		if (watermark->stores[i] == drain)
			watermark->stores[i--] = watermark->stores[--watermark->count];
	pthread_mutex_unlock(&watermark->lock);
}

int watermark_told(const struct watermark *watermark)
{
	return __atomic_load_n(&watermark->reported, __ATOMIC_ACQUIRE);
}

void watermark_wind(struct watermark *watermark)
{
	__atomic_store_n(&watermark->reported, 0, __ATOMIC_RELEASE);
}
