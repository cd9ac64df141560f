/* SPDX-License-Identifier: MIT */
/* How waymark list prints what session/catalog.h found. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "session/catalog.h"
#include "trace/out.h"

/* Both print the markers of catalog->markers for which take[i] is not 0, each of their sites if asked. */
void list_text(struct out *out, const struct catalog *catalog, const char *take, int sites);
void list_json(struct out *out, const struct catalog *catalog, const char *take, int sites);

#endif
