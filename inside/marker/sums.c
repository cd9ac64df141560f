/* SPDX-License-Identifier: MIT */
#include "inside/marker/sums.h"

#include "abi/detour.h"
#include "abi/page.h"
#include "base/fieldname.h"
#include "base/integer_type.h"
#include "base/predicate.h"
#include "inside/marker/marker.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>

int sums_are_sound(const struct sum_field *fields, unsigned int count)
{
	unsigned int keys = 0, buckets = 0;

	if (count > SUM_FIELDS_MAX)
		return 0;
	for (unsigned int i = 0; i < count; i++) {
		if (!fields[i].name[0] || !memchr(fields[i].name, 0, sizeof fields[i].name) ||
		    fields[i].as >= SUM_AS_COUNT || (i && fields[i].as < fields[i - 1].as))
			return 0;
		for (unsigned int k = 0; k < i; k++)
			if (fields[k].as == fields[i].as && !strcmp(fields[k].name, fields[i].name))
				return 0;
		keys += fields[i].as == SUM_BY;
		buckets += fields[i].as == SUM_HIST;
	}
	return keys <= SUM_KEYS_MAX && buckets <= 1;
}

/* What every hit has besides its fields, and the type of that. */
static uint8_t context_find(const char *name, uint8_t *type)
{
	*type = 0;
	if (!strcmp(name, SUM_CALLER)) {
		*type = WM_TYPE_PTR;
		return SUM_OF_CALLER;
	}
	if (!strcmp(name, FIELD_CALLCHAIN)) {
		*type = WM_TYPE_ADDRESSES;
		return SUM_OF_CALLCHAIN;
	}
	return (uint8_t)predicate_context(name, type);
}

static int is_integer(uint8_t type)
{
	return (type >= WM_TYPE_I8 && type <= WM_TYPE_U64) || type == WM_TYPE_BOOL ||
	       type == WM_TYPE_PTR || type == WM_TYPE_CHAR;
}

static int bind_one(const struct variant *variant, const struct sum_field *from,
		    struct plan_sums_field *field)
{
	unsigned int count = 0;
	uint8_t type = 0;
	int at;

	while (count < sizeof variant->types && variant->types[count])
		count++;
	at = predicate_field(from->name, from->field, variant->fields, count);
	*field = (struct plan_sums_field){ .as = from->as };
	if (at >= 0 && variant->types[at] != WM_TYPE_ADDRESSES)
		type = variant->types[at];
	else
		field->of = context_find(from->name, &type);
	if (!type)
		return -WM_E_NO_PARAMETER;
	field->number = field->of ? 0 : (uint8_t)(at + 1);
	for (int i = 0; !field->of && i < at; i++)
		field->offset = (uint16_t)(field->offset + field_bytes(variant->types[i]));
	field->type = type;
	field->bytes = type == WM_TYPE_ADDRESSES ? 8 : (uint8_t)field_bytes(type);
	field->is_signed = type == WM_TYPE_I8 || type == WM_TYPE_I16 || type == WM_TYPE_I32 ||
			   type == WM_TYPE_I64 || type == WM_TYPE_CHAR;
	if (from->as != SUM_BY)
		return is_integer(type) && field->of != SUM_OF_CALLER ? 0 : -WM_E_FIELD_TYPE;
	return field_is_run(type) ? -WM_E_FIELD_TYPE : 0;
}

int sums_bind(const struct variant *variant, unsigned int lane, const struct sum_field *fields,
	      unsigned int count, struct plan_sums *sums)
{
	const struct control_detour *record = variant->record;

	*sums = (struct plan_sums){ .count = (uint8_t)count };
	for (unsigned int i = 0; i < count; i++) {
		int error = bind_one(variant, &fields[i], &sums->fields[i]);

		if (error)
			return error;
		sums->key_count += fields[i].as <= SUM_HIST;
		if (sums->fields[i].of == SUM_OF_CALLER && !sums->callers)
			sums->callers = 1;
		if (sums->fields[i].of == SUM_OF_CALLCHAIN)
			sums->callers = variant->callers[lane];
	}
	if (sums->callers > variant->callers[lane])
		return -E2BIG;
	/* a word is read behind the last, and one is cleared */
	sums->key_bytes = 16;
	for (unsigned int i = 0; i < sums->key_count; i++) {
		const struct plan_sums_field *field = &sums->fields[i];

		sums->key_bytes = (uint16_t)(sums->key_bytes +
					     (field->of == SUM_OF_CALLCHAIN
						      ? 5 + 8 * (1u + sums->callers)
					      : field->type == WM_TYPE_STR ? SUMS_TEXT_ROOM_BYTES
									   : 8u));
	}
	sums->is_at_top = record && record->flags & DETOUR_ENTRY && !variant->is_return &&
			  sums->callers == 1;
	for (unsigned int i = 0; i < sums->key_count; i++)
		sums->is_at_top &= sums->fields[i].of != SUM_OF_CALLCHAIN;
	if (sums->is_at_top)
		sums->top_at = (uint16_t)(8u * record->up_words + record->stack_bytes);
	return 0;
}

/* A value as the marker has it, with its base and the names of its values (abi/site.h, FIELDS). */
static char *value_declare(char *to, const char *name, const char *argument, size_t bytes)
{
	to = stpcpy(stpcpy(stpcpy(to, "WM_FIELD("), name), ", ");
	memcpy(to, argument, bytes);
	return stpcpy(to + bytes, ")");
}

size_t sums_declare(const struct plan_sums *sums, const struct sum_field *fields, const char *from,
		    uint8_t types[16], char *text)
{
	static const char *const prefixes[SUM_AS_COUNT] = SUM_PREFIXES;
	const char *from_fields = strrchr(from, '\n') + 1, *argument;
	char *to = text + (from_fields - from);
	unsigned int used = 0;
	int is_marker = from[1] != 'd';
	size_t bytes;

	memcpy(text, from, (size_t)(from_fields - from));
	/* a span's two ends have the same name */
	text[0] = is_marker && text[0] == 'b' ? 'B' : is_marker && text[0] == 'e' ? 'E' : 's';
	memset(types, 0, 16);
	for (unsigned int i = 0; i <= sums->count; i++) {
		const struct plan_sums_field *field = &sums->fields[i];

		if (i == sums->key_count) {
			to = stpcpy(stpcpy(to, used ? "," : ""), SUM_COUNT);
			types[used++] = WM_TYPE_U64;
		}
		if (i == sums->count)
			break;
		to = stpcpy(to, used ? "," : "");
		argument = fieldname_argument(from_fields, field->number - 1, &bytes);
		if (field->as == SUM_BY && field->number && bytes && is_marker)
			to = value_declare(to, fields[i].name, argument, bytes);
		else
			to = stpcpy(stpcpy(to, prefixes[fields[i].as]), fields[i].name);
		types[used++] = field->as == SUM_BY ? field->type
				: field->is_signed  ? WM_TYPE_I64
						    : WM_TYPE_U64;
	}
	return (size_t)(to - text) + 1;
}
