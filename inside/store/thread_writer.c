/* SPDX-License-Identifier: MIT */
#include "inside/store/thread_writer.h"

#include "arch/halt.h"
#include "arch/vectors.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/store/arena.h"

#include <stddef.h>

#define PAGE_LOW_BITS 4095u
#define STACK_GAP_BYTES (16 * 4096u) /* pages no further apart are one stack */
#define SCAN_BYTES (1024 * 1024u)    /* of a stack, for the frame of a signal */

__thread struct writer *writer_self;
/* In writer_register(): a hit of a signal handler below it is lost, and counted. */
static __thread const struct reentrancy_guard *registering;
struct writer writer_strangers[STRANGERS_MAX];
uint32_t writer_strangers_more;
void (*writer_ends)(struct writer *writer);

static int stack_has(const struct writer_stack *stack, uintptr_t sp)
{
	return sp - stack->low < stack->bytes;
}

/*
 * Add the page of `sp`, or begin with it. Empty in between: a signal's handler there must not see
 * a window that mixes both.
 */
static void elsewhere_learn(struct writer_stack *seen, uintptr_t sp)
{
	uintptr_t low = sp & ~(uintptr_t)PAGE_LOW_BITS, end = low + PAGE_LOW_BITS + 1;
	uintptr_t seen_end = seen->low + seen->bytes;

	if (stack_has(seen, sp))
		return;
	if (seen->bytes && end + STACK_GAP_BYTES >= seen->low &&
	    low <= seen_end + STACK_GAP_BYTES) {
		low = low < seen->low ? low : seen->low;
		end = end > seen_end ? end : seen_end;
	}
	__atomic_store_n(&seen->bytes, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&seen->low, low, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&seen->bytes, end - low, __ATOMIC_RELAXED);
}

static long register_self(void *data)
{
	*(struct writer **)data = arena_writer_new();
	return 0;
}

static struct writer *writer_register(void)
{
	struct writer *writer = NULL;
	struct reentrancy_guard guard;

	/* arena_writer_new() asks libc for thread exit, and libc is ordinary code */
	reentrancy_guard_enter(&guard);
	registering = &guard;
	vectors_call_aside(register_self, &writer);
	registering = NULL;
	reentrancy_guard_leave(&guard);
	return writer;
}

struct writer *writer_find(uintptr_t sp)
{
	struct writer *writer = writer_self;
	struct writer_stack stack;
	int is_elsewhere;

	/* the child of a bare fork: nothing of the parent's is to be touched */
	if (!arena_is_ours())
		return NULL;
	/* unless a handler left it by a jump */
	if (registering && reentrancy_guard_is_above(registering, sp))
		return NULL;

	if (writer && writer->state != WRITER_LIVE)
		writer = NULL;
	stack = writer ? writer->stack : arena_own_stack();
	is_elsewhere = !stack_has(&stack, sp);
	if (is_elsewhere && !arena_is_own_thread())
		return NULL;
	if (!writer)
		writer_self = writer = writer_register();
	if (writer && is_elsewhere)
		elsewhere_learn(&writer->elsewhere, sp);
	return writer;
}

/*
 * Whether a hit that stored `frame` can't be going on any more, seen from a hit at `sp`. Both are
 * on one stack, and it is above: so the hit was left. The exception is a signal's handler on an
 * alternate stack which is a part of this one: it has its frame above `sp`. Between two
 * stacks no one knows, and the hit keeps its depth.
 */
static int is_stranded(const struct writer_stack *stack, uintptr_t frame, uintptr_t sp)
{
	uintptr_t end = stack->low + stack->bytes;

	if (!stack_has(stack, sp) || !stack_has(stack, frame) || sp < frame)
		return 0;
	if (end - sp > SCAN_BYTES)
		end = sp + SCAN_BYTES;
	for (sp &= ~(uintptr_t)7; sp + 8 * (HALT_FRAME_WORDS_BEHIND + 1) <= end; sp += 8) {
		if (halt_is_frame((const uint64_t *)sp, 0))
			return 0;
	}
	return 1;
}

int writer_nest(struct writer *writer, uintptr_t sp)
{
	/* a page is of one stack: no hit of another is taken for one that a jump left there */
	const struct writer_stack page = { sp & ~(uintptr_t)PAGE_LOW_BITS, PAGE_LOW_BITS + 1 };
	int is_own = stack_has(&writer->stack, sp), first = is_own ? 0 : DEPTH_ELSEWHERE;

	for (int depth = first; depth < first + DEPTHS; depth++) {
		uintptr_t frame = __atomic_load_n(&writer->inside[depth], __ATOMIC_RELAXED);

		if (frame && is_stranded(is_own ? &writer->stack : &page, frame, sp))
			__atomic_compare_exchange_n(&writer->inside[depth], &frame, 0, 0,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
	for (int depth = first; depth < first + DEPTHS; depth++) {
		uintptr_t none = 0;

		if (__atomic_compare_exchange_n(&writer->inside[depth], &none, sp, 0,
						__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return depth;
	}
	return -1;
}

struct lane *writer_lane(struct writer *writer, unsigned int session, int depth)
{
	struct lanes **deeper;

	if (!depth)
		return &writer->lanes.of[session];
	deeper = &writer->deeper[depth - 1];
	if (!*deeper)
		*deeper = arena_lanes_new();
	return *deeper ? &(*deeper)->of[session] : NULL;
}

struct rows *writer_rows(struct writer *writer, unsigned int session, int depth)
{
	struct rows **rows = &writer->rows[depth][session];

	if (!*rows)
		*rows = arena_rows_new();
	return *rows;
}

void writer_lanes_each(struct writer *writer, unsigned int session,
		       void (*visit)(struct lane *lane, unsigned int session))
{
	visit(&writer->lanes.of[session], session);
	for (int i = 0; i < DEPTH_MAX - 1; i++) {
		if (writer->deeper[i])
			visit(&writer->deeper[i]->of[session], session);
	}
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		struct rows *rows = writer->rows[depth][session];

		for (int turn = 0; rows && turn < 2; turn++)
			visit(&rows->of[turn].lane, session);
	}
}

struct writer *writer_stranger_enter(uintptr_t sp)
{
	for (struct writer *at = writer_strangers; at < writer_strangers + STRANGERS_MAX; at++) {
		uintptr_t none = 0;

		at->state = WRITER_LIVE; /* permanently, and before inside[0] is visible */
		if (!__atomic_compare_exchange_n(&at->inside[0], &none, sp, 0, __ATOMIC_SEQ_CST,
						 __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&at->tid, arena_own_tid(), __ATOMIC_RELEASE);
		return at;
	}
	__atomic_fetch_add(&writer_strangers_more, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/*
 * In the child of a fork, or when it was taken for left, it may be another's by now, and the count
 * be 0.
 */
void writer_stranger_leave(struct writer *stranger, uintptr_t sp)
{
	uint32_t count = __atomic_load_n(&writer_strangers_more, __ATOMIC_RELAXED);

	if (stranger && __atomic_load_n(&stranger->inside[0], __ATOMIC_RELAXED) == sp) {
		__atomic_store_n(&stranger->tid, 0, __ATOMIC_RELAXED);
		__atomic_compare_exchange_n(&stranger->inside[0], &sp, 0, 0, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
	}
	while (!stranger && count &&
	       !__atomic_compare_exchange_n(&writer_strangers_more, &count, count - 1, 0,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}
