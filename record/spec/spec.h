/* SPDX-License-Identifier: MIT */
/*
 * Event specs say what to record, in one grammar for all commands (syntax.h): markers, places in
 * unprepared code, watches, a trail, the kernel's events. kinds.c has all kinds and their options.
 */
#ifndef RECORD_SPEC_SPEC_H
#define RECORD_SPEC_SPEC_H

#include "abi/predicate.h"
#include "record/spec/kernel_spec.h"
#include "record/spec/names.h"
#include "record/spec/syntax.h"
#include "record/trail/trail_request.h"
#include "target/code/code_request.h"
#include "target/expression/expr.h"

#include <stddef.h>
#include <stdint.h>

struct spec {
	char *text;	  /* as given */
	char *glob;	  /* of markers: SUBSYS:EVENT; else NULL */
	uint32_t costs;	  /* of markers: what they count, by enum cost_kind */
	uint32_t callers; /* of markers: bt=N; 0: no callchain */
	/* of markers: all must hold (abi/predicate.h); places have theirs in the request */
	struct predicate predicates[PREDICATES_MAX];
	unsigned int predicate_count;
	struct code_sums sums;	       /* likewise */
	struct code_request *request;  /* of places in code; else NULL */
	struct trail_request *trail;   /* of a trail; else NULL */
	struct watch_expr *watch;      /* of a watch; else NULL */
	struct kernel_request *kernel; /* of the kernel's events; else NULL */
	unsigned int handler;	       /* of a place: its handler's number, or 0 */
	unsigned int trigger;	       /* its number (record/session/triggers.h), or 0 */
	uint64_t matches;	       /* markers or places that ever matched */
	/* results of places in code: */
	uint64_t modules; /* in which it was searched */
	/* a bit for each predicate on the caller that was for a module of some process */
	uint32_t callers_seen;
	uint64_t placed;	/* places that can be placed; also armed markers */
	int error;		/* why no place was found, or none can be placed */
	char *detail;		/* about the error; NULL: none */
	int is_of_place;	/* the error is that of a place that was found */
	int is_removed;		/* while the session ran: it is of no kind any more */
	struct name_list names; /* of placed functions, if the spec names one without a glob */
};

struct spec_list {
	struct spec *all;
	size_t count;
	char words[512]; /* about the last spec that could not be added */
};

/*
 * Read a spec and add it. Returns 0, -WM_E_SPEC_TWICE, or an error of spec_read(). list->words then
 * says what part is wrong, or is "".
 */
int spec_add(struct spec_list *list, const char *text);

/* Remove the spec that was added last. */
void spec_drop(struct spec_list *list);

/* The spec that is written so; NULL: none. */
struct spec *spec_find(const struct spec_list *list, const char *text);

/*
 * Take a spec from the list, which keeps its place and its text; put it back there. What was taken
 * is the caller's to release, without the text.
 */
struct spec spec_take_out(struct spec *spec);
void spec_put_back(struct spec_list *list, struct spec *taken);
void spec_release(struct spec *spec);

/* The trail that the session has to record; NULL: none. */
const struct trail_request *spec_trail(const struct spec_list *list);

/* How many specs are of a kind, by the member that only these have: SPEC_OF(watch). */
#define SPEC_OF(member) offsetof(struct spec, member)
size_t spec_count(const struct spec_list *list, size_t member);

/* The counts that any spec asks of markers, by enum cost_kind. */
uint32_t spec_costs(const struct spec_list *list);

/* Whether any spec of markers has predicates or sums; whether any spec has sums. */
int spec_marker_predicates(const struct spec_list *list);
int spec_sums(const struct spec_list *list);

/* Whether any marker or probe asks for callers. */
int spec_callers(const struct spec_list *list);

/* Whether a predicate of a probe is on the module that calls. */
int spec_is_on_caller(const struct predicate *predicate);

/* Whether any probe asks for a string. */
int spec_reads_strings(const struct spec_list *list);

/*
 * Keep the reason why a module has nothing for a request or, with is_place, why a place that was
 * found can't be used. The latter replaces the former. If several modules have nothing for
 * different reasons, keep "no such name". `detail` may be NULL. The error does not matter once any
 * place works.
 */
void spec_keep_error(struct spec *spec, int error, const char *detail, int is_place);

/*
 * Whether the spec's glob matches the name; both are SUBSYS:EVENT. 0 for specs that are not of
 * markers.
 */
int spec_matches(const struct spec *spec, const char *name);

/* Get "SUBSYS:EVENT" from a site's text (abi/site.h). Returns 0 or -EINVAL. */
int spec_name_of(const char *text, char *name, size_t bytes);

/* Whether the spec has a glob: it can match several names, or none. */
int spec_is_glob(const struct spec *spec);

/*
 * Why no module has it armed. 0: one has; or it is a watch or trail, which have errors of their
 * own.
 */
int spec_missing(const struct spec *spec);

/* Count a marker for each spec that matches its name. `is_armed` 0: the marker was refused. */
void spec_count_match(struct spec_list *list, const char *name, int is_armed);

void spec_list_release(struct spec_list *list);

#endif
