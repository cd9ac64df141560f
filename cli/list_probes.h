/* SPDX-License-Identifier: MIT */
/* waymark list --func, --usdt, --event: what could be probed, judged without touching anything. */
#ifndef CLI_LIST_PROBES_H
#define CLI_LIST_PROBES_H

#include "record/spec/spec.h"

#include <stddef.h>
#include <sys/types.h>

/*
 * List what the specs name in these files and processes. Complains about what can't be read and
 * about specs that name nothing. Returns an exit status.
 */
int list_probes(struct spec_list *specs, const char *const *files, size_t file_count,
		const pid_t *pids, size_t pid_count, int json);

#endif
