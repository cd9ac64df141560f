/* SPDX-License-Identifier: MIT */
#include "inside/marker/cost.h"

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
	char glob[];
};

static struct cost_rule *rules[SESSIONS_MAX];
static uint32_t counts[SESSIONS_MAX], filters[SESSIONS_MAX];

int cost_add(unsigned int lane, const char *glob, unsigned int kinds)
{
	size_t bytes = strlen(glob) + 1;
	struct cost_rule *rule = rules[lane];

	while (rule && strcmp(rule->glob, glob))
		rule = rule->next;
	if (rule) {
		rule->kinds |= kinds;
		return 0;
	}
	if (counts[lane] >= COST_RULES_MAX)
		return -E2BIG;
	rule = heap_alloc(sizeof *rule + bytes);
	if (!rule)
		return -ENOMEM;
	rule->bytes = (uint32_t)(sizeof *rule + bytes);
	rule->kinds = kinds;
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

uint32_t cost_filters(void)
{
	uint32_t least = UINT32_MAX;

	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		if (rules[lane] && filters[lane] < least)
			least = filters[lane];
	}
	return least;
}

unsigned int cost_wanted(unsigned int lane, const char *name)
{
	unsigned int kinds = 0;

	for (const struct cost_rule *rule = rules[lane]; rule; rule = rule->next) {
		if (rule_match(rule->glob, name))
			kinds |= rule->kinds;
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

static unsigned int field_count(const uint8_t types[16])
{
	unsigned int count = 0;

	while (count < WM_FIELDS_MAX && types[count])
		count++;
	return count;
}

int cost_fits(unsigned int kinds, const uint8_t types[16])
{
	unsigned int count = cost_count(kinds);

	return count <= COST_FIELDS_MAX && field_count(types) + count <= WM_FIELDS_MAX;
}

size_t cost_declare(unsigned int kinds, uint8_t types[16], char *text, size_t text_bytes)
{
#define FIELD(name, field, unit) field,
	static const char *const fields[] = { COST_KINDS(FIELD) };
#undef FIELD
	_Static_assert(sizeof(fields) / sizeof(fields[0]) == COST_KINDS_COUNT, "each has a text");
	unsigned int count = field_count(types);
	int is_first = !count;

	if (!kinds)
		return text_bytes;
	/* behind KIND and WAY */
	memmove(text + 3, text + 2, text_bytes - 2);
	text[2] = (char)('0' + cost_count(kinds));
	for (unsigned int kind = 0; kind < COST_KINDS_COUNT; kind++) {
		if (!(kinds & 1u << kind))
			continue;
		types[count++] = WM_TYPE_U64;
		if (!is_first)
			text[text_bytes++] = ',';
		is_first = 0;
		memcpy(text + text_bytes, fields[kind], strlen(fields[kind]));
		text_bytes += strlen(fields[kind]);
	}
	text[text_bytes++] = 0;
	return text_bytes;
}
