/* SPDX-License-Identifier: MIT */
#include "record/trail/request.h"

#include "base/quantity.h"
#include "base/similar_names.h"
#include "target/code/probe_spec.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define OPTION_BYTES_MAX (ONLY_NAME_BYTES + sizeof("only="))

static const char kind[] = "trail";

static const char automatic[] = "auto", last[] = "last=", kernel[] = "kernel", only[] = "only=";

int trail_request_is(const char *text)
{
	size_t bytes = strcspn(text, ":/");

	return bytes == strlen(kind) && !memcmp(text, kind, bytes);
}

static int name_take(struct only_names *names, const char *name, struct detail words)
{
	int is_fine = name[0] && strlen(name) < ONLY_NAME_BYTES && names->count < ONLY_NAMES_MAX;

	for (uint32_t i = 0; i < names->count; i++)
		is_fine = is_fine && strcmp(names->names[i], name) != 0;
	if (!is_fine)
		return detail_set(words, -WM_E_SPEC,
				  "only=%.64s: name each module once, as its file is called, up to "
				  "%d of them; main is the program itself",
				  name, ONLY_NAMES_MAX);
	snprintf(names->names[names->count++], ONLY_NAME_BYTES, "%s", name);
	return 0;
}

static int twice(const char *option, struct detail words)
{
	return detail_set(words, -WM_E_SPEC, "%s: one origin, and each option once", option);
}

static int unknown(const char *option, struct detail words)
{
	const char *names[ORIGINS + 4], *meant;

	for (int i = 0; i < ORIGINS; i++)
		names[i] = origin_name((enum origin)i);
	names[ORIGINS] = automatic;
	names[ORIGINS + 1] = "last=64M";
	names[ORIGINS + 2] = kernel;
	names[ORIGINS + 3] = "only=main";
	if (similar_list(option, names, ORIGINS + 4, &meant, 1))
		return detail_set(words, -WM_E_SPEC, "%s; did you mean %s?", option, meant);
	return detail_set(words, -WM_E_SPEC,
			  "a trail has no option %s; its options are auto, step, soft, pt, bts, "
			  "kernel, only=NAME and last=SIZE",
			  option);
}

/* Behind only= come names of modules: but nothing that looks like a setting. */
static int is_module(const struct trail_request *request, const char *option)
{
	return request->only.count && !strchr(option, '=');
}

static int option_take(struct trail_request *request, const char *option, int *has_origin,
		       struct detail words)
{
	int origin = origin_of_name(option), is_auto = !strcmp(option, automatic);

	if (!strncmp(option, only, strlen(only)))
		return name_take(&request->only, option + strlen(only), words);
	if (!strncmp(option, last, strlen(last))) {
		if (request->last_bytes)
			return twice(option, words);
		option += strlen(last);
		return quantity_size(option, TRAIL_LAST_MIN, TRAIL_LAST_MAX, &request->last_bytes)
			       ? detail_set(words, -WM_E_SPEC,
					    "last takes a size from 64K to 64G, not %.20s", option)
			       : 0;
	}
	if (!strcmp(option, kernel)) {
		if (request->has_kernel)
			return twice(option, words);
		request->has_kernel = 1;
		return 0;
	}
	if (origin < 0 && !is_auto)
		return is_module(request, option) ? name_take(&request->only, option, words)
						  : unknown(option, words);
	if (*has_origin)
		return twice(option, words);
	*has_origin = 1;
	request->is_auto = is_auto;
	if (!is_auto)
		request->origin = (enum origin)origin;
	return 0;
}

static int no_form(struct detail words)
{
	return detail_set(words, -WM_E_SPEC, "write trail/OPTION,OPTION/");
}

int trail_request_parse(struct trail_request *request, const char *text, struct detail words)
{
	const char *at = text + strlen(kind);
	int has_origin = 0, err = 0;

	*request = (struct trail_request){ .is_auto = 1 };
	detail_set(words, 0, "%s", "");
	if (!trail_request_is(text) || *at == ':')
		return no_form(words);
	if (!*at)
		return 0;
	if (at[1] && at[strlen(at) - 1] != '/')
		return detail_set(words, -WM_E_SPEC, SPEC_LACKS_SLASH "trail/soft/");
	while (!err && at[1]) {
		char option[OPTION_BYTES_MAX];
		size_t length = strcspn(at + 1, ",/");

		if (!length || length >= sizeof(option) ||
		    (at[1 + length] == '/' && at[2 + length]))
			return no_form(words);
		snprintf(option, sizeof(option), "%.*s", (int)length, at + 1);
		err = option_take(request, option, &has_origin, words);
		at += 1 + length;
		if (*at == '/')
			return err;
	}
	return err ? err : no_form(words);
}
