/* SPDX-License-Identifier: MIT */
/* Conditions: FIELD RELATION VALUE of if=, for watches and for events with fields. */
#include "base/level.h"
#include "base/quantity.h"
#include "record/spec/kinds.h"
#include "record/spec/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define VALUE_BYTES 256

static const struct {
	const char *text;
	enum watch_by by;
} relations[] = {
	/* the longer ones first */
	{ "==", WATCH_BY_EQUAL },	  { "!=", WATCH_BY_UNEQUAL }, { "<=", WATCH_BY_LESS_EQUAL },
	{ ">=", WATCH_BY_GREATER_EQUAL }, { "<", WATCH_BY_LESS },     { ">", WATCH_BY_GREATER },
	{ "&", WATCH_BY_BITS },		  { "~", WATCH_BY_EQUAL },
};

char *spec_condition_cut(char *text, enum watch_by *by, int *is_glob)
{
	size_t at = strcspn(text, "=!<>&~"), k = 0, bytes;
	char *value;

	while (k < sizeof(relations) / sizeof(relations[0]) &&
	       strncmp(text + at, relations[k].text, strlen(relations[k].text)))
		k++;
	if (k == sizeof(relations) / sizeof(relations[0]))
		return NULL;
	*by = relations[k].by;
	*is_glob = relations[k].text[0] == '~';
	value = text + at + strlen(relations[k].text);
	value += strspn(value, " ");
	for (bytes = strlen(value); bytes && value[bytes - 1] == ' '; bytes--)
		value[bytes - 1] = 0;
	while (at && text[at - 1] == ' ')
		at--;
	text[at] = 0;
	return value;
}

/* Take the quotes off a text in place. 0; -1: they do not end where it does. */
static int unquote(char *value)
{
	char *to = value, *from = value + 1;

	for (; *from && *from != '"'; from++) {
		if (*from == '\\' && (from[1] == '"' || from[1] == '\\'))
			from++;
		*to++ = *from;
	}
	if (!*from || from[1])
		return -1;
	*to = 0;
	return 0;
}

/* The text as a glob: as it is behind `~`, else what matches it alone. 0; -1: too long. */
static int text_put(struct predicate *predicate, const char *value, int is_glob)
{
	size_t used = 0;

	for (; *value; value++) {
		if (!is_glob && strchr("*?[\\", *value))
			predicate->text[used++] = '\\';
		if (used + 1 >= sizeof(predicate->text))
			return -1;
		predicate->text[used++] = *value;
	}
	predicate->text[used] = 0;
	predicate->forms = PREDICATE_TEXT;
	return 0;
}

static void float_put(struct predicate *predicate, double number)
{
	float narrow = (float)number;

	memcpy(&predicate->f64, &number, sizeof(number));
	memcpy(&predicate->f32, &narrow, sizeof(narrow));
	predicate->forms |= PREDICATE_FLOAT;
}

static void integer_put(struct predicate *predicate, uint64_t number, int is_negative)
{
	predicate->number = is_negative ? 0 - number : number;
	predicate->forms |= PREDICATE_INTEGER;
	if (is_negative && number)
		predicate->forms |= PREDICATE_NEGATIVE;
	float_put(predicate, is_negative ? -(double)number : (double)number);
}

/* 5, -1, 0x1f, 1.5, 64K, 3ms, 'a', true, NULL; a word, which may be an enumerator. 0; -1. */
static int value_put(struct predicate *predicate, const char *value)
{
	int is_negative = *value == '-';
	const char *number = value + is_negative;
	uint64_t integer;
	int64_t literal;
	double real;
	char *end;

	if (expression_literal_read(value, &literal)) {
		integer_put(predicate, literal < 0 ? 0 - (uint64_t)literal : (uint64_t)literal,
			    literal < 0);
		return 0;
	}
	if (isalpha((unsigned char)*value) || *value == '_') {
		if (strlen(value) >= sizeof(predicate->text) ||
		    strspn(value,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") !=
			    strlen(value))
			return -1;
		strcpy(predicate->text, value);
		predicate->forms = PREDICATE_WORD;
		return 0;
	}
	if (!quantity_number(number, 0, UINT64_MAX, &integer)) {
		integer_put(predicate, integer, is_negative);
		if (number[0] == '0' && (number[1] == 'x' || number[1] == 'X'))
			predicate->forms |= PREDICATE_HEX;
		return 0;
	}
	if (!isdigit((unsigned char)*number) && *number != '.')
		return -1;
	real = strtod(value, &end);
	if (!*end) {
		float_put(predicate, real);
		return 0;
	}
	if (quantity_size(number, 0, UINT64_MAX, &integer) && quantity_time(number, 0, &integer))
		return -1;
	integer_put(predicate, integer, is_negative);
	return 0;
}

/* A level by its word. 0, or -1 if no level is called so. */
static int level_put(struct predicate *predicate, const char *word)
{
	unsigned int level = level_read(word, strlen(word));

	if (level == LEVEL_NONE)
		return -1;
	predicate->forms = 0;
	integer_put(predicate, level, 0);
	memset(predicate->text, 0, sizeof(predicate->text));
	return 0;
}

/* The list that a kind's request has, and where its next one goes. */
static struct predicate *predicate_next(const struct spec_syntax *syntax, unsigned int **count)
{
	struct code_request *request = syntax->request;

	if (syntax->kind->slot == offsetof(struct spec, request)) {
		*count = &request->predicate_count;
		return &request->predicates[request->predicate_count];
	}
	*count = &syntax->spec->predicate_count;
	return &syntax->spec->predicates[syntax->spec->predicate_count];
}

int spec_read_predicate(const struct spec_syntax *syntax, const char *text, struct spec_span span)
{
	struct predicate predicate = { .forms = 0 };
	char copy[VALUE_BYTES], *value;
	unsigned int *count;
	struct predicate *next = predicate_next(syntax, &count);
	int is_of_marker = syntax->kind->slot != offsetof(struct spec, request);
	enum watch_by by;
	int is_glob, is_text, err;

	if (span.bytes >= sizeof(copy))
		return spec_wrong(syntax, span, -WM_E_SPEC, "is longer than %zu characters",
				  sizeof(copy) - 1);
	value = spec_condition_cut(strcpy(copy, text), &by, &is_glob);
	if (!value || !*copy || !*value || strspn(copy, " ") || strlen(copy) >= sizeof(next->name))
		return spec_wrong(
			syntax, span, -WM_E_SPEC,
			"is no condition: FIELD, one of == != < <= > >= & ~, and a VALUE");
	strcpy(predicate.name, copy);
	predicate.by = (uint8_t)by;
	is_text = is_glob || *value == '"';
	if (*value == '"' && unquote(value))
		return spec_wrong(syntax, span, -WM_E_SPEC, "has no quote at its end");
	err = is_text ? text_put(&predicate, value, is_glob) : value_put(&predicate, value);
	if (err && is_text)
		return spec_wrong(syntax, span, -WM_E_SPEC, "has a text longer than %zu characters",
				  sizeof(next->text) - 1);
	if (err)
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  "has no value: a number, as 5, 0x1f, 1.5, 64K or 3ms; an "
				  "enumerator; or a \"text\"");
	if (predicate.forms & PREDICATE_WORD && is_of_marker && !strcmp(copy, LEVEL_WORD) &&
	    level_put(&predicate, value))
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  "names no level: these are emerg, alert, crit, err, warning, "
				  "notice, info, debug_system to debug_line, debug");
	if (predicate.forms & PREDICATE_WORD && is_of_marker)
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  "compares with a word: write a number, or \"TEXT\" in quotes");
	*next = predicate;
	++*count;
	return 0;
}
