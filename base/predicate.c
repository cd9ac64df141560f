/* SPDX-License-Identifier: MIT */
#include "base/predicate.h"

#include "base/fieldname.h"
#include "base/text_glob.h"

#include <errno.h>
#include <string.h>
#include <waymark/marker.h>

int predicate_is_sound(const struct predicate *predicate)
{
	unsigned int forms = predicate->forms;

	return predicate->name[0] && memchr(predicate->name, 0, sizeof(predicate->name)) &&
	       memchr(predicate->text, 0, sizeof(predicate->text)) &&
	       predicate->by >= WATCH_BY_EQUAL && predicate->by <= WATCH_BY_BITS &&
	       forms & (PREDICATE_INTEGER | PREDICATE_FLOAT | PREDICATE_TEXT) &&
	       !(forms & ~(PREDICATE_INTEGER | PREDICATE_NEGATIVE | PREDICATE_HEX |
			   PREDICATE_FLOAT | PREDICATE_TEXT));
}

/* The bits of an integer type; 0 for another type. */
static unsigned int integer_bits(uint8_t type, int *is_signed)
{
	*is_signed = type == WM_TYPE_I8 || type == WM_TYPE_I16 || type == WM_TYPE_I32 ||
		     type == WM_TYPE_I64 || type == WM_TYPE_CHAR;
	switch (type) {
	case WM_TYPE_I8:
	case WM_TYPE_U8:
	case WM_TYPE_BOOL:
	case WM_TYPE_CHAR:
		return 8;
	case WM_TYPE_I16:
	case WM_TYPE_U16:
		return 16;
	case WM_TYPE_I32:
	case WM_TYPE_U32:
		return 32;
	case WM_TYPE_I64:
	case WM_TYPE_U64:
	case WM_TYPE_PTR:
		return 64;
	default:
		return 0;
	}
}

static int bind_integer(const struct predicate *predicate, unsigned int bits, int is_signed,
			struct watch_condition *condition)
{
	uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	uint64_t number = predicate->number;
	int is_hex = predicate->forms & PREDICATE_HEX;

	if (predicate->forms & PREDICATE_NEGATIVE) {
		if (!is_signed || (0 - number) > (mask >> 1) + 1)
			return -ERANGE;
	} else if (number > (is_signed && !is_hex ? mask >> 1 : mask)) {
		return -ERANGE;
	} else if (is_signed && bits < 64 && number >> (bits - 1)) {
		number |= ~mask;
	}
	condition->operand = number;
	condition->as = is_signed && predicate->by != WATCH_BY_BITS ? WATCH_AS_SIGNED
								    : WATCH_AS_UNSIGNED;
	if (predicate->by == WATCH_BY_BITS)
		condition->operand &= mask;
	return 0;
}

int predicate_bind(const struct predicate *predicate, uint8_t type,
		   struct watch_condition *condition)
{
	unsigned int forms = predicate->forms;
	int is_signed;
	unsigned int bits = integer_bits(type, &is_signed);

	*condition = (struct watch_condition){ .of = WATCH_OF_NEW, .by = predicate->by };
	if (type == WM_TYPE_STR)
		return forms & PREDICATE_TEXT && predicate->by <= WATCH_BY_UNEQUAL ? 0 : -EINVAL;
	if (forms & PREDICATE_TEXT)
		return -EINVAL;
	if (bits)
		return forms & PREDICATE_INTEGER
			       ? bind_integer(predicate, bits, is_signed, condition)
			       : -EINVAL;
	if ((type != WM_TYPE_F32 && type != WM_TYPE_F64) || !(forms & PREDICATE_FLOAT) ||
	    predicate->by == WATCH_BY_BITS)
		return -EINVAL;
	condition->as = type == WM_TYPE_F32 ? WATCH_AS_F32 : WATCH_AS_F64;
	condition->operand = type == WM_TYPE_F32 ? predicate->f32 : predicate->f64;
	return 0;
}

enum predicate_of predicate_context(const char *name, uint8_t *type)
{
#define CONTEXT(word, of_type) { #word, of_type },
	static const struct {
		const char *name;
		uint8_t type;
	} contexts[] = { PREDICATE_CONTEXTS(CONTEXT) };
#undef CONTEXT

	for (int i = 0; i < PREDICATE_OF_COUNT - 1; i++) {
		if (strcmp(contexts[i].name, name) != 0)
			continue;
		*type = contexts[i].type;
		return (enum predicate_of)(i + 1);
	}
	return PREDICATE_OF_FIELD;
}

/* The first bytes of a name. */
struct part {
	const char *from;
	size_t bytes;
};

static int byte_at(void *data, uint32_t at)
{
	const struct part *part = data;

	return at < part->bytes ? (unsigned char)part->from[at] : 0;
}

int predicate_names_module(const char *glob, const char *path)
{
	const char *slash = strchr(glob, '/') ? NULL : strrchr(path, '/');
	struct part part = { .from = slash ? slash + 1 : path };
	const char *end = strstr(part.from, ".so");

	part.bytes = strlen(part.from);
	if (text_glob_match(glob, byte_at, &part) > 0)
		return 1;
	/* without ".so" or what is behind it, from there on part by part */
	while (end) {
		part.bytes = (size_t)(end - part.from);
		if (text_glob_match(glob, byte_at, &part) > 0)
			return 1;
		end = *end ? strchr(end + 1, '.') : NULL;
	}
	return 0;
}

const char *predicate_lack(const char *name)
{
	if (!strcmp(name, "caller"))
		return ": a condition on it is of functions' entries alone; by=caller and bt=1 have it";
	if (!strcmp(name, "time"))
		return ": no condition is on it; waymark dump takes --from and --to";
	if (!strcmp(name, PREDICATE_DURATION))
		return ": functions have it, and spans whose begin and end are in the program";
	if (!strcmp(name, "errno"))
		return ": only returns of libc's functions have it";
	return "";
}

int predicate_field(const char *name, unsigned int number, const char *fields, unsigned int count)
{
	char names[WM_FIELDS_MAX][FIELDNAME_BYTES];

	if (count > WM_FIELDS_MAX)
		count = WM_FIELDS_MAX;
	if (number)
		return number <= count ? (int)number - 1 : -1;
	fieldname_list(fields, (int)count, names);
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -1;
}
