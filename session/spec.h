/* SPDX-License-Identifier: MIT */
/*
 * Event specs: what to record, in the one grammar that all commands share. This version records
 * markers; the other kinds are known by name, so that they are refused for what they are.
 */
#ifndef SESSION_SPEC_H
#define SESSION_SPEC_H

#include <stddef.h>
#include <stdint.h>

struct spec {
	char *text;	  /* as given */
	char *glob;	  /* SUBSYS:EVENT */
	uint64_t matches; /* markers that matched, ever */
};

struct spec_list {
	struct spec *all;
	size_t count;
};

/*
 * Read a spec and add it: "marker:SUBSYS:EVENT", or SUBSYS:EVENT alone; either name may be a glob
 * (*, ?, [...]). Returns 0, -ENOMEM, -WM_E_SPEC, -WM_E_SPEC_KIND or -WM_E_SPEC_TWICE.
 */
int spec_add(struct spec_list *list, const char *text);

/* Whether the glob takes the name; both are SUBSYS:EVENT. */
int spec_matches(const struct spec *spec, const char *name);

/* "SUBSYS:EVENT" from a site's text (abi/site.h), into name[]; 0 or -EINVAL. */
int spec_name_of(const char *text, char *name, size_t bytes);

/* Count a marker for every spec that takes its name. */
void spec_count_match(struct spec_list *list, const char *name);

void spec_list_release(struct spec_list *list);

#endif
