/* SPDX-License-Identifier: MIT */
#include "inside/marker/plan.h"

#include "inside/store/thread_writer.h"

#include <stddef.h>

#define TEXT_SIDE_BYTES 8

static void make_steps(struct plan *plan)
{
	struct plan_step *step = plan->steps;

	plan->payload_bytes = 0;
	plan->has_refs = 0;
	plan->field_count = 0;
	*step = (struct plan_step){ 0 };
	for (unsigned int i = 0; i < sizeof plan->types && plan->types[i]; i++) {
		uint8_t type = plan->types[i];

		plan->field_count++;
		plan->payload_bytes = (uint16_t)(plan->payload_bytes + field_bytes(type));
		if (type == WM_TYPE_STR || field_is_run(type)) {
			plan->has_refs = 1;
			step->ref = type == WM_TYPE_STR ? WM_TYPE_STR : WM_TYPE_BYTES;
			step->shift = field_shift(type);
			*++step = (struct plan_step){ 0 };
		} else {
			step->bytes = (uint8_t)(step->bytes + field_bytes(type));
		}
	}
	plan->payload_words = (uint16_t)((plan->payload_bytes + 7) / 8);
}

enum plan_shape plan_shape(const uint8_t types[16])
{
	unsigned int side = 0, strings = 0;

	for (unsigned int i = 0; i < 16 && types[i]; i++) {
		if (field_is_run(types[i]))
			return PLAN_REFS;
		if (types[i] == WM_TYPE_STR) {
			strings++;
			side = 0;
		} else {
			side += field_bytes(types[i]);
		}
		/* up to the first string any number of bytes is fixed shape, so far */
		if (strings && side > TEXT_SIDE_BYTES)
			return PLAN_REFS;
	}
	if (!strings)
		return PLAN_FIXED;
	for (unsigned int i = side = 0; i < 16 && types[i] != WM_TYPE_STR; i++)
		side += field_bytes(types[i]);
	return strings == 1 && side <= TEXT_SIDE_BYTES ? PLAN_TEXT : PLAN_REFS;
}

/* The bytes of an event that are known before it happens. */
static uint32_t fixed_bytes(const struct plan *plan, uint32_t event_id)
{
	uint32_t bytes = event_id < EVENT_EXTENDED ? EVENT_COMPACT_BYTES : EVENT_EXTENDED_BYTES;

	switch (plan_shape(plan->types)) {
	case PLAN_FIXED:
		return bytes + plan->payload_bytes;
	case PLAN_TEXT:
		return bytes + plan->lead_bytes + plan->tail_bytes + 2; /* state and NUL */
	default:
		return bytes;
	}
}

void plan_finish(struct plan *plan)
{
	int is_plain = plan->uses_tsc && plan->consumer_count == 1 && !plan->probe_count &&
		       !plan->has_handlers && !plan->has_spans && !plan->costs &&
		       (!plan->callers || plan->sums);
	const struct plan_consumer *only = &plan->consumers[0];

	make_steps(plan);
	if (!plan->text_bytes)
		plan->text_bytes = FIELD_BYTES_MAX;
	/* with care, a string is read by a system call: once is enough */
	is_plain = is_plain && !(plan->is_careful && plan->has_refs);
	plan->ends_early = is_plain && (plan->tests || plan->sums) ? PLAN_EARLY : PLAN_EARLY_NOT;
	if (plan->ends_early && only->test_count == 1 && plan->tests->is_range &&
	    plan->tests->of == PREDICATE_OF_FIELD)
		plan->ends_early = PLAN_EARLY_RANGE;
	is_plain = is_plain && !plan->tests && !plan->sums && !plan->keeps;
	plan->lead_bytes = plan->steps[0].bytes;
	plan->tail_bytes = plan->steps[1].bytes;
	plan->room_bytes = !is_plain	    ? UINT32_MAX
			   : plan->has_refs ? PLAN_TEXT_ROOM_BYTES
					    : plan->payload_words * 8u;
	plan->lane_offset = (uint32_t)(offsetof(struct writer, lanes) +
				       only->lane * sizeof(struct lane));
	plan->counter_offset = (uint32_t)(offsetof(struct writer, hits) +
					  (plan->number < COUNTERS_MAX ? plan->number
								       : COUNTERS_MAX) *
						  sizeof(uint64_t));
	plan->compact_ticks = only->event_id < EVENT_EXTENDED ? 1u << EVENT_TICK_BITS : 0;
	plan->event_id = only->event_id;
	plan->growth = PAGE_WORD(fixed_bytes(plan, only->event_id), 1);
}
