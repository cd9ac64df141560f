/* SPDX-License-Identifier: MIT */
/*
 * What a hit does: a marker's plan, made by planning.c whenever a rule changes, read by hit.c on
 * the hit path. Immutable once published in struct marker; replaced whole, freed after a grace
 * period.
 */
#ifndef INSIDE_MARKER_PLAN_H
#define INSIDE_MARKER_PLAN_H

#include "abi/predicate.h"
#include "abi/site.h"
#include "abi/sum.h"
#include "abi/watch.h"
#include "inside/runtime/sessions.h"

#include <stdint.h>
#include <waymark/marker.h>

/* ---- field types, as sites hand them over (abi/site.h) ---- */

#define FIELD_TYPE_MASK WM_TYPE_MASK

/* Bytes that a field takes in the payload; 0 for a type that there isn't. */
static const unsigned char field_payload_bytes[FIELD_TYPE_MASK + 1] = {
	[WM_TYPE_I8] = 1,   [WM_TYPE_U8] = 1,	  [WM_TYPE_I16] = 2,  [WM_TYPE_U16] = 2,
	[WM_TYPE_I32] = 4,  [WM_TYPE_U32] = 4,	  [WM_TYPE_I64] = 8,  [WM_TYPE_U64] = 8,
	[WM_TYPE_BOOL] = 1, [WM_TYPE_F32] = 4,	  [WM_TYPE_F64] = 8,  [WM_TYPE_PTR] = 8,
	[WM_TYPE_STR] = 8,  [WM_TYPE_BYTES] = 16, [WM_TYPE_CHAR] = 1,
};

/* A run: a pointer and a count in the payload. */
static inline int field_is_run(uint8_t type)
{
	return type == WM_TYPE_BYTES || type & WM_TYPE_ARRAY;
}

/* An element of a run has 1 << shift bytes. */
static inline uint8_t field_shift(uint8_t type)
{
	uint8_t bytes = site_type_bytes(type);

	return bytes == 8 ? 3 : bytes / 2;
}

static inline unsigned int field_bytes(uint8_t type)
{
	return field_payload_bytes[field_is_run(type) ? WM_TYPE_BYTES : type & FIELD_TYPE_MASK];
}

/* ---- a plan ---- */

/*
 * Which sessions recorded the begin of a call: a bit for each lane, and store_openings() when the
 * plan was made. A session in the same lane that was opened later has no begin of it.
 */
#define PLAN_BEGUN(openings, lanes) ((uint32_t)(openings) << 8 | (lanes))
#define PLAN_LOST_SHIFT 32	  /* in struct writer, from here on: lanes that lost the begin */
#define PLAN_BEGUN_ALL UINT64_MAX /* there was no begin to record, or it is unknown */

/*
 * The begin of a span reads its counts last, so that the cost of writing it is before the span; any
 * other event reads them first.
 */
enum plan_costs { PLAN_COSTS_NONE, PLAN_COSTS_FIRST, PLAN_COSTS_LAST };

/* PLAN_EARLY_RANGE: it has one test, on a range of a field. */
enum plan_early { PLAN_EARLY_NOT, PLAN_EARLY, PLAN_EARLY_RANGE };

/* A handler from outside (abi/handler.h). */
typedef int (*plan_handler)(const unsigned char *payload, void *result);

struct plan_probe {
	void (*call)(void (*fn)(void), void *data, const unsigned char *payload);
	void (*fn)(void);
	void *data;
};

/* Copy `bytes` from the payload, then follow the reference that comes next, if one does. */
struct plan_step {
	uint8_t bytes;
	uint8_t ref;   /* WM_TYPE_STR, WM_TYPE_BYTES (of an array, too), or 0: the last step */
	uint8_t shift; /* of a run: an element has 1 << shift bytes */
};

/*
 * A predicate (abi/predicate.h), bound to the payload. Those of one spec are in a row and must all
 * hold; several rows are alternatives.
 */
#define PLAN_TESTS_MAX (4 * PREDICATES_MAX) /* of one session */
struct plan_test {
	struct watch_condition condition; /* of a string, `by` alone */
	uint16_t offset;		  /* of the field in the payload */
	uint8_t bytes;
	uint8_t is_text;
	uint8_t of;	 /* enum predicate_of */
	uint8_t is_last; /* of its row */
	uint8_t is_range;
	union {
		char glob[PREDICATE_TEXT_BYTES]; /* is_text */
		/*
		 * is_range: the condition on an integer without a branch. The value is moved to the
		 * highest bits; `flip` brings negative ones below the others.
		 */
		struct plan_range {
			uint64_t flip, low, width;
			uint8_t shift;
			uint8_t is_outside; /* it holds for all others */
		} range;
		const struct caller_modules *callers; /* PREDICATE_OF_caller; `offset`: the slot */
	};
};

static inline int plan_range_holds(const struct plan_range *range, uint64_t value)
{
	value = (value << range->shift ^ range->flip) - range->low;
	return (value <= range->width) != range->is_outside;
}

/* The sums of one session (abi/sum.h), bound to the payload. */
enum sum_of { SUM_OF_CALLER = PREDICATE_OF_COUNT, SUM_OF_CALLCHAIN }; /* beside predicate_of */
struct plan_sums {
	uint8_t count;
	uint8_t key_count; /* the first fields: a row's values; then one word each, and the count */
	uint8_t callers;   /* how many the values need; 0: none */
	uint16_t key_bytes; /* of the values, at most, and what is written behind them */
	uint8_t is_at_top;  /* the caller alone, and it is on top of the stack */
	uint16_t top_at;    /* there, from the payload on */
	struct plan_sums_field {
		uint16_t offset; /* of the field in the payload */
		uint8_t bytes;
		uint8_t type;
		uint8_t of; /* enum predicate_of, sum_of */
		uint8_t as; /* enum sum_as */
		uint8_t is_signed;
		uint8_t number; /* of the field, + 1; 0: it is of the context */
	} fields[SUM_FIELDS_MAX];
};
/*
 * A begin and an end of one span that are one event, at the end: where `whole` is armed. An end has
 * a list of these.
 */
struct plan_span {
	const struct marker *begin, *whole;
	const struct plan_span *next;
	uint16_t begin_bytes; /* of the begin's payload */
};

/* How many fields an event with these types has. Hit path. */
static inline unsigned int types_count(const uint8_t types[16])
{
	unsigned int count = 0;

	while (count < 16 && types[count])
		count++;
	return count;
}

struct control_detour;

struct plan {
	/* made by plan_finish() from the rest */
	uint16_t payload_words; /* what the site hands over, in 8-byte words */
	uint16_t payload_bytes; /* the same, not rounded */
	uint8_t has_refs;	/* some field is a string or a byte run */
	/* for the plain case: one consumer, stamped by the TSC; no probe, no counts */
	uint8_t lead_bytes, tail_bytes; /* of text shape: before and after the string */
	uint32_t room_bytes;		/* what the page must have; UINT32_MAX: not plain */
	uint32_t lane_offset;		/* of the lane in struct writer */
	uint32_t counter_offset;	/* of the marker's counter in struct writer */
	uint32_t begun; /* PLAN_BEGUN of its sessions; 0: no begin or end of a call, or span */
	uint64_t compact_ticks; /* within these a compact header will do; 0: never */
	uint64_t growth;	/* PAGE_WORD: one event, and the bytes that every one takes */
	uint32_t event_id;	/* the only consumer's */
	/* up to here it is one cache line, with the 16 bytes that planning.c has before it */
	uint8_t field_count;
	struct plan_step steps[17];

	/* given */
	uint8_t types[16]; /* WM_TYPE_*, as in the site's entry */
	uint32_t number;   /* counts its hits under this; COUNTERS_MAX or more: not counted */
	uint32_t probe_count;
	uint8_t uses_tsc; /* every consumer's clock is STORE_CLOCK_TSC */
	uint8_t consumer_count;
	uint8_t is_careful; /* strings may lead anywhere: they are read by the kernel */
	uint8_t costs;	    /* PLAN_COSTS_*: some consumer wants counts */
	/* plain but for predicates or sums: a hit that is rejected or added up ends there */
	uint8_t ends_early;  /* enum plan_early */
	uint8_t keeps;	     /* the entry of a call with DETOUR_ONCE: nothing is written */
	uint16_t text_bytes; /* of a string, as much as an event has; 0: FIELD_BYTES_MAX */
	const struct plan_test *tests; /* of all consumers; NULL: none has any */
	const struct plan_sums *sums;  /* likewise */
	uint8_t callers;	       /* the most that a consumer wants */
	uint8_t is_return;	       /* of `record`'s function */
	uint8_t has_handlers;	       /* some consumer has */
	uint8_t replaces;	       /* they are called at the call's entry: hit_replaces() */
	uint8_t has_spans;	       /* some consumer wants a span: a begin or an end */
	uint8_t halves;		       /* lanes whose predicates here are of the span */
	const struct plan_span *spans; /* of an end */
	char kind;		       /* as in the site's text */
	const struct control_detour *record; /* NULL: a marker's */
	struct plan_consumer {
		uint32_t event_id;
		uint16_t costs;			/* a bit for each enum cost_kind (abi/cost.h) */
		uint8_t lane;			/* which session, 0 to SESSIONS_MAX - 1 */
		uint8_t callers;		/* at most; 0: none, and no callchain */
		uint8_t first_test, test_count; /* of the plan's; none: it wants all hits */
		uint8_t sums; /* number + 1 of the plan's: it wants these in place of events */
		uint8_t half; /* enum span_half: it wants one event at the span's end */
		uint8_t handler_number; /* the session's */
		plan_handler handler;	/* NULL: none */
	} consumers[SESSIONS_MAX];
	struct plan_probe probes[]; /* probe_count of them */
};

/*
 * The shapes of payload that the plain case has code for: all fixed; one string with up to 8 bytes
 * before it and 8 after; anything else.
 */
#define PLAN_TEXT_ROOM_BYTES 96 /* header, both sides, the state and a short string */
enum plan_shape { PLAN_FIXED, PLAN_TEXT, PLAN_REFS };
enum plan_shape plan_shape(const uint8_t types[16]);

/* Fill in what is made from types, uses_tsc and the two counts. */
void plan_finish(struct plan *plan);

/*
 * What wm_record.agent_word points to; one for each marker name and kind in the process. Never
 * freed: a thread may be on its way here long after a disarm.
 */
struct marker {
	struct plan *plan; /* NULL: nothing to do. Release by planning.c, acquire by hit.c */
};

/* ---- calling a program's own handlers from a hit (probelist.c) ---- */

struct writer;

struct probe_call {
	struct writer *writer;
	const struct plan *plan;
	const unsigned char *payload;
	int depth;
};

/*
 * A handler from outside, in place of a plan's probes: whether it takes the hit, by way of
 * vectors_call(). One that this thread is running already takes none of its own hits.
 */
struct handler_call {
	struct writer *writer;
	plan_handler handler;
	const unsigned char *payload;
	uint64_t *result; /* whether it replaces the call, and with what; NULL: is it taken? */
	int depth;
};
long probelist_judge(void *call);

/*
 * Call each probe of call->plan, except those that this thread is running already. Ordinary code
 * that calls ordinary code: by way of vectors_call(), with the probe_call as its argument. Returns
 * 0.
 */
long probelist_call(void *call);

/*
 * ThreadSanitizer does not see how a handler comes to run. These two report the order to it: the
 * code before wm_probe_add() happens before the handler, and the handler happens before
 * wm_probe_remove() returns.
 */
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));
extern char probe_added, probe_ran; /* their addresses alone */

static inline void probe_order_before(char *address)
{
	if (__tsan_release)
		__tsan_release(address);
}

static inline void probe_order_after(char *address)
{
	if (__tsan_acquire)
		__tsan_acquire(address);
}

#endif
