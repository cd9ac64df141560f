/* SPDX-License-Identifier: MIT */
/* What the table of kinds (kinds.c) calls: readers of names, fields and values (syntax.h). */
#ifndef RECORD_SPEC_KINDS_H
#define RECORD_SPEC_KINDS_H

#include "abi/watch.h"
#include "record/spec/syntax.h"
#include "target/code/probe_place.h"

#define COST_NAMES_MAX 4   /* of count=, in one spec */
#define CALLERS_DEFAULT 10 /* of bt */

/* marker:SUBSYSTEM:EVENT; a name of count=, as abi/cost.h or perf(1) has it. */
int spec_read_marker(const struct spec_syntax *syntax);
int spec_read_cost(const struct spec_syntax *syntax, const char *name, struct spec_span span);

/*
 * The names of usdt:, func:, addr:; NAME, NAME:TYPE or FIELD=NAME:TYPE of their options;
 * SUBSYSTEM:EVENT of name=; TYPE of ret:TYPE.
 */
int spec_read_place(const struct spec_syntax *syntax);
int spec_read_event(const struct spec_syntax *syntax, const char *name, struct spec_span span);
int spec_read_field(const struct spec_syntax *syntax, const struct spec_word *word);
int spec_read_type(const struct spec_syntax *syntax, const char *text, struct spec_span span);

int spec_read_trail(const struct spec_syntax *syntax);
/* A module of only=. */
int spec_read_module(const struct spec_syntax *syntax, const char *name, struct spec_span span);

int spec_read_watch(const struct spec_syntax *syntax);
/* CONDITION of if=, of a watch; of an event with fields. */
int spec_read_predicate(const struct spec_syntax *syntax, const char *text, struct spec_span span);
/* A field of by=, sum= and so on. Once all are read: how many callers these need. 0 or an error. */
int spec_read_sum(const struct spec_syntax *syntax, const char *name, struct spec_span span);
int spec_sums_finish(const struct spec_syntax *syntax, const struct code_sums *sums,
		     uint32_t *callers);
/*
 * Cut "FIELD RELATION VALUE" in two, in place: the text becomes FIELD. Returns the VALUE; NULL: it
 * has no relation. `is_glob`: the relation is `~`.
 */
char *spec_condition_cut(char *text, enum watch_by *by, int *is_glob);
int spec_read_condition(const struct spec_syntax *syntax, const char *text, struct spec_span span);

/* What the kernel records, by enum kernel_kind. */
int spec_read_kernel(const struct spec_syntax *syntax);
/* Its conditions, once its name and options are in the request (kernel_filter.c). */
int spec_read_kernel_conditions(const struct spec_syntax *syntax);

#endif
