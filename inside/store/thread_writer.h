/* SPDX-License-Identifier: MIT */
/*
 * A writer is one thread's hand on the stores. It is private memory of the program, wiped in the
 * child of a fork (MADV_WIPEONFORK), so that no child ever writes to its parent's pages, however it
 * was forked.
 *
 * Whose writer? A thread finds its own by a thread-local pointer. A thread made by a bare clone()
 * may share that pointer with its maker. So only a hit on the stack that libc gave the thread is
 * certainly its own. Elsewhere, on a coroutine's stack or a signal's, arena_is_own_thread()
 * decides: no hit makes a system call, for which a seccomp filter might kill. A bare clone's hits
 * are counted as lost.
 *
 * Nesting: a hit stores its stack pointer in inside[0] and clears it when it is done. A signal
 * handler that hits in between finds it set, takes inside[1] and the lanes of depth 1, which are
 * streams of their own; so no two hits ever share a page. A hit that interrupts that one is counted
 * as discarded. A handler that leaves by longjmp strands its value: one that is below the stack
 * pointer of a later hit on the same stack is dead. Without a later hit it stays until the thread
 * ends.
 *
 * Everything here may be called on the hit path: no lock, no libc, no vector registers. What may
 * run beside what:
 *
 *	                     own thread   its signal handlers   control thread
 *	lane fields          writes       other depth only      after store_quiesce(), or if dead
 *	inside[d]            writes       other d only          reads
 *	wm_page, wm_slot     writes       other page            ENDED ones, pages taken by CAS
 */
#ifndef INSIDE_STORE_THREAD_WRITER_H
#define INSIDE_STORE_THREAD_WRITER_H

#include "abi/detour.h"
#include "abi/page.h"
#include "inside/runtime/sessions.h"

#include <stdint.h>

/*
 * For what hits call in files that are compiled as ordinary code: no vector register, whatever the
 * optimizer would like.
 */
#define ON_HIT_PATH __attribute__((target("general-regs-only")))

#define COUNTERS_MAX 127 /* markers whose hits are counted: the first ones armed */
#define WRITERS_MAX 32768
#define DEPTHS 2	  /* of a stack: a hit, and one of a handler that interrupted it */
#define DEPTH_ELSEWHERE 2 /* the first of hits on other stacks than the thread's own */
#define DEPTH_MAX (DEPTH_ELSEWHERE + DEPTHS)
#define RETURN_PLACES 64

/* One stream: this thread, this depth, this session. */
struct lane {		      /* one cache line */
	uint64_t word;	      /* PAGE_WORD: where the next event goes, how many there are */
	unsigned char *base;  /* of the page */
	struct wm_page *page; /* NULL: none */
	uint32_t limit; /* an event that could pass this offset needs another page; 0: no page */
	uint32_t slot;	/* number + 1; 0: none */
	uint32_t use;	/* of its pages: PAGE_ROWS, or 0 */
	uint64_t end_ticks; /* of the page before */
	uint64_t *rejected; /* in its slot; NULL: it has no slot */
	uint64_t reserved;
};

struct lanes {
	struct lane of[SESSIONS_MAX];
};

/*
 * The page with a thread's rows (abi/sum.h), for one session at one depth, and where each row is.
 * of[turn] is in use. To have that page closed, the control thread changes `turn` and waits for
 * the hits in flight (store_rows_turn()).
 */
#define ROWS_WAYS 4
#define ROWS_INDEX_BITS 9
#define ROWS_INDEX (1u << ROWS_INDEX_BITS)
struct rows {
	uint32_t turn;
	struct rows_page {
		struct lane lane __attribute__((aligned(64)));
		/* in the page, by a hash over all values; 0: none */
		uint16_t index[ROWS_INDEX];
		uint32_t is_indexed; /* 0: it is of another page, or of none */
	} of[2];
};

/* What libc gave a thread as its stack; or pages that a thread was seen to run on elsewhere. */
struct writer_stack {
	uintptr_t low;
	uintptr_t bytes;
};

struct marker;

/*
 * What the entry of a call leaves for its one event at the return (DETOUR_ONCE), or the begin of a
 * span for that at its end. `at` is stored last: 0; the payload's address on the stack, by which
 * this call differs from those of a signal handler; of a span the begin's struct marker. `fills`
 * grows before each change. One byte more than an event has shows that a text is cut, and a NUL
 * follows.
 */
#define KEPT_PAYLOAD_BYTES 128
struct kept {
	uintptr_t at;
	uint32_t fills;
	uint32_t begun;	 /* of a span: PLAN_BEGUN */
	uint64_t ticks;	 /* of the TSC */
	uint64_t result; /* of DETOUR_REPLACE, where the handler replaces the call */
	uint64_t payload[KEPT_PAYLOAD_BYTES / 8];
	unsigned char texts[DETOUR_KEPT_TEXTS][DETOUR_KEPT_TEXT_BYTES + 1 + 8];
};

#define KEPT_CHANGES 1u /* kept.at meanwhile */

/* In place of a string's pointer in kept.payload. */
#define KEPT_NULL UINT64_C(0)
#define KEPT_UNREADABLE UINT64_C(1) /* WM__HANDLER_UNREADABLE, too */

/* The spans of a thread that are one event, at their end, and have begun. Those of `births`. */
#define SPANS_OPEN_MAX 8
struct spans {
	uint32_t births;
	struct kept of[SPANS_OPEN_MAX];
};

enum writer_state { WRITER_FREE = 0, WRITER_CLAIMED = 1, WRITER_LIVE = 2 };

struct writer {
	uintptr_t inside[DEPTH_MAX];
	struct writer_stack stack, elsewhere;
	uint32_t state;
	int32_t tid;
	const void *running[DEPTH_MAX];	     /* the data of the probe that runs at each depth */
	void (*running_fn[DEPTH_MAX])(void); /* and its handler */
	struct lanes *deeper[DEPTH_MAX - 1]; /* lanes of depth 1 and more, when they were needed */
	uint32_t name_looks;
	/* 1 while its lanes are being ended: by its thread, or by the control thread */
	uint32_t births; /* grows with each thread that has it */
	uint32_t ending;
	char comm[16];
	uint32_t permit; /* below */
	struct lanes lanes;
	uint64_t hits[COUNTERS_MAX + 1]; /* by plan number; the last is for those not counted */
	/*
	 * The last begin of a call, for return_enter(), which follows it: PLAN_BEGUN, and above it
	 * the lanes that lost it. `begun_at` is stored first and loaded last, so that a signal
	 * handler's calls in between do not pass for it.
	 */
	const struct marker *begun_at;
	uint64_t begun;
	struct kept kept; /* with it */
	/* inside/detour/return.c; until writer_ends() */
	uint64_t returns;		       /* list of free units, with a tag */
	uint32_t return_count;		       /* about how many */
	uint16_t return_places[RETURN_PLACES]; /* units by the place of the return address */
	/* inside/marker/cost_counters.h; of the thread with the same births */
	struct cost_counters *counters;
	uint32_t counters_asked, counters_answered;
	struct rows *rows[DEPTH_MAX][SESSIONS_MAX]; /* when they were needed */
	int32_t pid;
} __attribute__((aligned(64)));

/*
 * Slack after `limit`: room for the longest header, and for the last word of a copy by words.
 */
#define LANE_SLACK (EVENT_EXTENDED_BYTES + 3 + 8)

/* The calling thread's writer, or NULL before its first hit. */
extern __thread struct writer *writer_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Called with each writer that ends, for what others keep in it. NULL: they keep nothing. The
 * control side sets it before anything is kept.
 */
extern void (*writer_ends)(struct writer *writer) __attribute__((visibility("hidden")));

/*
 * A hit of a thread that has no writer holds one of these; only inside[0], tid and state are used.
 * A wait for all hits sees it, and sees if a jump left it. If all are taken, the hit is only
 * counted.
 */
#define STRANGERS_MAX 16
extern struct writer writer_strangers[STRANGERS_MAX] __attribute__((visibility("hidden")));
extern uint32_t writer_strangers_more __attribute__((visibility("hidden")));

/* A full barrier, to come before the plan is loaded. NULL: counted. Hit path. */
struct writer *writer_stranger_enter(uintptr_t sp);
void writer_stranger_leave(struct writer *stranger, uintptr_t sp);

/*
 * The writer of the thread with this stack pointer, made if it has none yet; NULL if that fails
 * (a child of a bare fork, a bare clone, or more threads than WRITERS_MAX): the hit is lost and,
 * where a store is there to count in, counted.
 */
struct writer *writer_find(uintptr_t sp);

/*
 * Claim a depth for a hit that found inside[0] set, or that is on another stack than the thread's
 * own. There a bare clone may pass for the thread and run beside it: such hits have depths of their
 * own, taken by compare and swap. Returns 0 to DEPTH_MAX - 1 with inside[] set, or -1 when all are
 * taken.
 */
int writer_nest(struct writer *writer, uintptr_t sp);

/* The lane of a session at a depth; NULL if there is no memory for deeper lanes. */
struct lane *writer_lane(struct writer *writer, unsigned int session, int depth);

/* Its rows; NULL if there is no memory for them. */
struct rows *writer_rows(struct writer *writer, unsigned int session, int depth);

/* Call visit() for each lane of a session that the writer has. Control side, or at its end. */
void writer_lanes_each(struct writer *writer, unsigned int session,
		       void (*visit)(struct lane *lane, unsigned int session));

/* In event_store.c, for all of the agent's store. */
struct store {
	struct wm_store *head; /* NULL: no such session */
	struct wm_slot *slots;
	uint32_t *taken;
	struct wm_page *pages;
	unsigned char *data;
	uint64_t bytes, block_ns;
	uint32_t slot_count, page_count, policy, clock;
	uint32_t opening;    /* its number, from 1: PLAN_BEGUN */
	uint32_t closing;    /* no writer waits for room any more */
	uint64_t waited_ns;  /* head->drained_ns when a wait for room was last in vain; 0: never */
	uint32_t full_mark;  /* head->freed + 1 when the pool was last found empty; 0: never */
	uint32_t hand;	     /* where the next search for a free or an old page starts */
	uint32_t freed_seen; /* head->freed when that search last began */
	uint32_t slot_hand;
	uint64_t slots_out_ticks; /* when no slot was free; 0: never */
	/* ours, where the store is that of the process that forked us; else 0 */
	uint32_t child_pid;
	uint32_t share;	   /* number + 1 of the slot that says so; 0: none */
	uint32_t is_alone; /* no child of fork writes to it: store_is_alone() */
	uint32_t is_lent;  /* then: a fork is in progress, whose child has the first page */
};

extern struct store stores[SESSIONS_MAX] __attribute__((visibility("hidden")));

/*
 * Give a lane a page with room for `bytes` more, closing the one it has. 0, or -1: no room, and the
 * event is to be counted with lane_discard(). May wait under the block policy (depth 0 only).
 */
int lane_next_page(struct writer *writer, struct lane *lane, unsigned int session, int depth,
		   uint64_t bytes, uint64_t ticks, uintptr_t sp);

/*
 * A thread that waits for room may sleep only where no seccomp filter kills it for that. To ask the
 * kernel would be a call, too, so in each wait it asks the control thread by its writer's `permit`.
 * While it waits it can't put itself under a filter. The low two bits are a state, the others count
 * the waits:
 *
 *	0 -> ASKED                  its thread; release, pairs with give_permits()'s acquire
 *	ASKED -> GIVEN or REFUSED   the control thread, by compare and swap, after a look at the
 *				    thread since then
 *	any -> 0                    its thread, at the wait's end. A handler that jumps out leaves
 *				    it as it is.
 */
#define PERMIT_STATE 3u
#define PERMIT_ASKED 1u
#define PERMIT_GIVEN 2u
#define PERMIT_REFUSED 3u

/* Learn how to recognise a signal handler's frame (block policy). Periodic; control thread. */
void lane_find_restorer(void);

/*
 * The child of a fork: claim the slot that lets it write to its parent's store. 0, or -1: it may
 * not. And end that slot, when all others are ended.
 */
int lane_share(struct store *store, uint32_t pid);
void lane_unshare(struct store *store);

/* Count one event as lost. */
void lane_discard(struct writer *writer, struct lane *lane, unsigned int session, int depth);

/* The same for one that found no page. */
void lane_crowded(struct writer *writer, struct lane *lane, unsigned int session, int depth);

/*
 * Count one whose predicates do not hold, where the lane has no slot to count in yet. `lane` may be
 * NULL.
 */
void lane_reject(struct writer *writer, struct lane *lane, unsigned int session, int depth)
	__attribute__((no_caller_saved_registers, noinline, cold));

/*
 * Note which of the session's handlers the thread is about to call, for the case that it does not
 * return; 0: it has returned. `lane` may be NULL.
 */
void lane_handler(struct writer *writer, struct lane *lane, unsigned int session, int depth,
		  uint32_t number) __attribute__((no_caller_saved_registers, noinline, cold));

/* Close a lane's page. */
void lane_close(struct lane *lane, unsigned int session);

/* Close a lane's page and end its stream. */
void lane_end(struct lane *lane, unsigned int session);

/* The clock that session's events are stamped with. */
uint64_t clock_ticks_slow(uint32_t clock);

static inline uint64_t clock_ticks(uint32_t clock)
{
	uint64_t low, high; /* RDTSC clears the upper halves (Intel SDM vol. 2B) */

	if (__builtin_expect(clock != STORE_CLOCK_TSC, 0))
		return clock_ticks_slow(clock);
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return high << 32 | low;
}

#endif
