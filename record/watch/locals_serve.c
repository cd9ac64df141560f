/* SPDX-License-Identifier: MIT */
/*
 * The thread that moves watches to frames (abi/frame.h). The thread of each new frame waits for it.
 */
#include "record/watch/locals_own.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NOBODY_KNOWS UINT64_MAX
#define CFA_MAX (UINT64_C(1) << 47)
#define PARK_AFTER_MS 5
#define LOOK_MS 200

/*
 * Parked addresses, below vm.mmap_min_addr: a program that accesses them crashes. Each piece of
 * each frame has its own.
 */
#define PARKED(frame, piece) (64u + 64u * (frame) + 8u * (piece))

long locals_futex(uint32_t *word, int what, uint32_t value, const struct timespec *time)
{
	return syscall(SYS_futex, word, what, value, time, NULL, 0);
}

/*
 * Set a piece's old value, then its gate. In a new frame memory has a leftover value, except for an
 * argument on the stack, which the caller has stored: only that is a known old value.
 */
static void settle_piece(const struct slot *slot, unsigned int piece, uint32_t gate)
{
	const struct control_watch *about = &slot->of->groups[slot->group].asked.about[piece];
	struct watch_row *row = &slot->of->table->rows[number_of(slot, piece)];
	uint64_t value = 0, address = slot->cfa + about->address;
	struct iovec local = { &value, about->bytes };
	struct iovec remote = { (void *)(uintptr_t)address, about->bytes };
	int is_known = slot->cfa && (int64_t)about->address >= 0 &&
		       process_vm_readv(slot->of->pid, &local, 1, &remote, 1, 0) == about->bytes;

	row->last.value = is_known ? value : 0;
	row->last.ticks = is_known ? 0 : NOBODY_KNOWS;
	__atomic_store_n(&row->gate, gate, __ATOMIC_RELEASE);
}

int locals_settle(void *data, uint8_t generation)
{
	struct slot *slot = data;
	const struct group *group = &slot->of->groups[slot->group];
	uint32_t gate = slot->cfa ? WATCH_GATE(generation, WATCH_ON) : WATCH_OFF;
	uint32_t from = slot->for_state, to = FRAME_TO(from, slot->cfa ? FRAME_LIVE : FRAME_FREE);
	uint32_t *state = &row_of(slot)->state;

	for (unsigned int i = 0; i < group->asked.count; i++)
		settle_piece(slot, i, gate);
	if (!slot->cfa && FRAME_STEP(from) != FRAME_OVER)
		return 0;
	if (__atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		slot->of->groups[slot->group].lived += slot->cfa && slot->is_living;
		slot->is_living = 0;
		locals_futex(state, FUTEX_WAKE, INT_MAX, NULL);
	} else
		for (unsigned int i = 0; i < group->asked.count; i++)
			settle_piece(slot, i, WATCH_OFF);
	return 0;
}

void locals_sources(const struct slot *slot, struct event_source sources[WATCH_REGISTERS])
{
	const struct group *group = &slot->of->groups[slot->group];

	for (unsigned int i = 0; i < group->asked.count; i++) {
		const struct control_watch *about = &group->asked.about[i];

		sources[i] = (struct event_source){
			.kind = group->kind == WATCH_READ_WRITE ? EVENT_READ_WRITE : EVENT_WRITE,
			.bytes = about->bytes,
			.address = slot->cfa ? slot->cfa + about->address : PARKED(slot->frame, i),
			.sig_data = WATCH_COOKIE(slot->of->magic, number_of(slot, i), 0, 0),
			.what = group->text,
		};
	}
}

/* Move a slot's watches to the frame with that CFA, or park them (cfa 0). */
static void move(struct slot *slot, uint32_t state, uint64_t cfa)
{
	struct event_source sources[WATCH_REGISTERS];
	int err = cfa >= CFA_MAX ? -EINVAL : 0;

	slot->for_state = state;
	slot->cfa = err ? 0 : cfa;
	locals_sources(slot, sources);
	if (!err)
		err = perf_object_modify(slot->object, sources, EVENT_MODIFY_RUNNING, NULL,
					 (struct detail){ 0 });
	slot->is_parked = err || !slot->cfa;
	slot->is_dead = perf_object_state(slot->object) != EVENT_ARMED;
	/*
	 * let a waiting thread continue unwatched; if the event object is dead, no thread may wait
	 * again
	 */
	if (slot->is_dead) {
		__atomic_store_n(&row_of(slot)->state, FRAME_TO(state, FRAME_TAKEN),
				 __ATOMIC_SEQ_CST);
		locals_futex(&row_of(slot)->state, FUTEX_WAKE, INT_MAX, NULL);
	} else if (err && cfa && FRAME_STEP(state) == FRAME_ASKED &&
		   __atomic_compare_exchange_n(&row_of(slot)->state, &state,
					       FRAME_TO(state, FRAME_OVER), 0, __ATOMIC_SEQ_CST,
					       __ATOMIC_SEQ_CST))
		locals_futex(&row_of(slot)->state, FUTEX_WAKE, INT_MAX, NULL);
}

/* Whether another slot's registers overlap the bytes that the frame's watches will have. */
static int is_in_the_way(const struct slot *other, const struct slot *slot, uint64_t cfa)
{
	const struct asked_watch *its = &other->of->groups[other->group].asked;
	const struct asked_watch *wanted = &slot->of->groups[slot->group].asked;
	uint64_t from = other->cfa + its->about[0].address;
	uint64_t to = cfa + wanted->about[0].address;
	const struct control_watch *last = &its->about[its->count - 1];
	const struct control_watch *wanted_last = &wanted->about[wanted->count - 1];

	return other != slot && !other->is_parked && !other->is_dead &&
	       from < cfa + wanted_last->address + wanted_last->bytes &&
	       to < other->cfa + last->address + last->bytes;
}

/*
 * Park leftover watches of an earlier frame at the same stack address. If an instruction fires two
 * events, the thread gets one signal, which must not be that of the old frame.
 */
static void clear_way(const struct slot *slot, uint64_t cfa)
{
	for (unsigned int i = 0; i < slot->of->slot_count; i++) {
		struct slot *other = &slot->of->slots[i];
		uint32_t state = __atomic_load_n(&row_of(other)->state, __ATOMIC_SEQ_CST);

		if (is_in_the_way(other, slot, cfa) && FRAME_STEP(state) != FRAME_LIVE)
			move(other, state, 0);
	}
}

/* Do what a slot needs. Returns whether there was something. */
static int serve(struct slot *slot, unsigned int passed_ms)
{
	struct frame_row *row = row_of(slot);
	uint32_t state = __atomic_load_n(&row->state, __ATOMIC_SEQ_CST);
	uint64_t cfa;

	if (slot->is_dead)
		return 0;
	switch (FRAME_STEP(state)) {
	case FRAME_ASKED:
		slot->idle_ms = 0;
		cfa = row->cfa;
		clear_way(slot, cfa);
		move(slot, state, cfa);
		return 1;
	case FRAME_LIVE:
		slot->idle_ms = 0;
		return 0;
	case FRAME_OVER:
		/* don't park at once: if the next frame comes soon, one move suffices */
		slot->idle_ms += passed_ms;
		if (slot->is_parked || slot->idle_ms < PARK_AFTER_MS)
			return 0;
		move(slot, state, 0);
		return 1;
	default:
		return 0;
	}
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int has_unparked(const struct locals *locals)
{
	for (unsigned int i = 0; i < locals->slot_count; i++)
		if (!locals->slots[i].is_parked &&
		    FRAME_STEP(row_of(&locals->slots[i])->state) == FRAME_OVER)
			return 1;
	return 0;
}

static void *serve_all(void *data)
{
	struct locals *locals = data;
	struct frame_table *table = &locals->table->frames;
	int64_t last_ms = now_ms();

	while (!__atomic_load_n(&locals->is_ending, __ATOMIC_SEQ_CST)) {
		uint32_t asked = __atomic_load_n(&table->asked, __ATOMIC_SEQ_CST);
		int64_t at_ms = now_ms();
		struct timespec time = { 0 };
		int any = 0;

		pthread_mutex_lock(&locals->lock);
		for (unsigned int i = 0; i < locals->slot_count; i++)
			any |= serve(&locals->slots[i], (unsigned int)(at_ms - last_ms));
		time.tv_nsec = 1000000L * (has_unparked(locals) ? PARK_AFTER_MS : LOOK_MS);
		pthread_mutex_unlock(&locals->lock);
		last_ms = at_ms;
		__atomic_store_n(&table->is_late, 0, __ATOMIC_RELAXED);
		if (!any)
			locals_futex(&table->asked, FUTEX_WAIT, asked, &time);
	}
	return NULL;
}

/* The session's other thread takes no signals of the process. */
int locals_serve(struct locals *locals)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&locals->thread, NULL, serve_all, locals);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	locals->has_thread = !err;
	return err;
}

void locals_serve_no_more(struct locals *locals)
{
	if (!locals->has_thread)
		return;
	__atomic_store_n(&locals->is_ending, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&locals->table->frames.asked, 1, __ATOMIC_SEQ_CST);
	locals_futex(&locals->table->frames.asked, FUTEX_WAKE, INT_MAX, NULL);
	pthread_join(locals->thread, NULL);
	locals->has_thread = 0;
}
