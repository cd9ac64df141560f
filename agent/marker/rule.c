/* SPDX-License-Identifier: MIT */
#include "agent/marker/rule.h"

#include "agent/control/heap.h"

#include <waymark/error.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>

struct rule {
	char *text;
	uint32_t bytes;
	uint32_t want;
};

static struct rules {
	struct rule *list;
	uint32_t count, room;
} rules[SESSIONS_MAX];

/*
 * One character against one element of the glob. Returns the element's length where it matches, 0
 * where it doesn't. A bracket that is never closed stands for itself.
 */
static size_t match_one(const char *glob, char c)
{
	const char *at = glob + 1, *end;
	bool inverse, found = false;

	if (*glob == '?')
		return c && c != ':';
	if (*glob != '[')
		return *glob == c;
	inverse = *at == '!' || *at == '^';
	at += inverse;
	end = *at ? strchr(at + 1, ']') : NULL; /* a bracket that comes first is one of the set */
	if (!end)
		return c == '[';
	for (; at < end; at++) {
		if (at + 2 < end && at[1] == '-') {
			found |= (unsigned char)at[0] <= (unsigned char)c &&
				 (unsigned char)c <= (unsigned char)at[2];
			at += 2;
		} else {
			found |= *at == c;
		}
	}
	if (!c || c == ':' || found == inverse)
		return 0;
	return (size_t)(end + 1 - glob);
}

bool rule_match(const char *glob, const char *name)
{
	/* the last star, and what comes after what it took */
	const char *star = NULL, *from = NULL;

	for (;;) {
		size_t step;

		if (*glob == '*') {
			star = ++glob;
			from = name;
			continue;
		}
		if (!*glob && !*name)
			return true;
		step = *glob ? match_one(glob, *name) : 0;
		if (step && *name) {
			if (*name == ':')
				/* a star takes no colon, so nothing before it can help now */
				star = NULL;
			glob += step;
			name++;
			continue;
		}
		/* let the last star take one more */
		if (!star || !*from || *from == ':')
			return false;
		glob = star;
		name = ++from;
	}
}

bool rule_is_plain(const char *glob)
{
	return !strpbrk(glob, "*?[");
}

int rule_check(const char *glob)
{
	const char *colon = strchr(glob, ':');

	if (!colon || colon == glob || !colon[1] || strchr(colon + 1, ':') ||
	    strlen(glob) >= RULE_BYTES_MAX)
		return -WM_E_SPEC;
	return 0;
}

static void remove_at(struct rules *of, uint32_t i)
{
	heap_free(of->list[i].text, of->list[i].bytes);
	memmove(&of->list[i], &of->list[i + 1], (of->count - i - 1) * sizeof of->list[0]);
	of->count--;
}

static int grow(struct rules *of)
{
	uint32_t room = of->room ? of->room * 2 : 8;
	struct rule *list;

	if (of->count < of->room)
		return 0;
	if (of->count >= RULES_MAX)
		return -E2BIG;
	list = heap_alloc(room * sizeof *list);
	if (!list)
		return -ENOMEM;
	if (of->count)
		memcpy(list, of->list, of->count * sizeof *list);
	heap_free(of->list, of->room * sizeof *list);
	of->list = list;
	of->room = room;
	return 0;
}

int rule_add(unsigned int lane, const char *glob, bool want)
{
	struct rules *of = &rules[lane];
	struct rule rule = { .bytes = (uint32_t)strlen(glob) + 1, .want = want };
	int error = rule_check(glob);

	if (error)
		return error;
	for (uint32_t i = of->count; i-- > 0;) {
		if (!strcmp(of->list[i].text, glob))
			remove_at(of, i);
	}
	error = grow(of);
	if (error)
		return error;
	rule.text = heap_copy(glob, rule.bytes);
	if (!rule.text)
		return -ENOMEM;
	of->list[of->count++] = rule;
	return 0;
}

bool rule_wants(unsigned int lane, const char *name)
{
	for (uint32_t i = rules[lane].count; i-- > 0;) {
		if (rule_match(rules[lane].list[i].text, name))
			return rules[lane].list[i].want;
	}
	return false;
}

bool rule_any(unsigned int lane)
{
	return rules[lane].count != 0;
}

void rule_clear(unsigned int lane)
{
	struct rules *of = &rules[lane];

	while (of->count)
		remove_at(of, of->count - 1);
	heap_free(of->list, of->room * sizeof *of->list);
	*of = (struct rules){ 0 };
}
