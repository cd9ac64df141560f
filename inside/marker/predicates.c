/* SPDX-License-Identifier: MIT */
#include "inside/marker/predicates.h"

#include "base/predicate.h"
#include "inside/marker/marker.h"
#include "inside/marker/rule.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/sessions.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>

struct predicate_rule {
	struct predicate_rule *next;
	uint32_t bytes;
	uint32_t count;
	struct predicate predicates[PREDICATES_MAX];
	char glob[];
};

static struct predicate_rule *rules[SESSIONS_MAX];
static uint32_t counts[SESSIONS_MAX];

int predicates_add(unsigned int lane, const char *glob, const struct predicate *predicates,
		   unsigned int count)
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

static unsigned int field_count(const struct variant *variant)
{
	unsigned int count = 0;

	while (count < sizeof variant->types && variant->types[count])
		count++;
	return count;
}

static int bind_one(const struct variant *variant, const struct predicate *predicate,
		    struct plan_test *test)
{
	int field = predicate_field(predicate, variant->fields, field_count(variant));
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
	memcpy(test->glob, predicate->text, sizeof test->glob);
	return 0;
}

/* Whether a predicate of a call is tested at its other end. */
static int is_elsewhere(const struct variant *variant, const struct predicate *predicate)
{
	unsigned int number = predicate->field;

	/* what is no field is tested at the entry */
	if (!number)
		return variant->is_once;
	return (number <= variant->predicate_first ||
		(variant->keeps && number > field_count(variant)));
}

static int bind_all(const struct variant *variant, const struct predicate *predicates,
		    unsigned int count, struct plan_test *tests)
{
	unsigned int used = 0;

	for (unsigned int i = 0; i < count; i++) {
		int error = is_elsewhere(variant, &predicates[i])
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
	unsigned int used = 0;

	/* no marker: a detour brings its own */
	if (!variant->name)
		return variant->predicate_count ? bind_all(variant, variant->predicates,
							   variant->predicate_count, tests)
						: 0;
	/* a spec without predicates takes all: then those of others don't matter */
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next)
		if (!rule->count && rule_match(rule->glob, variant->name))
			return 0;
	for (const struct predicate_rule *rule = rules[lane]; rule; rule = rule->next) {
		int bound;

		if (!rule_match(rule->glob, variant->name))
			continue;
		if (used + rule->count > PLAN_TESTS_MAX)
			return -E2BIG;
		bound = bind_all(variant, rule->predicates, rule->count, tests + used);
		if (bound < 0)
			return bound;
		used += (unsigned int)bound;
	}
	return (int)used;
}
