/* SPDX-License-Identifier: MIT */
#include "record/kernel/kernel_known.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>

#define ROOM_MIN 64u

/* Where it is, or where it would be. */
static size_t place_of(const struct known_threads *threads, pid_t tid)
{
	size_t at = (size_t)tid & (threads->room - 1);

	while (threads->all[at].tid && threads->all[at].tid != tid)
		at = (at + 1) & (threads->room - 1);
	return at;
}

static int grow(struct known_threads *threads)
{
	struct known_threads larger = { .room = threads->room ? 2 * threads->room : ROOM_MIN };

	larger.all = calloc(larger.room, sizeof(*larger.all));
	if (!larger.all)
		return -ENOMEM;
	for (size_t i = 0; i < threads->room; i++)
		if (threads->all[i].tid)
			larger.all[place_of(&larger, threads->all[i].tid)] = threads->all[i];
	free(threads->all);
	threads->all = larger.all;
	threads->room = larger.room;
	return 0;
}

int known_add(struct known_threads *threads, pid_t tid, pid_t pid)
{
	size_t at;

	if (tid <= 0)
		return 0;
	if (2 * (threads->count + 1) > threads->room && grow(threads))
		return -ENOMEM;
	at = place_of(threads, tid);
	threads->count += !threads->all[at].tid;
	if (threads->all[at].pid != pid)
		threads->all[at] = (struct known_thread){ tid, pid, 0 };
	return 0;
}

pid_t known_pid(const struct known_threads *threads, pid_t tid)
{
	if (!threads->room || tid <= 0)
		return 0;
	return threads->all[place_of(threads, tid)].pid;
}

/* It may have displaced the entries behind it in its run: insert these again. */
static void remove_one(struct known_threads *threads, pid_t tid)
{
	size_t at;

	if (!threads->room || tid <= 0)
		return;
	at = place_of(threads, tid);
	if (!threads->all[at].has_ended)
		return;
	threads->all[at] = (struct known_thread){ 0 };
	threads->count--;
	for (at = (at + 1) & (threads->room - 1); threads->all[at].tid;
	     at = (at + 1) & (threads->room - 1)) {
		struct known_thread thread = threads->all[at];

		threads->all[at] = (struct known_thread){ 0 };
		threads->all[place_of(threads, thread.tid)] = thread;
	}
}

void known_end(struct known_threads *threads, pid_t tid)
{
	if (!known_pid(threads, tid))
		return;
	threads->all[place_of(threads, tid)].has_ended = 1;
	/* without memory it stays: another thread of that number may be taken for it */
	if (!array_grow(&threads->ended, &threads->ended_room, threads->ended_count + 1,
			sizeof(*threads->ended)))
		threads->ended[threads->ended_count++] = tid;
}

void known_sweep(struct known_threads *threads)
{
	for (size_t i = 0; i < threads->ended_count; i++)
		remove_one(threads, threads->ended[i]);
	threads->ended_count = 0;
}

pid_t known_exec(struct known_threads *threads, pid_t pid)
{
	for (size_t i = 0; i < threads->room; i++) {
		const struct known_thread *thread = &threads->all[i];
		pid_t tid = thread->tid;

		if (!tid || tid == pid || thread->pid != pid || thread->has_ended)
			continue;
		known_end(threads, tid);
		if (known_pid(threads, pid))
			threads->all[place_of(threads, pid)].has_ended = 0;
		return tid;
	}
	return 0;
}

void known_release(struct known_threads *threads)
{
	free(threads->all);
	free(threads->ended);
	*threads = (struct known_threads){ 0 };
}
