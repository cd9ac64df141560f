/* SPDX-License-Identifier: MIT */
#include "inside/engine/channel.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/leave.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sys/mman.h>

#define UNKEPT_BYTES 65536u
#define EVENT_BYTES (4 + sizeof(struct engine_event))
#define SLOTS_MAX 65536u
#define SLOTS_WHOLE 64u /* those behind use the less of their segments, the more there are */
#define SEGMENTS_MIN 2u

/* How many of a slot's segments have guards. Only the slot's own thread reads and writes it. */
static uint8_t guarded[SLOTS_MAX];
static uint32_t guarded_end; /* no slot from here on has any */

/*
 * Of a slot's, those that are used: so a thousand threads take as little memory as some hundred
 * would.
 */
static uint32_t segments_of(uint32_t slot_number)
{
	uint32_t used = channel.segments * SLOTS_WHOLE / (slot_number + 1);

	if (used < SEGMENTS_MIN)
		used = SEGMENTS_MIN;
	return used < channel.segments ? used : channel.segments;
}

static uint8_t *segment_at(const struct thread *thread, uint32_t segment)
{
	return channel.rings + thread->slot_number * channel.slot_bytes +
	       segment * (channel.segment_bytes + ENGINE_GUARD_BYTES);
}

/*
 * It is made 0, so that what was written is known whenever the thread is killed, unless it is that
 * already; then it is the thread's.
 */
static void segment_begin(struct thread *thread, uint32_t number, int is_clear)
{
	struct engine_segment *segment = &thread->slot->segments[number];
	uint32_t *words = (uint32_t *)segment_at(thread, number);

	/* No number until it is clear: a thread that dies here leaves no old words as new. */
	__atomic_store_n(&segment->number, 0, __ATOMIC_SEQ_CST);
	if (!is_clear)
		memory_clear(words, channel.segment_bytes);
	__atomic_store_n(&segment->words, 0, __ATOMIC_RELEASE);
	thread->segment = number;
	thread->words = words;
	thread->words_end = words + channel.segment_bytes / 4;
	thread->pointer = (uint64_t)words;
	segment->began_ticks = sys_ticks();
	segment->began_blocks = thread->blocks;
	/* Whoever sees the number sees that: the tool looks with acquire. */
	__atomic_store_n(&segment->number, ++thread->segment_number, __ATOMIC_RELEASE);
}

/* How many words of the segment were written: all up to the pointer. */
static void segment_end(struct thread *thread)
{
	struct engine_segment *segment = &thread->slot->segments[thread->segment];

	segment->ended_ticks = sys_ticks();
	__atomic_store_n(&segment->words, (uint32_t)((uint32_t *)thread->pointer - thread->words),
			 __ATOMIC_RELEASE);
}

int thread_words_open_unkept(struct thread *thread)
{
	uint8_t *words = memory_map(0, UNKEPT_BYTES + ENGINE_GUARD_BYTES, PROT_READ | PROT_WRITE);

	if (!words)
		return -ENOMEM;
	if (sys_call3(SYS_mprotect, (long)(words + UNKEPT_BYTES), ENGINE_GUARD_BYTES, PROT_NONE)) {
		memory_unmap(words, UNKEPT_BYTES + ENGINE_GUARD_BYTES);
		return -ENOMEM;
	}
	thread->slot = NULL;
	thread->words = (uint32_t *)words;
	thread->words_end = (uint32_t *)(words + UNKEPT_BYTES);
	thread->pointer = (uint64_t)words;
	return 0;
}

/* Take a free slot. NULL: none is free; *ended is one that the tool will free, or NULL. */
static struct engine_slot *slot_take(const struct engine_slot **ended)
{
	*ended = NULL;
	for (uint32_t i = 0; i < channel.slot_count && i < SLOTS_MAX; i++) {
		struct engine_slot *slot = &channel.slots[i];
		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);

		if (state == ENGINE_SLOT_FREE &&
		    __atomic_compare_exchange_n(&slot->state, &state, ENGINE_SLOT_BEGINS, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return slot;
		if (state == ENGINE_SLOT_ENDED)
			*ended = slot;
	}
	return NULL;
}

/* Where the tool is waited for, one that it has still to take is worth waiting for. */
static struct engine_slot *slot_await(void)
{
	const struct engine_slot *ended;

	for (;;) {
		struct engine_slot *slot = slot_take(&ended);

		if (slot || !ended || channel.policy != ENGINE_BLOCK || !channel_has_tool())
			return slot;
		channel_wait(&ended->state, ENGINE_SLOT_ENDED);
	}
}

static int open_lost(struct thread *thread)
{
	__atomic_add_fetch(&channel.head->lost_threads, 1, __ATOMIC_RELAXED);
	return thread_words_open_unkept(thread);
}

/*
 * Make the guard behind a segment once the segment is needed: each guard costs two mappings, and a
 * forked child that ends soon needs one segment. Threads begin segments in their order. 0, or
 * -errno: too many mappings.
 */
static int guard_make(const struct thread *thread, uint32_t segment)
{
	uint32_t end = __atomic_load_n(&guarded_end, __ATOMIC_RELAXED);
	long err;

	if (segment < guarded[thread->slot_number])
		return 0;
	/* first: another thread may fork at any time */
	while (end <= thread->slot_number &&
	       !__atomic_compare_exchange_n(&guarded_end, &end, thread->slot_number + 1, 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	err = sys_call3(SYS_mprotect, (long)(segment_at(thread, segment) + channel.segment_bytes),
			ENGINE_GUARD_BYTES, PROT_NONE);
	if (!err)
		guarded[thread->slot_number] = (uint8_t)(segment + 1);
	return (int)err;
}

void thread_words_copied(void)
{
	memory_clear(guarded, guarded_end);
	guarded_end = 0;
}

int thread_words_open(struct thread *thread)
{
	struct engine_slot *slot = slot_await();

	if (!slot)
		return open_lost(thread);
	slot->tid = thread->tid;
	thread->slot = slot;
	thread->slot_number = (uint32_t)(slot - channel.slots);
	thread->segment_number = 0;
	if (guard_make(thread, 0)) {
		__atomic_store_n(&slot->state, ENGINE_SLOT_FREE, __ATOMIC_RELEASE);
		return open_lost(thread);
	}
	for (uint32_t n = 0; n < channel.segments; n++)
		slot->segments[n] = (struct engine_segment){ 0 };
	thread->blocks = 0;
	slot->began_ticks = sys_ticks();
	sys_call(SYS_prctl, PR_GET_NAME, (long)slot->comm, 0, 0, 0, 0);
	segment_begin(thread, 0, 1);
	__atomic_store_n(&slot->state, ENGINE_SLOT_LIVE, __ATOMIC_RELEASE);
	return 0;
}

void thread_words_close(struct thread *thread)
{
	if (!thread->slot) {
		memory_unmap(thread->words, UNKEPT_BYTES + ENGINE_GUARD_BYTES);
		return;
	}
	segment_end(thread);
	__atomic_store_n(&thread->slot->state, ENGINE_SLOT_ENDED, __ATOMIC_RELEASE);
	channel_tell();
}

int thread_words_forget(struct thread *thread)
{
	struct engine_slot *slot = thread->slot;
	const uint32_t *words;
	uint64_t pointer;
	int err;

	if (!slot)
		return 0;
	thread_words_event(thread, TRAIL_END, 0, 0, TRAIL_DETACHED, 0);
	words = thread->words;
	pointer = thread->pointer;
	err = thread_words_open_unkept(thread);
	if (err)
		return err;
	slot->segments[thread->segment].ended_ticks = sys_ticks();
	__atomic_store_n(&slot->segments[thread->segment].words,
			 (uint32_t)((const uint32_t *)pointer - words), __ATOMIC_RELEASE);
	__atomic_store_n(&slot->state, ENGINE_SLOT_ENDED, __ATOMIC_RELEASE);
	channel_tell();
	return 0;
}

/* Whether a segment is empty, or the tool has taken its words. */
static int is_free(const struct engine_segment *segment)
{
	return __atomic_load_n(&segment->taken, __ATOMIC_ACQUIRE) == (uint32_t)segment->number;
}

static void segment_wait(struct engine_segment *segment)
{
	for (;;) {
		uint32_t taken = __atomic_load_n(&segment->taken, __ATOMIC_ACQUIRE);

		if (taken == (uint32_t)segment->number || !channel_has_tool())
			return;
		channel_wait(&segment->taken, taken);
	}
}

void thread_words_turn(struct thread *thread)
{
	uint32_t segments = segments_of(thread->slot_number), next;
	struct engine_segment *segment;

	if (!thread->slot) {
		thread->pointer = (uint64_t)thread->words;
		return;
	}
	next = (thread->segment + 1) % segments;
	if (guard_make(thread, next))
		next = 0; /* from now on fewer do */
	segment = &thread->slot->segments[next];
	/* before its end is published: from then on the tool may take it */
	if (channel.policy == ENGINE_DISCARD && !is_free(segment)) {
		thread->segment_number--; /* as if it had never been */
		segment_begin(thread, thread->segment, 0);
		thread_words_event(thread, TRAIL_LOST, 0, 0, 0, 0);
		return;
	}
	segment_end(thread);
	channel_tell();
	if (channel.policy == ENGINE_BLOCK)
		segment_wait(segment);
	/* The tool clears what it takes. */
	segment_begin(thread, next, channel.policy != ENGINE_CYCLIC || !segment->number);
	if (channel_is_over())
		leave_ask();
}

int thread_words_is_guard(const struct thread *thread, uint64_t address)
{
	return address >= (uint64_t)thread->words_end &&
	       address < (uint64_t)thread->words_end + ENGINE_GUARD_BYTES;
}

void thread_words_event(struct thread *thread, enum trail_event event, uint64_t at, uint32_t left,
			uint64_t first, uint64_t second)
{
	uint64_t ticks = sys_ticks();
	struct engine_event put = {
		.ticks = { (uint32_t)ticks, (uint32_t)(ticks >> 32) },
		.at = { (uint32_t)at, (uint32_t)(at >> 32) },
		.left = left,
		.values = { { (uint32_t)first, (uint32_t)(first >> 32) },
			    { (uint32_t)second, (uint32_t)(second >> 32) } },
	};
	uint32_t *words;

	if (!thread->words)
		return;
	if ((uint32_t *)thread->pointer + 1 + sizeof(put) / 4 > thread->words_end)
		thread_words_turn(thread);
	words = (uint32_t *)thread->pointer;
	/* clear the head first: the reader must not take an old word for the head of this event */
	__atomic_store_n(&words[0], 0, __ATOMIC_RELEASE);
	memory_copy(words + 1, &put, sizeof(put));
	__atomic_store_n(&words[0],
			 ENGINE_EVENT | (uint32_t)event << 16 | (uint32_t)(sizeof(put) / 4),
			 __ATOMIC_RELEASE);
	thread->pointer += 4 + sizeof(put);
}

void thread_words_take_back(struct thread *thread)
{
	uint32_t *words = (uint32_t *)(thread->pointer - EVENT_BYTES);

	__atomic_store_n(&words[0], 0, __ATOMIC_RELEASE);
	memory_clear(words, EVENT_BYTES);
	thread->pointer -= EVENT_BYTES;
}

void thread_words_leave(struct thread *thread)
{
	if (!thread->words)
		return;
	thread_words_event(thread, TRAIL_GAP, 0, 0, TRAIL_GAP_NATIVE, 0);
	thread_words_event(thread, TRAIL_END, 0, 0, TRAIL_DETACHED, 0);
	thread_words_close(thread);
	thread->words = NULL;
}
