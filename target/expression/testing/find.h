/* SPDX-License-Identifier: MIT */
/*
 * For tests: expressions, and the variables that they name in modules of the test's folder
 * (target/code/testing/folder.h).
 */
#ifndef TARGET_EXPRESSION_TESTING_FIND_H
#define TARGET_EXPRESSION_TESTING_FIND_H

#include "target/code/testing/folder.h"
#include "target/expression/find.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define MODULES_MAX 4

static struct code_module all[MODULES_MAX], *modules[MODULES_MAX];
static size_t module_count;
static struct watch_expr expr; /* the last one, and what it names */
static struct watch_place place;
static struct watch_trouble trouble;

static inline void module_open(const char *name)
{
	code_module_init(&all[module_count], folder_open(name), 0);
	modules[module_count] = &all[module_count];
	module_count++;
}

static inline void modules_close(void)
{
	watch_place_release(&place);
	expression_release(&expr);
	while (module_count)
		code_module_release(modules[--module_count]);
}

/* For .fini. */
static inline void find_end(void)
{
	modules_close();
	folder_remove();
}

static inline int find(const char *text)
{
	const char *follow = strstr(text, "/follow/");
	char whole[256];
	int err;

	watch_place_release(&place);
	expression_release(&expr);
	snprintf(whole, sizeof(whole), "watch:%.*s", follow ? (int)(follow - text) : 200, text);
	err = expression_parse(&expr, whole, &trouble);
	cr_assert_eq(err, 0, "%s: %s", text, trouble.detail);
	expr.options.follows = follow != NULL;
	return expression_place_find(&place, &expr, modules, module_count, &trouble);
}

/* And its detail has these words in it. */
static inline void refused(const char *text, int error, const char *words)
{
	int err = find(text);

	cr_assert_eq(err, error, "%s: %s: %s", text, err ? wm_error_text(err) : "found",
		     trouble.detail);
	cr_assert_eq(trouble.error, error, "%s", text);
	cr_assert_not_null(strstr(trouble.detail, words), "%s: %s", text, trouble.detail);
	cr_assert_lt(trouble.at + trouble.bytes, strlen(expr.text) + 1, "%s", text);
}

#endif
