/* SPDX-License-Identifier: MIT */
/*
 * Event specs: what to record, in the one grammar that all commands share: markers, places in
 * unprepared code (code/request.h), a trail (branch/request.h). The other kinds are known by name,
 * so that they are refused for what they are.
 */
#ifndef SESSION_SPEC_H
#define SESSION_SPEC_H

#include "code/request.h"
#include "code/watch/expr.h"
#include "session/names.h"
#include "branch/request.h"

#include <stddef.h>
#include <stdint.h>

struct spec {
	char *text;		      /* as given */
	char *glob;		      /* of markers: SUBSYS:EVENT; else NULL */
	struct code_request *request; /* of places in code; else NULL */
	struct trail_request *trail;  /* of a trail; else NULL */
	struct watch_expr *watch;     /* of a watch; else NULL */
	uint64_t matches;	      /* markers, or places, that matched, ever */
	/* of places in code */
	uint64_t modules;	/* that it was looked for in */
	uint64_t placed;	/* of these, those that can be placed; the markers that are armed */
	int error;		/* why there is none, or none can be placed */
	char *detail;		/* of that; NULL: none */
	int is_of_place;	/* the error is a place's */
	struct name_list names; /* of the places that can be had, where one function was asked for */
};

struct spec_list {
	struct spec *all;
	size_t count;
	char words[192]; /* about the last that could not be added */
};

/*
 * Read a spec and add it: "marker:SUBSYS:EVENT", or SUBSYS:EVENT alone; either name may be a glob
 * (*, ?, [...]); or what code_request_parse() or trail_request_parse() takes. Returns 0, -ENOMEM, -WM_E_SPEC, -WM_E_SPEC_KIND,
 * -WM_E_FIELD_TYPE, -WM_E_SPEC_TWICE, what trail_request_parse() says, or -WM_E_TRAIL_TWICE. list->words then has
 * what of it this is about; or "".
 */
int spec_add(struct spec_list *list, const char *text);

/* Take away the last one that was added. */
void spec_drop(struct spec_list *list);

/* Of the trail that is asked for; NULL: none is. */
const struct trail_request *spec_trail(const struct spec_list *list);

/* How many are for markers; for places in code. */
size_t spec_count_markers(const struct spec_list *list);
size_t spec_count_requests(const struct spec_list *list);
size_t spec_count_watches(const struct spec_list *list);

/*
 * Keep the reason why a module has nothing of a request, or why a place that was found there can't be had
 * (is_place), which is worth more than any other module's having nothing. Of several reasons for there being
 * nothing, "no such name" stands for all. `detail` may be NULL. Any place that can be had makes it moot.
 */
void spec_keep_error(struct spec *spec, int error, const char *detail, int is_place);

/* Whether the glob takes the name; both are SUBSYS:EVENT. Never for a place in code. */
int spec_matches(const struct spec *spec, const char *name);

/* "SUBSYS:EVENT" from a site's text (abi/site.h), into name[]; 0 or -EINVAL. */
int spec_name_of(const char *text, char *name, size_t bytes);

/* Whether it is a glob: it can match several names, and may match none. */
int spec_is_glob(const struct spec *spec);

/*
 * Why no module has it armed; 0: one has, or it is a watch or trail, which have refusals of their
 * own.
 */
int spec_missing(const struct spec *spec);

/* Count a marker for every spec that takes its name; `is_armed` 0: for a reason of its own it is not. */
void spec_count_match(struct spec_list *list, const char *name, int is_armed);

void spec_list_release(struct spec_list *list);

#endif
