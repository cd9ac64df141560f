/* SPDX-License-Identifier: MIT */
/* A watch's conditions, for the type of what is watched. */
#include "base/quantity.h"
#include "target/expression/option.h"
#include "target/expression/type.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

static int refuse(const struct watch_test *test, const struct watch_type *type, const char *why,
		  struct watch_trouble *trouble)
{
	return expression_trouble_set(trouble, -WM_E_WATCH_OPTION, test->at, test->bytes,
				      "the condition can't be tested: %s %s: %s", test->number, why,
				      expression_type_name(type));
}

/* 'a', '\n', '\0', '\x1f'. Returns 1 when it is one. */
static int character_of(const char *text, int64_t *value)
{
	static const char named[] = "a\ab\bf\fn\nr\rt\tv\v\\\\''\"\"";
	size_t bytes = strlen(text);
	const char *at;
	char *end;

	if (bytes < 3 || text[0] != '\'' || text[bytes - 1] != '\'')
		return 0;
	if (text[1] != '\\') {
		*value = (signed char)text[1];
		return bytes == 3;
	}
	at = bytes == 4 ? strchr(named, text[2]) : NULL;
	if (at && (at - named) % 2 == 0) {
		*value = at[1];
		return 1;
	}
	*value = (signed char)(text[2] == 'x' ? strtoul(text + 3, &end, 16)
					      : strtoul(text + 2, &end, 8));
	return end == text + bytes - 1 && end > text + 2 + (text[2] == 'x');
}

static int enumerator_of(const struct watch_type *type, const char *name, int64_t *value)
{
	const struct watch_node *node = &type->nodes[0];
	const char *scope = strrchr(name, ':');
	const char *last = scope ? scope + 1 : name;

	for (uint32_t i = 0; node->class == WATCH_ENUM && i < node->count; i++) {
		const struct watch_node *one = &type->nodes[node->first + i];
		const char *own = type->names + one->member, *own_scope = strrchr(own, ':');

		if (!strcmp(own, name) || !strcmp(own_scope ? own_scope + 1 : own, last)) {
			*value = one->value;
			return 1;
		}
	}
	return 0;
}

int expression_literal_read(const char *text, int64_t *value)
{
	if (character_of(text, value))
		return 1;
	*value = !strcmp(text, "true");
	return *value || !strcmp(text, "false") || !strcmp(text, "NULL") ||
	       !strcmp(text, "nullptr");
}

static int is_signed(const struct watch_node *node)
{
	return node->class == WATCH_SIGNED || node->class == WATCH_CHAR ||
	       (node->class == WATCH_ENUM && !(node->flags & WATCH_IS_UNSIGNED));
}

/* 0; -EINVAL: no number; -ERANGE: the type has no such value. */
static int integer_of(const struct watch_type *type, const char *text, uint64_t *bits)
{
	const struct watch_node *node = &type->nodes[0];
	unsigned int width = node->bits ? node->bits : node->bytes * 8;
	int is_negative = *text == '-', is_hexadecimal, has_sign = is_signed(node);
	uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1, most;
	int64_t value;
	int err;

	if (enumerator_of(type, text, &value) || expression_literal_read(text, &value)) {
		*bits = has_sign ? (uint64_t)value : (uint64_t)value & mask;
		return 0;
	}
	text += is_negative;
	is_hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	err = quantity_number(text, 0, UINT64_MAX, bits);
	if (err)
		return err;
	/* 0xffffffff is -1, as it is in C, where all bits are written out */
	most = has_sign && !is_hexadecimal ? mask >> 1 : mask;
	if (is_negative ? !has_sign || *bits > (mask >> 1) + 1 : *bits > most)
		return -ERANGE;
	if (is_negative)
		*bits = 0 - *bits;
	else if (has_sign && width < 64 && *bits >> (width - 1))
		*bits |= ~mask;
	return 0;
}

static int bind_float(const struct watch_test *test, const struct watch_type *type,
		      struct watch_condition *bound, struct watch_trouble *trouble)
{
	uint32_t bytes = type->nodes[0].bytes;
	double number;
	float narrow;
	char *end;

	number = strtod(test->number, &end);
	if (end == test->number || *end)
		return refuse(test, type, "is no number as this type has them", trouble);
	if (bytes > 8 || test->relation == WATCH_BY_BITS)
		return refuse(test, type, "can't be compared so with this type", trouble);
	bound->as = bytes == 4 ? WATCH_AS_F32 : WATCH_AS_F64;
	narrow = (float)number;
	if (bytes == 4)
		memcpy(&bound->operand, &narrow, sizeof(narrow));
	else
		memcpy(&bound->operand, &number, sizeof(number));
	return 0;
}

int expression_test_bind(const struct watch_test *test, const struct watch_type *type,
			 struct watch_condition *bound, struct watch_trouble *trouble)
{
	const struct watch_node *node = &type->nodes[0];
	int err;

	*bound = (struct watch_condition){ .of = (uint8_t)test->subject };
	if (test->subject == WATCH_OF_CHANGE)
		return 0;
	bound->by = (uint8_t)test->relation;
	if (test->subject == WATCH_OF_TID)
		return quantity_number(test->number, 1, INT32_MAX, &bound->operand);
	if (node->class == WATCH_FLOAT)
		return bind_float(test, type, bound, trouble);
	if (node->class == WATCH_BYTES || node->class == WATCH_COMPLEX ||
	    node->class >= WATCH_STRUCT || (!node->bits && node->bytes > 8))
		return refuse(
			test, type,
			node->class == WATCH_STRUCT || node->class == WATCH_ARRAY
				? "can't be compared with all of it; name a member or an element"
				: "can't be compared with this type",
			trouble);
	err = integer_of(type, test->number, &bound->operand);
	if (err)
		return refuse(test, type,
			      err == -ERANGE ? "is no value of this type"
					     : "is no number as this type has them",
			      trouble);
	bound->as = is_signed(node) && test->relation != WATCH_BY_BITS ? WATCH_AS_SIGNED
								       : WATCH_AS_UNSIGNED;
	return 0;
}
