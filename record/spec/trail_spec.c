/* SPDX-License-Identifier: MIT */
/* Specs of trails: one origin, modules. */
#include "record/spec/kinds.h"
#include "record/spec/spec.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

int spec_read_module(const struct spec_syntax *syntax, const char *name, struct spec_span span)
{
	struct only_names *names = &((struct trail_request *)syntax->request)->only;

	if (strlen(name) >= ONLY_NAME_BYTES)
		return spec_wrong(syntax, span, -WM_E_SPEC, "is longer than %d bytes",
				  ONLY_NAME_BYTES - 1);
	for (uint32_t i = 0; i < names->count; i++)
		if (!strcmp(names->names[i], name))
			return spec_wrong(syntax, span, -WM_E_SPEC,
					  "is there twice: name each module once");
	snprintf(names->names[names->count++], ONLY_NAME_BYTES, "%s", name);
	return 0;
}

int spec_read_trail(const struct spec_syntax *syntax)
{
	struct trail_request *request = syntax->request;

	request->is_auto = !request->origins || request->origins == 1u << ORIGINS;
	if (request->origins & (request->origins - 1))
		return spec_wrong(syntax, syntax->words[0].all, -WM_E_SPEC,
				  "is too much: a trail has one origin");
	while (!request->is_auto && !(request->origins >> request->origin & 1))
		request->origin++;
	return 0;
}
