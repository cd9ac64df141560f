/* SPDX-License-Identifier: MIT */
/* A recording's findings (record/session/findings.h), printed. */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include "read/rows/render.h"
#include "record/session/findings.h"

/*
 * On stderr, from number `first` on. Parts with the same text take one line, which names some of
 * them; with `verbose`, each takes one.
 */
void findings_print(const struct findings *list, size_t first, int verbose);

/* All, as a table. */
void findings_rows(struct rows *rows, const struct findings *list);

/* Complain about specs that nothing matched: spec_findings(). Returns whether there are some. */
int findings_unmatched(const struct spec_list *specs, const struct name_list *names, int placed);

#endif
