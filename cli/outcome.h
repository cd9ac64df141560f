/* SPDX-License-Identifier: MIT */
/* What a recording's specs came to: those that nothing matched, the places that were refused. */
#ifndef CLI_OUTCOME_H
#define CLI_OUTCOME_H

#include "cli/json.h"
#include "record/session/session.h"

#include <stddef.h>

/*
 * Complain about each spec that nothing matched, with similar names, and, if they are to be
 * `placed`, about each that has no usable place, with the reason. Returns how many; writes the
 * first in words into why[bytes], unless that has text.
 */
size_t outcome_unmatched(const struct spec_list *specs, const struct name_list *names, int placed,
			 char *why, size_t bytes);

struct spec;

/*
 * Whether what a spec of a running process lacks may come with a module that is loaded later: its
 * module is not there, or it is a glob that is not of a module that is.
 */
int outcome_may_come(const struct spec *spec);

/* Warn on stderr about each spec that asked for one function, if several have that name. */
void outcome_ambiguous(const struct wm_session *session);

/*
 * On stderr, where a trial showed that the time stamp counter misleads: what that means for the
 * trace.
 */
void outcome_clock(void);

/* On stderr, that what is recorded could not be claimed in the ledger, once. */
void outcome_unclaimed(const struct wm_session *session);

/* On stderr, how many places were refused, for what reasons; each by itself if `verbose`. */
void outcome_refusals(const struct wm_session *session, int verbose);

/* On stderr, which programs of the recorded processes' making ran unrecorded. */
void outcome_unrecorded(const struct unrecorded_list *list);

/* For programs, as a member of an object: likewise. */
void outcome_unrecorded_json(struct json *json, const struct unrecorded_list *list);

/*
 * How often and how long hits of probes are missing; with `verbose`, how many probes are unsafe
 * beside uprobes.
 */
void outcome_foreign(const struct probes *probes, int verbose);

/*
 * On stderr, in which processes places were refused since they may not stop their own threads; all
 * with `verbose`.
 */
void outcome_unstoppable(const struct probes *probes, int verbose);

/* JSON members of an object: how many places were wanted, and the outcome of each. */
void outcome_json(struct json *json, const struct probes *probes);

#endif
