/* SPDX-License-Identifier: MIT */
#include "inside/marker/predicates.h"

#include "abi/detour.h"
#include "base/condition.h"
#include "base/level.h"
#include "base/predicate.h"
#include "inside/marker/caller_modules.h"
#include "inside/marker/marker.h"
#include "inside/marker/rule.h"
#include "inside/marker/spans.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/sessions.h"

#include <waymark/error.h>
#include <waymark/marker/field.h>

#include <errno.h>
#include <string.h>

struct predicate_rule {
	struct predicate_rule *next;
	uint32_t bytes;
	uint32_t count;
	struct predicate predicates[PREDICATES_MAX];
	int is_summed;
	unsigned int sum_count;
	struct sum_field sums[SUM_FIELDS_MAX];
	char glob[];
};

static struct predicate_rule *rules[SESSIONS_MAX];
static uint32_t counts[SESSIONS_MAX];

int predicates_add(unsigned int lane, const char *glob, const struct predicate *predicates,
		   unsigned int count, const struct sum_field *sums, int sum_count)
{
	size_t bytes = strlen(glob) + 1;
	struct predicate_rule *rule;

	if (counts[lane] >= PREDICATE_RULES_MAX)
		return -E2BIG;
	rule = heap_alloc(sizeof *rule + bytes);
	if (!rule)
		return -ENOMEM;
	rule->bytes = (uint32_t)(sizeof *rule + bytes);
	rule->count = count;
	memcpy(rule->predicates, predicates, count * sizeof *predicates);
	rule->is_summed = sum_count >= 0;
	rule->sum_count = sum_count > 0 ? (unsigned int)sum_count : 0;
	memcpy(rule->sums, sums, rule->sum_count * sizeof *sums);
	memcpy(rule->glob, glob, bytes);
	rule->next = rules[lane];
	rules[lane] = rule;
	counts[lane]++;
	return 0;
}

void predicates_clear(unsigned int lane)
{
	while (rules[lane]) {
		struct predicate_rule *rule = rules[lane];

		rules[lane] = rule->next;
		heap_free(rule, rule->bytes);
	}
	counts[lane] = 0;
}

/* ---- levels ---- */

/* Whether it is of the marker's level, which all its hits have, and not of a field of that name. */
static int is_of_level(const struct variant *variant, const struct predicate *predicate)
{
	return variant->name && !strcmp(predicate->name, LEVEL_WORD) &&
	       predicate_field(predicate->name, 0, variant->fields, types_count(variant->types)) <
		       0;
}

/* A marker without a level meets no condition on it. */
static int level_holds(const struct variant *variant, const struct predicate *predicate)
{
	struct watch_condition condition;

	return variant->level != LEVEL_NONE && !predicate_bind(predicate, WM_TYPE_U8, &condition) &&
	       condition_holds(&condition, 0, variant->level, 1, 0);
}

/* Whether a rule takes a marker: its name, and its level. */
static int rule_takes(const struct predicate_rule *rule, const struct variant *variant)
{
	if (!rule_match(rule->glob, variant->name))
		return 0;
	for (unsigned int i = 0; i < rule->count; i++)
		if (is_of_level(variant, &rule->predicates[i]) &&
		    !level_holds(variant, &rule->predicates[i]))
			return 0;
	return 1;
}

static int needs_tests(const struct predicate_rule *rule, const struct variant *variant)
{
	for (unsigned int i = 0; i < rule->count; i++)
		if (!is_of_level(variant, &rule->predicates[i]))
			return 1;
	return 0;
}

static int has_field(const struct variant *variant, const char *name)
{
	return predicate_field(name, 0, variant->fields, types_count(variant->types)) >= 0;
}

static int names_duration(const struct predicate_rule *rule)
{
	for (unsigned int i = 0; i < rule->count; i++)
		if (!strcmp(rule->predicates[i].name, PREDICATE_DURATION))
			return 1;
	for (unsigned int i = 0; i < rule->sum_count; i++)
		if (!strcmp(rule->sums[i].name, PREDICATE_DURATION))
			return 1;
	return 0;
}

int predicates_span(const struct variant *variant, unsigned int lane)
{
	if (!variant->begin && ((variant->kind != 'b' && variant->kind != 'e') ||
				has_field(variant, PREDICATE_DURATION)))
		return 0;
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next)
		if (names_duration(rule) && rule_takes(rule, variant))
			return 1;
	return 0;
}

int predicates_span_alone(const struct variant *variant, unsigned int lane)
{
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next)
		if (!names_duration(rule) && rule_takes(rule, variant))
			return 0;
	return 1;
}

/* Whether a rule takes a marker for what it is: a span, or a begin or end that is an event too. */
static int rule_is_for(const struct predicate_rule *rule, const struct variant *variant,
		       enum span_half half)
{
	if ((variant->begin && !names_duration(rule)) ||
	    (!variant->begin && half == SPAN_HALF_TOO && names_duration(rule)))
		return 0;
	return rule_takes(rule, variant);
}

int predicates_want(const struct variant *variant, unsigned int lane)
{
	int any = 0;

	if (variant->begin)
		return predicates_span(variant, lane) && variant->begin->site_count &&
		       variant->end->site_count && predicates_want(variant->begin, lane) &&
		       predicates_want(variant->end, lane);
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next) {
		if (rule_takes(rule, variant))
			return 1;
		any |= rule_match(rule->glob, variant->name);
	}
	return !any;
}

/* ---- binding ---- */

/* A condition on an integer as a range of its values. 1; 0: it is of another kind. */
static int range_make(const struct watch_condition *condition, unsigned int bytes,
		      struct plan_range *range)
{
	uint8_t shift = (uint8_t)(64 - 8 * bytes);
	uint64_t flip = condition->as == WATCH_AS_SIGNED ? UINT64_C(1) << 63 : 0;
	uint64_t at = condition->operand << shift ^ flip;

	if ((condition->as != WATCH_AS_SIGNED && condition->as != WATCH_AS_UNSIGNED) ||
	    condition->by == WATCH_BY_BITS)
		return 0;
	*range = (struct plan_range){ .flip = flip, .shift = shift };
	switch (condition->by) {
	case WATCH_BY_LESS: /* the range is `>=` */
	case WATCH_BY_GREATER_EQUAL:
		range->low = at;
		range->width = UINT64_MAX - at;
		break;
	case WATCH_BY_GREATER: /* `<=` */
	case WATCH_BY_LESS_EQUAL:
		range->width = at;
		break;
	default:
		range->low = at;
	}
	range->is_outside = condition->by == WATCH_BY_LESS || condition->by == WATCH_BY_GREATER ||
			    condition->by == WATCH_BY_UNEQUAL;
	return 1;
}

/* The return address is on top of the stack at a function's entry alone. 0 or an error. */
static int bind_caller(const struct variant *variant, const struct predicate *predicate,
		       struct plan_test *test)
{
	const struct control_detour *record = variant->record;

	if (!record || !(record->flags & DETOUR_ENTRY) || variant->is_return)
		return -WM_E_NO_PARAMETER;
	test->offset = (uint16_t)(8u * record->up_words + record->stack_bytes);
	test->is_text = 0;
	test->callers = caller_modules_find(predicate->text);
	return test->callers ? 0 : -E2BIG;
}

static int bind_one(const struct variant *variant, const struct predicate *predicate,
		    struct plan_test *test)
{
	int field = predicate_field(predicate->name, predicate->field, variant->fields,
				    types_count(variant->types));
	uint8_t type = 0;

	if (field >= 0)
		type = variant->types[field];
	*test = (struct plan_test){ .of = PREDICATE_OF_FIELD };
	if (field < 0)
		test->of = (uint8_t)predicate_context(predicate->name, &type);
	if (!type)
		return -WM_E_NO_PARAMETER;
	if (predicate_bind(predicate, type, &test->condition))
		return -WM_E_FIELD_TYPE;
	for (int i = 0; i < field; i++)
		test->offset = (uint16_t)(test->offset + field_bytes(variant->types[i]));
	test->bytes = (uint8_t)field_bytes(type);
	test->is_text = type == WM_TYPE_STR;
	if (test->of == PREDICATE_OF_caller)
		return bind_caller(variant, predicate, test);
	if (test->is_text)
		memcpy(test->glob, predicate->text, sizeof test->glob);
	else
		test->is_range = (uint8_t)range_make(&test->condition, test->bytes, &test->range);
	return 0;
}

/* Whether the begin of a span that is one event tests it: its own fields, and what is no field. */
static int is_of_begin(const struct variant *begin, const struct predicate *predicate)
{
	struct variant *end = NULL;
	uint8_t type;

	if (has_field(begin, predicate->name))
		return 1;
	while ((end = registry_next_named(end, begin->name)))
		if (end->kind == 'e' && has_field(end, predicate->name))
			return 0;
	return predicate_context(predicate->name, &type) != PREDICATE_OF_FIELD;
}

/* Whether a predicate needs no test here: of a call's other end, or of the level (rule_takes()). */
static int is_elsewhere(const struct variant *variant, const struct predicate *predicate,
			enum span_half half)
{
	unsigned int number = predicate->field;

	if (is_of_level(variant, predicate))
		return 1;
	if (half == SPAN_HALF)
		return variant->begin ? is_of_begin(variant->begin, predicate)
				      : !is_of_begin(variant, predicate);
	/* what is no field is tested at the entry */
	if (!number)
		return variant->is_once;
	return (number <= variant->predicate_first ||
		(variant->keeps && number > types_count(variant->types)));
}

static int bind_all(const struct variant *variant, const struct predicate *predicates,
		    unsigned int count, struct plan_test *tests, enum span_half half)
{
	unsigned int used = 0;

	for (unsigned int i = 0; i < count; i++) {
		int error = is_elsewhere(variant, &predicates[i], half)
				    ? 0
				    : bind_one(variant, &predicates[i], &tests[used++]);

		if (error)
			return error;
	}
	if (used)
		tests[used - 1].is_last = 1;
	return (int)used;
}

int predicates_bind(const struct variant *variant, unsigned int lane,
		    struct plan_test tests[PLAN_TESTS_MAX])
{
	unsigned int used = 0, matches = 0;
	enum span_half half;

	/* no marker: a detour brings its own */
	if (!variant->name)
		return variant->predicate_count
			       ? bind_all(variant, variant->predicates, variant->predicate_count,
					  tests, SPAN_NO_HALF)
			       : 0;
	half = span_half(variant->begin ? variant->begin : variant, lane);
	if (half == SPAN_HALF && variant->kind == 'e')
		return 0;
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next)
		matches += rule_is_for(rule, variant, half);
	if (variant->begin && matches > 1)
		return -EEXIST;
	/* a spec without tests takes all: then those of others don't matter */
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next)
		if (rule_is_for(rule, variant, half) && !needs_tests(rule, variant))
			return 0;
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next) {
		int bound;

		if (!rule_is_for(rule, variant, half))
			continue;
		if (used + rule->count > PLAN_TESTS_MAX)
			return -WM_E_EVENT_ROOM;
		bound = bind_all(variant, rule->predicates, rule->count, tests + used, half);
		if (bound < 0)
			return bound;
		used += (unsigned int)bound;
	}
	return (int)used;
}

int predicates_sums(const struct variant *variant, unsigned int lane,
		    const struct sum_field **fields)
{
	const struct predicate_rule *found = NULL;
	unsigned int matches = 0;
	enum span_half half;

	*fields = variant->sums;
	if (!variant->name)
		return variant->is_summed ? variant->sum_count : -ENOENT;
	half = span_half(variant, lane);
	if (half == SPAN_HALF)
		return -ENOENT;
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next) {
		if (!rule_is_for(rule, variant, half))
			continue;
		matches++;
		if (rule->is_summed)
			found = rule;
	}
	if (!found)
		return -ENOENT;
	*fields = found->sums;
	return matches > 1 ? -EEXIST : (int)found->sum_count;
}
