/* SPDX-License-Identifier: MIT */
/* The tables of waymark list. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "base/text_buffer.h"
#include "cli/command_line.h"
#include "read/rows/render.h"

struct catalog;
struct spec_list;

/* The markers of catalog->markers whose take[i] is not 0, and with `sites` each of their sites. */
void list_markers(struct rows *rows, const struct catalog *catalog, const char *take, int sites);

/* The processes and files whose places are listed. */
struct list_scope {
	struct command_texts files;
	struct command_ids pids;
};

/*
 * The events that the kernel can count here; that all places in code would be recorded at; where
 * watched expressions are. `specs` also get the results of each. Each complains about errors and
 * returns an exit status.
 */
int list_events(struct rows *rows, const char *glob);
int list_probes(struct rows *rows, struct spec_list *specs, const struct list_scope *scope);
int list_watches(struct rows *rows, const struct spec_list *specs, const struct list_scope *scope);

/* Add "name type" to the fields in a text; an unknown WM_TYPE_* is "?". The text; NULL: no memory. */
void list_field(struct text *text, const char *name, uint8_t type);
const char *list_text(struct text *text);

#endif
