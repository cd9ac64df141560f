/* SPDX-License-Identifier: MIT */
/*
 * Globs of `waymark list --watch`: 'g_*' names variables, 'conn.*' and 'list->*' members.
 *
 * `*pointer` is an expression. So a text is a glob only if it is no expression.
 */
#ifndef CLI_LIST_WATCH_GLOBS_H
#define CLI_LIST_WATCH_GLOBS_H

#include "target/expression/find.h"

#include <stddef.h>

struct list_watch_glob {
	char *text;    /* as given, with "watch:" */
	char *before;  /* what goes before a name: "watch:", "watch:conn.", "watch:list->" */
	char *pattern; /* "g_*", "*" */
	char *source;  /* whose variables are meant: "table.c"; NULL: any */
	char *behind;  /* "@FILE", ":rw", "/OPTIONS/"; "" */
	int is_of_members;
	struct watch_expr of; /* what has the members; of variables it only has the module */
};

/*
 * Read a spec that expression_parse() refused. 1: it is a glob; 0: no glob; or an error. Release it
 * in any case.
 */
int list_watch_glob_read(struct list_watch_glob *glob, const char *spec);
void list_watch_glob_release(struct list_watch_glob *glob);

/*
 * Call take() with a spec for each name that matches, "watch:conn.fd", until it returns other than
 * 0, and return that. A name that several variables have gets its source file: "watch:a.c::count".
 * Else 0, -WM_E_WATCH_VARIABLE if no name matches, or an error of expression_members().
 */
int list_watch_glob_each(const struct list_watch_glob *glob, struct code_module *const *modules,
			 size_t module_count, int (*take)(const char *spec, void *data), void *data,
			 struct watch_trouble *trouble);

#endif
