/* SPDX-License-Identifier: MIT */
/* Specs of watches: the conditions of if=, and what is behind the options. */
#include "base/quantity.h"
#include "record/spec/kinds.h"
#include "record/spec/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define CONDITION_MAX 96

static char *trimmed(char *text)
{
	size_t bytes;

	text += strspn(text, " ");
	for (bytes = strlen(text); bytes && text[bytes - 1] == ' '; bytes--)
		text[bytes - 1] = 0;
	return text;
}

static int subject_of(const char *text, enum watch_of *subject)
{
	static const char *const names[] = {
		[WATCH_OF_NEW] = "value", [WATCH_OF_OLD] = "old", [WATCH_OF_TID] = "tid"
	};

	for (size_t i = WATCH_OF_NEW; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], text)) {
			*subject = (enum watch_of)i;
			return 1;
		}
	return 0;
}

/* CONDITION of if=CONDITION; the text is ours to cut. Returns 1 when it is one. */
static int condition_parse(struct watch_test *test, char *text)
{
	int is_glob;
	char *number;
	uint64_t tid;

	if (!strcmp(trimmed(text), "changed")) {
		test->subject = WATCH_OF_CHANGE;
		return 1;
	}
	number = spec_condition_cut(text, &test->relation, &is_glob);
	if (!number || is_glob)
		return 0;
	if (!subject_of(trimmed(text), &test->subject) || !*number ||
	    strlen(number) >= sizeof(test->number) || strpbrk(number, "=!<>&|"))
		return 0;
	if (test->subject == WATCH_OF_TID &&
	    (test->relation > WATCH_BY_UNEQUAL || quantity_number(number, 1, INT32_MAX, &tid)))
		return 0;
	memcpy(test->number, number, strlen(number) + 1);
	return 1;
}

int spec_read_condition(const struct spec_syntax *syntax, const char *text, struct spec_span span)
{
	struct watch_options *options = &((struct watch_expr *)syntax->request)->options;
	struct watch_test test = { .at = span.at, .bytes = span.bytes };
	char copy[CONDITION_MAX];

	if (span.bytes < sizeof(copy) && condition_parse(&test, strcpy(copy, text))) {
		options->tests[options->test_count++] = test;
		return 0;
	}
	return spec_wrong(syntax, span, -WM_E_SPEC,
			  "is no condition: changed; or value, old or tid, one of == != < <= > >= "
			  "&, a number");
}

int spec_read_watch(const struct spec_syntax *syntax)
{
	struct watch_expr *expr = syntax->request;
	struct watch_options options = expr->options;
	struct watch_trouble trouble = { 0 };
	char *text = strndup(syntax->text, syntax->name.at + syntax->name.bytes);
	int err = text ? expression_parse(expr, text, &trouble) : -ENOMEM;

	free(text);
	options.is_outside |= options.has_kernel;
	expr->options = options;
	if (expr->instead)
		expr->instead->options = options;
	return err && err != -ENOMEM
		       ? spec_wrong(syntax, (struct spec_span){ trouble.at, trouble.bytes }, err,
				    "%s", trouble.detail)
		       : err;
}
