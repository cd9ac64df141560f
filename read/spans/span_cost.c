/* SPDX-License-Identifier: MIT */
#include "read/spans/span_cost.h"

#include "abi/cost.h"
#include "trace/packet_walk.h"

#include <string.h>

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

void span_costs_take(const struct span_costs *costs, const uint8_t *end,
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

void span_costs_add(struct summary_span *span, const struct span_costs *begin,
		    const uint64_t values[SUMMARY_COSTS_MAX], const struct span_costs *costs,
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
