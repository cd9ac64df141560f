/* SPDX-License-Identifier: MIT */
#include "record/spec/spec.h"

#include "base/name_match.h"
#include "base/predicate.h"
#include "target/code/symbol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

void spec_release(struct spec *spec)
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
	*spec = (struct spec){ 0 };
}

static int is_same(const struct spec *a, const struct spec *b)
{
	if (a->is_removed)
		return 0;
	/* the same markers by other predicates are another spec */
	if (a->glob && b->glob && !a->predicate_count && !b->predicate_count &&
	    !a->sums.is_wanted && !b->sums.is_wanted)
		return !strcmp(a->glob, b->glob);
	return !strcmp(a->text, b->text);
}

/* What a spec's only event is surely called, SUBSYSTEM:EVENT, in text[]; "": not known yet. */
static const char *event_of(const struct spec *spec, char *text, size_t bytes)
{
	const struct code_request *request = spec->request;

	if (request && *request->event)
		snprintf(text, bytes, "%s:%s", request->subsystem, request->event);
	else if (!spec_is_glob(spec) && (spec->glob || (request && request->kind == REQUEST_USDT)))
		return spec->glob ? spec->glob : request->name;
	else
		return "";
	return text;
}

/* Whether two specs' events have one name, and one of them was given it. */
static int is_same_event(const struct spec *a, const struct spec *b)
{
	char text_a[2 * CODE_NAME_BYTES], text_b[2 * CODE_NAME_BYTES];
	int is_given = (a->request && *a->request->event) || (b->request && *b->request->event);
	const char *event = is_given ? event_of(a, text_a, sizeof(text_a)) : "";

	return *event && !strcmp(event, event_of(b, text_b, sizeof(text_b)));
}

int spec_add(struct spec_list *list, const char *text)
{
	struct detail wrong = { list->words, sizeof(list->words) };
	struct spec *more, spec;
	int err = text ? spec_read(&spec, text, wrong) : -WM_E_SPEC;

	if (err)
		return err;
	if (spec.trail && spec_trail(list))
		err = detail_set(wrong, -WM_E_SPEC_TWICE, "a recording has one trail spec at most");
	for (size_t i = 0; !err && i < list->count; i++)
		if (is_same(&list->all[i], &spec))
			err = -WM_E_SPEC_TWICE;
		else if (is_same_event(&list->all[i], &spec))
			err = detail_set(wrong, -WM_E_SPEC,
					 "its event has the name of that of %s: give it another",
					 list->all[i].text);
	more = err ? NULL : realloc(list->all, (list->count + 1) * sizeof(*more));
	if (!more) {
		spec_release(&spec);
		return err ? err : -ENOMEM;
	}
	list->all = more;
	list->all[list->count++] = spec;
	return 0;
}

struct spec *spec_find(const struct spec_list *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++)
		if (!list->all[i].is_removed && !strcmp(list->all[i].text, text))
			return &list->all[i];
	return NULL;
}

struct spec spec_take_out(struct spec *spec)
{
	struct spec taken = *spec;

	*spec = (struct spec){ .text = taken.text, .is_removed = 1 };
	return taken;
}

void spec_put_back(struct spec_list *list, struct spec *taken)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->all[i].text == taken->text)
			list->all[i] = *taken;
	*taken = (struct spec){ 0 };
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

size_t spec_count(const struct spec_list *list, size_t member)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += *(void *const *)(const void *)((const char *)&list->all[i] + member) !=
			 NULL;
	return count;
}

uint32_t spec_costs(const struct spec_list *list)
{
	uint32_t costs = 0;

	for (size_t i = 0; i < list->count; i++)
		costs |= list->all[i].costs;
	return costs;
}

int spec_marker_predicates(const struct spec_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (!list->all[i].kernel &&
		    (list->all[i].predicate_count || list->all[i].sums.is_wanted))
			return 1;
	return 0;
}

int spec_sums(const struct spec_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct spec *spec = &list->all[i];

		if (spec->sums.is_wanted || (spec->request && spec->request->sums.is_wanted))
			return 1;
	}
	return 0;
}

int spec_callers(const struct spec_list *list)
{
	int any = 0;

	for (size_t i = 0; i < list->count; i++)
		any |= list->all[i].callers ||
		       (list->all[i].request && list->all[i].request->callers);
	return any;
}

static int request_reads_strings(const struct code_request *request)
{
	int reads = request->return_type == WM_TYPE_STR;

	for (unsigned int i = 0; i < request->wish_count; i++)
		reads |= request->wishes[i].type == WM_TYPE_STR;
	for (unsigned int i = 0; i < request->predicate_count; i++)
		reads |= (request->predicates[i].forms & PREDICATE_TEXT) != 0;
	return reads;
}

int spec_reads_strings(const struct spec_list *list)
{
	int reads = 0;

	for (size_t i = 0; i < list->count; i++)
		reads |= list->all[i].request && request_reads_strings(list->all[i].request);
	return reads;
}

int spec_is_on_caller(const struct predicate *predicate)
{
	uint8_t type;

	return predicate_context(predicate->name, &type) == PREDICATE_OF_caller;
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
	if (spec->trail || spec->watch || spec->kernel || spec->placed || spec->is_removed)
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
