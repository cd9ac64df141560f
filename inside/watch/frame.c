/* SPDX-License-Identifier: MIT */
#include "inside/watch/frame.h"

#include "arch/trap_frame.h"
#include "base/syscall.h"
#include "inside/detour/return.h"
#include "inside/marker/careful.h"
#include "inside/unwind/unwind.h"

#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#define IN_PLACE __attribute__((section("waymark_return_text")))
#define YIELDS_MAX 2000u
#define CFA_ALIGNMENT 8u /* as large as what a register watches */
#define FAR_BYTES (1u << 20)
#define MS_NS 1000000
#define SECOND_NS 1000000000

/* What the table says of a frame, as only we can write it. */
static struct held {
	uint32_t inside; /* who looks at a hit of it */
	int32_t tid;
	uintptr_t cfa;
	uintptr_t back;	  /* the return address in its slot */
	uint32_t is_bare; /* that is the program's own still: its return is not seen */
} held[SESSIONS_MAX][FRAMES_MAX];

/* Sessions whose waiters are to continue. */
static uint32_t is_released;

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static int32_t own_tid(void)
{
	return (int32_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);
}

static struct frame_table *table_of(const struct watch_entry *entry)
{
	struct watch_row *rows = entry->row - entry->about.number;

	return &((struct watch_table *)(void *)rows)->frames;
}

static void wake(uint32_t *futex)
{
	syscall_raw6(SYS_futex, (long)futex, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

static void ask(struct frame_table *table)
{
	__atomic_fetch_add(&table->asked, 1, __ATOMIC_SEQ_CST);
	wake(&table->asked);
}

static int step(struct frame_row *row, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&row->state, &from, to, 0, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static uint32_t state_of(const struct frame_row *row)
{
	return __atomic_load_n(&row->state, __ATOMIC_SEQ_CST);
}

/* LIVE -> OVER, if it still is the one that was looked at. */
static void end(struct frame_table *table, struct frame_row *row, uint32_t state)
{
	if (step(row, state, FRAME_TO(state, FRAME_OVER)))
		ask(table);
}

/* ---- which frames ---- */

/* The table's frames that a group has watches for, a bit each. */
static uint32_t frames_of(const struct watch_entry *of)
{
	uint32_t frames = 0;

	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		const struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];

		if (entry->lane == of->lane && entry->about.flags & WATCH_OF_FRAME &&
		    entry->about.group == of->about.group)
			frames |= 1u << entry->about.frame;
	}
	return frames;
}

/* The frame's own return address is not where it was put, or cannot be read. */
static int is_left(const struct held *one)
{
	uintptr_t back = 0;

	if (careful_read(&back, one->cfa - sizeof back, sizeof back))
		return 1;
	return back != one->back && (!back || return_original(back) != one->back);
}

static int has_ended(int32_t tid)
{
	return syscall_raw(SYS_tgkill, syscall_raw(SYS_getpid, 0, 0, 0, 0), tid, 0, 0) == -ESRCH;
}

/* So far from where the thread is that it may be on another stack, which no unwinding leads to. */
static int is_far(const ucontext_t *context, const struct held *one)
{
	return trap_stack(context) - one->cfa + FAR_BYTES > 2 * (uintptr_t)FAR_BYTES;
}

/* Frames that are gone without having returned, as far as that can be seen from here. */
static void sweep(const struct watch_entry *entry, struct frame_table *table, uint32_t frames,
		  const ucontext_t *context, int32_t tid)
{
	uintptr_t cfa = trap_stack(context) + sizeof(uintptr_t);

	for (; frames; frames &= frames - 1) {
		unsigned int frame = (unsigned int)__builtin_ctz(frames);
		const struct held *one = &held[entry->lane][frame];
		struct frame_row *row = &table->rows[frame];
		uint32_t state = state_of(row);
		struct unwound found;

		if (FRAME_STEP(state) != FRAME_LIVE)
			continue;
		if (is_left(one) || (one->tid != tid && has_ended(one->tid)) ||
		    (one->tid == tid && one->cfa == cfa) ||
		    (one->tid == tid && !is_far(context, one) &&
		     unwind_to(context, one->cfa, &found) == UNWIND_GONE))
			end(table, row, state);
	}
}

/* First the one whose registers are there still, from the frame before. */
static unsigned int choose(unsigned int lane, uint32_t frames, uintptr_t cfa)
{
	for (uint32_t left = frames; left; left &= left - 1) {
		unsigned int frame = (unsigned int)__builtin_ctz(left);

		if (held[lane][frame].cfa == cfa)
			return frame;
	}
	return (unsigned int)__builtin_ctz(frames);
}

/* Its state is TAKEN then, and no thread is in a hit of it. Returns -1: all are in use. */
static int take_frame(const struct watch_entry *entry, struct frame_table *table, uint32_t frames,
		      uintptr_t cfa)
{
	unsigned int frame;

	for (; frames; frames &= ~(1u << frame)) {
		struct frame_row *row;
		uint32_t state, taken;

		frame = choose(entry->lane, frames, cfa);
		row = &table->rows[frame];
		state = state_of(row);
		taken = FRAME_NEXT(state, FRAME_TAKEN);
		if ((FRAME_STEP(state) != FRAME_FREE && FRAME_STEP(state) != FRAME_OVER) ||
		    !step(row, state, taken))
			continue;
		for (unsigned int i = 0; i < YIELDS_MAX; i++) {
			if (!__atomic_load_n(&held[entry->lane][frame].inside, __ATOMIC_SEQ_CST))
				return (int)frame;
			syscall_raw(SYS_sched_yield, 0, 0, 0, 0);
		}
		step(row, taken, FRAME_TO(taken, FRAME_OVER));
	}
	return -1;
}

/* Where its watches are from now on. */
static void place(const struct watch_entry *of, unsigned int frame, uintptr_t cfa)
{
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];

		if (entry->lane == of->lane && entry->about.flags & WATCH_OF_FRAME &&
		    entry->about.frame == frame)
			__atomic_store_n(&entry->about.address, cfa + (uintptr_t)entry->from_cfa,
					 __ATOMIC_RELAXED);
	}
}

/* TAKEN -> ASKED */
static void give(const struct watch_entry *entry, unsigned int frame, int32_t tid, uintptr_t cfa,
		 uintptr_t back, uint32_t is_bare)
{
	struct frame_table *table = table_of(entry);
	struct frame_row *row = &table->rows[frame];
	struct held *one = &held[entry->lane][frame];

	one->tid = tid;
	one->cfa = cfa;
	one->back = back;
	one->is_bare = is_bare;
	place(entry, frame, cfa);
	row->tid = tid;
	row->cfa = cfa;
	__atomic_store_n(&row->state, FRAME_TO(state_of(row), FRAME_ASKED), __ATOMIC_SEQ_CST);
	ask(table);
}

/* ---- waiting ---- */

static int64_t now_ns(void)
{
	struct timespec now = { 0 };

	syscall_raw(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0);
	return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* Wait until it is LIVE: 1; or until no tool can arm it any more: 0. */
static int wait_for_watches(unsigned int lane, struct frame_table *table, struct frame_row *row,
			    uint32_t asked)
{
	int64_t until = now_ns() + (int64_t)FRAME_WAIT_MS * MS_NS;

	while (state_of(row) == asked) {
		int64_t left = until - now_ns();
		struct timespec time = { .tv_sec = left / SECOND_NS, .tv_nsec = left % SECOND_NS };

		if (left <= 0 || __atomic_load_n(&is_released, __ATOMIC_SEQ_CST) & 1u << lane) {
			if (step(row, asked, FRAME_TO(asked, FRAME_OVER))) {
				__atomic_store_n(&table->is_late, 1, __ATOMIC_RELAXED);
				ask(table);
				return 0;
			}
			break;
		}
		syscall_raw6(SYS_futex, (long)&row->state, FUTEX_WAIT, asked, (long)&time, 0, 0);
	}
	return state_of(row) == FRAME_TO(asked, FRAME_LIVE);
}

/* A stub for its return address. A function that calls itself last has one there already. */
static uintptr_t back_of(unsigned int lane, uintptr_t *slot, int32_t tid)
{
	for (unsigned int i = 0; i < FRAMES_MAX; i++) {
		const struct held *one = &held[lane][i];

		if (one->tid == tid && one->cfa == (uintptr_t)(slot + 1) && one->back == *slot &&
		    return_original(*slot))
			return one->back;
	}
	/* find the slot by the thread's own stack; this code may run on another one */
	return return_put(slot, (uintptr_t)slot);
}

void frame_enter(const struct watch_entry *entry, const ucontext_t *context)
{
	uintptr_t slot = trap_stack(context), cfa = slot + sizeof slot, back;
	struct frame_table *table = table_of(entry);
	struct frame_group *group = &table->groups[entry->about.group];
	uint32_t frames = frames_of(entry), asked;
	int32_t tid = own_tid();
	struct frame_row *row;
	int frame;

	count(&group->entered);
	/*
	 * SIGTRAP was blocked: the thread is somewhere in the function, or in another, and the
	 * contents of its stack are unknown
	 */
	if (trap_pc(context) != entry->about.address) {
		count(&group->unended);
		return;
	}
	sweep(entry, table, frames, context, tid);
	if (__atomic_load_n(&table->is_late, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&is_released, __ATOMIC_SEQ_CST) & 1u << entry->lane) {
		count(&group->late);
		return;
	}
	frame = cfa % CFA_ALIGNMENT ? -1 : take_frame(entry, table, frames, cfa);
	if (frame < 0) {
		count(cfa % CFA_ALIGNMENT ? &group->unended : &group->busy);
		return;
	}
	row = &table->rows[frame];
	asked = FRAME_TO(state_of(row), FRAME_ASKED);
	back = back_of(entry->lane, (uintptr_t *)slot, tid); /* NOLINT(performance-no-int-to-ptr) */
	if (!back) {
		count(&group->unended);
		__atomic_store_n(&row->state, FRAME_TO(asked, FRAME_OVER), __ATOMIC_SEQ_CST);
		return;
	}
	give(entry, (unsigned int)frame, tid, cfa, back, 0);
	count(wait_for_watches(entry->lane, table, row, asked) ? &group->watched : &group->late);
}

/* ---- hits ---- */

/* A frame that lived before we came: once its own thread is here, its return can be seen to. */
static void cover(struct held *one)
{
	uintptr_t *slot = (uintptr_t *)(one->cfa -
					sizeof one->cfa); /* NOLINT(performance-no-int-to-ptr) */

	one->is_bare = 0;
	if (!return_original(*slot))
		return_put(slot, (uintptr_t)slot);
}

static int is_in(const uint64_t (*spans)[2], uint32_t span_count, uintptr_t pc)
{
	for (uint32_t i = 0; i < span_count && i < FRAME_SPANS_MAX; i++) {
		if (pc >= spans[i][0] && pc < spans[i][1])
			return 1;
	}
	return 0;
}

/*
 * The variable is there from the instruction on that stores it first, and up to the one that reads
 * it last.
 */
static int is_valid(const struct frame_group *group, const struct unwound *found)
{
	return is_in(group->valid, group->valid_count, found->pc) ||
	       (found->is_exact && is_in(group->valid, group->valid_count, found->pc - 1));
}

static enum frame_hit judge_own(struct frame_group *group, struct held *one,
				const ucontext_t *context, int *is_over)
{
	struct unwound found;

	if (return_is_code(trap_pc(context)))
		return FRAME_OWN;
	switch (unwind_to(context, one->cfa, &found)) {
	case UNWIND_LOST:
		count(&group->unsure);
		return FRAME_PAST;
	case UNWIND_OURS:
		return FRAME_OWN;
	case UNWIND_FOUND:
		if (!is_in(group->code, group->code_count, found.pc))
			break;
		if (one->is_bare)
			cover(one);
		/* at its first instruction: that is frame_enter() */
		if (found.depth && found.is_exact && found.pc == group->entry)
			return FRAME_OWN;
		if (is_valid(group, &found))
			return FRAME_HIT;
		count(&group->outside);
		return FRAME_PAST;
	default:
		if (!is_far(context, one))
			break;
		count(&group->unsure);
		return FRAME_PAST;
	}
	count(&group->over);
	*is_over = 1;
	return FRAME_PAST;
}

enum frame_hit frame_hold(struct watch_entry *entry, const ucontext_t *context, uintptr_t met)
{
	struct held *one = &held[entry->lane][entry->about.frame];
	struct frame_table *table = table_of(entry);
	struct frame_group *group = &table->groups[entry->about.group];
	struct frame_row *row = &table->rows[entry->about.frame];
	enum frame_hit hit = FRAME_PAST;
	uint32_t state;
	int is_over = 0;

	/* a full barrier: who takes the frame sees us, or we see that it is taken */
	__atomic_fetch_add(&one->inside, 1, __ATOMIC_SEQ_CST);
	state = state_of(row);
	if (FRAME_STEP(state) != FRAME_LIVE || (met && met != entry->about.address))
		return FRAME_PAST;
	if (one->tid == own_tid()) {
		hit = judge_own(group, one, context, &is_over);
	} else if (is_left(one)) {
		count(&group->over);
		is_over = 1;
	} else {
		hit = FRAME_HIT;
	}
	if (is_over)
		end(table, row, state);
	return hit;
}

void frame_leave(const struct watch_entry *entry)
{
	__atomic_fetch_sub(&held[entry->lane][entry->about.frame].inside, 1, __ATOMIC_SEQ_CST);
}

void frame_is_outside(const struct watch_entry *entry)
{
	count(&table_of(entry)->groups[entry->about.group].outside);
}

/* ---- ends ---- */

IN_PLACE void frame_returned(uintptr_t slot)
{
	int32_t tid = (int32_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);

	/* pairs with watch.c's barrier, as take_signal()'s */
	__atomic_fetch_add(&watch_inside, 1, __ATOMIC_SEQ_CST);
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		const struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];
		const struct held *one = &held[entry->lane][entry->about.frame];
		struct frame_table *table;
		uint32_t state;

		if (!(entry->about.flags & WATCH_OF_FRAME) || one->tid != tid ||
		    one->cfa != slot + sizeof slot)
			continue;
		table = table_of(entry);
		state = state_of(&table->rows[entry->about.frame]);
		if (FRAME_STEP(state) == FRAME_LIVE)
			end(table, &table->rows[entry->about.frame], state);
	}
	__atomic_fetch_sub(&watch_inside, 1, __ATOMIC_SEQ_CST);
}

void frame_lives(const struct watch_entry *entry, unsigned int frame, int32_t tid, uintptr_t cfa)
{
	struct frame_table *table = table_of(entry);
	struct frame_group *group = &table->groups[entry->about.group];
	uintptr_t back = 0;

	if (careful_read(&back, cfa - sizeof back, sizeof back) || !back ||
	    !(frames_of(entry) & 1u << frame) ||
	    take_frame(entry, table, 1u << frame, cfa) != (int)frame) {
		count(&group->busy);
		return;
	}
	give(entry, frame, tid, cfa, back, 1);
}

void frame_begin(unsigned int lane)
{
	for (unsigned int i = 0; i < FRAMES_MAX; i++)
		held[lane][i] = (struct held){ 0 };
	__atomic_fetch_and(&is_released, ~(1u << lane), __ATOMIC_SEQ_CST);
}

void frame_release(unsigned int lane)
{
	if (__atomic_fetch_or(&is_released, 1u << lane, __ATOMIC_SEQ_CST) & 1u << lane)
		return;
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		const struct watch_entry *entry = &watch_entries[i];

		if (!entry->is_used || entry->lane != lane ||
		    !(entry->about.flags & WATCH_OF_FRAME))
			continue;
		wake(&table_of(entry)->rows[entry->about.frame].state);
	}
}
