/* SPDX-License-Identifier: MIT */
#include "agent/store/thread_writer.h"

#include "agent/runtime/reentrancy_guard.h"
#include "agent/store/arena.h"
#include "arch/vectors.h"
#include "base/syscall.h"

#include <signal.h>
#include <stddef.h>

#define PAGE_MASK_LOW 4095u
#define STACK_GAP_BYTES (16 * 4096u) /* verified pages no further apart are one stack */

/*
 * A thread that glibc made has its stack right below its TCB, and the main thread's ends at a known
 * address. No other thread runs so close to it, so no system call is needed to know the thread:
 * a seccomp filter might kill it for one.
 */
#define REGISTER_BYTES 8192u /* vectors_call(), libc, and a margin */
#define OWN_STACK_BYTES (64 * 1024u)

__thread struct writer *writer_self;
/* In writer_register(): a hit of a signal handler below it is lost, and counted. */
static __thread const struct hit_guard *registering;
struct writer writer_strangers[STRANGERS_MAX];
uint32_t writer_strangers_more;
void (*writer_ends)(struct writer *writer);

static uintptr_t own_stack_end(void)
{
	uintptr_t tcb;

	__asm__("mov %%fs:0, %0" : "=r"(tcb));
	return tcb;
}

static int is_own_stack(uintptr_t sp)
{
	return own_stack_end() - sp < OWN_STACK_BYTES ||
	       arena_main_stack_end() - sp < OWN_STACK_BYTES;
}

static int stack_has(const struct writer_stack *stack, uintptr_t sp)
{
	return sp - stack->low < stack->bytes;
}

/* Empty in between: a signal handler there must not see a window that mixes both. */
static void stack_set(struct writer_stack *stack, uintptr_t low, uintptr_t bytes)
{
	__atomic_store_n(&stack->bytes, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&stack->low, low, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&stack->bytes, bytes, __ATOMIC_RELAXED);
}

/* Add the page of `sp`, which was just seen to be this thread's. */
static void stack_learn(struct writer *writer, uintptr_t sp)
{
	struct writer_stack *stack = &writer->stack;
	uintptr_t low = sp & ~(uintptr_t)PAGE_MASK_LOW;
	uintptr_t high = low + PAGE_MASK_LOW + 1;

	if (stack->bytes && low < stack->low && stack->low - high <= STACK_GAP_BYTES) {
		uintptr_t end = stack->low + stack->bytes;

		stack_set(stack, low, end - low);
	} else if (stack->bytes && low >= stack->low + stack->bytes &&
		   low - (stack->low + stack->bytes) <= STACK_GAP_BYTES) {
		stack->bytes = high - stack->low;
	} else {
		stack_set(stack, low, high - low);
	}
}

/* The window that the hit path looks at is `stack`; the one used before waits in `other_stack`. */
static void stack_swap(struct writer *writer)
{
	struct writer_stack stack = writer->stack;

	stack_set(&writer->stack, writer->other_stack.low, writer->other_stack.bytes);
	writer->other_stack = stack;
}

static void stack_enter(struct writer *writer, uintptr_t sp)
{
	if (stack_has(&writer->stack, sp))
		return;
	if (stack_has(&writer->other_stack, sp)) {
		stack_swap(writer);
		return;
	}
	/* Another stack altogether (sigaltstack, a coroutine) rather than more of the same? */
	if (writer->stack.bytes && (sp < writer->stack.low - STACK_GAP_BYTES ||
				    sp > writer->stack.low + writer->stack.bytes + STACK_GAP_BYTES))
		stack_swap(writer);
	stack_learn(writer, sp);
}

struct registration {
	int32_t tid;
	int foreign;
	struct writer *writer;
};

static long register_self(void *data)
{
	struct registration *registration = data;

	registration->writer = arena_writer_new(registration->tid, registration->foreign);
	return 0;
}

static struct writer *writer_register(int32_t tid, int foreign)
{
	struct registration registration = { .tid = tid, .foreign = foreign };
	struct hit_guard shut;

	/* arena_writer_new() asks libc for thread exit and thread id, and libc is ordinary code */
	hit_guard(&shut);
	registering = &shut;
	vectors_call(register_self, &registration);
	registering = NULL;
	hit_open(&shut);
	return registration.writer;
}

/*
 * Whether the registers that vectors_call() keeps might not fit below `sp`: an alternate stack may
 * have as little as MINSIGSTKSZ. The first hit there is lost, and counted, rather than run over it.
 */
static int is_tight(uintptr_t sp)
{
	stack_t alternate = { 0 };

	return !syscall_raw(SYS_sigaltstack, 0, (long)&alternate, 0, 0) &&
	       (alternate.ss_flags & SS_ONSTACK) &&
	       sp - (uintptr_t)alternate.ss_sp < REGISTER_BYTES;
}

struct writer *writer_find(uintptr_t sp)
{
	struct writer *writer = writer_self;
	int32_t tid;

	/* the child of a bare fork: nothing of the parent's is to be touched */
	if (!arena_is_ours())
		return NULL;
	/* unless a handler left it by a jump */
	if (registering && hit_guard_is_above(registering, sp))
		return NULL;

	if (is_own_stack(sp)) {
		if (!writer || writer->state != WRITER_LIVE) {
			writer = writer_register(0, 0);
			if (!writer)
				return NULL;
			writer_self = writer;
		}
		if (!writer->is_foreign) {
			stack_enter(writer, sp);
			return writer;
		}
	}

	tid = (int32_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);
	if (writer && writer->state == WRITER_LIVE && writer->tid == tid) {
		stack_enter(writer, sp);
		return writer;
	}
	if (!writer || writer->state != WRITER_LIVE) {
		/* the thread-local pointer's first user; who shares it comes below */
		struct writer *foreign = arena_writer_of(tid);

		if (foreign)
			return foreign;
		if (is_tight(sp))
			return NULL;
		writer = writer_register(tid, 0);
		if (writer && !writer->is_foreign) {
			writer_self = writer;
			stack_enter(writer, sp);
		}
		return writer;
	}
	writer = arena_writer_of(tid);
	if (writer || is_tight(sp))
		return writer;
	return writer_register(tid, 1);
}

/* Whether a hit that stored `frame` can't be going on any more, seen from a hit at `sp`. */
static int is_stranded(const struct writer *writer, uintptr_t frame, uintptr_t sp)
{
	stack_t alternate = { 0 };

	/* A handler on the alternate stack may well have interrupted it, wherever its frame is. */
	if (syscall_raw(SYS_sigaltstack, 0, (long)&alternate, 0, 0) ||
	    (alternate.ss_flags & SS_ONSTACK))
		return 0;
	/* A watch's hit works on another stack; this is the stack that it interrupted. */
	if (!(alternate.ss_flags & SS_DISABLE) &&
	    sp - (uintptr_t)alternate.ss_sp < alternate.ss_size)
		return 0;
	/* We are on no alternate stack: a hit that was on it has left it. */
	if (!(alternate.ss_flags & SS_DISABLE) &&
	    frame - (uintptr_t)alternate.ss_sp < alternate.ss_size)
		return 1;
	return stack_has(&writer->stack, sp) && stack_has(&writer->stack, frame) && sp >= frame;
}

int writer_nest(struct writer *writer, uintptr_t sp)
{
	int depth = 0;

	while (depth < DEPTH_MAX && writer->inside[depth]) {
		if (is_stranded(writer, writer->inside[depth], sp)) {
			for (int deeper = depth; deeper < DEPTH_MAX; deeper++)
				writer->inside[deeper] = 0;
			break;
		}
		depth++;
	}
	if (depth == DEPTH_MAX)
		return -1;
	writer->inside[depth] = sp;
	return depth;
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
