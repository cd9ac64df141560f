/* SPDX-License-Identifier: MIT */
#include "base/fieldname.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct span {
	const char *start, *end;
};

/* As <ctype.h> has them in the C locale; the agent has no locale of its own. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static struct span span_trim(struct span span)
{
	while (span.start < span.end && is_space(*span.start))
		span.start++;
	while (span.end > span.start && is_space(span.end[-1]))
		span.end--;
	return span;
}

/* Past a string or character literal that starts at `at`; `at` + 1 where none does. */
static const char *literal_skip(const char *at, const char *end)
{
	char quote = *at++;

	if (quote != '"' && quote != '\'')
		return at;
	while (at < end && *at != quote)
		at += *at == '\\' && at + 1 < end ? 2 : 1;
	return at < end ? at + 1 : end;
}

/* The end of the argument that starts at `at`: its comma, or `end`. As the preprocessor splits. */
static const char *argument_end(const char *at, const char *end)
{
	int depth = 0;

	while (at < end) {
		if (*at == ',' && depth <= 0)
			return at;
		depth += (*at == '(') - (*at == ')');
		at = literal_skip(at, end);
	}
	return end;
}

/* Where the argument is MACRO(first, ...): its first argument, in *first. */
static bool macro_first(struct span argument, const char *macro, struct span *first)
{
	size_t bytes = strlen(macro);
	const char *at = argument.start + bytes;

	if ((size_t)(argument.end - argument.start) < bytes + 2 ||
	    memcmp(argument.start, macro, bytes) || argument.end[-1] != ')')
		return false;
	while (at < argument.end && is_space(*at))
		at++;
	if (*at != '(')
		return false;
	first->start = at + 1;
	first->end = argument_end(at + 1, argument.end - 1);
	*first = span_trim(*first);
	return true;
}

/* Where the argument is in a macro that says what to do with a value: the value, in *first. */
static bool macro_unwrap(struct span argument, struct span *first)
{
	static const char *const macros[] = { "WM_BYTES", "WM_ARRAY", "WM_HEX", "WM_NET",
					      "WM_ENUM" };

	for (size_t i = 0; i < sizeof(macros) / sizeof(macros[0]); i++)
		if (macro_first(argument, macros[i], first))
			return true;
	return false;
}

static bool is_identifier(struct span span)
{
	for (const char *at = span.start; at < span.end; at++)
		if (!is_word(*at))
			return false;
	return span.start < span.end;
}

static void name_clean(char name[FIELDNAME_BYTES], struct span span)
{
	bool bare = is_identifier(span);
	size_t bytes = 0;

	if (span.start < span.end && is_digit(*span.start))
		name[bytes++] = '_';
	for (const char *at = span.start; at < span.end && bytes < FIELDNAME_BYTES - 1; at++) {
		if (is_word(*at) && (bare || *at != '_' || bytes))
			name[bytes++] = *at;
		else if (bytes && name[bytes - 1] != '_')
			name[bytes++] = '_';
	}
	while (!bare && bytes && name[bytes - 1] == '_')
		bytes--;
	name[bytes] = '\0';
	if (is_digit(name[0])) {
		memmove(name + 1, name, bytes < FIELDNAME_BYTES - 1 ? bytes + 1 : bytes);
		name[0] = '_';
		name[FIELDNAME_BYTES - 1] = '\0';
	}
}

/* CTF 1.8.3, 7.3: the keywords of its metadata language. */
static bool is_reserved(const char *name)
{
	static const char *const words[] = {
		"align",   "callsite", "char",	    "clock",	  "const",	    "double",
		"enum",	   "env",      "event",	    "float",	  "floating_point", "int",
		"integer", "long",     "short",	    "signed",	  "stream",	    "string",
		"struct",  "trace",    "typealias", "typedef",	  "unsigned",	    "variant",
		"void",	   "_Bool",    "_Complex",  "_Imaginary",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(name, words[i]))
			return true;
	return false;
}

static bool is_taken(char (*names)[FIELDNAME_BYTES], int before, const char *name)
{
	for (int i = 0; i < before; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Put a suffix behind a name, cutting the name where it needs the room. */
static void name_suffix(char name[FIELDNAME_BYTES], const char *suffix)
{
	size_t bytes = strlen(name), more = strlen(suffix);

	if (bytes + more > FIELDNAME_BYTES - 1)
		bytes = FIELDNAME_BYTES - 1 - more;
	memcpy(name + bytes, suffix, more + 1);
}

static void name_finish(char (*names)[FIELDNAME_BYTES], int at)
{
	char base[FIELDNAME_BYTES], suffix[16];

	if (!names[at][0])
		snprintf(names[at], FIELDNAME_BYTES, "field%d", at + 1);
	if (is_reserved(names[at]))
		name_suffix(names[at], "_");
	memcpy(base, names[at], sizeof(base));
	for (int n = 2; is_taken(names, at, names[at]); n++) {
		memcpy(names[at], base, sizeof(base));
		snprintf(suffix, sizeof(suffix), "_%d", n);
		name_suffix(names[at], suffix);
	}
}

int fieldname_list(const char *fields_text, int count, char (*names)[FIELDNAME_BYTES])
{
	const char *at = fields_text, *end = fields_text + strlen(fields_text);
	struct span whole = span_trim((struct span){ at, end });
	int found = 0;

	if (whole.start < whole.end) {
		for (;;) {
			const char *stop = argument_end(at, end);
			struct span argument = span_trim((struct span){ at, stop }), first;

			while (macro_unwrap(argument, &first))
				argument = first;
			if (macro_first(argument, "WM_FIELD", &first))
				argument = first;
			if (found < count)
				name_clean(names[found], argument);
			found++;
			if (stop == end)
				break;
			at = stop + 1;
		}
	}
	for (int i = 0; i < count; i++) {
		if (i >= found)
			names[i][0] = '\0';
		name_finish(names, i);
	}
	return found;
}

/* An argument by its number, without the WM_FIELD around it; empty past the last. */
static struct span argument_find(const char *fields_text, int number)
{
	const char *end = fields_text + strlen(fields_text), *at = fields_text, *comma;
	struct span argument, name;

	for (; number; number--, at = comma + 1) {
		comma = argument_end(at, end);
		if (comma == end)
			return (struct span){ end, end };
	}
	argument = span_trim((struct span){ at, argument_end(at, end) });
	if (macro_first(argument, "WM_FIELD", &name)) {
		at = argument_end(name.end, argument.end - 1);
		if (at < argument.end - 1)
			argument = span_trim((struct span){ at + 1, argument.end - 1 });
	}
	return argument;
}

const char *fieldname_argument(const char *fields_text, int argument, size_t *bytes)
{
	struct span span = argument_find(fields_text, argument);

	*bytes = (size_t)(span.end - span.start);
	return span.start;
}

/* The macro among those around a value: what is in its brackets after its first argument. */
static bool macro_find(struct span argument, const char *macro, struct span *rest)
{
	struct span first;

	for (;;) {
		if (macro_first(argument, macro, &first)) {
			rest->end = argument.end - 1;
			rest->start = argument_end(first.start, rest->end);
			return true;
		}
		if (!macro_unwrap(argument, &first))
			return false;
		argument = first;
	}
}

int fieldname_is_hex(const char *fields_text, int argument)
{
	struct span rest;

	return strstr(fields_text, "WM_HEX") &&
	       macro_find(argument_find(fields_text, argument), "WM_HEX", &rest);
}

/* A number of C, which may have a sign and a suffix; false for anything else. */
static bool number_read(struct span span, uint64_t *value)
{
	bool is_negative = span.start < span.end && *span.start == '-';
	const char *at = span.start + is_negative, *end = span.end;
	unsigned int base = 10;

	while (end > at && memchr("uUlL", end[-1], 4))
		end--;
	if (end - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x') {
		base = 16;
		at += 2;
	} else if (end - at > 1 && *at == '0') {
		base = 8;
	}
	if (at == end)
		return false;
	for (*value = 0; at < end; at++) {
		char c = *at | 0x20;
		unsigned int digit = is_digit(*at)	    ? (unsigned int)(*at - '0')
				     : c >= 'a' && c <= 'f' ? (unsigned int)(c - 'a') + 10
							    : 16;

		if (digit >= base || *value > (UINT64_MAX - digit) / base)
			return false;
		*value = *value * base + digit;
	}
	*value = is_negative ? 0 - *value : *value;
	return true;
}

void fieldname_labels(const char *fields_text, int argument,
		      void (*label)(uint64_t value, const char *name, void *data), void *data)
{
	struct span rest;
	uint64_t value = 0;
	bool is_known = true;

	if (!strstr(fields_text, "WM_ENUM") ||
	    !macro_find(argument_find(fields_text, argument), "WM_ENUM", &rest))
		return;
	for (const char *at = rest.start; at < rest.end; value++) {
		const char *stop = argument_end(at + 1, rest.end); /* `at` is at a comma */
		const char *equals = memchr(at, '=', (size_t)(stop - at));
		struct span name = span_trim((struct span){ at + 1, equals ? equals : stop });
		char text[FIELDNAME_BYTES];
		size_t bytes;

		if (equals)
			is_known = number_read(span_trim((struct span){ equals + 1, stop }),
					       &value);
		for (const char *colon = name.start; colon < name.end; colon++)
			if (*colon == ':')
				name.start = colon + 1; /* an enumerator of C++ with its scope */
		bytes = (size_t)(name.end - name.start);
		if (is_known && bytes && bytes < sizeof(text)) {
			memcpy(text, name.start, bytes);
			text[bytes] = '\0';
			label(value, text, data);
		}
		at = stop;
	}
}
