/* SPDX-License-Identifier: MIT */
#include "record/spec/spec.h"

#include "base/name_match.h"
#include "record/spec/cost_spec.h"
#include "target/code/symbol.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define SPEC_BYTES_MAX 1024

/* Kinds of events that are places in code. */
static const char *const place_kinds[] = { "usdt", "func", "addr" };

/* Whether it is a name or glob: characters of identifiers and of fnmatch(3), brackets closed. */
static int name_check(const char *name, size_t bytes)
{
	int in_brackets = 0;

	if (!bytes)
		return 0;
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c == '[')
			in_brackets = 1;
		else if (c == ']' && in_brackets)
			in_brackets = 0;
		else if (in_brackets ? !isgraph(c) : !isalnum(c) && !strchr("_*?$", c) && c < 0x80)
			return 0;
	}
	return !in_brackets;
}

static int is_of_place(const char *text)
{
	size_t bytes = strcspn(text, ":/");

	for (size_t i = 0; i < sizeof(place_kinds) / sizeof(place_kinds[0]); i++)
		if (strlen(place_kinds[i]) == bytes && !memcmp(text, place_kinds[i], bytes))
			return 1;
	return 0;
}

static int refuse(struct spec_list *list, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(struct spec_list *list, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(list->words, sizeof(list->words), format, arguments);
	va_end(arguments);
	return error;
}

/* Find SUBSYS:EVENT in a spec, and check it. */
static int glob_find(struct spec_list *list, const char *text, const char **glob)
{
	const char *first = strchr(text, ':');
	const char *second = first ? strchr(first + 1, ':') : NULL;
	int kind = (int)strcspn(text, ":/");

	*glob = text;
	if (strlen(text) > SPEC_BYTES_MAX)
		return refuse(list, -WM_E_SPEC, "longer than %d bytes", SPEC_BYTES_MAX);
	if (!strncmp(text, "marker:", 7)) {
		if (!second)
			return refuse(list, -WM_E_SPEC, "there is no second colon");
		*glob = text + 7;
		first = second;
	} else if (!first || second) {
		return refuse(list, -WM_E_SPEC,
			      "%.*s is not marker, usdt, func, addr, watch, trail, count, "
			      "sample, switch, fault, tracepoint or kprobe",
			      kind > 40 ? 40 : kind, text);
	}
	if (!name_check(*glob, (size_t)(first - *glob)))
		return refuse(list, -WM_E_SPEC, "\"%.*s\" is no SUBSYSTEM and no glob",
			      (int)(first - *glob > 40 ? 40 : first - *glob), *glob);
	if (!name_check(first + 1, strlen(first + 1)))
		return refuse(list, -WM_E_SPEC, "\"%.40s\" is no EVENT and no glob", first + 1);
	return 0;
}

static void spec_release(struct spec *spec)
{
	if (spec->request)
		code_request_release(spec->request);
	free(spec->request);
	free(spec->trail);
	if (spec->watch)
		expression_release(spec->watch);
	free(spec->watch);
	free(spec->kernel);
	free(spec->text);
	free(spec->glob);
	free(spec->detail);
	name_list_release(&spec->names);
}

static int request_make(struct spec *spec, struct spec_list *list, const char *text)
{
	int err;

	if (cost_is_misplaced(text))
		return refuse(list, -WM_E_SPEC,
			      "only markers have counts: marker:SUBSYSTEM:EVENT/count=NAME/");
	spec->request = calloc(1, sizeof(*spec->request));
	if (!spec->request)
		return -ENOMEM;
	err = code_request_parse(spec->request, text);
	if (err)
		snprintf(list->words, sizeof(list->words), "%s", spec->request->wrong);
	return err;
}

static int trail_make(struct spec *spec, struct spec_list *list, const char *text)
{
	int err;

	spec->trail = calloc(1, sizeof(*spec->trail));
	if (!spec->trail)
		return -ENOMEM;
	err = trail_request_parse(spec->trail, text,
				  (struct detail){ list->words, sizeof(list->words) });
	if (!err && spec_trail(list))
		return refuse(list, -WM_E_SPEC_TWICE, "a recording has one trail spec at most");
	return err;
}

static int watch_make(struct spec *spec, struct spec_list *list, const char *text)
{
	struct watch_trouble trouble = { 0 };
	int err;

	spec->watch = calloc(1, sizeof(*spec->watch));
	if (!spec->watch)
		return -ENOMEM;
	err = expression_parse(spec->watch, text, &trouble);
	if (err)
		snprintf(list->words, sizeof(list->words), "%.*s", (int)sizeof(list->words) - 1,
			 trouble.detail);
	return err;
}

static int kernel_make(struct spec *spec, struct spec_list *list, const char *text)
{
	spec->kernel = calloc(1, sizeof(*spec->kernel));
	if (!spec->kernel)
		return -ENOMEM;
	return kernel_spec_parse(spec->kernel, text,
				 (struct detail){ list->words, sizeof(list->words) });
}

static int marker_make(struct spec *spec, struct spec_list *list, const char *text)
{
	const char *options = cost_options_find(text), *glob;
	char *name = strndup(text, options ? (size_t)(options - text) : strlen(text));
	int err = name ? glob_find(list, name, &glob) : -ENOMEM;

	if (!err && options)
		err = cost_options_read(options, &spec->costs,
					(struct detail){ list->words, sizeof(list->words) });
	if (!err) {
		spec->glob = strdup(glob);
		err = spec->glob ? 0 : -ENOMEM;
	}
	free(name);
	return err;
}

static int is_same(const struct spec *a, const struct spec *b)
{
	if (a->glob && b->glob)
		return !strcmp(a->glob, b->glob);
	return !a->glob && !b->glob && !strcmp(a->text, b->text);
}

int spec_add(struct spec_list *list, const char *text)
{
	struct spec *more, spec = { 0 };
	int err;

	if (!text)
		return -WM_E_SPEC;
	list->words[0] = '\0';
	if (trail_request_is(text))
		err = trail_make(&spec, list, text);
	else if (kernel_spec_is(text))
		err = kernel_make(&spec, list, text);
	else if (expression_is(text))
		err = watch_make(&spec, list, text);
	else
		err = is_of_place(text) ? request_make(&spec, list, text)
					: marker_make(&spec, list, text);
	if (!err) {
		spec.text = strdup(text);
		err = spec.text ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !err && i < list->count; i++)
		if (is_same(&list->all[i], &spec))
			err = -WM_E_SPEC_TWICE;
	more = err ? NULL : realloc(list->all, (list->count + 1) * sizeof(*more));
	if (!err && !more)
		err = -ENOMEM;
	if (err) {
		spec_release(&spec);
		return err;
	}
	list->all = more;
	list->all[list->count++] = spec;
	return 0;
}

void spec_drop(struct spec_list *list)
{
	spec_release(&list->all[--list->count]);
}

const struct trail_request *spec_trail(const struct spec_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->all[i].trail)
			return list->all[i].trail;
	return NULL;
}

size_t spec_count_markers(const struct spec_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += list->all[i].glob != NULL;
	return count;
}

size_t spec_count_requests(const struct spec_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += list->all[i].request != NULL;
	return count;
}

size_t spec_count_watches(const struct spec_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += list->all[i].watch != NULL;
	return count;
}

uint32_t spec_costs(const struct spec_list *list)
{
	uint32_t costs = 0;

	for (size_t i = 0; i < list->count; i++)
		costs |= list->all[i].costs;
	return costs;
}

static int request_reads_strings(const struct code_request *request)
{
	int reads = request->return_type == WM_TYPE_STR;

	for (unsigned int i = 0; i < request->wish_count; i++)
		reads |= request->wishes[i].type == WM_TYPE_STR;
	return reads;
}

int spec_reads_strings(const struct spec_list *list)
{
	int reads = 0;

	for (size_t i = 0; i < list->count; i++)
		reads |= list->all[i].request && request_reads_strings(list->all[i].request);
	return reads;
}

/* The error if nothing was found, by enum code_request_kind. */
static const int nothing[] = { -WM_E_NO_USDT, -WM_E_NO_FUNCTION, -WM_E_NOT_CODE, -WM_E_NO_DEBUG };

static int is_nothing(int error)
{
	return error == -WM_E_NO_SYMBOLS || error == nothing[REQUEST_USDT] ||
	       error == nothing[REQUEST_FUNCTION] || error == nothing[REQUEST_OFFSET] ||
	       error == nothing[REQUEST_LINE];
}

void spec_keep_error(struct spec *spec, int error, const char *detail, int is_place)
{
	if (spec->is_of_place)
		return;
	spec->is_of_place = is_place;
	/* the module that can't be read may be the one that has it */
	if (!is_place && spec->error && !is_nothing(spec->error))
		return;
	if (!is_place && is_nothing(error) && spec->error && spec->error != error &&
	    !spec->request->module)
		error = nothing[spec->request->kind];
	if (spec->error == error)
		return;
	spec->error = error;
	free(spec->detail);
	spec->detail = detail && *detail ? strdup(detail) : NULL;
}

int spec_matches(const struct spec *spec, const char *name)
{
	return spec->glob && name_match(spec->glob, name);
}

int spec_name_of(const char *text, char *name, size_t bytes)
{
	const char *subsys = strchr(text, '\n');
	const char *event = subsys ? strchr(subsys + 1, '\n') : NULL;
	const char *end = event ? strchr(event + 1, '\n') : NULL;
	int took;

	if (!end)
		return -EINVAL;
	took = snprintf(name, bytes, "%.*s:%.*s", (int)(event - subsys - 1), subsys + 1,
			(int)(end - event - 1), event + 1);
	return took > 0 && (size_t)took < bytes ? 0 : -EINVAL;
}

int spec_is_glob(const struct spec *spec)
{
	const struct code_request *request = spec->request;

	if (!request)
		return spec->glob && code_is_glob(spec->glob);
	return (request->name && code_is_glob(request->name)) ||
	       (request->module && code_is_glob(request->module));
}

int spec_missing(const struct spec *spec)
{
	if (spec->trail || spec->watch || spec->kernel || spec->placed)
		return 0;
	if (!spec->request)
		return spec->matches ? -WM_E_ALL_REFUSED : -WM_E_NO_MARKER;
	if (!spec->modules)
		return -WM_E_NO_MODULE;
	if (spec->error)
		return spec->error;
	return spec->request->kind == REQUEST_USDT ? -WM_E_NO_USDT : -WM_E_NO_FUNCTION;
}

void spec_count_match(struct spec_list *list, const char *name, int is_armed)
{
	for (size_t i = 0; i < list->count; i++)
		if (spec_matches(&list->all[i], name)) {
			list->all[i].matches++;
			list->all[i].placed += is_armed != 0;
		}
}

void spec_list_release(struct spec_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		spec_release(&list->all[i]);
	free(list->all);
	*list = (struct spec_list){ 0 };
}
