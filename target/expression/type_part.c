/* SPDX-License-Identifier: MIT */
/* What a few bytes of a value hold: one debug register sees no more. */
#include "target/expression/type.h"
#include "target/expression/type_make.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct search {
	const struct watch_type *type;
	const struct watch_stretch *stretch;
	uint64_t from, to; /* what differs, or all of the stretch, in the whole */
	int is_changed;
	struct watch_part *part; /* where the search is; its offset is in the whole */
	char *text;
	size_t room, used;
};

static const struct watch_node *node_of(const struct search *search)
{
	return &search->type->nodes[search->part->node];
}

static int is_inside(const struct search *search, uint64_t offset, uint64_t bytes)
{
	const struct watch_stretch *stretch = search->stretch;

	return bytes && offset >= stretch->offset &&
	       offset + bytes <= (uint64_t)stretch->offset + stretch->bytes;
}

/* Go to a part; its name was written behind those before. Returns 0 if that had no room. */
static int go(struct search *search, uint32_t node, uint64_t offset, uint64_t bytes, int length)
{
	struct watch_part *part = search->part;

	if (length < 0 || (size_t)length >= search->room - search->used)
		return 0;
	search->used += (size_t)length;
	part->of = part->node;
	part->node = node;
	part->offset = (uint32_t)offset;
	part->bytes = (uint32_t)bytes;
	return 1;
}

static int is_named(const struct watch_type *type, const struct watch_node *node)
{
	return type->names[node->member] && type->names[node->member] != '<';
}

/*
 * ".member", and of a base class, whose name is "<Base>", ".Base::member": as it is written in an
 * expression.
 */
static int member_text(const struct search *search, const struct watch_node *of,
		       const struct watch_node *into, char *text, size_t room)
{
	const char *name = search->type->names + into->member;
	const char *base = search->type->names + of->member;

	*text = 0;
	if (!is_named(search->type, into))
		return 0;
	if (*base == '<')
		return snprintf(text, room, ".%.*s::%s", (int)strlen(base) - 2, base + 1, name);
	return snprintf(text, room, ".%s", name);
}

static int enter_member(struct search *search, uint32_t node)
{
	const struct watch_node *into = &search->type->nodes[node];

	return go(search, node, search->part->offset + into->offset, into->bytes,
		  member_text(search, node_of(search), into, search->text + search->used,
			      search->room - search->used));
}

static int enter_element(struct search *search, uint64_t index)
{
	uint32_t first = node_of(search)->first;
	uint64_t bytes = search->type->nodes[first].bytes;

	return go(search, first, search->part->offset + index * bytes, bytes,
		  snprintf(search->text + search->used, search->room - search->used, "[%lld]",
			   (long long)((uint64_t)node_of(search)->value + index)));
}

/* ---- just the bytes ---- */

/* The member that holds the stretch; 0: none does alone. A bit-field holds no byte. */
static uint32_t member_around(const struct search *search)
{
	const struct watch_node *of = node_of(search);
	uint64_t offset = search->stretch->offset - search->part->offset;

	for (uint32_t i = 0; i < of->count; i++) {
		const struct watch_node *member = &search->type->nodes[of->first + i];

		if (!member->bits && member->offset <= offset &&
		    offset - member->offset + search->stretch->bytes <= member->bytes)
			return of->first + i;
	}
	return 0;
}

static int find_exact(struct search *search)
{
	const struct watch_stretch *stretch = search->stretch;

	for (unsigned int depth = 0; depth < WATCH_TYPE_DEPTH_MAX; depth++) {
		const struct watch_node *of = node_of(search);
		uint64_t element = of->count ? search->type->nodes[of->first].bytes : 0;
		uint32_t member = of->class == WATCH_STRUCT ? member_around(search) : 0;

		if (member && !enter_member(search, member))
			return 0;
		if (!member &&
		    (of->class != WATCH_ARRAY || !element ||
		     !enter_element(search, (stretch->offset - search->part->offset) / element)))
			return 0;
		if (search->used && search->part->offset == stretch->offset &&
		    search->part->bytes == stretch->bytes)
			return 1;
	}
	return 0;
}

/* ---- what differs ---- */

static int is_touched(const struct search *search, const struct watch_node *node, uint64_t at)
{
	const struct watch_stretch *stretch = search->stretch;

	if (at >= search->to || at + node->bytes <= search->from)
		return 0;
	if (!node->bits || !search->is_changed || !is_inside(search, at, node->bytes))
		return 1;
	at -= stretch->offset;
	return type_node_bits(node, (const uint8_t *)stretch->before + at) !=
	       type_node_bits(node, (const uint8_t *)stretch->after + at);
}

static int is_string(const struct watch_node *element)
{
	return element->bytes == 1 &&
	       (element->class == WATCH_CHAR || element->class == WATCH_UCHAR);
}

/* Neighbours, if all lie in the stretch. */
static int take_several(struct search *search, uint32_t node, uint32_t count, uint64_t offset,
			uint64_t bytes, int length)
{
	if (!is_inside(search, offset, bytes) || !go(search, node, offset, bytes, length))
		return 0;
	search->part->count = count;
	return 1;
}

/* 1: the part is found; 0: none is; -EAGAIN: further in. */
static int narrow_array(struct search *search)
{
	const struct watch_node *of = node_of(search);
	const struct watch_node *element = &search->type->nodes[of->first];
	uint64_t begin = search->part->offset, end = begin + of->elements * element->bytes;
	uint64_t from = search->from, to = search->to, first, last;

	if (!of->count || !element->bytes)
		return 0;
	if (is_string(element)) {
		from = search->stretch->offset;
		to = from + search->stretch->bytes;
		if (is_inside(search, begin, end - begin))
			return 1;
	}
	from = from < begin ? begin : from;
	to = to > end ? end : to;
	if (from >= to)
		return 0;
	first = (from - begin) / element->bytes;
	last = (to - 1 - begin) / element->bytes;
	if (first == last)
		return enter_element(search, first) ? -EAGAIN : 0;
	return take_several(search, of->first, (uint32_t)(last - first + 1),
			    begin + first * element->bytes, (last - first + 1) * element->bytes,
			    snprintf(search->text + search->used, search->room - search->used,
				     "[%lld..%lld]", (long long)((uint64_t)of->value + first),
				     (long long)((uint64_t)of->value + last)));
}

static int take_members(struct search *search, uint32_t first, uint32_t last)
{
	const struct watch_node *of = node_of(search), *nodes = search->type->nodes;
	size_t room = search->room - search->used;
	char *text = search->text + search->used;
	uint64_t end = 0;
	int length;

	for (uint32_t i = first; i <= last; i++) {
		if (nodes[i].offset < nodes[first].offset || !is_named(search->type, &nodes[i]))
			return 0;
		if (nodes[i].offset + (uint64_t)nodes[i].bytes > end)
			end = nodes[i].offset + (uint64_t)nodes[i].bytes;
	}
	length = member_text(search, of, &nodes[first], text, room);
	if (length < 0 || (size_t)length >= room)
		return 0;
	length += snprintf(text + length, room - (size_t)length, "..%s",
			   search->type->names + nodes[last].member);
	return take_several(search, first, last - first + 1,
			    search->part->offset + nodes[first].offset, end - nodes[first].offset,
			    length);
}

static int holds_changes(const struct search *search, const struct watch_node *node)
{
	uint64_t at = search->part->offset + node->offset;

	return !node->bits && at <= search->from && search->to <= at + node->bytes;
}

static int narrow_struct(struct search *search)
{
	const struct watch_node *of = node_of(search), *nodes = search->type->nodes;
	int is_union = of->flags & WATCH_IS_UNION;
	uint32_t first = 0, last = 0;

	for (uint32_t i = of->first; i < of->first + of->count; i++) {
		if (is_union ? first || !holds_changes(search, &nodes[i])
			     : !is_touched(search, &nodes[i],
					   search->part->offset + nodes[i].offset))
			continue;
		first = first ? first : i;
		last = i;
	}
	if (!first)
		return 0;
	if (first != last)
		return take_members(search, first, last);
	return enter_member(search, first) ? -EAGAIN : 0;
}

/* What C calls them, creal(z), has no place behind a variable. */
static int narrow_complex(struct search *search)
{
	uint64_t half = search->part->bytes / 2, middle = search->part->offset + half;
	int is_second = search->from >= middle;

	if (is_inside(search, search->part->offset, search->part->bytes))
		return 1;
	if (!is_second && search->to > middle)
		return 0;
	search->part->half = is_second ? 2 : 1;
	return go(search, search->part->node, is_second ? middle : search->part->offset, half,
		  snprintf(search->text + search->used, search->room - search->used, ".%s",
			   is_second ? "imag" : "real"));
}

/* A number; the whole may be one, if the stretch is the whole. */
static int number_is_there(const struct search *search)
{
	const struct watch_node *node = node_of(search);

	if (node->class == WATCH_BYTES || node->class == WATCH_CODE)
		return 0;
	if (!is_inside(search, search->part->offset, search->part->bytes))
		return -ERANGE;
	return 1;
}

static int find_changed(struct search *search)
{
	for (unsigned int depth = 0; depth < 2 * WATCH_TYPE_DEPTH_MAX; depth++) {
		int found = -EAGAIN;

		switch (node_of(search)->class) {
		case WATCH_ARRAY:
			found = narrow_array(search);
			break;
		case WATCH_STRUCT:
			found = narrow_struct(search);
			break;
		case WATCH_COMPLEX:
			found = narrow_complex(search);
			if (found && !is_inside(search, search->part->offset, search->part->bytes))
				found = -ERANGE;
			break;
		default:
			found = number_is_there(search);
		}
		if (found != -EAGAIN)
			return found;
	}
	return 0;
}

static void look_for_changes(struct search *search)
{
	const struct watch_stretch *stretch = search->stretch;
	const uint8_t *before = stretch->before, *after = stretch->after;
	uint64_t first = 0, last = stretch->bytes;

	while (first < last && before[first] == after[first])
		first++;
	while (last > first && before[last - 1] == after[last - 1])
		last--;
	search->is_changed = first < last;
	search->from = stretch->offset + (search->is_changed ? first : 0);
	search->to = stretch->offset + (search->is_changed ? last : stretch->bytes);
}

int expression_type_part(const struct watch_type *type, const struct watch_stretch *stretch,
			 struct watch_part *part, char *text, size_t room)
{
	struct search search = {
		.type = type, .stretch = stretch, .part = part, .text = text, .room = room
	};
	const struct watch_part whole = { .bytes = type->node_count ? type->nodes[0].bytes : 0 };
	int found;

	*part = whole;
	*text = '\0';
	if (!type->node_count || !room)
		return 0;
	found = find_exact(&search);
	if (!found) {
		*part = whole;
		*text = '\0';
		search.used = 0;
		look_for_changes(&search);
		found = find_changed(&search);
	}
	if (!found)
		*text = '\0';
	return found;
}
