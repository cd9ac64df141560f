/* SPDX-License-Identifier: MIT */
/*
 * A lane's pages: opening, closing, waiting for one, counting what found none.
 *
 * The hit path has no libc here: this file is compiled without vector registers and calls nothing
 * but the pool, the clock's anchor and bare system calls.
 */
#include "arch/trap_frame.h"
#include "base/syscall.h"
#include "inside/store/arena.h"
#include "inside/store/clock.h"
#include "inside/store/thread_writer.h"

#include <stddef.h>
#include <time.h>

#define SPINS 1000 /* some 20 us: between two looks for room */
#define LOOK_NS 20000
#define LOOKS_OF_A_SLEEP 5
#define WAIT_NS 50000
#define SLOTS_PAUSE_TICKS (UINT64_C(1) << 24) /* some milliseconds */
#define DRAINER_SILENT_NS 1000000000u
#define STACK_SCAN_BYTES 65536u
#define PAGE_LOW_BITS 4095u
#define SIGNALS 64

struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

/*
 * Whether all slots were taken a moment ago. The search through them is slow, and a stalled drain
 * must not make every hit repeat it.
 */
static int slots_are_out(struct store *store)
{
	uint64_t when = __atomic_load_n(&store->slots_out_ticks, __ATOMIC_RELAXED);

	return when && clock_ticks(STORE_CLOCK_TSC) - when < SLOTS_PAUSE_TICKS;
}

/*
 * A handler that interrupts a hit may fork, and return into the hit in the child too. There the
 * lane is wiped, and the store has no head, slots or pages; those that the hit has found before are
 * private memory. So each function here reads pointers first, and then, once, the number that shows
 * that they were the store's: how many there are, or the lane's slot.
 */
static void numbers_follow(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* FREE -> CLAIMED -> LIVE. Returns its number, or -1. */
static int64_t slot_take(struct store *store, uint32_t tid, uint32_t depth, const char comm[16])
{
	uint32_t start = __atomic_load_n(&store->slot_hand, __ATOMIC_RELAXED), count;
	struct wm_store *head = __atomic_load_n(&store->head, __ATOMIC_RELAXED);
	struct wm_slot *slots = __atomic_load_n(&store->slots, __ATOMIC_RELAXED);

	numbers_follow();
	count = __atomic_load_n(&store->slot_count, __ATOMIC_RELAXED);
	if (slots_are_out(store))
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = (start + i) % count;
		struct wm_slot *slot = &slots[number];
		uint32_t none = SLOT_FREE;

		if (__atomic_load_n(&slot->state, __ATOMIC_RELAXED) != SLOT_FREE)
			continue;
		if (!__atomic_compare_exchange_n(&slot->state, &none, SLOT_CLAIMED, 0,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		slot->tid = tid;
		slot->depth = depth;
		slot->pid = store->child_pid;
		slot->pages = 0;
		slot->discarded = 0;
		slot->rejected = 0;
		slot->handler = 0;
		slot->written = 0;
		slot->next_seq = 0;
		slot->instance = __atomic_fetch_add(&head->next_instance, 1, __ATOMIC_RELAXED);
		for (unsigned int c = 0; c < sizeof slot->comm; c++)
			slot->comm[c] = comm[c];
		/* pairs with the outside's store of `closed`, where it is a child's */
		__atomic_store_n(&slot->state, SLOT_LIVE, __ATOMIC_SEQ_CST);
		__atomic_store_n(&store->slot_hand, number + 1, __ATOMIC_RELAXED);
		return number;
	}
	__atomic_store_n(&store->slots_out_ticks, clock_ticks(STORE_CLOCK_TSC), __ATOMIC_RELAXED);
	return -1;
}

static int slot_claim(struct store *store, struct lane *lane, const struct writer *writer,
		      int depth)
{
	struct wm_slot *slots = __atomic_load_n(&store->slots, __ATOMIC_RELAXED);
	int64_t number = slot_take(store, (uint32_t)writer->tid, (uint32_t)depth, writer->comm);

	if (number < 0)
		return -1;
	lane->end_ticks = 0;
	lane->rejected = &slots[number].rejected;
	__atomic_store_n(&lane->slot, (uint32_t)number + 1, __ATOMIC_RELAXED);
	numbers_follow();
	if (number < __atomic_load_n(&store->slot_count, __ATOMIC_RELAXED))
		return 0;
	lane->slot = 0; /* the parent's */
	lane->rejected = NULL;
	return -1;
}

int lane_share(struct store *store, uint32_t pid)
{
	static const char nameless[16];
	int64_t number;

	store->child_pid = pid;
	number = slot_take(store, pid, SLOT_SHARES, nameless);
	if (number < 0)
		return -1;
	store->share = (uint32_t)number + 1;
	if (!__atomic_load_n(&store->head->closed, __ATOMIC_SEQ_CST))
		return 0;
	lane_unshare(store);
	return -1;
}

void lane_unshare(struct store *store)
{
	if (store->share)
		__atomic_store_n(&store->slots[store->share - 1].state, SLOT_ENDED,
				 __ATOMIC_RELEASE);
	store->share = 0;
}

/* ---- the store's pool of pages ---- */

/*
 * Where the search for a free page begins: at the front as soon as something was given back, so
 * that the few pages that were used already serve again and again. They are in memory, in both
 * sides' page tables and in the caches; going round, each would be touched for the first time until
 * all were. The cyclic policy gets nothing back, and needs the order.
 */
static uint32_t first_look(struct store *store, const struct wm_store *head)
{
	uint32_t freed = __atomic_load_n(&head->freed, __ATOMIC_RELAXED);

	if (store->policy == STORE_CYCLIC ||
	    __atomic_exchange_n(&store->freed_seen, freed, __ATOMIC_RELAXED) == freed)
		return __atomic_load_n(&store->hand, __ATOMIC_RELAXED);
	return 0;
}

/*
 * FULL -> OPEN, the cyclic policy's step: what the page held is lost. Whoever is killed between two
 * of these lines leaves a page that says what it said, or nothing; never a slot with pages too few,
 * which would be given to another thread.
 */
static int steal_page(struct store *store, struct wm_store *head, struct wm_page *page)
{
	struct wm_slot *slots = __atomic_load_n(&store->slots, __ATOMIC_RELAXED);
	uint32_t full = PAGE_FULL;
	uint32_t slot, events;

	if (!__atomic_compare_exchange_n(&page->state, &full, PAGE_OPEN, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0;
	slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED); /* once: the outside may write it */
	events = __atomic_load_n(&page->events, __ATOMIC_RELAXED);
	/* releases, so that they are seen in this order */
	__atomic_store_n(&page->word, PAGE_WORD(PAGE_HEAD_BYTES, 0), __ATOMIC_RELEASE);
	__atomic_store_n(&page->slot, PAGE_NO_SLOT, __ATOMIC_RELEASE);
	if (slot < __atomic_load_n(&store->slot_count, __ATOMIC_RELAXED))
		__atomic_fetch_sub(&slots[slot].pages, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&head->overwritten, events, __ATOMIC_RELAXED);
	return 1;
}

/* 0 -> 1; acquire pairs with the release by which the drain gives it back. */
static int take_free(uint32_t *taken)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(taken, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Whether pool_take() may find something since it last found nothing. */
static int pool_may_have(const struct store *store, const struct wm_store *head)
{
	return store->policy == STORE_CYCLIC || !store->full_mark ||
	       __atomic_load_n(&store->full_mark, __ATOMIC_RELAXED) !=
		       __atomic_load_n(&head->freed, __ATOMIC_ACQUIRE) + 1;
}

/*
 * Take a page. Returns its number, without a slot yet, or -1: none is free. The cyclic policy
 * takes pages in their order, so the first full one after the hand is the oldest, or nearly, and a
 * free one further on has its turn later. Nothing is ever read back from the store of what the
 * outside can write.
 */
static int32_t pool_take(struct store *store, struct wm_store *head)
{
	uint32_t *all_taken = __atomic_load_n(&store->taken, __ATOMIC_RELAXED);
	struct wm_page *pages = __atomic_load_n(&store->pages, __ATOMIC_RELAXED);
	/*
	 * read before the search: a page given back during it makes the mark stale, so none is
	 * missed
	 */
	uint32_t freed = __atomic_load_n(&head->freed, __ATOMIC_ACQUIRE);
	uint32_t start = first_look(store, head), count;

	numbers_follow();
	count = __atomic_load_n(&store->page_count, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = (start + i) % count;
		struct wm_page *page = &pages[number];

		if (__atomic_load_n(&all_taken[number], __ATOMIC_RELAXED)
			    ? store->policy != STORE_CYCLIC || !steal_page(store, head, page)
			    : !take_free(&all_taken[number]))
			continue;
		__atomic_store_n(&store->hand, number + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&page->word, PAGE_WORD(PAGE_HEAD_BYTES, 0), __ATOMIC_RELAXED);
		return (int32_t)number;
	}
	__atomic_store_n(&store->full_mark, freed + 1, __ATOMIC_RELAXED);
	return -1;
}

/* ---- a page ---- */

/* 0 means that slot and page are the parent's: the child leaves them alone. */
static uint32_t slot_of(const struct lane *lane)
{
	return __atomic_load_n(&lane->slot, __ATOMIC_RELAXED);
}

/* The lane's slot; NULL: it has none. */
static struct wm_slot *own_slot(const struct store *store, const struct lane *lane)
{
	struct wm_slot *slots = __atomic_load_n(&store->slots, __ATOMIC_RELAXED);
	uint32_t number;

	numbers_follow();
	number = slot_of(lane);
	return number ? &slots[number - 1] : NULL;
}

/* OPEN -> FULL; release: the drain, or the writer that overwrites the page, sees all of it */
static void page_close(struct store *store, struct lane *lane)
{
	struct wm_page *page = lane->page;
	uint64_t word = lane->word;
	struct wm_slot *slot = own_slot(store, lane);

	/*
	 * before the lane forgets the page, for a handler that jumps out of here: the next builds
	 * on it
	 */
	if (page && slot)
		__atomic_store_n(&slot->written, page->before + (word >> 32), __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* limit first: a hit that interrupts this finds no room, not a page that is gone */
	__atomic_store_n(&lane->limit, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	lane->page = NULL;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	lane->word = 0; /* never with the page there: closed again, it would lose what it holds */
	if (page && slot_of(lane)) {
		/* a handler may have jumped out of the last commit, between its two stores */
		__atomic_store_n(&page->word, word, __ATOMIC_RELEASE);
		lane->end_ticks = page->end_ticks;
		__atomic_store_n(&page->state, PAGE_FULL, __ATOMIC_RELEASE);
	}
}

/* 0, or -1 in a child that returned here. */
static int page_open(struct store *store, struct lane *lane, uint32_t number, uint64_t ticks)
{
	struct wm_page *page = &__atomic_load_n(&store->pages, __ATOMIC_RELAXED)[number];
	unsigned char *data = __atomic_load_n(&store->data, __ATOMIC_RELAXED);
	struct wm_slot *slots = __atomic_load_n(&store->slots, __ATOMIC_RELAXED), *slot;
	struct clock_readings now;
	uint32_t slot_number;

	clock_at(store->clock, ticks, &now);
	numbers_follow();
	slot_number = slot_of(lane);
	if (!slot_number)
		return -1;
	slot = &slots[slot_number - 1];
	page->end_ticks = ticks;
	page->begin_ticks = ticks;
	page->seq = slot->next_seq++;
	page->discarded = __atomic_load_n(&slot->discarded, __ATOMIC_RELAXED);
	page->before = __atomic_load_n(&slot->written, __ATOMIC_RELAXED);
	page->use = lane->use;
	page->monotonic_ns = now.monotonic_ns;
	page->monotonic_raw_ns = now.monotonic_raw_ns;
	page->realtime_ns = now.realtime_ns;
	__atomic_fetch_add(&slot->pages, 1, __ATOMIC_RELAXED);
	/* last, as a stolen page is OPEN: what it says of a stream must be that stream's */
	__atomic_store_n(&page->slot, slot_number - 1, __ATOMIC_RELEASE);
	/* FREE (or stolen OPEN) -> OPEN; release pairs with the drain's acquire of `state` */
	__atomic_store_n(&page->state, PAGE_OPEN, __ATOMIC_RELEASE);

	lane->page = page;
	lane->base = data + (size_t)number * STORE_PAGE_BYTES;
	lane->word = PAGE_WORD(PAGE_HEAD_BYTES, 0);
	/* last, for a handler that jumps out of here: without a limit the rest is not looked at */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!slot_of(lane)) {
		lane->page = NULL;
		return -1;
	}
	__atomic_store_n(&lane->limit, STORE_PAGE_BYTES - LANE_SLACK, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (slot_of(lane))
		return 0;
	__atomic_store_n(&lane->limit, 0, __ATOMIC_RELAXED); /* of a page that is wiped */
	return -1;
}

/* libc's; beside that of what was installed by way of the agent (inside/watch/guard.h) */
static void *restorer;

void lane_find_restorer(void)
{
	for (long signal = 1; signal <= SIGNALS && !restorer; signal++) {
		struct kernel_sigaction action = { 0 };

		if (!syscall_raw(SYS_rt_sigaction, signal, 0, (long)&action, 8) &&
		    (uintptr_t)action.handler > 1 &&
		    action.restorer != (void *)(uintptr_t)trap_restore)
			__atomic_store_n(&restorer, action.restorer, __ATOMIC_RELAXED);
	}
}

/*
 * Whether a signal handler is running: its frame's return address is the restorer that sigaction(2)
 * was given. A stale copy of it on the stack can only make us discard where we could have waited.
 * How far another stack than the thread's own reaches is unknown, past the page.
 */
static int in_signal_handler(const struct writer *writer, uintptr_t sp)
{
	uintptr_t end = writer->stack.low + writer->stack.bytes;
	void *libcs = __atomic_load_n(&restorer, __ATOMIC_RELAXED);
	void *ours = (void *)(uintptr_t)trap_restore;

	if (sp - writer->stack.low >= writer->stack.bytes)
		end = (sp | PAGE_LOW_BITS) + 1;
	else if (end - sp > STACK_SCAN_BYTES)
		end = sp + STACK_SCAN_BYTES;
	for (sp &= ~(uintptr_t)7; sp + 8 <= end; sp += 8) {
		void *word = *(void *const *)sp;

		if (word == ours || (word && word == libcs))
			return 1;
	}
	return 0;
}

static uint64_t now_ns(const struct store *store)
{
	struct clock_readings now;

	if (store->clock == STORE_CLOCK_MONOTONIC)
		return clock_ticks(STORE_CLOCK_MONOTONIC);
	clock_at(STORE_CLOCK_TSC, clock_ticks(STORE_CLOCK_TSC), &now);
	return now.monotonic_ns;
}

/*
 * Whether a wait for room makes sense. A tool that has not drained for a while may be busy or
 * stopped: it gets one wait, and no other until it drains again.
 */
static int may_wait(const struct store *store, uint64_t drained)
{
	uint64_t now = now_ns(store);

	if (!drained)
		return 0;
	return now < drained || now - drained < DRAINER_SILENT_NS ||
	       drained != __atomic_load_n(&store->waited_ns, __ATOMIC_RELAXED);
}

/*
 * Sleep, where that is permitted (thread_writer.h); ask, where it is not. How many looks it counts
 * as.
 */
static unsigned int pause_a_while(struct writer *writer, unsigned int looks, uint32_t *asked)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	uint32_t permit = __atomic_load_n(&writer->permit, __ATOMIC_ACQUIRE);

	if (*asked && permit == (*asked & ~PERMIT_STATE) + PERMIT_GIVEN) {
		syscall_raw(SYS_nanosleep, (long)&pause, 0, 0, 0);
		return LOOKS_OF_A_SLEEP;
	}
	if (!looks) {
		*asked = (permit & ~PERMIT_STATE) + PERMIT_STATE + 1 + PERMIT_ASKED;
		__atomic_store_n(&writer->permit, *asked, __ATOMIC_RELEASE);
	}
	for (unsigned int i = 0; i < SPINS; i++)
		__builtin_ia32_pause();
	return 1;
}

/* The block policy: a page, if one comes free in time. */
static int32_t wait_for_page(struct store *store, struct wm_store *head, struct writer *writer,
			     int depth, uintptr_t sp)
{
	unsigned int looks = 0;
	uint64_t drained, end;
	uint32_t asked = 0;
	int32_t number = -1;

	if ((depth && depth != DEPTH_ELSEWHERE) || in_signal_handler(writer, sp))
		return -1;
	end = now_ns(store) + store->block_ns;
	/*
	 * on a busy machine the time may go by without a look: the looks have to take as long, too
	 */
	while (number < 0 && !__atomic_load_n(&store->closing, __ATOMIC_ACQUIRE)) {
		drained = __atomic_load_n(&head->drained_ns, __ATOMIC_RELAXED);
		if (!may_wait(store, drained))
			break;
		if (now_ns(store) >= end && looks >= store->block_ns / LOOK_NS) {
			__atomic_store_n(&store->waited_ns, drained, __ATOMIC_RELAXED);
			break;
		}
		looks += pause_a_while(writer, looks, &asked);
		if (pool_may_have(store, head))
			number = pool_take(store, head);
	}
	if (asked)
		__atomic_store_n(&writer->permit, asked & ~PERMIT_STATE, __ATOMIC_RELEASE);
	return number;
}

int lane_next_page(struct writer *writer, struct lane *lane, unsigned int session, int depth,
		   uint64_t bytes, uint64_t ticks, uintptr_t sp)
{
	struct store *store = &stores[session];
	struct wm_store *head = __atomic_load_n(&store->head, __ATOMIC_ACQUIRE);
	int32_t number = -1;

	if (bytes + PAGE_HEAD_BYTES + LANE_SLACK > STORE_PAGE_BYTES)
		return -1;
	if (!head)
		return -1;
	if (lane->page && lane->use != PAGE_ROWS)
		page_close(store, lane);
	if (!lane->slot && slot_claim(store, lane, writer, depth))
		return -1;
	if (pool_may_have(store, head))
		number = pool_take(store, head);
	if (number < 0 && store->policy == STORE_BLOCK)
		number = wait_for_page(store, head, writer, depth, sp);
	if (number < 0)
		return -1;
	/* rows are kept as long as there is no other page: later hits add to them */
	if (lane->page)
		page_close(store, lane);
	/*
	 * packets of a stream never overlap in time, whatever the core that the thread came from
	 * said
	 */
	if (ticks < lane->end_ticks)
		ticks = lane->end_ticks;
	return page_open(store, lane, (uint32_t)number, ticks);
}

void lane_discard(struct writer *writer, struct lane *lane, unsigned int session, int depth)
{
	struct store *store = &stores[session];
	struct wm_store *head = __atomic_load_n(&store->head, __ATOMIC_ACQUIRE);
	struct wm_slot *slot;

	if (!head || arena_lacks(store))
		return;
	if (lane && !lane->slot && writer)
		slot_claim(store, lane, writer, depth);
	slot = lane ? own_slot(store, lane) : NULL;
	if (slot)
		__atomic_fetch_add(&slot->discarded, 1, __ATOMIC_RELAXED);
	else
		__atomic_fetch_add(&head->discarded, 1, __ATOMIC_RELAXED);
}

void lane_reject(struct writer *writer, struct lane *lane, unsigned int session, int depth)
{
	struct store *store = &stores[session];
	struct wm_store *head = __atomic_load_n(&store->head, __ATOMIC_ACQUIRE);
	uint64_t *count = NULL;

	if (!head || arena_lacks(store))
		return;
	if (lane && !lane->slot && !slot_claim(store, lane, writer, depth))
		count = __atomic_load_n(&lane->rejected, __ATOMIC_RELAXED);
	if (count)
		++*count;
	else
		__atomic_fetch_add(&head->rejected, 1, __ATOMIC_RELAXED);
}

void lane_handler(struct writer *writer, struct lane *lane, unsigned int session, int depth,
		  uint32_t number)
{
	struct store *store = &stores[session];
	struct wm_slot *slot;

	if (!lane || !__atomic_load_n(&store->head, __ATOMIC_ACQUIRE) || arena_lacks(store))
		return;
	/* without a slot it has returned in the child of a fork: the parent has the slot */
	if (!lane->slot && (!number || slot_claim(store, lane, writer, depth)))
		return;
	slot = own_slot(store, lane);
	if (slot)
		__atomic_store_n(&slot->handler, number, __ATOMIC_RELAXED);
}

void lane_crowded(struct writer *writer, struct lane *lane, unsigned int session, int depth)
{
	struct wm_store *head = __atomic_load_n(&stores[session].head, __ATOMIC_ACQUIRE);

	if (head && !arena_lacks(&stores[session]))
		__atomic_fetch_add(&head->crowded_out, 1, __ATOMIC_RELAXED);
	lane_discard(writer, lane, session, depth);
}

void lane_close(struct lane *lane, unsigned int session)
{
	if (lane->page && __atomic_load_n(&stores[session].head, __ATOMIC_ACQUIRE))
		page_close(&stores[session], lane);
}

void lane_end(struct lane *lane, unsigned int session)
{
	struct store *store = &stores[session];
	struct wm_slot *slot = own_slot(store, lane);

	if (slot && __atomic_load_n(&store->head, __ATOMIC_ACQUIRE)) {
		page_close(store, lane);
		/* LIVE -> ENDED, after its last page */
		__atomic_store_n(&slot->state, SLOT_ENDED, __ATOMIC_RELEASE);
	}
	lane->page = NULL;
	lane->limit = 0;
	lane->word = 0;
	lane->slot = 0;
	lane->rejected = NULL;
}
