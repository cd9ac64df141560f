/* SPDX-License-Identifier: MIT */
#include "target/expression/type.h"

#include "target/expression/type_make.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

#define BIT_BYTES_MAX 9 /* 64 bits that begin inside of a byte */

void expression_type_release(struct watch_type *type)
{
	free(type->nodes);
	free(type->names);
	*type = (struct watch_type){ 0 };
}

int expression_type_plain(struct watch_type *type, uint64_t bytes)
{
	static const uint8_t types[] = {
		[1] = WM_TYPE_U8, [2] = WM_TYPE_U16, [4] = WM_TYPE_U32, [8] = WM_TYPE_U64
	};
	uint8_t wm_type = bytes < sizeof(types) ? types[bytes] : 0;
	char name[32];

	snprintf(name, sizeof(name), "%llu byte%s", (unsigned long long)bytes,
		 bytes == 1 ? "" : "s");
	return type_make_single(type, wm_type ? WATCH_UNSIGNED : WATCH_BYTES,
				wm_type ? wm_type : WM_TYPE_BYTES, bytes, name);
}

static int is_text(const struct watch_type *type, uint32_t at)
{
	return at < type->names_bytes && memchr(type->names + at, 0, type->names_bytes - at);
}

/* What the text of a value reads must be there. */
static int width_check(const struct watch_node *node)
{
	uint32_t bytes = node->bytes;

	switch (node->class) {
	case WATCH_FLOAT:
		return !node->bits && (bytes == 4 || bytes == 8 || bytes == 16);
	case WATCH_COMPLEX:
		return !node->bits && (bytes == 8 || bytes == 16 || bytes == 32);
	case WATCH_SIGNED:
	case WATCH_UNSIGNED:
		return (bytes && bytes <= 8) || bytes == 16 || node->bits;
	case WATCH_CHAR:
	case WATCH_UCHAR:
	case WATCH_BOOL:
	case WATCH_ENUM:
	case WATCH_POINTER:
		return (bytes && bytes <= 8) || node->bits;
	default:
		return !node->bits;
	}
}

/* Children follow their parents, so that no walk loops. */
static int node_check(const struct watch_type *type, uint32_t at)
{
	const struct watch_node *node = &type->nodes[at];

	if (node->class > WATCH_ENUMERATOR || !width_check(node) || !is_text(type, node->name) ||
	    !is_text(type, node->member))
		return -EINVAL;
	if (node->count && (node->first <= at || node->first > type->node_count ||
			    node->count > type->node_count - node->first))
		return -EINVAL;
	if (node->bits > 64 || node->bit + node->bits > 8 * BIT_BYTES_MAX ||
	    (node->bits && node->bit + node->bits > 8ull * node->bytes))
		return -EINVAL;
	for (uint32_t i = 0; i < node->count; i++) {
		const struct watch_node *child = &type->nodes[node->first + i];

		if ((node->class == WATCH_ENUM) != (child->class == WATCH_ENUMERATOR))
			return -EINVAL;
		if (node->class == WATCH_STRUCT &&
		    (child->offset > node->bytes || child->bytes > node->bytes - child->offset))
			return -EINVAL;
	}
	switch (node->class) {
	case WATCH_ARRAY:
		return node->count != 1 || node->elements > node->bytes ||
				       node->elements * type->nodes[node->first].bytes > node->bytes
			       ? -EINVAL
			       : 0;
	case WATCH_ENUM:
	case WATCH_STRUCT:
		return 0;
	default:
		return node->count ? -EINVAL : 0;
	}
}

int expression_type_check(const struct watch_type *type)
{
	if (!type->nodes || !type->node_count || type->node_count > WATCH_NODES_MAX ||
	    !type->names || !type->names_bytes || type->names_bytes > WATCH_NAMES_MAX ||
	    type->names[0])
		return -EINVAL;
	for (uint32_t i = 0; i < type->node_count; i++)
		if (node_check(type, i))
			return -EINVAL;
	return 0;
}

const char *expression_type_name(const struct watch_type *type)
{
	return type->node_count ? type->names + type->nodes[0].name : "";
}

static int is_signed(const struct watch_node *node)
{
	return node->class == WATCH_SIGNED || node->class == WATCH_CHAR ||
	       (node->class == WATCH_ENUM && !(node->flags & WATCH_IS_UNSIGNED));
}

static int is_same_node(const struct watch_node *a, const struct watch_node *b)
{
	return !memcmp(a, b, offsetof(struct watch_node, count) + sizeof(a->count)) &&
	       a->elements == b->elements && a->value == b->value;
}

int expression_type_is_same(const struct watch_type *a, const struct watch_type *b)
{
	if (a->node_count != b->node_count || a->names_bytes != b->names_bytes ||
	    (a->names_bytes && memcmp(a->names, b->names, a->names_bytes)))
		return 0;
	for (uint32_t i = 0; i < a->node_count; i++)
		if (!is_same_node(&a->nodes[i], &b->nodes[i]))
			return 0;
	return 1;
}

uint64_t type_node_bits(const struct watch_node *node, const void *value)
{
	unsigned int bits = node->bits ? node->bits : node->bytes * 8, bytes;
	uint8_t copy[16] = { 0 };
	uint64_t low, high, number;

	if (node->class == WATCH_BYTES || node->class == WATCH_COMPLEX ||
	    node->class >= WATCH_STRUCT || !bits || bits > 64)
		return 0;
	bytes = node->bits ? (node->bit + bits + 7) / 8 : node->bytes;
	memcpy(copy, value, bytes);
	memcpy(&low, copy, sizeof(low));
	memcpy(&high, copy + 8, sizeof(high));
	number = node->bit % 64 && node->bits ? low >> node->bit | high << (64 - node->bit) : low;
	if (bits == 64)
		return number;
	number &= (1ull << bits) - 1;
	return is_signed(node) && number >> (bits - 1) ? number | ~0ull << bits : number;
}
