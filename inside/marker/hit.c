/* SPDX-License-Identifier: MIT */
/*
 * The hit path: from hit_enter (arch/) to an event in a page.
 *
 * The program's compiler knows of no call here. Every general register is kept, by the attribute
 * below; vector registers are not touched, since this file and all that it calls is compiled with
 * -mgeneral-regs-only; nothing of libc is called, errno is never written, no lock is taken.
 */
#include "inside/marker/hit.h"

#include "arch/vectors.h"
#include "inside/marker/careful.h"
#include "inside/marker/cost.h"
#include "inside/marker/plan.h"
#include "inside/marker/predicates.h"
#include "inside/marker/spans.h"
#include "inside/marker/sums.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/store/arena.h"
#include "inside/store/clock.h"
#include "inside/store/thread_writer.h"

#include <stddef.h>

#define KEEPS_REGISTERS __attribute__((no_caller_saved_registers))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define PAGE_LOW_BITS 4095u

#define SHORT_BYTES 64

/* Keep the compiler from moving stores over a point; x86 keeps their order by itself (TSO). */
#define store_barrier() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/*
 * Called by the stubs of arch/. The first six arguments are whatever the registers hold. What was
 * pushed is in the place of the ABI's seventh and later arguments, so nothing has to be moved: by
 * a marker's stub the flags; the return address into the site, the agent's word, the payload.
 */
#define HIT_REGISTERS long rdi, long rsi, long rdx, long rcx, long r8, long r9
#define HIT_PUSHED uintptr_t site, const struct marker *marker, const uint64_t *payload

/* ---- copying strings and runs of bytes into a page ---- */

struct unaligned_word {
	uint64_t word;
} __attribute__((packed, may_alias));

static inline uint64_t load64(const void *from)
{
	return ((const volatile struct unaligned_word *)from)->word;
}

static inline void put16(unsigned char *to, uint16_t value)
{
	__builtin_memcpy(to, &value, sizeof value);
}

static inline void put32(unsigned char *to, uint32_t value)
{
	__builtin_memcpy(to, &value, sizeof value);
}

static inline void put64(unsigned char *to, uint64_t value)
{
	__builtin_memcpy(to, &value, sizeof value);
}

#define ONES 0x0101010101010101u
#define HIGHS 0x8080808080808080u

/* A mask of the zero bytes of a word, right up to the first; 0: it has none. */
static inline uint64_t zero_bytes(uint64_t word)
{
	return (word - ONES) & ~word & HIGHS;
}

/*
 * Copy a string that others may be changing: each byte is read once, and the copy ends where its
 * NUL was read, or past `end`. Returns past the last byte, or NULL when `limit` comes first.
 * LANE_SLACK covers the last word's surplus. No word is read that could reach into a page that
 * the string isn't in.
 */
static unsigned char *KEEPS_REGISTERS __attribute__((noinline))
copy_string(unsigned char *to, const unsigned char *limit, const char *from,
	    const unsigned char *end)
{
	while (to <= end) {
		uint64_t word, zeros;

		if (unlikely(to > limit))
			return NULL;
		if (unlikely(((uintptr_t)from & PAGE_LOW_BITS) > PAGE_LOW_BITS + 1 - 8)) {
			*to = *(const volatile unsigned char *)from++;
			if (!*to++)
				return to;
			continue;
		}
		word = load64(from);
		put64(to, word);
		zeros = zero_bytes(word);
		if (zeros)
			return to + __builtin_ctzll(zeros) / 8 + 1;
		to += 8;
		from += 8;
	}
	return to;
}

/* State, bytes, NUL; cut where there are more than `cap` bytes before the NUL. */
static unsigned char *KEEPS_REGISTERS __attribute__((noinline))
put_string(unsigned char *to, const unsigned char *limit, const char *from, uint32_t cap)
{
	unsigned char *start = to + 1;

	if (!from) {
		put16(to, FIELD_NULL);
		return to + 2;
	}
	*to = FIELD_WHOLE;
	to = copy_string(start, limit, from, start + cap);
	if (!to || to - start <= cap || (to - start == cap + 1 && !to[-1]))
		return to;
	start[-1] = FIELD_CUT;
	start[cap] = 0;
	return start + cap + 1;
}

/*
 * The same for the usual case, inline: short, and all in one page of memory. Returns how many
 * bytes there are before the NUL, or -1: it is not the usual case. There is room for it.
 */
static inline __attribute__((always_inline)) int64_t put_short_string(unsigned char *to,
								      const char *from)
{
	/*
	 * one test for NULL too, which also sends off what begins a page: put_string() does those
	 */
	if (unlikely((((uintptr_t)from - 1) & PAGE_LOW_BITS) > PAGE_LOW_BITS - SHORT_BYTES))
		return -1;
	*to++ = FIELD_WHOLE;
#pragma GCC unroll 8
	for (unsigned int i = 0; i < SHORT_BYTES; i += 8) {
		uint64_t word = load64(from + i), zeros;

		put64(to + i, word);
		zeros = zero_bytes(word);
		if (likely(zeros))
			return i + ((unsigned int)__builtin_ctzll(zeros) >> 3);
	}
	return -1;
}

static unsigned char *KEEPS_REGISTERS __attribute__((noinline))
put_run(unsigned char *to, const unsigned char *limit, const unsigned char *from, uint64_t count,
	uint32_t cap, uint32_t shift)
{
	uint64_t bytes;

	cap >>= shift;
	*to = count > cap ? FIELD_CUT : FIELD_WHOLE;
	if (!from) {
		*to = FIELD_NULL;
		count = 0;
	}
	if (count > cap)
		count = cap;
	put32(to + 1, (uint32_t)count);
	to += 5;
	bytes = count << shift;
	if (to > limit || (uint64_t)(limit - to) < bytes)
		return NULL;
	for (uint64_t i = 0; i < bytes; i++)
		to[i] = from[i];
	return to + bytes;
}

/* ---- an event ---- */

/* The two headers of abi/page.h; both return where the fields go. */
static inline unsigned char *put_compact(unsigned char *at, uint32_t id, uint64_t ticks)
{
	put32(at, id | (uint32_t)ticks << 5);
	return at + EVENT_COMPACT_BYTES;
}

static inline unsigned char *put_extended(unsigned char *at, uint32_t id, uint64_t ticks)
{
	*at = EVENT_EXTENDED;
	put32(at + 1, id);
	put64(at + 5, ticks);
	return at + EVENT_EXTENDED_BYTES;
}

/* The one that is needed. *ticks is corrected to never run back. */
static inline unsigned char *put_header(const struct wm_page *page, unsigned char *at, uint32_t id,
					uint64_t *ticks)
{
	uint64_t passed = *ticks - page->end_ticks;

	if (likely(id < EVENT_EXTENDED && passed >> EVENT_TICK_BITS == 0))
		return put_compact(at, id, *ticks);
	if ((int64_t)passed < 0)
		*ticks = page->end_ticks; /* another core's TSC is behind, against its promise */
	return put_extended(at, id, *ticks);
}

/*
 * The event's bytes are there, and end_ticks covers it; say so, with a PAGE_WORD of what it adds.
 * The order is the page's promise to a reader (abi/page.h). Offset and count are one word here too:
 * a signal handler that leaves by longjmp finds a hit either wholly done or not at all. `page` was
 * read before the event was written: a handler that forks and returns here in the child finds the
 * lane wiped.
 */
static inline void commit(struct lane *lane, struct wm_page *page, uint64_t growth)
{
	uint64_t word;

	store_barrier();
	word = lane->word + growth;
	lane->word = word;
	store_barrier();
	__atomic_store_n(&page->word, word, __ATOMIC_RELEASE);
}

static inline uint64_t word_at(const unsigned char *from)
{
	/* may read past the payload, but never past the stack that holds it */
	return load64(from);
}

/* All fields, following the references; NULL when `limit` comes first. */
static inline __attribute__((always_inline)) unsigned char *
put_fields(unsigned char *to, const unsigned char *limit, const struct plan *plan,
	   const unsigned char *from, uint32_t cap, int careful)
{
	for (const struct plan_step *step = plan->steps;; step++) {
		unsigned int bytes = step->bytes, type = step->ref;

		if (unlikely(to + bytes > limit))
			return NULL;
		for (unsigned int i = 0; i < bytes; i += 8)
			put64(to + i, word_at(from + i));
		to += bytes;
		from += bytes;
		if (!type)
			return to;
		if (careful) {
			to = careful_string(to, limit, (const char *)(uintptr_t)word_at(from), cap);
		} else if (likely(type == WM_TYPE_STR)) {
			const char *string = (const char *)(uintptr_t)word_at(from);
			int64_t chars = to + SHORT_BYTES <= limit ? put_short_string(to, string)
								  : -1;

			to = likely(chars >= 0) ? to + chars + 2
						: put_string(to, limit, string, cap);
		} else
			to = put_run(to, limit, (const unsigned char *)(uintptr_t)word_at(from),
				     word_at(from + 8), cap, step->shift);
		if (unlikely(!to))
			return NULL;
		from += field_payload_bytes[type];
	}
}

/* Bytes that an event's fields will take, at most; strings are measured now. */
static uint64_t measure_fields(const struct plan *plan, const unsigned char *from)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < plan->field_count; i++) {
		uint8_t type = plan->types[i];
		uint64_t word = word_at(from);

		bytes += field_bytes(type);
		if (plan->is_careful && type == WM_TYPE_STR) {
			bytes += FIELD_BYTES_MAX; /* measured by none but the copy itself */
		} else if (type == WM_TYPE_STR && word) {
			const volatile char *at = (const volatile char *)(uintptr_t)word;

			for (unsigned int n = 0; n < FIELD_BYTES_MAX && *at; n++, at++)
				bytes++;
		} else if (field_is_run(type)) {
			uint64_t most = FIELD_BYTES_MAX >> field_shift(type);
			uint64_t count = word_at(from + 8);

			bytes += (count < most ? count : most) << field_shift(type);
		}
		from += field_bytes(type);
	}
	return bytes;
}

#define ROOM_MAX (STORE_PAGE_BYTES - PAGE_HEAD_BYTES - LANE_SLACK - EVENT_EXTENDED_BYTES - 64)

#define RUN_HEAD_BYTES 5u

/* What an event has behind its fields, for one consumer: a callchain, then counts. */
struct costs {
	const struct hit_callers *callers; /* NULL: none */
	unsigned int most;		   /* of its addresses */
	unsigned int kinds;		   /* 0: no counts */
	int is_last; /* read when the rest is written: `values` are of no use */
	const struct writer *writer;
	uint64_t values[COST_KINDS_COUNT];
};

static inline uint32_t callers_count(const struct costs *costs)
{
	return costs->callers->count < costs->most ? costs->callers->count : costs->most;
}

static inline uint32_t costs_bytes(const struct costs *costs)
{
	uint32_t bytes = cost_count(costs->kinds) * 8u;

	return costs->callers ? bytes + RUN_HEAD_BYTES + 8 * callers_count(costs) : bytes;
}

static unsigned char *put_callers(unsigned char *to, const struct costs *costs)
{
	uint32_t count = callers_count(costs);

	*to = count < costs->callers->count ? FIELD_CUT : costs->callers->state;
	put32(to + 1, count);
	to += RUN_HEAD_BYTES;
	for (uint32_t i = 0; i < count; i++)
		put64(to + 8 * i, costs->callers->all[i]);
	return to + 8 * count;
}

/* There is room. */
static unsigned char *put_costs(unsigned char *to, struct costs *costs)
{
	uint32_t bytes = cost_count(costs->kinds) * 8u;

	if (costs->callers)
		to = put_callers(to, costs);
	if (costs->is_last) {
		/* a fault on this memory is not the span's */
		for (uint32_t i = 0; i < bytes; i += 8)
			*(volatile unsigned char *)(to + i + 7) = 0;
		cost_read(costs->writer, costs->kinds, costs->values);
	}
	for (uint32_t i = 0; i < bytes; i += 8)
		put64(to + i, costs->values[i / 8]);
	return to + bytes;
}

static int put_event(struct lane *lane, const struct plan *plan, uint32_t id,
		     const uint64_t *payload, uint64_t ticks, uint32_t cap, struct costs *costs)
{
	struct wm_page *page = lane->page;
	uint64_t word = lane->word;
	unsigned char *base = lane->base, *start = base + (uint32_t)word, *to;
	const unsigned char *limit;
	uint32_t room;

	store_barrier(); /* as in hit_plain() */
	room = lane->limit;
	if ((int64_t)room - (uint32_t)word <=
	    (int64_t)(plan->payload_words * 8u + costs_bytes(costs)))
		return -1; /* also when there is no page: then both are 0 */
	limit = base + room;
	to = put_header(page, start, id, &ticks);
	page->end_ticks = ticks;
	if (plan->has_refs) {
		to = put_fields(to, limit, plan, (const unsigned char *)payload, cap,
				plan->is_careful);
		if (!to)
			return -1;
	} else {
		for (unsigned int i = 0; i < plan->payload_words; i++)
			put64(to + 8 * i, payload[i]);
		to += plan->payload_bytes;
	}
	if (costs->kinds || costs->callers) {
		if (to + costs_bytes(costs) > limit)
			return -1;
		to = put_costs(to, costs);
	}
	commit(lane, page, PAGE_WORD((uint64_t)(to - start), 1));
	return 0;
}

/*
 * For one session, with all that may happen: another page, a wait, an event too large, a loss. 0,
 * or -1: it is lost.
 */
static int record_at(struct writer *writer, int depth, const struct plan *plan, uint32_t session,
		     uint32_t id, const uint64_t *payload, uintptr_t sp, uint64_t ticks,
		     struct costs *costs)
{
	struct lane *lane = writer_lane(writer, session, depth);
	uint64_t bytes;
	uint32_t cap = plan->text_bytes;

	if (!lane) {
		lane_discard(writer, NULL, session, depth);
		return -1;
	}
	if (!put_event(lane, plan, id, payload, ticks, cap, costs))
		return 0;
	bytes = plan->has_refs ? measure_fields(plan, (const unsigned char *)payload)
			       : plan->payload_bytes;
	bytes += costs_bytes(costs);
	if (bytes > ROOM_MAX) {
		bytes = ROOM_MAX;
		cap = (ROOM_MAX - costs_bytes(costs)) / plan->field_count - 16;
		cap = cap < plan->text_bytes ? cap : plan->text_bytes;
	}
	if (lane_next_page(writer, lane, session, depth, bytes + EVENT_EXTENDED_BYTES, ticks, sp) ||
	    !lane->page || put_event(lane, plan, id, payload, ticks, cap, costs)) {
		lane_crowded(writer, lane, session, depth);
		return -1;
	}
	return 0;
}

/* ---- its callers ---- */

void (*hit_callers_find)(const struct hit_registers *here, const struct hit_at *at,
			 struct hit_callers *callers);

/* The caller's, which inlines it: its frame is the first of the walk. */
static inline __attribute__((always_inline)) void registers_keep(struct hit_registers *here)
{
	__asm__ volatile("leaq 0f(%%rip), %%rax\n\t"
			 "movq %%rax, (%0)\n\t"
			 "movq %%rsp, 8(%0)\n\t"
			 "movq %%rbp, 16(%0)\n\t"
			 "movq %%rbx, 24(%0)\n\t"
			 "movq %%r12, 32(%0)\n\t"
			 "movq %%r13, 40(%0)\n\t"
			 "movq %%r14, 48(%0)\n\t"
			 "movq %%r15, 56(%0)\n"
			 "0:"
			 :
			 : "r"(here)
			 : "rax", "memory");
}

/* Found once for all consumers of a hit. */
struct callers {
	const struct hit_registers *here;
	struct hit_at at;
	struct hit_callers found; /* count 0: not yet */
};

static void callers_need(struct callers *callers)
{
	if (callers->found.count)
		return;
	hit_callers_find(callers->here, &callers->at, &callers->found);
}

/*
 * `is_lost`: the begin of the call was lost. `callers`: where a consumer wants some. The time of a
 * begin is behind all work for it, that of any other event before. Inlined: a frame of its own
 * takes 224 bytes of the program's stack at each hit.
 */
static inline __attribute__((always_inline)) int record(struct writer *writer, int depth,
							const struct plan *plan,
							const struct plan_consumer *consumer,
							const uint64_t *payload, uintptr_t sp,
							int is_lost, struct callers *callers)
{
	uint32_t session = consumer->lane;
	struct costs costs = { .kinds = consumer->costs, .writer = writer };
	uint64_t ticks;

	if (depth >= 0 && !is_lost) {
		if (consumer->sums) {
			if (consumer->callers)
				callers_need(callers);
			return sums_add(writer, depth, plan, consumer,
					(const unsigned char *)payload, sp,
					consumer->callers ? &callers->found : NULL);
		}
		costs.is_last = plan->costs == PLAN_COSTS_LAST;
		if (costs.kinds & COST_COUNTED)
			cost_prepare(writer);
		if (consumer->callers && plan->kind == 'b')
			callers_need(callers);
		if (costs.kinds && !costs.is_last)
			cost_read(writer, costs.kinds, costs.values);
		ticks = clock_ticks(stores[session].clock);
		if (consumer->callers) {
			callers_need(callers);
			costs.callers = &callers->found;
			costs.most = 1u + consumer->callers;
		}
		return record_at(writer, depth, plan, session, consumer->event_id, payload, sp,
				 ticks, &costs);
	}
	if (depth < 0)
		lane_discard(NULL, NULL, session, 0);
	else
		lane_discard(writer, writer_lane(writer, session, depth), session, depth);
	return -1;
}

/* No memory for one more thread: its hits are lost, and counted. */
void hit_discard(const struct marker *marker, uintptr_t sp)
{
	struct writer *stranger = writer_stranger_enter(sp);
	const struct plan *plan;

	plan = __atomic_load_n(&marker->plan, __ATOMIC_ACQUIRE);
	for (unsigned int i = 0; plan && i < plan->consumer_count; i++)
		if (plan->consumers[i].half != SPAN_HALF || plan->kind == 'e')
			lane_discard(NULL, NULL, plan->consumers[i].lane, 0);
	writer_stranger_leave(stranger, sp);
}

/*
 * One that the session's predicates or handler reject: in the lane's slot, which other threads'
 * hits and those of this thread's signal handlers do not touch.
 */
static inline void lane_rejected(struct writer *writer, struct lane *lane, unsigned int session,
				 int depth)
{
	uint64_t *count = lane ? lane->rejected : NULL;

	if (likely(count))
		++*count;
	else
		lane_reject(writer, lane, session, depth);
}

/* A handler in between can cost the count one; a marker's hits are for people to look at. */
static inline void count_hit(struct writer *writer, const struct plan *plan)
{
	++*(uint64_t *)(void *)((char *)writer + plan->counter_offset);
}

/*
 * The thread is in a hit from here to hit_end(), maybe within another: depth is below 0 where that
 * is one too many. NULL: discarded.
 */
static inline __attribute__((always_inline)) struct writer *hit_begin(const struct marker *marker,
								      uintptr_t sp, int *depth)
{
	struct writer *writer = writer_find(sp);

	*depth = 0;
	if (!writer) {
		hit_discard(marker, sp);
		return NULL;
	}
	if (!writer->inside[0] && sp - writer->stack.low < writer->stack.bytes)
		writer->inside[0] = sp;
	else
		*depth = writer_nest(writer, sp);
	store_barrier();
	return writer;
}

static inline __attribute__((always_inline)) void hit_end(struct writer *writer, int depth)
{
	store_barrier();
	if (depth >= 0)
		__atomic_store_n(&writer->inside[depth], 0, __ATOMIC_RELEASE);
}

/*
 * Which lanes of a plan have the end of a call with this `begun`; *lost: those that lost its begin.
 */
static uint32_t lanes_ended(const struct plan *plan, uint64_t begun, uint32_t *lost)
{
	uint32_t openings = (uint32_t)begun >> 8, present = 0;

	*lost = 0;
	if (begun == PLAN_BEGUN_ALL)
		return UINT32_MAX;
	for (unsigned int i = 0; i < plan->consumer_count; i++) {
		uint32_t lane = plan->consumers[i].lane;

		if ((stores[lane].opening & UINT32_MAX >> 8) <= openings)
			present |= 1u << lane;
	}
	*lost = (uint32_t)(begun >> PLAN_LOST_SHIFT) & present;
	return (uint32_t)begun & present;
}

static inline void note_begin(struct writer *writer, const struct marker *marker, uint64_t begun)
{
	*(const struct marker *volatile *)&writer->begun_at = marker;
	*(volatile uint64_t *)&writer->begun = begun;
}

/* Ordinary code of the user's, above which hits of its own may come. */
static __attribute__((noinline, cold)) int handler_takes(struct writer *writer, int depth,
							 const struct plan_consumer *consumer,
							 const uint64_t *payload, uint64_t *result)
{
	struct handler_call call = { writer, consumer->handler, (const unsigned char *)payload,
				     result, depth };
	int takes;

	lane_handler(writer, writer_lane(writer, consumer->lane, depth), consumer->lane, depth,
		     consumer->handler_number);
	takes = vectors_call(probelist_judge, &call) != 0;
	lane_handler(writer, writer_lane(writer, consumer->lane, depth), consumer->lane, depth, 0);
	return takes;
}

/*
 * For each session that has it, or lost its begin. Returns the lanes that discarded it; *rejected:
 * those whose predicates do not hold, or whose handler does not take the hit.
 */
static inline __attribute__((always_inline)) uint32_t
record_all(struct writer *writer, int depth, const struct plan *plan, const uint64_t *payload,
	   uintptr_t sp, uint32_t wanted, uint32_t lost, struct callers *callers,
	   uint32_t *rejected)
{
	uint32_t discarded = 0;

	for (unsigned int i = 0; i < plan->consumer_count; i++) {
		const struct plan_consumer *consumer = &plan->consumers[i];
		uint32_t lane = 1u << consumer->lane;

		if (wanted & lane &&
		    ((consumer->test_count &&
		      !predicates_hold(writer, plan, consumer, (const unsigned char *)payload)) ||
		     (consumer->handler && !plan->replaces && depth >= 0 &&
		      !handler_takes(writer, depth, consumer, payload, NULL)))) {
			*rejected |= lane;
			lane_rejected(writer,
				      depth < 0 ? NULL : writer_lane(writer, consumer->lane, depth),
				      consumer->lane, depth);
		} else if (plan->keeps || consumer->half == SPAN_HALF)
			continue;
		else if ((wanted | lost) & lane && record(writer, depth, plan, consumer, payload,
							  sp, (lost & lane) != 0, callers))
			discarded |= lane;
	}
	return discarded;
}

/* The same with callers, which take some room on the stack. */
static __attribute__((noinline)) uint32_t
record_callers(struct writer *writer, int depth, const struct plan *plan, const uint64_t *payload,
	       uintptr_t sp, uint32_t wanted, uint32_t lost, const struct hit_registers *here,
	       uint32_t *rejected)
{
	struct callers callers;

	callers.here = here;
	callers.at = (struct hit_at){ .record = plan->record,
				      .is_return = plan->is_return,
				      .sp = sp,
				      .payload = payload,
				      .stack = writer->stack };
	callers.found.wanted = plan->callers;
	callers.found.count = 0;
	return record_all(writer, depth, plan, payload, sp, wanted, lost, &callers, rejected);
}

/* The start of what a marker's field points to. Returns where it is, or KEPT_NULL. */
static uint64_t reference_keep(unsigned char *to, uint8_t type, const unsigned char *field)
{
	const volatile unsigned char *from = (const volatile unsigned char *)(uintptr_t)word_at(
		field);
	uint64_t bytes = DETOUR_KEPT_TEXT_BYTES + 1;
	int is_run = field_is_run(type);
	uint64_t i = 0;

	if (!from)
		return KEPT_NULL;
	if (is_run) {
		bytes = DETOUR_KEPT_TEXT_BYTES >> field_shift(type);
		if (word_at(field + 8) < bytes)
			bytes = word_at(field + 8);
		bytes <<= field_shift(type);
	}
	for (; i < bytes; i++) {
		to[i] = from[i];
		if (!to[i] && !is_run)
			break;
	}
	to[i] = 0;
	return (uintptr_t)to;
}

/*
 * The entry of a call whose event is written at the return, or the begin of such a span. A handler
 * that comes in between and keeps one of its own here is noticed by `fills`: then nothing is kept
 * of this one.
 */
static void KEEPS_REGISTERS __attribute__((noinline, cold))
keep(struct kept *to, const struct plan *plan, const uint64_t *payload, uint32_t begun,
     uintptr_t at)
{
	volatile struct kept *kept = to;
	uint32_t fills = kept->fills + 1;
	unsigned int offset = 0, texts = 0;

	kept->at = KEPT_CHANGES;
	kept->fills = fills;
	kept->ticks = clock_ticks(STORE_CLOCK_TSC); /* not the oldest */
	store_barrier();
	for (unsigned int i = 0; i < plan->payload_words; i++)
		kept->payload[i] = payload[i];
	for (unsigned int i = 0; i < plan->field_count; i++) {
		uint8_t type = plan->types[i];
		const unsigned char *from = (const unsigned char *)payload + offset;

		if ((type == WM_TYPE_STR || field_is_run(type)) && texts < DETOUR_KEPT_TEXTS) {
			unsigned char *text = to->texts[texts++];

			put64((unsigned char *)to->payload + offset,
			      plan->is_careful ? careful_keep(text, DETOUR_KEPT_TEXT_BYTES + 1,
							      word_at(from))
					       : reference_keep(text, type, from));
		}
		offset += field_bytes(type);
	}
	kept->begun = begun;
	kept->ticks = clock_ticks(STORE_CLOCK_TSC);
	store_barrier();
	kept->at = at;
	store_barrier();
	if (kept->fills != fills)
		kept->at = 0;
}

/* ---- spans that are one event, at their end ---- */

/*
 * In the place of one that has ended, or of the oldest. One too deep is not kept. A hit that this
 * one interrupts may be recording what changes. Where it interrupts none, a jump left that.
 */
static void span_begin(const struct writer *writer, int depth, const struct marker *marker,
		       const struct plan *plan, const uint64_t *payload, uint32_t rejected)
{
	/* a span whose fields have no room is refused, but its begin may be an event */
	int fits = depth >= 0 && plan->payload_bytes <= KEPT_PAYLOAD_BYTES;
	struct spans *spans = fits ? arena_spans(writer) : NULL;
	struct kept *to = NULL;

	for (int i = 0; spans && i < SPANS_OPEN_MAX && (!to || to->at); i++)
		if ((!depth || spans->of[i].at != KEPT_CHANGES) &&
		    (!to || !spans->of[i].at || spans->of[i].ticks < to->ticks))
			to = &spans->of[i];
	if (to)
		keep(to, plan, payload, plan->begun & ~(rejected & plan->halves),
		     (uintptr_t)marker);
}

/*
 * The last begin that this may be the end of; no one else takes it any more. NULL: none is kept.
 * One that begins after `ticks` is of a handler that came in between.
 */
static struct kept *span_take(struct spans *spans, const struct plan *plan, uint64_t ticks,
			      const struct plan_span **pair, uint64_t *begun_ticks)
{
	struct kept *kept = NULL;
	uintptr_t at;

	for (const struct plan_span *of = plan->spans; spans && of; of = of->next)
		for (struct kept *k = spans->of; k < spans->of + SPANS_OPEN_MAX; k++)
			if (k->at == (uintptr_t)of->begin && k->ticks <= ticks &&
			    (!kept || k->ticks > *begun_ticks)) {
				kept = k;
				*begun_ticks = k->ticks;
				*pair = of;
			}
	if (!kept)
		return NULL;
	at = (uintptr_t)(*pair)->begin;
	return __atomic_compare_exchange_n(&kept->at, &at, KEPT_CHANGES, 0, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED) &&
			       *(volatile uint64_t *)&kept->ticks == *begun_ticks
		       ? kept
		       : NULL;
}

/* Not where its event was refused, but begin and end are events too. */
static int has_span(const struct plan *plan, uint32_t lane)
{
	for (const struct plan_span *of = plan->spans; of; of = of->next) {
		const struct plan *whole = __atomic_load_n(&of->whole->plan, __ATOMIC_ACQUIRE);

		for (unsigned int i = 0; whole && i < whole->consumer_count; i++)
			if (whole->consumers[i].lane == lane)
				return 1;
	}
	return 0;
}

/*
 * The event is composed where the begin's fields are. An end whose begin is not known, or was
 * before the session, is counted as discarded.
 */
static __attribute__((noinline, cold)) void span_end(struct writer *writer, int depth,
						     const struct plan *plan,
						     const uint64_t *payload, uintptr_t sp,
						     uint64_t ticks)
{
	uint64_t begun_ticks = 0;
	const struct plan_span *pair = NULL;
	struct kept *kept = span_take(depth < 0 ? NULL : arena_spans(writer), plan, ticks, &pair,
				      &begun_ticks);
	const struct plan *whole = kept ? __atomic_load_n(&pair->whole->plan, __ATOMIC_ACQUIRE)
					: NULL;
	uint32_t wanted, lost, rejected = 0;
	struct hit_registers here;
	unsigned char *to;

	for (unsigned int i = 0; i < plan->consumer_count; i++) {
		uint32_t lane = plan->consumers[i].lane;

		if (plan->consumers[i].half && has_span(plan, lane) &&
		    (!kept || (stores[lane].opening & UINT32_MAX >> 8) > kept->begun >> 8))
			lane_discard(depth < 0 ? NULL : writer,
				     depth < 0 ? NULL : writer_lane(writer, lane, depth), lane,
				     depth < 0 ? 0 : depth);
	}
	if (whole) {
		to = (unsigned char *)kept->payload + pair->begin_bytes;
		for (unsigned int i = 0; i < plan->payload_bytes; i++)
			to[i] = ((const unsigned char *)payload)[i];
		put64(to + plan->payload_bytes, clock_ns(ticks - begun_ticks));
		wanted = lanes_ended(whole, kept->begun, &lost);
		registers_keep(&here);
		record_callers(writer, depth, whole, kept->payload, sp, wanted, lost, &here,
			       &rejected);
	}
	if (kept)
		*(volatile uintptr_t *)&kept->at = 0;
}

/*
 * Everything but the plain case. Compiled to keep all registers too, and never inlined, so that the
 * plain case saves only what it uses itself.
 */
static void KEEPS_REGISTERS __attribute__((noinline, cold))
hit_anyhow(const struct marker *marker, const uint64_t *payload, uintptr_t sp, uint64_t begun)
{
	uint32_t wanted, lost = 0, discarded = 0, rejected = 0;
	uint64_t ticks = 0;
	int depth;
	struct writer *writer = hit_begin(marker, sp, &depth);
	const struct plan *plan;

	if (!writer)
		return;
	plan = __atomic_load_n(&marker->plan, __ATOMIC_ACQUIRE);
	/* what the end's own events cost, and a wait for room, is no part of the span */
	if (plan && plan->has_spans)
		ticks = clock_ticks(STORE_CLOCK_TSC);
	wanted = plan ? lanes_ended(plan, begun, &lost) : 0;
	if (plan && plan->callers) {
		struct hit_registers here;

		registers_keep(&here);
		discarded = record_callers(writer, depth, plan, payload, sp, wanted, lost, &here,
					   &rejected);
	} else if (plan) {
		discarded = record_all(writer, depth, plan, payload, sp, wanted, lost, NULL,
				       &rejected);
	}
	if (plan && plan->keeps && wanted & ~rejected)
		keep(&writer->kept, plan, payload, 0, (uintptr_t)payload);
	if (plan && plan->has_spans && plan->kind == 'b')
		span_begin(writer, depth, marker, plan, payload, rejected);
	else if (plan && plan->has_spans)
		span_end(writer, depth, plan, payload, sp, ticks);
	else if (!plan)
		note_begin(writer, marker, 0);
	else if (plan->begun)
		note_begin(writer, marker,
			   (plan->begun & ~(discarded | rejected)) | (uint64_t)discarded
									     << PLAN_LOST_SHIFT);
	if (plan)
		count_hit(writer, plan);
	if (plan && plan->probe_count && depth >= 0) {
		struct probe_call call = { writer, plan, (const unsigned char *)payload, depth };

		vectors_call(probelist_call, &call);
	}
	hit_end(writer, depth);
}

uint32_t hit_replaces(const struct marker *marker, const uint64_t *payload, uintptr_t sp,
		      uint32_t lanes, uint64_t *result)
{
	int depth;
	struct writer *writer = hit_begin(marker, sp, &depth);
	uint32_t replaced = 0;
	const struct plan *plan;

	if (!writer)
		return 0;
	plan = __atomic_load_n(&marker->plan, __ATOMIC_ACQUIRE);
	for (unsigned int i = 0; plan && !replaced && i < plan->consumer_count; i++) {
		const struct plan_consumer *consumer = &plan->consumers[i];
		uint32_t lane = 1u << consumer->lane;

		if (!plan->replaces || !consumer->handler || !(lanes & lane))
			continue;
		if (depth < 0)
			lane_discard(NULL, NULL, consumer->lane, 0);
		else if (handler_takes(writer, depth, consumer, payload, result))
			replaced = lane;
	}
	hit_end(writer, depth);
	return replaced;
}

void hit_stamped(const struct marker *marker, const uint64_t *payload, uintptr_t sp, uint64_t ticks)
{
	struct costs none = { 0 };
	int depth;
	struct writer *writer = hit_begin(marker, sp, &depth);
	const struct plan *plan;

	if (!writer)
		return;
	plan = __atomic_load_n(&marker->plan, __ATOMIC_ACQUIRE);
	for (unsigned int i = 0; plan && i < plan->consumer_count; i++) {
		const struct plan_consumer *consumer = &plan->consumers[i];

		if (depth < 0)
			lane_discard(NULL, NULL, consumer->lane, 0);
		else
			record_at(writer, depth, plan, consumer->lane, consumer->event_id, payload,
				  sp, ticks, &none);
	}
	hit_end(writer, depth);
}

/*
 * The fields of text shape, and the string's bytes; 0, or -1 when the page ends first. No store's
 * address but the tail's depends on how long the string is: with one that did, later loads waited.
 */
static inline __attribute__((always_inline)) int
put_text(unsigned char *to, const struct lane *lane, const struct plan *plan,
	 const unsigned char *payload, uint64_t *string_bytes)
{
	const char *string;
	int64_t bytes;

	put64(to, word_at(payload));
	to += plan->lead_bytes;
	string = (const char *)(uintptr_t)word_at(payload + plan->lead_bytes);
	bytes = put_short_string(to, string);
	if (unlikely(bytes < 0)) {
		unsigned char *past = put_string(to, lane->base + lane->limit, string,
						 FIELD_BYTES_MAX);

		if (unlikely(!past))
			return -1;
		bytes = past - to - 2;
	}
	*string_bytes = (uint64_t)bytes;
	if (unlikely(plan->tail_bytes))
		put64(to + bytes + 2, word_at(payload + plan->lead_bytes + 8));
	return 0;
}

/* Of detours no hits are counted. */
enum hit_part {
	HIT_WHOLE,
	HIT_ENTRY, /* return_enter() may follow */
	HIT_END,   /* of a call with this `begun` */
};

/* Of inside/detour/return.h, which is above; a test of this room alone links without them. */
extern const unsigned char return_stubs[],
	return_stubs_end[] __attribute__((weak, visibility("hidden")));

static inline int hit_is_stub(uintptr_t address)
{
	return address - (uintptr_t)return_stubs < (uintptr_t)(return_stubs_end - return_stubs);
}

/*
 * Whether the one test of a plan, on a range of a field, rejects the hit, which then is done. Few
 * registers, and no calls: the thread's first one is left to hit_early().
 */
static int KEEPS_REGISTERS __attribute__((noinline))
hit_is_outside(struct writer *writer, const struct marker *marker, const struct plan *plan,
	       const unsigned char *payload, enum hit_part part)
{
	const struct lane *lane = (struct lane *)((char *)writer + plan->lane_offset);
	const struct plan_test *test = plan->tests;
	uint64_t *count = __atomic_load_n(&lane->rejected,
					  __ATOMIC_RELAXED); /* once: hit_plain() */

	if (plan_range_holds(&test->range, load64(payload + test->offset)) || !count)
		return 0;
	++*count;
	if (part == HIT_WHOLE)
		count_hit(writer, plan);
	else
		note_begin(writer, marker, plan->begun & ~(uint32_t)UINT8_MAX);
	return 1;
}

/*
 * A plan that is plain but for predicates or sums: whether the hit is rejected, or added up. Where
 * the caller is on top of the stack, that is no stub of a return (inside/detour/return.h).
 */
static int KEEPS_REGISTERS __attribute__((noinline))
hit_early(struct writer *writer, const struct marker *marker, const struct plan *plan,
	  const unsigned char *payload, uintptr_t sp, enum hit_part part)
{
	const struct plan_consumer *only = &plan->consumers[0];
	int holds;

	if (part == HIT_END && plan->tests)
		return 0;
	holds = !plan->tests || predicates_hold(writer, plan, only, payload);
	if (holds && !plan->sums)
		return 0;
	if (holds && only->callers &&
	    (!plan->sums->is_at_top ||
	     hit_is_stub((uintptr_t)load64(payload + plan->sums->top_at))))
		return 0;
	if (holds)
		sums_add(writer, 0, plan, only, payload, sp, NULL);
	else
		lane_rejected(writer, (struct lane *)((char *)writer + plan->lane_offset),
			      only->lane, 0);
	if (part == HIT_WHOLE)
		count_hit(writer, plan);
	else if (part == HIT_ENTRY)
		note_begin(writer, marker,
			   plan->begun & (holds ? UINT32_MAX : ~(uint32_t)UINT8_MAX));
	return 1;
}

/*
 * One session, no probe, on the thread's own stack, not nested, room in the page: the plain case.
 * Anything else is found out before anything is committed. A block for each shape of payload, so
 * that none pays for what it doesn't use: at this scale each register that the code needs and each
 * instruction shows (docs/design/hit-path.md).
 *
 * inside[0] is stored before the plan is loaded; the barrier that makes this order hold on the
 * processor too is store_quiesce()'s membarrier.
 */
static inline __attribute__((always_inline)) int
hit_plain(struct writer *writer, const struct marker *marker, const unsigned char *payload,
	  uintptr_t sp, enum plan_shape shape, enum hit_part part, uint64_t begun)
{
	const struct plan *plan;
	struct lane *lane;
	unsigned char *to;
	struct wm_page *page;
	uint64_t ticks, more = 0; /* bytes than plan->growth says */
	uint32_t offset;
	int done = 0;

	if (unlikely(!writer || sp - writer->stack.low >= writer->stack.bytes || writer->inside[0]))
		return 0;
	writer->inside[0] = sp;
	store_barrier();
	plan = __atomic_load_n(&marker->plan, __ATOMIC_ACQUIRE);
	if (unlikely(!plan)) {
		if (part == HIT_ENTRY)
			note_begin(writer, marker, 0);
		done = 1;
		goto leave;
	}
	if (part == HIT_END && unlikely(plan->begun != begun) && begun != PLAN_BEGUN_ALL)
		goto leave;
	lane = (struct lane *)((char *)writer + plan->lane_offset);
	offset = (uint32_t)lane->word;
	to = lane->base + offset;
	page = lane->page;
	/* the limit last: a handler that forks, and returns here in the child, makes it 0 */
	store_barrier();
	/* not plain: no room is enough; no page: both are 0, and none is not enough either */
	if (unlikely((int64_t)lane->limit - offset <= (int64_t)plan->room_bytes)) {
		if (plan->ends_early == PLAN_EARLY_RANGE && part != HIT_END)
			done = hit_is_outside(writer, marker, plan, payload, part);
		if (plan->ends_early && !done)
			done = hit_early(writer, marker, plan, payload, sp, part);
		goto leave;
	}
	ticks = clock_ticks(STORE_CLOCK_TSC);
	if (likely(ticks - page->end_ticks < plan->compact_ticks)) {
		to = put_compact(to, plan->event_id, ticks);
	} else {
		/* not plain: an extended header now and then, or ticks that ran back */
		if (plan->compact_ticks || (int64_t)(ticks - page->end_ticks) < 0)
			goto leave;
		to = put_extended(to, plan->event_id, ticks);
	}
	page->end_ticks = ticks; /* no longer needed, which frees a register */

	if (shape == PLAN_FIXED) {
		for (unsigned int i = 0; i < plan->payload_words; i++)
			put64(to + 8 * i, load64(payload + 8 * i));
	} else if (shape == PLAN_TEXT) {
		if (unlikely(put_text(to, lane, plan, payload, &more)))
			goto leave;
	} else {
		const unsigned char *start = to;

		to = put_fields(to, lane->base + lane->limit, plan, payload, FIELD_BYTES_MAX, 0);
		if (unlikely(!to))
			goto leave;
		more = (uint64_t)(to - start);
	}
	commit(lane, page, plan->growth + more);
	if (part == HIT_WHOLE)
		count_hit(writer, plan);
	if (part == HIT_ENTRY)
		note_begin(writer, marker, plan->begun);
	done = 1;
leave:
	store_barrier();
	__atomic_store_n(&writer->inside[0], 0, __ATOMIC_RELEASE);
	return done;
}

/* Called by the stubs of the same names. */
#define HIT_FUNCTION(name, shape)                                                                  \
	void name(HIT_REGISTERS, uint64_t flags, HIT_PUSHED) KEEPS_REGISTERS;                      \
	void name(HIT_REGISTERS, uint64_t flags, HIT_PUSHED)                                       \
	{                                                                                          \
		uintptr_t sp = (uintptr_t)&site;                                                   \
                                                                                                   \
		(void)rdi, (void)rsi, (void)rdx, (void)rcx, (void)r8, (void)r9, (void)flags;       \
		if (unlikely(!hit_plain(writer_self, marker, (const unsigned char *)payload, sp,   \
					shape, HIT_WHOLE, 0)))                                     \
			hit_anyhow(marker, payload, sp, PLAN_BEGUN_ALL);                           \
	}
HIT_FUNCTION(hit_fixed, PLAN_FIXED)
HIT_FUNCTION(hit_text, PLAN_TEXT)
HIT_FUNCTION(hit_refs, PLAN_REFS)

/*
 * From detours (abi/detour.h). They may be in code that the agent itself calls. What the agent does
 * in its own threads, or on a program thread's behalf, is not the program's doing.
 */
void hit_detour(HIT_REGISTERS, HIT_PUSHED) KEEPS_REGISTERS;
void hit_detour(HIT_REGISTERS, HIT_PUSHED)
{
	uintptr_t sp = (uintptr_t)&site;

	(void)rdi, (void)rsi, (void)rdx, (void)rcx, (void)r8, (void)r9;
	if (reentrancy_guard_covers(sp))
		return;
	/* a plan with strings is never plain, since they are read with care */
	if (unlikely(!hit_plain(writer_self, marker, (const unsigned char *)payload, sp, PLAN_FIXED,
				HIT_ENTRY, 0)))
		hit_anyhow(marker, payload, sp, PLAN_BEGUN_ALL);
}

void hit_ended(struct writer *writer, const struct marker *marker, const uint64_t *payload,
	       uintptr_t sp, uint64_t begun)
{
	if (unlikely(!hit_plain(writer, marker, (const unsigned char *)payload, sp, PLAN_FIXED,
				HIT_END, begun)))
		hit_anyhow(marker, payload, sp, begun);
}

uint64_t hit_entry_detour(void)
{
	return (uintptr_t)hit_enter_detour;
}

uint64_t hit_entry(const uint8_t types[16])
{
	void (*const entries[])(void) = {
		[PLAN_FIXED] = hit_enter_fixed,
		[PLAN_TEXT] = hit_enter_text,
		[PLAN_REFS] = hit_enter_refs,
	};

	return (uintptr_t)entries[plan_shape(types)];
}
