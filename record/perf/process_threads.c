/* SPDX-License-Identifier: MIT */
/*
 * The threads of a process, all of them, each once.
 *
 * While they run, a thread that a round finds for the first time may have been started by one that
 * has our events already, all or the first few. It then has the same events. The kernel reveals
 * only how many debug registers of a thread are free, by refusing. But another holder most often
 * holds as many registers of each thread. So we compare the thread's free registers with those of a
 * thread for which we opened all events.
 */
#include "record/perf/object_own.h"

#include "base/array.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define OPENERS_MAX 4
#define OPENER_THREADS 50 /* that are worth an opener of their own */
#define ROUNDS_MAX 80	  /* three times over, they fit into sig_data */

static int by_number(const void *a, const void *b)
{
	const pid_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static int knows(const struct perf_object *object, pid_t tid, size_t sorted)
{
	return sorted &&
	       bsearch(&tid, object->known, sorted, sizeof(*object->known), by_number) != NULL;
}

static int known_add(struct perf_object *object, pid_t tid)
{
	if (array_grow(&object->known, &object->known_room, object->known_count + 1,
		       sizeof(*object->known)))
		return -ENOMEM;
	object->known[object->known_count++] = tid;
	return 0;
}

static void known_sort(struct perf_object *object)
{
	if (object->known_count)
		qsort(object->known, object->known_count, sizeof(*object->known), by_number);
}

static int threads_list(const struct perf_object *object, pid_t **tids)
{
	int count = target_threads(object->request.pid, tids);

	return count == -ESRCH ? -WM_E_GONE : count;
}

/* ---- all threads at once, while they are stopped ---- */

/*
 * One of several openers that work in parallel, each on threads of its own, so that the program is
 * stopped for less time.
 */
struct opener {
	struct perf_object part; /* the object's, except what is opened */
	const pid_t *tids;
	int count, err;
	pthread_t thread;
	int has_thread;
	char text[256];
};

static void *opener_run(void *data)
{
	struct opener *opener = data;
	struct perf_object *part = &opener->part;
	struct detail detail = { opener->text, sizeof(opener->text) };
	int is_ended;

	for (int i = 0; i < opener->count && !opener->err; i++) {
		opener->err = perf_object_open_group(part, opener->tids[i], -1, 0, 1, &is_ended,
						     detail);
		if (!opener->err && !is_ended)
			opener->err = known_add(part, opener->tids[i]);
	}
	return NULL;
}

static void opener_start(struct opener *opener, const struct perf_object *object, const pid_t *tids,
			 int count, int in_thread)
{
	sigset_t all, before;

	*opener = (struct opener){ .part = *object, .tids = tids, .count = count };
	opener->part.instances = NULL;
	opener->part.known = NULL;
	opener->part.count = opener->part.room = 0;
	opener->part.known_count = opener->part.known_room = 0;
	opener->part.groups = 0;
	if (in_thread) {
		/* the owner's signals are for the owner's threads */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		opener->has_thread = !pthread_create(&opener->thread, NULL, opener_run, opener);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (!opener->has_thread)
		opener_run(opener);
}

/* The object gets what the part opened, also after a failure; it has room already. */
static int opener_end(struct opener *opener, struct perf_object *object, struct detail detail)
{
	struct perf_object *part = &opener->part;

	if (opener->has_thread)
		pthread_join(opener->thread, NULL);
	if (part->count)
		memcpy(object->instances + object->count, part->instances,
		       part->count * sizeof(*part->instances));
	if (part->known_count)
		memcpy(object->known + object->known_count, part->known,
		       part->known_count * sizeof(*part->known));
	object->count += part->count;
	object->known_count += part->known_count;
	object->groups += part->groups;
	if (opener->err) {
		object->refused = part->refused;
		object->refused_taken = part->refused_taken;
	}
	free(part->instances);
	free(part->known);
	return opener->err ? detail_set(detail, opener->err, "%s", opener->text) : 0;
}

static int openers_count(int threads)
{
	cpu_set_t cpus;
	int may = 1;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		may = CPU_COUNT(&cpus);
	if (may > threads / OPENER_THREADS)
		may = threads / OPENER_THREADS;
	return may < 1 ? 1 : may > OPENERS_MAX ? OPENERS_MAX : may;
}

int perf_object_open_stopped(struct perf_object *object, struct detail detail)
{
	struct opener openers[OPENERS_MAX];
	struct detail none = { NULL, 0 };
	pid_t *tids;
	int count = threads_list(object, &tids), err = count < 0 ? count : 0, many, from = 0;
	size_t each = object->request.source_count;

	if (object->rings.count)
		each *= object->rings.count;
	if (!err)
		err = array_grow(&object->instances, &object->room, (size_t)count * each,
				 sizeof(*object->instances));
	if (!err)
		err = array_grow(&object->known, &object->known_room, (size_t)count,
				 sizeof(*object->known));
	many = err ? 0 : openers_count(count);
	for (int i = many - 1; i >= 0; i--) { /* the last is our own thread's */
		int part = (count - from) / (i + 1);

		opener_start(&openers[i], object, tids + from, part, i > 0);
		from += part;
	}
	for (int i = 0; i < many; i++) {
		int one = opener_end(&openers[i], object, err ? none : detail);

		err = err ? err : one;
	}
	free(tids);
	known_sort(object);
	object->rounds = 1;
	return !err && !object->groups ? -WM_E_GONE : err;
}

/* ---- one after the other, while they run ---- */

/* The free registers of a thread that has all our events of its own, on that CPU or on any (-1). */
static int free_beside_ours(const struct perf_object *object, int cpu)
{
	for (size_t i = 0; i < object->count; i++) {
		const struct instance *instance = &object->instances[i];

		if (instance->is_first && !instance->source) {
			int found = instance_free_registers(instance->tid, cpu);

			if (found >= 0)
				return found;
		}
	}
	return -ESRCH;
}

/*
 * How many of our events a newcomer has. `beside`: the free registers of a thread that has all.
 * When the count is unclear: 0, and the thread is doubtful. -ESRCH: it has ended.
 */
static int inherited(struct perf_object *object, pid_t tid, int cpu, int beside)
{
	int sources = (int)object->request.source_count;
	int found = instance_free_registers(tid, cpu);
	int has = sources - (found - beside);

	if (found == -ESRCH)
		return found;
	if (found >= 0 && beside >= 0 && has >= 0 && has <= sources)
		return has;
	object->doubtful++;
	return 0;
}

/*
 * For a thread that no earlier round has seen, open the events that it lacks; with rings, on each
 * CPU by itself. 0 or 1: it has ended.
 */
static int newcomer_open(struct perf_object *object, pid_t tid, uint8_t number,
			 unsigned int *opened, struct detail detail)
{
	unsigned int places = object->rings.count ? object->rings.count : 1;
	int err = 0, is_ended = 0;

	for (unsigned int i = 0; i < places && !err && !is_ended; i++) {
		int cpu = object->rings.count ? (int)object->rings.all[i].cpu : -1;
		int has = inherited(object, tid, cpu, free_beside_ours(object, cpu));

		is_ended = has < 0;
		if (is_ended || has == (int)object->request.source_count)
			continue;
		err = perf_object_open_group(object, tid, cpu, (unsigned int)has, number, &is_ended,
					     detail);
		*opened += !err && !is_ended;
	}
	return err ? err : is_ended;
}

/* One round: threads that were never seen. *opened: on how many we had to open. */
static int round_run(struct perf_object *object, uint8_t number, unsigned int *opened,
		     struct detail detail)
{
	size_t sorted = object->known_count;
	pid_t *tids;
	int count = threads_list(object, &tids), err = count < 0 ? count : 0;

	*opened = 0;
	for (int i = 0; i < count && !err; i++) {
		int is_ended = 0;

		if (knows(object, tids[i], sorted))
			continue;
		if (number > 1) {
			err = newcomer_open(object, tids[i], number, opened, detail);
			is_ended = err > 0;
		} else {
			err = perf_object_open_group(object, tids[i], -1, 0, number, &is_ended,
						     detail);
			*opened += !err && !is_ended;
		}
		if (is_ended)
			err = 0;
		else if (!err)
			err = known_add(object, tids[i]);
	}
	free(tids);
	known_sort(object);
	return err;
}

int perf_object_open_rounds(struct perf_object *object, struct detail detail)
{
	unsigned int opened = 1, end = object->rounds + ROUNDS_MAX;
	int err = 0;

	/*
	 * a round that finds only threads with all events is the last: threads they start have all,
	 * too
	 */
	while (!err && opened && object->rounds < end)
		err = round_run(object, (uint8_t)++object->rounds, &opened, detail);
	if (!err && opened)
		return detail_set(
			detail, -WM_E_STRICT,
			"it starts threads faster than they can be found, and can't be stopped");
	return !err && !object->groups ? -WM_E_GONE : err;
}

int perf_object_has_newcomers(struct perf_object *object)
{
	size_t sorted = object->known_count;
	pid_t *tids;
	int count = threads_list(object, &tids), err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++)
		if (!knows(object, tids[i], sorted))
			err = known_add(object, tids[i]);
	free(tids);
	known_sort(object);
	return err ? err : object->known_count > sorted;
}
