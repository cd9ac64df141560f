/* SPDX-License-Identifier: MIT */
/*
 * waymark list --watch: the addresses and types of what could be watched, and how many debug
 * registers it takes.
 */
#ifndef CLI_LIST_WATCHES_H
#define CLI_LIST_WATCHES_H

#include "record/spec/spec.h"

#include <stddef.h>
#include <sys/types.h>

/*
 * List what these specs of watches name in these files and processes. Complains about what can't be
 * had. Returns an exit status.
 */
int list_watches(const struct spec_list *specs, const char *const *files, size_t file_count,
		 const pid_t *pids, size_t pid_count, int json);

#endif
