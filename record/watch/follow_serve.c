/* SPDX-License-Identifier: MIT */
/*
 * The thread that moves registers when pointers change (abi/follow.h). A thread of the program that
 * writes a pointer waits for it.
 */
#include "record/watch/follow_serve.h"

#include "target/process/target.h"
#include "target/process/ticks.h"
#include "target/process/reach.h"
#include "record/watch/watching_own.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define USER_END 0x7ffffffff000ull
#define LOOK_MS 200
#define YIELDS_MAX 10000 /* of a move's first try, while threads look at a hit */
#define TRIES_AT_ONCE 16 /* of a move; the later ones have naps between them */
#define WAIT_NS (FOLLOW_WAIT_MS * UINT64_C(1000000))
#define POLL_NS 1000000
#define POLL_DOUBLINGS 4

/* Parked registers: below vm.mmap_min_addr, and above those of frames (locals.c). */
#define PARKED(piece) (2048u + 8u * (piece))

/* The addresses of the pointers, then of the value. Those that are unknown are 0. */
struct way {
	uint64_t at[FOLLOW_POINTERS_MAX + 1];
	unsigned int waits; /* the pointer that leads nowhere, from 1; 0: all lead on */
	int is_unplaced;    /* it leads to an address that these registers can't watch */
};

struct follow {
	struct watching *watching;
	struct follow_chain *chain;
	struct way way;
	pthread_mutex_t lock; /* guards object, way and counts while the thread runs */
	pthread_t thread;
	int has_thread, is_ending, is_dead;
	uint64_t late; /* the chain's `late`, as read last */
	uint64_t moves, exposed, unplaced;
};

static long futex(uint32_t *word, int what, uint32_t value, const struct timespec *time)
{
	return syscall(SYS_futex, word, what, value, time, NULL, 0);
}

/* ---- where the pointers lead ---- */

/* Whether a value at that address has the pieces that the agent was asked for. */
static int fits(const struct watching *watching, uint64_t address)
{
	const struct follow_plan *plan = &watching->plan;
	struct watch_piece pieces[WATCH_REGISTERS];

	if (!address || address >= USER_END - plan->bytes ||
	    expression_pieces(address, plan->bytes, pieces) != plan->pieces)
		return 0;
	for (unsigned int i = 0; i < plan->pieces; i++) {
		const struct control_watch *about = &watching->asked[0]->about[i];

		if (pieces[i].address - address != about->offset || pieces[i].bytes != about->bytes)
			return 0;
	}
	return 1;
}

/* 0; -ESRCH: the process has ended. */
static int way_find(const struct watching *watching, struct way *way)
{
	const struct follow_plan *plan = &watching->plan;
	uint64_t address = plan->start, target = 0;
	int err;

	*way = (struct way){ 0 };
	for (unsigned int i = 0; i < plan->pointers; i++) {
		way->waits = i + 1;
		way->is_unplaced = address % 8 || address >= USER_END;
		if (way->is_unplaced)
			return 0;
		way->at[i] = address;
		err = target_memory(watching->pid, address, &target, sizeof(target));
		if (err || !target)
			return err == -ESRCH ? err : 0;
		address = target + (uint64_t)plan->offsets[i];
	}
	way->is_unplaced = !fits(watching, address);
	if (way->is_unplaced)
		return 0;
	way->at[plan->pointers] = address;
	way->waits = 0;
	return 0;
}

static int way_is_same(const struct way *one, const struct way *other)
{
	return !memcmp(one->at, other->at, sizeof(one->at));
}

/* Take the way, and give each piece its address, or a parked one. */
static void way_take(struct follow *follow, const struct way *way)
{
	struct watching *watching = follow->watching;
	const struct follow_plan *plan = &watching->plan;

	follow->way = *way;
	for (unsigned int i = 0; i < watching->count; i++) {
		int is_pointer = watching->all[i].is_pointer;
		uint64_t at = way->at[is_pointer ? i - plan->pieces : plan->pointers];

		watching->all[i].address = !at		? PARKED(WATCH_REGISTERS * plan->index + i)
					   : is_pointer ? at
							: at + watching->asked[0]->about[i].offset;
	}
}

/* ---- moving ---- */

/* From here on hits count, unless a pointer changed meanwhile. */
static void publish(struct follow *follow, uint32_t asked)
{
	struct follow_chain *chain = follow->chain;

	memcpy(chain->at, follow->way.at, sizeof(chain->at));
	__atomic_store_n(&chain->done, asked, __ATOMIC_SEQ_CST);
	futex(&chain->done, FUTEX_WAKE, INT_MAX, NULL);
}

/* Whether the program has only one thread besides the agent's. */
static int is_single(pid_t pid)
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids), others = 0;

	for (int i = 0; i < count; i++)
		others += !reach_is_agents(pid, tids[i]);
	if (count >= 0)
		free(tids);
	return others == 1;
}

/*
 * Read the value of a piece. If other threads run, a store may be between this read and the first
 * hit.
 */
static void value_read(const struct watching *watching, unsigned int piece, int is_alone)
{
	struct watch_row *row = &watching->table->rows[watching->all[piece].number];

	watched_value(watching, &watching->all[piece]);
	if (!is_alone && !row->last.ticks)
		row->last.ticks = WATCH_UNCERTAIN;
}

/*
 * When the object is armed, the program may be stopped: then the pointers can't change while this
 * reads them. A later move comes here with the program running.
 */
int follow_settle(struct watching *watching, uint8_t generation)
{
	struct follow *follow = watching->follow;
	int is_first = !follow->has_thread, is_alone = is_single(watching->pid);
	struct way way;

	for (unsigned int i = 0; i < watching->count; i++) {
		if (!watching->all[i].is_pointer)
			value_read(watching, i, is_alone || is_first);
		__atomic_store_n(&watching->table->rows[watching->all[i].number].gate,
				 WATCH_GATE(generation, WATCH_ON), __ATOMIC_RELEASE);
	}
	if (!is_first)
		return 0;
	way_find(watching, &way);
	if (way_is_same(&way, &follow->way))
		publish(follow, follow->chain->asked);
	return 0;
}

static int registers_move(struct follow *follow, const struct way *way)
{
	struct watching *watching = follow->watching;
	const struct event_source *before = perf_object_sources(watching->object);
	struct event_source sources[EVENT_SOURCES_MAX];

	way_take(follow, way);
	memcpy(sources, before, watching->count * sizeof(*sources));
	for (unsigned int i = 0; i < watching->count; i++) {
		sources[i].sig_data &= ~EVENT_OBJECT_BITS;
		sources[i].address = watching->all[i].address;
	}
	return perf_object_modify(watching->object, sources, EVENT_MODIFY_RUNNING, NULL,
				  (struct detail){ 0 });
}

/* One that is preempted leaves soon. One that is stopped may stay for hours. */
static int is_anybody_inside(const struct follow *follow, unsigned int yields)
{
	while (__atomic_load_n(&follow->chain->inside, __ATOMIC_SEQ_CST)) {
		if (!yields--)
			return 1;
		sched_yield();
	}
	return 0;
}

/*
 * While the kernel moves a register, the register is off: another thread's change of that pointer
 * makes no hit. So this reads the pointers again after the move. Returns 1, or 0 if the pointers
 * changed meanwhile.
 */
static int move(struct follow *follow, uint32_t asked, uint64_t due_ns)
{
	struct watching *watching = follow->watching;
	int is_alone = is_single(watching->pid), err = 0, is_done;
	struct way way;

	pthread_mutex_lock(&follow->lock);
	if (way_find(watching, &way)) {
		/* what is reported is where the pointers led before */
		follow->is_dead = 1;
		pthread_mutex_unlock(&follow->lock);
		return 0;
	}
	if (!way_is_same(&way, &follow->way)) {
		err = registers_move(follow, &way);
		follow->moves++;
		follow->unplaced += way.is_unplaced != 0;
	} else {
		follow->way = way;
		for (unsigned int i = 0; i < watching->plan.pieces; i++)
			value_read(watching, i, is_alone);
	}
	is_alone &= is_single(watching->pid) && follow->late == follow->chain->late;
	follow->late = follow->chain->late;
	follow->is_dead = perf_object_state(watching->object) != EVENT_ARMED;
	if (way_find(watching, &way))
		follow->is_dead = 1;
	else if (err)
		follow->way = (struct way){ .waits = 1, .is_unplaced = 1 };
	is_done = err || way_is_same(&way, &follow->way);
	follow->exposed += !is_alone || !is_done;
	if (is_done) {
		/* after a late move the next thread would wait in vain, too */
		if (ticks_monotonic_ns() - due_ns < WAIT_NS)
			__atomic_store_n(&follow->chain->is_late, 0, __ATOMIC_RELAXED);
		publish(follow, asked);
	}
	pthread_mutex_unlock(&follow->lock);
	return is_done;
}

/* Look for a pointer that changed without a hit: the kernel or another process wrote it. */
static void look(struct follow *follow)
{
	struct way way;

	if (way_find(follow->watching, &way) || way_is_same(&way, &follow->way))
		return;
	follow->exposed++;
	__atomic_fetch_add(&follow->chain->asked, 1, __ATOMIC_SEQ_CST);
}

/* A process that is not recorded can change a shared pointer between any two looks. */
static void poll_wait(unsigned int tries)
{
	unsigned int poll_count = tries - TRIES_AT_ONCE;
	struct timespec time = { .tv_nsec = POLL_NS };

	if (tries < TRIES_AT_ONCE)
		return;
	time.tv_nsec <<= poll_count < POLL_DOUBLINGS ? poll_count : POLL_DOUBLINGS;
	nanosleep(&time, NULL);
}

static void *serve(void *data)
{
	const struct timespec time = { .tv_nsec = 1000000L * LOOK_MS };
	struct follow *follow = data;
	struct follow_chain *chain = follow->chain;
	unsigned int tries = 0;
	uint64_t due_ns = 0;

	while (!__atomic_load_n(&follow->is_ending, __ATOMIC_SEQ_CST) && !follow->is_dead) {
		uint32_t asked = __atomic_load_n(&chain->asked, __ATOMIC_SEQ_CST);

		if (asked == __atomic_load_n(&chain->done, __ATOMIC_RELAXED)) {
			if (futex(&chain->asked, FUTEX_WAIT, asked, &time) && errno == ETIMEDOUT)
				look(follow);
			continue;
		}
		if (!tries)
			due_ns = ticks_monotonic_ns();
		if (!is_anybody_inside(follow, tries ? 0 : YIELDS_MAX) &&
		    move(follow, asked, due_ns))
			tries = 0;
		else
			poll_wait(tries++);
	}
	return NULL;
}

/* ---- beginning and ending ---- */

int follow_begin(struct watching *watching)
{
	struct follow *follow = calloc(1, sizeof(*follow));
	const struct follow_plan *plan = &watching->plan;
	struct way way;

	if (!follow)
		return -ENOMEM;
	follow->watching = watching;
	follow->chain = &watching->table->follows[plan->index];
	*follow->chain = (struct follow_chain){ .start = plan->start,
						.count = plan->pointers,
						.asked = 1 };
	memcpy(follow->chain->offsets, plan->offsets, sizeof(plan->offsets));
	pthread_mutex_init(&follow->lock, NULL);
	watching->follow = follow;
	way_find(watching, &way);
	way_take(follow, &way);
	return 0;
}

/* The session's other thread takes no signals of the process. */
int follow_serve(struct watching *watching)
{
	struct follow *follow = watching->follow;
	sigset_t all, before;
	int err;

	follow->has_thread = 1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&follow->thread, NULL, serve, follow);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	follow->has_thread = !err;
	return err;
}

void follow_stop(struct follow *follow)
{
	uint32_t asked;

	if (!follow || !follow->has_thread)
		return;
	__atomic_store_n(&follow->is_ending, 1, __ATOMIC_SEQ_CST);
	futex(&follow->chain->asked, FUTEX_WAKE, INT_MAX, NULL);
	pthread_join(follow->thread, NULL);
	follow->has_thread = 0;
	/* waiting threads continue, and none waits from now on: pairs with follow_ask() */
	__atomic_store_n(&follow->chain->is_late, 1, __ATOMIC_SEQ_CST);
	asked = __atomic_load_n(&follow->chain->asked, __ATOMIC_SEQ_CST);
	follow->exposed += asked != follow->chain->done;
	publish(follow, asked);
}

void follow_release(struct follow *follow)
{
	follow_stop(follow);
	free(follow);
}

void follow_lock(struct follow *follow)
{
	if (follow)
		pthread_mutex_lock(&follow->lock);
}

void follow_unlock(struct follow *follow)
{
	if (follow)
		pthread_mutex_unlock(&follow->lock);
}

void follow_count(const struct follow *follow, struct watch_counts *to)
{
	if (!follow)
		return;
	to->follow.moves += follow->moves;
	/* some threads that timed out may not have had their move yet */
	to->follow.exposed += follow->exposed + (follow->chain->late - follow->late);
	to->follow.unplaced += follow->unplaced;
	to->follow.astray += follow->chain->astray;
}

void follow_describe(const struct follow *follow, struct watched_spec *result)
{
	const struct follow_plan *plan = &follow->watching->plan;
	unsigned int waits = follow->way.waits;

	result->pointers = plan->pointers;
	result->waits = waits;
	if (waits)
		memcpy(result->waits_for, plan->texts[waits - 1], sizeof(result->waits_for));
	if (follow->way.at[plan->pointers])
		result->address = follow->way.at[plan->pointers];
}
