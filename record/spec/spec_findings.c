/* SPDX-License-Identifier: MIT */
/* Specs that nothing matched, or that matched more than their user may have meant. */
#include "base/similar_names.h"
#include "record/session/findings.h"
#include "record/spec/names.h"
#include "record/spec/spec.h"
#include "target/code/code_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

/* A spec asked for one function, and several have that name. */
static void add_ambiguous(const struct spec *spec, struct findings *list)
{
	struct finding *finding = finding_add(list, "ambiguous", FINDING_NOTE,
					      "%llu functions have this name, and all are recorded",
					      (unsigned long long)spec->placed);
	char *words = NULL;
	size_t bytes;
	FILE *text = open_memstream(&words, &bytes);

	for (size_t i = 0; text && i < spec->names.count; i++)
		fprintf(text, "%s%s", i ? ", " : "", spec->names.all[i]);
	if (text)
		fclose(text);
	finding->subject = strdup(spec->text);
	finding->detail = words;
	finding->count = spec->placed;
	finding->remedy =
		"NAME@FILE names those of one program or library, NAME(TYPES) those with these parameters; addr:FILE+OFFSET a single one";
}

void spec_findings(const struct spec_list *specs, const struct name_list *names, int placed,
		   struct findings *list)
{
	for (size_t i = 0; i < specs->count; i++) {
		const struct spec *spec = &specs->all[i];
		int error = spec_missing(spec);
		const char *name = spec->request ? spec->request->name : spec->glob;
		int is_name = spec->request ? error == -WM_E_NO_FUNCTION || error == -WM_E_NO_USDT
					    : !spec->matches;
		const char *detail = spec->detail;
		char meant[512];

		if (placed && spec->names.count > 1)
			add_ambiguous(spec, list);
		/* a watch that is no place says so when it is armed */
		if (spec->trail || spec->watch || spec->kernel || spec->is_removed ||
		    (placed ? spec->placed : spec->matches))
			continue;
		if (is_name && name && !detail &&
		    *similar_words(name, (const char *const *)names->all, names->count, meant,
				   sizeof(meant)))
			detail = meant + strlen("; ");
		finding_error(list, "unmatched", FINDING_FAILURE, spec->text, error, detail);
	}
}
