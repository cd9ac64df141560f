/* SPDX-License-Identifier: MIT */
#include "inside/marker/cost.h"

#include "inside/marker/plan.h"
#include "inside/marker/rule.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/sessions.h"

#include <waymark/marker.h>

#include <errno.h>
#include <string.h>

struct cost_rule {
	struct cost_rule *next;
	uint32_t bytes;
	uint32_t kinds;
	uint32_t callers;
	char glob[];
};

static struct cost_rule *rules[SESSIONS_MAX];
static uint32_t counts[SESSIONS_MAX], filters[SESSIONS_MAX];

int cost_add(unsigned int lane, const char *glob, unsigned int kinds, unsigned int callers)
{
	size_t bytes = strlen(glob) + 1;
	struct cost_rule *rule = rules[lane];

	while (rule && strcmp(rule->glob, glob))
		rule = rule->next;
	if (rule) {
		rule->kinds |= kinds;
		if (callers > rule->callers)
			rule->callers = callers;
		return 0;
	}
	if (counts[lane] >= COST_RULES_MAX)
		return -E2BIG;
	rule = heap_alloc(sizeof *rule + bytes);
	if (!rule)
		return -ENOMEM;
	rule->bytes = (uint32_t)(sizeof *rule + bytes);
	rule->kinds = kinds;
	rule->callers = callers;
	memcpy(rule->glob, glob, bytes);
	rule->next = rules[lane];
	rules[lane] = rule;
	counts[lane]++;
	return 0;
}

void cost_clear(unsigned int lane)
{
	while (rules[lane]) {
		struct cost_rule *rule = rules[lane];

		rules[lane] = rule->next;
		heap_free(rule, rule->bytes);
	}
	counts[lane] = 0;
}

void cost_filters_set(unsigned int lane, uint32_t number)
{
	filters[lane] = number;
}

static int has_kinds(unsigned int lane)
{
	const struct cost_rule *rule = rules[lane];

	while (rule && !rule->kinds)
		rule = rule->next;
	return rule != NULL;
}

uint32_t cost_filters(void)
{
	uint32_t least = UINT32_MAX;

	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		if (has_kinds(lane) && filters[lane] < least)
			least = filters[lane];
	}
	return least;
}

unsigned int cost_wanted(unsigned int lane, const char *name, unsigned int *callers)
{
	unsigned int kinds = 0;

	*callers = 0;
	for (const struct cost_rule *rule = rules[lane]; rule; rule = rule->next) {
		if (!rule_match(rule->glob, name))
			continue;
		kinds |= rule->kinds;
		if (rule->callers > *callers)
			*callers = rule->callers;
	}
	return kinds;
}

unsigned int cost_kinds(void)
{
	unsigned int kinds = 0;

	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++)
		for (const struct cost_rule *rule = rules[lane]; rule; rule = rule->next)
			kinds |= rule->kinds;
	return kinds;
}

int cost_any(void)
{
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		if (rules[lane])
			return 1;
	}
	return 0;
}

int cost_fits(unsigned int kinds, unsigned int callers, const uint8_t types[16])
{
	unsigned int count = cost_count(kinds);

	return count <= COST_FIELDS_MAX && types_count(types) + count + !!callers <= WM_FIELDS_MAX;
}

/* Append a field. Returns the text's new length, its NUL to come. */
static size_t field_add(const char *name, int is_first, char *text, size_t text_bytes)
{
	if (!is_first)
		text[text_bytes++] = ',';
	memcpy(text + text_bytes, name, strlen(name));
	return text_bytes + strlen(name);
}

size_t cost_declare(unsigned int kinds, unsigned int callers, uint8_t types[16], char *text,
		    size_t text_bytes)
{
#define FIELD(name, field, unit) field,
	static const char *const fields[] = { COST_KINDS(FIELD) };
#undef FIELD
	_Static_assert(sizeof(fields) / sizeof(fields[0]) == COST_KINDS_COUNT, "each has a text");
	unsigned int count = types_count(types);

	text_bytes--; /* the NUL */
	if (callers) {
		text_bytes = field_add(FIELD_CALLCHAIN, !count, text, text_bytes);
		types[count++] = WM_TYPE_ADDRESSES;
	}
	if (kinds) {
		/* behind KIND and WAY */
		memmove(text + 3, text + 2, text_bytes - 2);
		text[2] = (char)('0' + cost_count(kinds));
		text_bytes++;
	}
	for (unsigned int kind = 0; kind < COST_KINDS_COUNT; kind++) {
		if (!(kinds & 1u << kind))
			continue;
		text_bytes = field_add(fields[kind], !count, text, text_bytes);
		types[count++] = WM_TYPE_U64;
	}
	text[text_bytes++] = 0;
	return text_bytes;
}
