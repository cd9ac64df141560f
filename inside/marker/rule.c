/* SPDX-License-Identifier: MIT */
#include "inside/marker/rule.h"

#include "inside/runtime/heap.h"
#include "inside/runtime/sessions.h"

#include <waymark/error.h>

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define BUCKETS 1024u

struct rule {
	struct rule *next_in_bucket;
	struct rule *older, *newer; /* if it is no plain name: among those of its session */
	uint64_t order;		    /* the larger, the later */
	uint32_t bytes;		    /* of the whole, as it was asked for */
	bool want, plain;
	char text[];
};

/* Names are found by their hash: only what is no plain name has to be tried. */
static struct rules {
	struct rule *buckets[BUCKETS];
	struct rule *newest;
	uint64_t order;
	uint32_t count, plain_count;
} rules[SESSIONS_MAX];

/*
 * One character against one element of the glob. Returns the element's length where it matches, 0
 * where it doesn't. A bracket without its end matches itself.
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
			if (!*glob)
				return !strchr(name, ':');
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

uint32_t rule_hash(const char *name)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	while (*name)
		hash = (hash ^ (unsigned char)*name++) * 16777619u;
	return hash;
}

static struct rule **bucket_of(struct rules *of, const char *text)
{
	return &of->buckets[rule_hash(text) % BUCKETS];
}

static struct rule *find(struct rules *of, const char *text)
{
	struct rule *rule = *bucket_of(of, text);

	while (rule && strcmp(rule->text, text))
		rule = rule->next_in_bucket;
	return rule;
}

static int make(struct rules *of, const char *glob, struct rule **made)
{
	size_t bytes = strlen(glob) + 1;
	struct rule **bucket = bucket_of(of, glob), *rule;

	if (of->count >= RULES_MAX)
		return -E2BIG;
	rule = heap_alloc(sizeof *rule + bytes);
	if (!rule)
		return -ENOMEM;
	memcpy(rule->text, glob, bytes);
	rule->bytes = (uint32_t)(sizeof *rule + bytes);
	rule->plain = rule_is_plain(glob);
	rule->next_in_bucket = *bucket;
	*bucket = rule;
	of->count++;
	of->plain_count += rule->plain;
	*made = rule;
	return 0;
}

static void take_out(struct rules *of, struct rule *rule)
{
	if (rule->newer)
		rule->newer->older = rule->older;
	else if (of->newest == rule)
		of->newest = rule->older;
	if (rule->older)
		rule->older->newer = rule->newer;
	rule->older = rule->newer = NULL;
}

int rule_add(unsigned int lane, const char *glob, bool want)
{
	struct rules *of = &rules[lane];
	int error = rule_check(glob);
	struct rule *rule;

	if (error)
		return error;
	rule = find(of, glob);
	if (!rule)
		error = make(of, glob, &rule);
	if (error)
		return error;
	rule->want = want;
	rule->order = ++of->order;
	if (rule->plain)
		return 0;
	take_out(of, rule);
	rule->older = of->newest;
	if (of->newest)
		of->newest->newer = rule;
	of->newest = rule;
	return 0;
}

bool rule_wants(unsigned int lane, const char *name)
{
	struct rules *of = &rules[lane];
	const struct rule *plain = of->plain_count ? find(of, name) : NULL;

	if (plain && !plain->plain)
		plain = NULL;
	for (const struct rule *rule = of->newest; rule; rule = rule->older) {
		if (plain && rule->order < plain->order)
			break;
		if (rule_match(rule->text, name))
			return rule->want;
	}
	return plain && plain->want;
}

bool rule_any(unsigned int lane)
{
	return rules[lane].count != 0;
}

void rule_clear(unsigned int lane)
{
	struct rules *of = &rules[lane];

	for (uint32_t i = 0; of->count && i < BUCKETS; i++) {
		while (of->buckets[i]) {
			struct rule *rule = of->buckets[i];

			of->buckets[i] = rule->next_in_bucket;
			heap_free(rule, rule->bytes);
			of->count--;
		}
	}
	of->newest = NULL;
	of->plain_count = 0;
}
