/* SPDX-License-Identifier: MIT */
/*
 * How waymark list prints what record/marker/catalog.h found, and what its other lists look like
 * too.
 */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "base/out.h"
#include "cli/json.h"
#include "record/marker/catalog.h"

/*
 * Both print the markers of catalog->markers for which take[i] is not 0, each of their sites if
 * asked.
 */
void list_text(struct out *out, const struct catalog *catalog, const char *take, int sites);
void list_json(struct out *out, const struct catalog *catalog, const char *take, int sites);

/* ---- parts that all lists share ---- */

/* A text that programs or files gave: what is not printable is escaped. */
void list_put(struct out *out, const char *text);
/* With spaces up to so many columns. */
void list_put_padded(struct out *out, const char *text, size_t columns);
/* The line above what a module has; pid 0: it is a file. */
void list_put_module(struct out *out, pid_t pid, const char *module);
/* "name type"; an unknown WM_TYPE_* is shown as "?". */
void list_put_field(struct out *out, const char *name, uint8_t type);
void list_json_field(struct json *json, const char *key, const char *name, uint8_t type);

#endif
