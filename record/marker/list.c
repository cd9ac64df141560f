/* SPDX-License-Identifier: MIT */
/* waymark/list.h: the catalog gives the markers, the listing gives places in code. */
#include "base/fieldname.h"
#include "record/marker/catalog.h"
#include "record/probe/listing.h"
#include "target/code/probe_place.h"
#include "target/process/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>
#include <waymark/list.h>

#define MARKER_FIELDS_MAX 16

struct list {
	struct spec_list specs; /* with one spec */
	int (*place)(const struct wm_list_place *place, void *data);
	void *data;
	int result; /* of the callback; other than 0 ends the list */
};

static void list_give(struct list *list, struct wm_list_place *place)
{
	place->size = sizeof(*place);
	if (!list->result)
		list->result = list->place(place, list->data);
}

static void give_fault(const char *module, int error, void *data)
{
	struct wm_list_place place = {
		.name = "", .module = module, .source = "", .error = error, .detail = ""
	};

	list_give(data, &place);
}

/* ---- markers ---- */

static void give_marker(struct list *list, const struct catalog_marker *marker)
{
	char names[MARKER_FIELDS_MAX][FIELDNAME_BYTES];
	struct wm_list_field fields[MARKER_FIELDS_MAX];
	struct wm_list_place place = {
		.kind = marker->kind,
		.name = marker->name,
		.module = marker->module,
		.fields = fields,
		.returns = fields,
		.error = marker->types_differ ? -WM_E_FIELD_TYPES
			 : marker->refusal    ? -WM_E_INJECT
					      : 0,
		.detail = marker->refusal && !marker->types_differ ? marker->refusal : "",
	};
	uint32_t count = 0;

	while (count < MARKER_FIELDS_MAX && marker->types[count])
		count++;
	fieldname_list(marker->fields, (int)count, names);
	for (uint32_t i = 0; i < count; i++)
		fields[i] = (struct wm_list_field){ names[i], marker->types[i] };
	place.field_count = place.error ? 0 : count;
	for (size_t i = 0; i < marker->site_count; i++) {
		const struct catalog_site *site = &marker->sites[i];

		place.address = site->address;
		place.source = site->file;
		place.line = site->line;
		list_give(list, &place);
	}
}

static int list_markers(struct list *list, pid_t pid, const char *path)
{
	struct catalog catalog = { 0 };
	struct spec *spec = &list->specs.all[0];
	char words[256];
	int err = path ? catalog_add_file(&catalog, path)
		       : catalog_add_process(&catalog, pid,
					     (struct detail){ words, sizeof(words) });

	if (!err)
		catalog_sort(&catalog);
	for (size_t i = 0; !err && i < catalog.fault_count; i++)
		give_fault(catalog.faults[i].module, catalog.faults[i].error, list);
	for (size_t i = 0; !err && i < catalog.count; i++)
		if (spec_matches(spec, catalog.markers[i].name)) {
			spec->matches++;
			give_marker(list, &catalog.markers[i]);
		}
	catalog_release(&catalog);
	return err;
}

/* ---- places in code ---- */

static uint32_t fields_take(struct wm_list_field *to, const struct code_field *from,
			    unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		to[i] = (struct wm_list_field){ from[i].name, from[i].type };
	return count;
}

static void take_place(const struct listing_place *listed, void *data)
{
	const struct code_place *from = listed->place;
	struct wm_list_field fields[CODE_FIELDS_MAX], returns[CODE_RETURNS_MAX];
	char name[512];
	struct wm_list_place place = {
		.kind = from->kind == PLACE_USDT       ? 'u'
			: from->kind == PLACE_FUNCTION ? 'f'
						       : 'a',
		.name = name,
		.module = listed->module,
		.address = listed->address,
		.source = from->source ? from->source : "",
		.line = from->line,
		.fields = fields,
		.returns = returns,
		.error = listed->error,
		.detail = listed->detail,
	};

	snprintf(name, sizeof(name), "%s:%s", from->subsystem, from->event);
	if (!listed->error) {
		place.field_count = fields_take(fields, from->fields, from->field_count);
		place.return_count = from->wants_return
					     ? fields_take(returns, code_place_returns(from),
							   from->return_count)
					     : 0;
	}
	list_give(data, &place);
}

static int is_over(void *data)
{
	const struct list *list = data;

	return list->result;
}

static int list_code(struct list *list, pid_t pid, const char *path)
{
	struct listing listing = {
		.specs = &list->specs,
		.place = take_place,
		.fault = give_fault,
		.is_over = is_over,
		.data = list,
	};
	int err = path ? listing_file(&listing, path) : listing_process(&listing, pid);

	name_list_release(&listing.names);
	return err;
}

/* ---- all ---- */

static int list_all(struct list *list, pid_t pid, const char *path, const char *text)
{
	const struct spec *spec;
	int err = spec_add(&list->specs, text);

	if (err)
		return err;
	spec = &list->specs.all[0];
	if (!spec->glob && !spec->request)
		return -WM_E_SPEC;
	err = spec->glob ? list_markers(list, pid, path) : list_code(list, pid, path);
	if (list->result || err)
		return list->result ? list->result : err;
	return spec->matches || spec_is_glob(spec) ? 0 : spec_missing(spec);
}

static int list_spec(pid_t pid, const char *path, const char *spec,
		     int (*place)(const struct wm_list_place *place, void *data), void *data)
{
	struct list list = { .place = place, .data = data };
	int err = list_all(&list, pid, path, spec);

	spec_list_release(&list.specs);
	return err;
}

int wm_list_process(pid_t pid, const char *spec,
		    int (*place)(const struct wm_list_place *place, void *data), void *data)
{
	struct session_call call SESSION_CALL = session_call_begin();

	return pid > 0 && spec && place ? list_spec(pid, NULL, spec, place, data) : -EINVAL;
}

int wm_list_file(const char *path, const char *spec,
		 int (*place)(const struct wm_list_place *place, void *data), void *data)
{
	struct session_call call SESSION_CALL = session_call_begin();

	return path && spec && place ? list_spec(0, path, spec, place, data) : -EINVAL;
}
