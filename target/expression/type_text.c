/* SPDX-License-Identifier: MIT */
/* A value as gdb prints it. */
#include "target/expression/type.h"
#include "target/expression/type_make.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 10    /* equal elements are counted from so many on */
#define LONG_BYTES 10 /* of a long double that count */
#define TEXT_DEPTH_MAX (2 * WATCH_TYPE_DEPTH_MAX)

struct writer {
	const struct watch_type *type;
	const struct watch_style *style;
	char *text;
	size_t room, used;
	int is_full;
};

static void put(struct writer *writer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct writer *writer, const char *format, ...)
{
	size_t left = writer->room - writer->used;
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(writer->text + writer->used, left, format, args);
	va_end(args);
	if (bytes < 0 || (size_t)bytes >= left) {
		writer->is_full = 1;
		writer->used = writer->room - 1;
	} else {
		writer->used += (size_t)bytes;
	}
}

static const char *name_at(const struct writer *writer, uint32_t at)
{
	return writer->type->names + at;
}

static int is_hex(const struct writer *writer)
{
	return writer->style && writer->style->is_hex;
}

/* ---- numbers ---- */

/* The bits of up to 16 bytes, without zeros in front. */
static void put_hex(struct writer *writer, const void *value, size_t bytes)
{
	unsigned long long words[2] = { 0 };

	memcpy(words, value, bytes < sizeof(words) ? bytes : sizeof(words));
	if (words[1])
		put(writer, "0x%llx%016llx", words[1], words[0]);
	else
		put(writer, "0x%llx", words[0]);
}

static void put_escape(struct writer *writer, uint32_t c, char quote)
{
	static const char named[] = "\aa\bb\tt\nn\vv\ff\rr";
	const char *at = c && c < 0x80 ? strchr(named, (int)c) : NULL;

	if (c == (uint32_t)quote || c == '\\')
		put(writer, "\\%c", (char)c);
	else if (at && (at - named) % 2 == 0)
		put(writer, "\\%c", at[1]);
	else if (c >= ' ' && c < 0x7f)
		put(writer, "%c", (char)c);
	else
		put(writer, "\\%03o", c & 0xff);
}

static void put_char(struct writer *writer, const struct watch_node *node, uint64_t bits)
{
	const char *prefix = strstr(name_at(writer, node->name), "wchar_t") ? "L"
			     : node->bytes == 2				    ? "u"
			     : node->bytes == 4				    ? "U"
									    : "";

	if (node->class == WATCH_CHAR)
		put(writer, "%lld ", (long long)bits);
	else
		put(writer, "%llu ", (unsigned long long)bits);
	if (node->bytes > 1 && (bits < ' ' || bits > 0x7e)) {
		put(writer, "%s'\\x%llx'", prefix, (unsigned long long)bits);
		return;
	}
	put(writer, "%s'", prefix);
	put_escape(writer, (uint32_t)bits & (node->bytes == 1 ? 0xffu : ~0u), '\'');
	put(writer, "'");
}

/* A number of 128 bits, which printf() has no way for. */
static void put_wide(struct writer *writer, const struct watch_node *node, const void *value)
{
	unsigned __int128 number;
	char digits[40];
	size_t at = sizeof(digits);
	int is_negative;

	if (is_hex(writer)) {
		put_hex(writer, value, sizeof(number));
		return;
	}
	memcpy(&number, value, sizeof(number));
	is_negative = node->class == WATCH_SIGNED && number >> 127;
	if (is_negative)
		number = 0 - number;
	digits[--at] = 0;
	do
		digits[--at] = (char)('0' + (int)(number % 10));
	while (number /= 10);
	put(writer, "%s%s", is_negative ? "-" : "", digits + at);
}

#if !__HAVE_FLOAT128 /* clang has it, which glibc's headers do not know */
int strfromf128(char *text, size_t bytes, const char *format, __float128 number);
#endif

/* printf() has no way for it. */
static void put_quad(struct writer *writer, const void *value)
{
	unsigned long long words[2];
	char text[64];
	__float128 number;

	memcpy(words, value, sizeof(words));
	memcpy(&number, value, sizeof(number));
	if ((words[1] >> 48 & 0x7fff) == 0x7fff && (words[1] << 16 || words[0])) {
		words[1] &= 0xffffffffffff;
		put(writer, "%snan(", ((const uint8_t *)value)[15] >> 7 ? "-" : "");
		put_hex(writer, words, sizeof(words));
		put(writer, ")");
		return;
	}
	strfromf128(text, sizeof(text), "%.36g", number);
	put(writer, "%s", text);
}

static void put_float(struct writer *writer, const void *value, uint32_t bytes, int is_quad)
{
	long double number = 0;
	unsigned long long bits = 0;
	double f64;
	float f32;

	if (is_hex(writer)) {
		put_hex(writer, value, bytes == 16 && !is_quad ? LONG_BYTES : bytes);
		return;
	}
	if (bytes == 16 && is_quad) {
		put_quad(writer, value);
		return;
	}
	memcpy(&bits, value, bytes < 8 ? bytes : 8);
	if (bytes == 4) {
		memcpy(&f32, value, sizeof(f32));
		number = (long double)f32;
		bits &= 0x7fffff;
	} else if (bytes == 8) {
		memcpy(&f64, value, sizeof(f64));
		number = (long double)f64;
		bits &= 0xfffffffffffff;
	} else {
		memcpy(&number, value, LONG_BYTES);
	}
	if (isnan(number))
		put(writer, "%snan(0x%llx)", signbit(number) ? "-" : "", bits);
	else
		put(writer, "%.*Lg", bytes == 4 ? 9 : bytes == 8 ? 17 : 18, number);
}

static void put_pointer(struct writer *writer, const struct watch_node *node, uint64_t address)
{
	const char *name = name_at(writer, node->name);
	size_t bytes = strlen(name);
	char symbol[256];

	put(writer, "%s0x%llx", bytes && name[bytes - 1] == '&' ? "@" : "",
	    (unsigned long long)address);
	if (address && writer->style && writer->style->name &&
	    writer->style->name(writer->style->data, address, symbol, sizeof(symbol)))
		put(writer, " <%s>", symbol);
}

static void put_flags(struct writer *writer, const struct watch_node *node, uint64_t bits)
{
	const struct watch_node *all = writer->type->nodes + node->first;
	const char *joint = "(";

	for (uint32_t i = 0; i < node->count; i++) {
		if (!(bits & (uint64_t)all[i].value))
			continue;
		put(writer, "%s%s", joint, name_at(writer, all[i].member));
		bits &= ~(uint64_t)all[i].value;
		joint = " | ";
	}
	if (bits)
		put(writer, "%sunknown: 0x%llx)", joint, (unsigned long long)bits);
	else
		put(writer, joint[0] == '(' ? "0" : ")");
}

static void put_enum(struct writer *writer, const struct watch_node *node, uint64_t bits)
{
	const struct watch_node *all = writer->type->nodes + node->first;

	for (uint32_t i = 0; i < node->count; i++)
		if ((uint64_t)all[i].value == bits) {
			put(writer, "%s", name_at(writer, all[i].member));
			return;
		}
	if (node->flags & WATCH_IS_FLAGS && !(node->flags & WATCH_IS_CUT))
		put_flags(writer, node, bits);
	else if (node->flags & WATCH_IS_UNSIGNED)
		put(writer, "%llu", (unsigned long long)bits);
	else
		put(writer, "%lld", (long long)bits);
}

/* ---- what is made of others ---- */

static void put_node(struct writer *writer, const struct watch_node *node, const uint8_t *value,
		     unsigned int depth);

/* "abc\000\000": gdb leaves out the last NUL; runs of one character are counted. */
static void put_string(struct writer *writer, const uint8_t *value, size_t count)
{
	const char *joint = "";
	int is_open = 0;

	if (count && !value[count - 1])
		count--;
	if (!count)
		put(writer, "\"\"");
	for (size_t i = 0; i < count && !writer->is_full;) {
		size_t run = 1;

		while (i + run < count && value[i + run] == value[i])
			run++;
		if (run >= REPEATS) {
			put(writer, "%s%s'", is_open ? "\"" : "", is_open ? ", " : joint);
			put_escape(writer, value[i], '\'');
			put(writer, "' <repeats %zu times>", run);
			is_open = 0;
			joint = ", ";
			i += run;
			continue;
		}
		if (!is_open)
			put(writer, "%s\"", joint);
		is_open = 1;
		put_escape(writer, value[i++], '"');
	}
	if (is_open)
		put(writer, "\"");
}

static int is_string(const struct writer *writer, const struct watch_node *element)
{
	return !is_hex(writer) && element->bytes == 1 &&
	       (element->class == WATCH_CHAR || element->class == WATCH_UCHAR);
}

static void put_elements(struct writer *writer, const struct watch_node *element, size_t count,
			 const uint8_t *value, unsigned int depth)
{
	size_t bytes = element->bytes;

	if (is_string(writer, element)) {
		put_string(writer, value, count);
		return;
	}
	put(writer, "{");
	for (size_t i = 0; i < count && !writer->is_full;) {
		size_t run = 1;

		while (i + run < count && bytes &&
		       !memcmp(value + i * bytes, value + (i + run) * bytes, bytes))
			run++;
		if (run < REPEATS)
			run = 1;
		put(writer, "%s", i ? ", " : "");
		put_node(writer, element, value + i * bytes, depth + 1);
		if (run > 1)
			put(writer, " <repeats %zu times>", run);
		i += run;
	}
	put(writer, "}");
}

/* value[0] is the byte that is `begins` behind the struct's first. */
static void put_members(struct writer *writer, const struct watch_node *all, uint32_t count,
			const uint8_t *value, uint32_t begins, unsigned int depth)
{
	for (uint32_t i = 0; i < count && !writer->is_full; i++) {
		put(writer, "%s", i ? ", " : "");
		if (all[i].member)
			put(writer, "%s = ", name_at(writer, all[i].member));
		put_node(writer, &all[i], value + (all[i].offset - begins), depth + 1);
	}
}

static void put_struct(struct writer *writer, const struct watch_node *node, const uint8_t *value,
		       unsigned int depth)
{
	put(writer, "{");
	put_members(writer, writer->type->nodes + node->first, node->count, value, 0, depth);
	if (node->flags & WATCH_IS_CUT)
		put(writer, "%s...", node->count ? ", " : "");
	put(writer, "}");
}

static void put_bytes(struct writer *writer, const struct watch_node *node, const uint8_t *value)
{
	put(writer, "{");
	for (uint32_t i = 0; i < node->bytes && !writer->is_full; i++)
		put(writer, "%s0x%02x", i ? ", " : "", value[i]);
	/* a type without a description, an array without an end */
	put(writer, node->bytes ? "}" : "...}");
}

static void put_number(struct writer *writer, const struct watch_node *node, const uint8_t *value)
{
	uint64_t bits = type_node_bits(node, value);
	unsigned int width = node->bits ? node->bits : node->bytes * 8;

	if (is_hex(writer) && node->class != WATCH_POINTER) {
		put(writer, "0x%llx",
		    (unsigned long long)(width < 64 ? bits & ((1ull << width) - 1) : bits));
		return;
	}
	switch (node->class) {
	case WATCH_BOOL:
		if (bits > 1)
			put(writer, "%llu", (unsigned long long)bits);
		else
			put(writer, bits ? "true" : "false");
		break;
	case WATCH_CHAR:
	case WATCH_UCHAR:
		put_char(writer, node, bits);
		break;
	case WATCH_POINTER:
		put_pointer(writer, node, bits);
		break;
	case WATCH_ENUM:
		put_enum(writer, node, bits);
		break;
	case WATCH_UNSIGNED:
		put(writer, "%llu", (unsigned long long)bits);
		break;
	default:
		put(writer, "%lld", (long long)bits);
	}
}

static void put_node(struct writer *writer, const struct watch_node *node, const uint8_t *value,
		     unsigned int depth)
{
	if (depth > TEXT_DEPTH_MAX) {
		put(writer, "...");
		return;
	}
	switch (node->class) {
	case WATCH_FLOAT:
		put_float(writer, value, node->bytes, node->flags & WATCH_IS_QUAD);
		break;
	case WATCH_COMPLEX:
		put_float(writer, value, node->bytes / 2, node->flags & WATCH_IS_QUAD);
		put(writer, " + ");
		put_float(writer, value + node->bytes / 2, node->bytes / 2,
			  node->flags & WATCH_IS_QUAD);
		put(writer, "i");
		break;
	case WATCH_STRUCT:
		put_struct(writer, node, value, depth);
		break;
	case WATCH_ARRAY:
		put_elements(writer, &writer->type->nodes[node->first], node->elements, value,
			     depth);
		break;
	case WATCH_BYTES:
	case WATCH_CODE:
	case WATCH_ENUMERATOR:
		put_bytes(writer, node, value);
		break;
	default:
		if (!node->bits && node->bytes == 16)
			put_wide(writer, node, value);
		else
			put_number(writer, node, value);
	}
}

static void put_part(struct writer *writer, const struct watch_part *part, const uint8_t *value)
{
	const struct watch_node *node = &writer->type->nodes[part->node];

	if (part->half) {
		put_float(writer, value, part->bytes, node->flags & WATCH_IS_QUAD);
	} else if (!part->count) {
		put_node(writer, node, value, 0);
	} else if (writer->type->nodes[part->of].class == WATCH_ARRAY) {
		put_elements(writer, node, part->count, value, 0);
	} else {
		put(writer, "{");
		put_members(writer, node, part->count, value, node->offset, 0);
		put(writer, "}");
	}
}

size_t expression_type_part_text(const struct watch_type *type, const struct watch_part *part,
				 const void *value, const struct watch_style *style, char *text,
				 size_t room)
{
	struct writer writer = { .type = type, .style = style, .text = text, .room = room };

	if (!room)
		return 0;
	*text = 0;
	if (part->node < type->node_count)
		put_part(&writer, part, value);
	if (writer.is_full && room > 4)
		memcpy(text + room - 4, "...", 4);
	return strlen(text);
}

size_t expression_type_text(const struct watch_type *type, const void *value,
			    const struct watch_style *style, char *text, size_t room)
{
	return expression_type_part_text(type, &(struct watch_part){ 0 }, value, style, text, room);
}
