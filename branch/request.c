/* SPDX-License-Identifier: MIT */
#include "branch/request.h"

#include "base/similar_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* A number with nothing, K, M or G behind it. */
static int size_parse(const char *text, uint64_t *size)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;

	if (*text < '0' || *text > '9')
		return -WM_E_TRAIL_LAST;
	errno = 0;
	*size = strtoull(text, &end, 10);
	if (errno || *size > TRAIL_LAST_MAX)
		return -WM_E_TRAIL_LAST;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		int shift = 10 * (int)(unit - units + 1);

		*size = *size > TRAIL_LAST_MAX >> shift ? UINT64_MAX : *size << shift;
		end++;
	}
	return *end || *size < TRAIL_LAST_MIN || *size > TRAIL_LAST_MAX ? -WM_E_TRAIL_LAST : 0;
}

static int name_take(struct only_names *names, const char *name)
{
	if (!name[0] || strlen(name) >= ONLY_NAME_BYTES || names->count == ONLY_NAMES_MAX)
		return -WM_E_TRAIL_ONLY;
	for (uint32_t i = 0; i < names->count; i++)
		if (!strcmp(names->names[i], name))
			return -WM_E_TRAIL_ONLY;
	snprintf(names->names[names->count++], ONLY_NAME_BYTES, "%s", name);
	return 0;
}

/* Behind only= come names of modules: but nothing that looks like a setting. */
static int is_module(const struct trail_request *request, const char *option)
{
	return request->only.count && !strchr(option, '=');
}

static int option_take(struct trail_request *request, const char *option, int *has_origin)
{
	int origin = origin_of_name(option), is_auto = !strcmp(option, automatic);

	if (!strncmp(option, only, strlen(only)))
		return name_take(&request->only, option + strlen(only));
	if (!strncmp(option, last, strlen(last)))
		return request->last_bytes
			       ? -WM_E_SPEC
			       : size_parse(option + strlen(last), &request->last_bytes);
	if (!strcmp(option, kernel)) {
		if (request->has_kernel)
			return -WM_E_SPEC;
		request->has_kernel = 1;
		return 0;
	}
	if (origin < 0 && !is_auto)
		return is_module(request, option) ? name_take(&request->only, option)
						  : -WM_E_TRAIL_OPTION;
	if (*has_origin)
		return -WM_E_SPEC;
	*has_origin = 1;
	request->is_auto = is_auto;
	if (!is_auto)
		request->origin = (enum origin)origin;
	return 0;
}

static void say(const char *option, int error, char *words, size_t bytes)
{
	const char *names[ORIGINS + 4], *meant;

	for (int i = 0; i < ORIGINS; i++)
		names[i] = origin_name((enum origin)i);
	names[ORIGINS] = automatic;
	names[ORIGINS + 1] = "last=64M";
	names[ORIGINS + 2] = kernel;
	names[ORIGINS + 3] = "only=main";
	if (error == -WM_E_TRAIL_OPTION && similar_list(option, names, ORIGINS + 4, &meant, 1))
		snprintf(words, bytes, "%s; did you mean %s?", option, meant);
	else if (error == -WM_E_SPEC)
		snprintf(words, bytes, "%s: one origin, and each option once", option);
	else
		snprintf(words, bytes, "%s", option);
}

static int no_form(char *words, size_t bytes)
{
	snprintf(words, bytes, "write trail/OPTION,OPTION/");
	return -WM_E_SPEC;
}

int trail_request_parse(struct trail_request *request, const char *text, char *words, size_t bytes)
{
	const char *at = text + strlen(kind);
	int has_origin = 0, err = 0;

	*request = (struct trail_request){ .is_auto = 1 };
	if (bytes)
		words[0] = '\0';
	if (!trail_request_is(text) || *at == ':')
		return no_form(words, bytes);
	if (!*at)
		return 0;
	if (at[1] && at[strlen(at) - 1] != '/')
		return -WM_E_SPEC_SLASH;
	while (!err && at[1]) {
		char option[OPTION_BYTES_MAX];
		size_t length = strcspn(at + 1, ",/");

		if (!length || length >= sizeof(option) ||
		    (at[1 + length] == '/' && at[2 + length]))
			return no_form(words, bytes);
		snprintf(option, sizeof(option), "%.*s", (int)length, at + 1);
		err = option_take(request, option, &has_origin);
		if (err && bytes)
			say(option, err, words, bytes);
		at += 1 + length;
		if (*at == '/')
			return err;
	}
	return err ? err : no_form(words, bytes);
}
