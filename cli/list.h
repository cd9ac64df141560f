/* SPDX-License-Identifier: MIT */
/* The tables of waymark list. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "cli/command_line.h"
#include "read/rows/render.h"

struct spec_list;

/* The processes and files whose places are listed. */
struct list_scope {
	struct command_texts files;
	struct command_ids pids;
};

/* Where watched expressions are. Complains about errors; returns an exit status. */
int list_watches(struct rows *rows, const struct spec_list *specs, const struct list_scope *scope);

#endif
