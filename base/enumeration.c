/* SPDX-License-Identifier: MIT */
#include "base/enumeration.h"

#include "base/array.h"
#include "base/sorted.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

unsigned int enumeration_type_bytes(uint8_t type, int *is_signed)
{
	*is_signed = type == WM_TYPE_I8 || type == WM_TYPE_I16 || type == WM_TYPE_I32 ||
		     type == WM_TYPE_I64;
	switch (type) {
	case WM_TYPE_I8:
	case WM_TYPE_U8:
		return 1;
	case WM_TYPE_I16:
	case WM_TYPE_U16:
		return 2;
	case WM_TYPE_I32:
	case WM_TYPE_U32:
		return 4;
	case WM_TYPE_I64:
	case WM_TYPE_U64:
		return 8;
	default:
		return 0;
	}
}

static int is_identifier(const char *name)
{
	if (!*name || (*name >= '0' && *name <= '9'))
		return 0;
	for (; *name; name++)
		if (!(*name >= 'a' && *name <= 'z') && !(*name >= 'A' && *name <= 'Z') &&
		    !(*name >= '0' && *name <= '9') && *name != '_' && !(*name & 0x80))
			return 0;
	return 1;
}

static int fits(uint8_t type, uint64_t value)
{
	int is_signed;
	unsigned int bytes = enumeration_type_bytes(type, &is_signed);

	if (!bytes || bytes == 8)
		return bytes == 8;
	if (is_signed)
		value += UINT64_C(1) << (8 * bytes - 1);
	return !(value >> 8 * bytes);
}

void enumeration_draft_add(struct enumeration_draft *draft, uint64_t value, const char *name)
{
	size_t bytes = strlen(name) + 1;

	if (draft->is_refused || !is_identifier(name) || !fits(draft->type, value))
		return;
	if (draft->count == ENUMERATION_COUNT_MAX ||
	    bytes > ENUMERATION_NAMES_MAX - draft->names_bytes ||
	    array_grow(&draft->all, &draft->room, draft->count + 1, sizeof(*draft->all)) ||
	    array_grow(&draft->names, &draft->names_room, draft->names_bytes + bytes, 1)) {
		draft->is_refused = 1;
		return;
	}
	draft->all[draft->count++] = (struct enumerator){ .value = value,
							  .name = (uint32_t)draft->names_bytes };
	memcpy(draft->names + draft->names_bytes, name, bytes);
	draft->names_bytes += bytes;
}

void enumeration_draft_release(struct enumeration_draft *draft)
{
	free(draft->all);
	free(draft->names);
	*draft = (struct enumeration_draft){ 0 };
}

/* Offsets of names increase in the order of declaration. */
static int enumerator_order(const void *a, const void *b)
{
	const struct enumerator *left = a, *right = b;

	if (left->value != right->value)
		return left->value < right->value ? -1 : 1;
	return left->name < right->name ? -1 : left->name > right->name;
}

static int content_order(const void *a, const void *b)
{
	const struct enumeration *left = a, *right = b;
	size_t from = offsetof(struct enumeration, bytes);

	if (left->bytes != right->bytes)
		return left->bytes < right->bytes ? -1 : 1;
	return memcmp((const char *)left + from, (const char *)right + from, left->bytes - from);
}

int enumeration_is_equal(const struct enumeration *a, const struct enumeration *b)
{
	return !content_order(a, b);
}

/* Store `made` in the pool. If the pool has an equal one, free `made` and return that. */
static const struct enumeration *keep(struct enumeration_pool *pool, struct enumeration *made)
{
	struct enumeration **there;

	if (!made)
		return NULL;
	there = tfind(made, &pool->tree, content_order);
	if (there) {
		free(made);
		return *there;
	}
	if (pool->bytes + made->bytes > ENUMERATION_POOL_MAX ||
	    array_grow(&pool->all, &pool->room, pool->count + 1, sizeof(*pool->all)) ||
	    !tsearch(made, &pool->tree, content_order)) {
		free(made);
		return NULL;
	}
	made->number = (uint32_t)pool->count;
	pool->bytes += made->bytes;
	pool->all[pool->count++] = made;
	return made;
}

/* Sort by value. Of enumerators with one value, the first declared stays. Returns how many do. */
static size_t values_unify(struct enumeration_draft *draft)
{
	size_t count = 0;

	qsort(draft->all, draft->count, sizeof(*draft->all), enumerator_order);
	for (size_t i = 0; i < draft->count; i++)
		if (!i || draft->all[i].value != draft->all[count - 1].value)
			draft->all[count++] = draft->all[i];
	return count;
}

/* Likewise, in the order of declaration: flags are few. */
static size_t flags_unify(struct enumeration_draft *draft)
{
	size_t count = 0;

	for (size_t i = 0; i < draft->count; i++) {
		size_t at = 0;

		while (at < count && draft->all[at].value != draft->all[i].value)
			at++;
		if (at == count)
			draft->all[count++] = draft->all[i];
	}
	return count;
}

const struct enumeration *enumeration_pool_make(struct enumeration_pool *pool,
						struct enumeration_draft *draft)
{
	struct enumeration *made;
	size_t count, bytes;

	if (draft->is_refused || !draft->count)
		return NULL;
	if (draft->flags)
		count = flags_unify(draft);
	else
		count = values_unify(draft);
	draft->count = count;
	bytes = sizeof(*made) + count * sizeof(*made->all) + draft->names_bytes;
	made = calloc(1, bytes); /* content_order() compares the padding, too */
	if (!made)
		return NULL;
	made->bytes = (uint32_t)bytes;
	made->count = (uint32_t)count;
	made->type = draft->type;
	made->flags = draft->flags;
	for (size_t i = 0; i < count; i++) {
		made->all[i].value = draft->all[i].value;
		made->all[i].name = draft->all[i].name + (uint32_t)(bytes - draft->names_bytes);
	}
	memcpy((char *)made + bytes - draft->names_bytes, draft->names, draft->names_bytes);
	return keep(pool, made);
}

const struct enumeration *enumeration_pool_copy(struct enumeration_pool *pool,
						const struct enumeration *from)
{
	struct enumeration *copy = malloc(from->bytes);

	if (copy)
		memcpy(copy, from, from->bytes);
	return keep(pool, copy);
}

static void nothing(void *node)
{
	(void)node;
}

void enumeration_pool_release(struct enumeration_pool *pool)
{
	tdestroy(pool->tree, nothing);
	for (size_t i = 0; i < pool->count; i++)
		free(pool->all[i]);
	free(pool->all);
	*pool = (struct enumeration_pool){ 0 };
}

const char *enumeration_name(const struct enumeration *of, uint64_t value)
{
	uint32_t at = 0;

	if (of->flags)
		while (at < of->count && of->all[at].value != value)
			at++;
	else
		at = (uint32_t)sorted_below(of->all, of->count, sizeof(*of->all),
					    offsetof(struct enumerator, value), value);
	return at < of->count && of->all[at].value == value ? enumeration_name_at(of, at) : NULL;
}

/* Append a name behind a '|'. 0: there is no room. */
static int text_add(char text[ENUMERATION_TEXT_MAX], size_t *used, const char *name)
{
	size_t bytes = strlen(name);

	if (*used + bytes + 2 > ENUMERATION_TEXT_MAX)
		return 0;
	if (*used)
		text[(*used)++] = '|';
	memcpy(text + *used, name, bytes + 1);
	*used += bytes;
	return 1;
}

const char *enumeration_text(const struct enumeration *of, uint64_t value,
			     char text[ENUMERATION_TEXT_MAX])
{
	uint64_t rest = value & of->flags;
	const char *name = enumeration_name(of, value & ~of->flags);
	char number[24];
	size_t used = 0;

	if (!of->flags)
		return name;
	/* the name of 0 of what are flags alone: no flag is set */
	if (of->flags == UINT64_MAX && value)
		name = NULL;
	if (name && !text_add(text, &used, name))
		return NULL;
	for (uint32_t i = 0; i < of->count && rest; i++) {
		uint64_t flag = of->all[i].value;

		if (!flag || flag & ~rest)
			continue;
		if (!text_add(text, &used, enumeration_name_at(of, i)))
			return NULL;
		rest &= ~flag;
	}
	if (!name)
		rest |= value & ~of->flags;
	if (!used || !rest)
		return used ? text : NULL;
	snprintf(number, sizeof(number), "0x%" PRIx64, rest);
	return text_add(text, &used, number) ? text : NULL;
}
