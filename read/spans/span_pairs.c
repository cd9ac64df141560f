/* SPDX-License-Identifier: MIT */
#include "read/spans/span_pairs.h"

#include "abi/cost.h"
#include "base/array.h"
#include "read/spans/span_calls.h"
#include "trace/packet_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX (1u << 17)  /* in one stream; of more, the oldest go unmeasured */
#define ALONE_MAX (1u << 20) /* of one stream; later ones go unmeasured */

/* ---- cost: the differences of the counts of begins and ends (abi/cost.h) ---- */

static void cost_name(struct summary_cost *cost, const char *field)
{
#define KIND(name, field, unit) { name, field, unit },
	static const struct {
		const char *name, *field, *unit;
	} kinds[] = { COST_KINDS(KIND) };
#undef KIND

	*cost = (struct summary_cost){ .name = field, .unit = "", .kind = -1 };
	/* a marker's own field may have that name: then a suffix is behind it */
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(field, kinds[i].field, strlen(kinds[i].field))) {
			cost->name = kinds[i].name;
			cost->unit = kinds[i].unit;
			cost->kind = (int)i;
		}
}

void span_costs_find(struct span_costs *costs, struct summary_span *span,
		     const struct trace_class *class)
{
	costs->count = class->costs < SUMMARY_COSTS_MAX ? class->costs : SUMMARY_COSTS_MAX;
	for (unsigned int i = 0; i < costs->count; i++) {
		struct summary_cost cost;
		uint32_t place = 0;

		cost_name(&cost, class->fields[class->count - costs->count + i]);
		while (place < span->cost_count && strcmp(span->costs[place].name, cost.name))
			place++;
		if (place == span->cost_count && place < SUMMARY_COSTS_MAX)
			span->costs[span->cost_count++] = cost;
		costs->places[i] = (uint8_t)place;
	}
}

/* The values of an event's counts, whose fields end at `end`. */
static void span_costs_take(const struct span_costs *costs, const uint8_t *end,
			    uint64_t values[SUMMARY_COSTS_MAX])
{
	for (unsigned int i = 0; i < costs->count; i++)
		values[i] = load_u64(end - 8 * (costs->count - i));
}

/* The value of the count at this place in a span; COST_UNAVAILABLE: the event has none. */
static uint64_t value_at(const struct span_costs *costs, const uint64_t values[SUMMARY_COSTS_MAX],
			 uint8_t place)
{
	for (unsigned int i = 0; i < costs->count; i++)
		if (costs->places[i] == place)
			return values[i];
	return COST_UNAVAILABLE;
}

/* Whether another had a counter of the span's for a time within it. */
static int is_partial(const struct summary_span *span, const struct span_costs *begin,
		      const uint64_t values[SUMMARY_COSTS_MAX], const struct span_costs *costs,
		      const uint64_t ended[SUMMARY_COSTS_MAX])
{
	for (uint8_t place = 0; place < span->cost_count; place++)
		if (span->costs[place].kind == COST_UNCOUNTED)
			return value_at(begin, values, place) != value_at(costs, ended, place);
	return 0;
}

/*
 * A span began with these values, and ends with the event whose fields end at `end`. Apart from the
 * end of spans without counts, so that these need no registers kept for it.
 */
static __attribute__((noinline)) void span_costs_add(struct summary_span *span,
						     const struct span_costs *begin,
						     const uint64_t values[SUMMARY_COSTS_MAX],
						     const struct span_costs *costs,
						     const uint8_t *end)
{
	uint64_t ended[SUMMARY_COSTS_MAX];
	int partial;

	span_costs_take(costs, end, ended);
	partial = is_partial(span, begin, values, costs, ended);
	for (uint8_t place = 0; place < span->cost_count; place++) {
		struct summary_cost *cost = &span->costs[place];
		uint64_t from = value_at(begin, values, place);
		uint64_t to = value_at(costs, ended, place);

		if (from == COST_UNAVAILABLE || to == COST_UNAVAILABLE || to < from) {
			cost->unavailable++;
			continue;
		}
		if (partial && cost->kind >= 0 && 1u << cost->kind & COST_COUNTED) {
			cost->partial++;
			continue;
		}
		cost->spans++;
		cost->sum += to - from;
		cost->max = to - from > cost->max ? to - from : cost->max;
	}
}

/* ---- pairs ---- */

struct histogram span_unmeasured;

static void slice_add(struct summary_slice *slice, uint64_t ticks)
{
	slice->count++;
	slice->ticks += (double)ticks;
	slice->logs += log((double)(ticks ? ticks : 1));
}

/* Apart, so that spans without a struct span_calls need no registers kept for it. */
static __attribute__((noinline)) void note(struct span_pairs *pairs, struct span_half *half)
{
	if (!pairs->replayed) {
		span_calls_note(pairs->calls, pairs, half);
		return;
	}
	half->place = pairs->replayed->place;
	memcpy(half->fields, pairs->replayed->fields, sizeof(half->fields));
}

static void heard(struct span_pairs *pairs, const struct span_half *open, uint64_t ticks,
		  uint64_t nested_ticks)
{
	struct span_half end = { .span = open->span, .is_end = 1 };

	note(pairs, &end);
	span_calls_add(pairs->calls, open, &end, open > pairs->open.all ? open[-1].span : SPAN_NONE,
		       ticks, ticks > nested_ticks ? ticks - nested_ticks : 0);
}

/*
 * A span ends that is not the innermost: the one that began in it, and ends later, has its part so
 * far in this one, and in none around it.
 */
static void cross(struct span_half *half, uint64_t ticks)
{
	struct span_half *inner = half + 1;
	uint64_t part = half->ticks + ticks - inner->ticks - inner->counted;

	half->within += part;
	inner->counted += part;
}

/* No other half is in this stream. */
static void leave(struct span_pairs *pairs, const struct span_half *half)
{
	struct summary_span *span = &pairs->all[half->span];

	if (pairs->has_alone && pairs->alone_count < pairs->alone_end &&
	    !array_grow(&pairs->alone, &pairs->alone_room, pairs->alone_count + 1,
			sizeof(*pairs->alone)))
		pairs->alone[pairs->alone_count++] = *half;
	else if (half->is_end)
		span->unbegun++;
	else
		span->unfinished++;
}

static void leave_oldest(struct span_pairs *pairs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		leave(pairs, &pairs->open.all[i]);
	span_stack_remove_oldest(&pairs->open, count);
}

/* An end without a begin. */
static void leave_end(struct span_pairs *pairs, uint32_t span, const struct span_costs *costs,
		      uint64_t ticks, const uint8_t *end)
{
	struct span_half half = { .span = span, .is_end = 1, .ticks = ticks, .costs = costs };

	span_costs_take(costs, end, half.values);
	if (pairs->calls)
		note(pairs, &half);
	leave(pairs, &half);
}

void span_pairs_begin(struct span_pairs *pairs, uint32_t span, const struct span_costs *costs,
		      uint64_t ticks, const uint8_t *end)
{
	struct span_half *open;

	/* spans that never end, left by longjmp for example, accumulate */
	if (pairs->open.count == OPEN_MAX)
		leave_oldest(pairs, OPEN_MAX / 2);
	open = span_stack_push(&pairs->open, span);
	if (!open) {
		pairs->all[span].unfinished++;
		return;
	}
	open->ticks = ticks;
	open->within = open->counted = 0;
	open->costs = costs;
	span_costs_take(costs, end, open->values);
	if (__builtin_expect(pairs->calls != NULL, 0))
		note(pairs, open);
}

/* Any end. Apart from the most frequent, so that these need no registers kept for it. */
static __attribute__((noinline)) void end_any(struct span_pairs *pairs, uint32_t span,
					      const struct span_costs *costs, uint64_t ticks,
					      const uint8_t *end)
{
	struct span_half *open = span_stack_find(&pairs->open, span);
	struct summary_span *sum = &pairs->all[span];
	uint64_t nested_ticks, end_ticks = ticks;

	if (!open) {
		leave_end(pairs, span, costs, ticks, end);
		return;
	}
	ticks -= open->ticks;
	if (sum->cost_count)
		span_costs_add(sum, open->costs, open->values, costs, end);
	if (open != &pairs->open.all[pairs->open.count - 1])
		cross(open, ticks);
	if (open > pairs->open.all)
		open[-1].within += ticks - open->counted;
	nested_ticks = open->within;
	if (pairs->calls)
		heard(pairs, open, ticks, nested_ticks);
	span_stack_remove(&pairs->open, open);
	if (sum->times == &span_unmeasured) {
		struct histogram *times = calloc(1, sizeof(*times));

		if (!times) { /* reported as one that could not be measured */
			sum->unfinished++;
			return;
		}
		sum->times = times;
	}
	summary_time_add(sum->times, ticks);
	if (sum->slices)
		slice_add(&sum->slices[summary_slice_of(&pairs->slicing, end_ticks)], ticks);
	sum->nested_ticks += nested_ticks;
}

void span_pairs_end(struct span_pairs *pairs, uint32_t span, const struct span_costs *costs,
		    uint64_t ticks, const uint8_t *end)
{
	struct summary_span *sum = &pairs->all[span];
	uint32_t count = pairs->open.count;
	struct span_half *last = count ? &pairs->open.all[count - 1] : NULL;

	if (!last || last->span != span || sum->times == &span_unmeasured || sum->slices ||
	    sum->cost_count || pairs->calls) {
		end_any(pairs, span, costs, ticks, end);
		return;
	}
	pairs->open.count = count - 1;
	ticks -= last->ticks;
	if (count > 1)
		last[-1].within += ticks - last->counted;
	if (last->within)
		sum->nested_ticks += last->within;
	summary_time_add(sum->times, ticks);
}

void span_pairs_stream(struct span_pairs *pairs)
{
	pairs->alone_end = pairs->alone_count + ALONE_MAX;
}

void span_pairs_stream_end(struct span_pairs *pairs)
{
	leave_oldest(pairs, pairs->open.count);
}

static int by_time(const void *left, const void *right)
{
	const struct span_half *a = left, *b = right;

	if (a->ticks != b->ticks)
		return a->ticks < b->ticks ? -1 : 1;
	return a->is_end - b->is_end;
}

void span_pairs_thread(struct span_pairs *pairs, int has_many)
{
	pairs->has_alone = 0;
	if (pairs->alone_count)
		qsort(pairs->alone, pairs->alone_count, sizeof(*pairs->alone), by_time);
	for (size_t i = 0; i < pairs->alone_count; i++) {
		const struct span_half *half = pairs->replayed = &pairs->alone[i];

		(half->is_end ? span_pairs_end : span_pairs_begin)(
			pairs, half->span, half->costs, half->ticks,
			(const uint8_t *)(half->values + half->costs->count));
	}
	pairs->replayed = NULL;
	span_pairs_forget(pairs);
	pairs->alone_count = 0;
	pairs->has_alone = has_many;
}

void span_pairs_forget(struct span_pairs *pairs)
{
	for (uint32_t i = 0; i < pairs->open.count; i++)
		pairs->all[pairs->open.all[i].span].unfinished++;
	pairs->open.count = 0;
}

void span_pairs_release(struct span_pairs *pairs)
{
	free(pairs->open.all);
	free(pairs->alone);
}
