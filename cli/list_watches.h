/* SPDX-License-Identifier: MIT */
/*
 * waymark list --watch: the addresses and types of what could be watched, and how many debug
 * registers it takes.
 */
#ifndef CLI_LIST_WATCHES_H
#define CLI_LIST_WATCHES_H

#include <stddef.h>
#include <sys/types.h>

/*
 * List what the expressions, "watch:EXPR" or EXPR alone, name in these files and processes.
 * Complains about what can't be had. Returns an exit status.
 */
int list_watches(const char *const *exprs, size_t expr_count, const char *const *files,
		 size_t file_count, const pid_t *pids, size_t pid_count, int json);

#endif
