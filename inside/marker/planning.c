/* SPDX-License-Identifier: MIT */
#include "inside/marker/marker.h"

#include "abi/detour.h"
#include "inside/marker/handlers.h"
#include "inside/marker/predicates.h"
#include "inside/marker/spans.h"
#include "inside/marker/sums.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/lock.h"
#include "inside/store/arena.h"
#include "inside/store/event_store.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define REAP_LOCK_MS 1000

/* Precedes each plan in memory. */
struct block {
	struct block *next; /* while retired */
	size_t bytes;
};

_Static_assert(sizeof(struct block) + offsetof(struct plan, field_count) <= HEAP_LINE_BYTES,
	       "what the plain case reads of a plan is one cache line");

/* The tests of a plan that is being made. */
static struct {
	struct plan_test all[SESSIONS_MAX * PLAN_TESTS_MAX];
	uint8_t counts[SESSIONS_MAX]; /* by lane */
	unsigned int count;
} tests;

/* Likewise its sums. */
static struct {
	struct plan_sums all[SESSIONS_MAX];
	uint8_t numbers[SESSIONS_MAX]; /* + 1, by lane; 0: none */
	unsigned int count;
} sums;

static struct block *retired;
static uint32_t numbers; /* given out */

/*
 * A plan without probes ends with its last consumer: there may be thousands, most with one alone.
 */
static size_t plan_bytes(const struct variant *variant)
{
	size_t bytes = offsetof(struct plan, consumers);

	if (variant->probe_count || tests.count || sums.count)
		return sizeof(struct plan) + variant->probe_count * sizeof(struct plan_probe) +
		       tests.count * sizeof(struct plan_test) +
		       sums.count * sizeof(struct plan_sums);
	for (uint32_t lanes = variant->lanes; lanes; lanes &= lanes - 1)
		bytes += sizeof(struct plan_consumer);
	return bytes;
}

/* 0, or an error that check_predicates() reports before any plan is made. */
static int tests_make(const struct variant *variant)
{
	tests.count = 0;
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		int count = variant->lanes & 1u << lane
				    ? predicates_bind(variant, lane, tests.all + tests.count)
				    : 0;

		if (count < 0)
			return count;
		tests.counts[lane] = (uint8_t)count;
		tests.count += (unsigned int)count;
	}
	return 0;
}

/* 0, or an error that check_sessions() reports before any plan is made. */
static int sums_make(const struct variant *variant)
{
	sums.count = 0;
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		const struct sum_field *fields;
		int count = variant->lanes & 1u << lane ? predicates_sums(variant, lane, &fields)
							: -ENOENT,
		    error;

		sums.numbers[lane] = 0;
		if (count < 0)
			continue;
		error = sums_bind(variant, lane, fields, (unsigned int)count,
				  &sums.all[sums.count]);
		if (error)
			return error;
		sums.numbers[lane] = (uint8_t)++sums.count;
	}
	return sums.count ? arena_rows_prepare() : 0;
}

static void sums_put(struct plan *plan)
{
	struct plan_test *tests_at = (struct plan_test *)(void *)(plan->probes + plan->probe_count);
	struct plan_sums *to = (struct plan_sums *)(void *)(tests_at + tests.count);

	if (!sums.count)
		return;
	memcpy(to, sums.all, sums.count * sizeof *to);
	plan->sums = to;
	for (unsigned int i = 0; i < plan->consumer_count; i++)
		plan->consumers[i].sums = sums.numbers[plan->consumers[i].lane];
}

static void tests_put(struct plan *plan)
{
	struct plan_test *to = (struct plan_test *)(void *)(plan->probes + plan->probe_count);
	unsigned int used = 0;

	if (!tests.count)
		return;
	memcpy(to, tests.all, tests.count * sizeof *to);
	plan->tests = to;
	for (unsigned int i = 0; i < plan->consumer_count; i++) {
		struct plan_consumer *consumer = &plan->consumers[i];

		consumer->first_test = (uint8_t)used;
		consumer->test_count = tests.counts[consumer->lane];
		used += consumer->test_count;
	}
}

static struct plan *make(struct variant *variant)
{
	int error = tests_make(variant), summed = sums_make(variant),
	    kept = variant->is_half ? arena_spans_prepare() : 0;
	size_t bytes = sizeof(struct block) + plan_bytes(variant);
	struct block *block = error || summed || kept ? NULL : heap_alloc(bytes);
	enum span_half half;
	struct plan *plan;

	if (!block)
		return NULL;
	block->bytes = bytes;
	plan = (struct plan *)(block + 1);
	memcpy(plan->types, variant->types, sizeof plan->types);
	if (!variant->number)
		variant->number = ++numbers;
	plan->number = variant->number - 1;
	plan->uses_tsc = 1;
	plan->is_careful = variant->is_careful;
	plan->keeps = variant->keeps;
	plan->replaces = variant->replaces;
	plan->text_bytes = variant->is_once || variant->begin ? DETOUR_KEPT_TEXT_BYTES : 0;
	plan->kind = variant->kind;
	plan->record = variant->record;
	plan->is_return = variant->is_return;
	if (variant->is_call)
		plan->begun = PLAN_BEGUN(store_openings(), variant->lanes);
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		half = variant->lanes & 1u << lane ? span_half(variant, lane) : SPAN_NO_HALF;
		if (variant->lanes & 1u << lane)
			plan->consumers[plan->consumer_count++] = (struct plan_consumer){
				.event_id = variant->ids[lane],
				.lane = (uint8_t)lane,
				.callers = variant->callers[lane],
				.costs = variant->costs[lane],
				.half = (uint8_t)half,
			};
		plan->has_spans |= half != SPAN_NO_HALF;
		plan->halves |= (uint8_t)((half == SPAN_HALF) << lane);
		if (variant->lanes & 1u << lane && variant->callers[lane] > plan->callers)
			plan->callers = variant->callers[lane];
		if (variant->lanes & 1u << lane && variant->costs[lane])
			plan->costs = variant->kind == 'b' ? PLAN_COSTS_LAST : PLAN_COSTS_FIRST;
		if (variant->lanes & 1u << lane && store_clock(lane) != STORE_CLOCK_TSC)
			plan->uses_tsc = 0;
	}
	for (unsigned int i = 0; i < plan->consumer_count; i++) {
		plan->consumers[i].handler = handlers_find(variant, plan->consumers[i].lane,
							   &plan->consumers[i].handler_number);
		plan->has_handlers |= plan->consumers[i].handler != NULL;
	}
	plan->spans = variant->spans;
	if (plan->has_spans)
		plan->begun = PLAN_BEGUN(store_openings(), variant->lanes);
	plan->probe_count = variant->probe_count;
	if (variant->probe_count)
		memcpy(plan->probes, variant->probes,
		       variant->probe_count * sizeof plan->probes[0]);
	tests_put(plan);
	sums_put(plan);
	plan_finish(plan);
	return plan;
}

static void put(struct variant *variant, struct plan *plan)
{
	/* release: pairs with the acquire load in hit.c, which then sees the whole plan */
	struct plan *old = __atomic_exchange_n(&variant->hit.plan, plan, __ATOMIC_ACQ_REL);
	struct block *block;

	if (!old)
		return;
	block = (struct block *)old - 1;
	block->next = retired;
	retired = block;
}

void planning_drop(struct variant *variant)
{
	put(variant, NULL);
}

int planning_publish(struct variant *variant)
{
	struct plan *plan = NULL;

	if (variant->lanes || variant->probe_count) {
		plan = make(variant);
		if (!plan)
			return -ENOMEM;
	}
	put(variant, plan);
	return 0;
}

int planning_reap(unsigned int timeout_ms, int self_ok)
{
	struct block *mine, *last;
	int error;

	if (!__atomic_load_n(&retired, __ATOMIC_RELAXED))
		return 0;
	if (lock_take(&agent_lock, REAP_LOCK_MS))
		return -ETIMEDOUT;
	mine = retired;
	retired = NULL;
	lock_release(&agent_lock);
	if (!mine)
		return 0;

	/* without the lock: a probe's handler may want it before it leaves its hit */
	error = store_quiesce(timeout_ms, self_ok);
	if (lock_take(&agent_lock, REAP_LOCK_MS))
		return -ETIMEDOUT; /* these few plans are lost */
	if (error) {
		for (last = mine; last->next; last = last->next)
			;
		last->next = retired;
		retired = mine;
	}
	while (!error && mine) {
		struct block *next = mine->next;

		heap_free(mine, mine->bytes);
		mine = next;
	}
	lock_release(&agent_lock);
	return error;
}
