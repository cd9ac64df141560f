/* SPDX-License-Identifier: MIT */
/* The types of handlers beside those of a process's markers and probes. */
#include "record/handler/handler_file.h"
#include "record/marker/catalog.h"
#include "record/session/process.h"
#include "record/spec/spec.h"
#include "target/process/loaded.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define TYPES_BYTES 256

static int mismatch(const struct handler_object *object, const struct control_handler *handler,
		    const char *module, const char *found, struct detail detail)
{
	char types[TYPES_BYTES];

	return detail_set(detail, -WM_E_HANDLER, "%s: %s: the handler has %s, and %s has %s",
			  object->path, handler->name,
			  handler_types(handler->types, types, sizeof(types)), module, found);
}

/* ---- markers ---- */

static int marker_check(const struct handler_object *object, const struct control_handler *handler,
			const struct catalog *catalog, struct detail detail)
{
	char types[TYPES_BYTES];

	for (size_t i = 0; i < catalog->count; i++) {
		const struct catalog_marker *marker = &catalog->markers[i];
		char kind = marker->kind == 'i' ? 'm' : marker->kind;

		if (kind == handler->kind && !strcmp(marker->name, handler->name) &&
		    memcmp(marker->types, handler->types, sizeof(handler->types)) != 0)
			return mismatch(object, handler, marker->module,
					handler_types(marker->types, types, sizeof(types)), detail);
	}
	return 0;
}

/* ---- functions and USDT probes ---- */

struct probe_check {
	const struct control_handler *handler;
	char found[TYPES_BYTES]; /* "": nothing is wrong */
};

/* What an argument needs of a register or of memory: bytes, and whether it is a float. */
static int type_class(uint8_t type)
{
	int is_float = type == WM_TYPE_F32 || type == WM_TYPE_F64;
	int bytes = type == WM_TYPE_STR ? 8 : site_type_bytes(type);

	return is_float ? -bytes : bytes;
}

static int place_check(const struct code_place *place, int err, const char *words, void *data)
{
	struct probe_check *check = data;
	const struct control_handler *handler = check->handler;
	uint8_t types[16] = { 0 };
	unsigned int count = 0;
	int differs = 0;

	(void)words;
	while (count < 16 && handler->types[count])
		count++;
	count -= handler_is_at_return(handler) ? 2 : 0;
	/* undescribed: any will do */
	if (err || !place->field_count)
		return 0;
	for (unsigned int i = 0; i < place->field_count && i < 16; i++) {
		types[i] = place->fields[i].type;
		if (strchr(place->fields[i].name, '.'))
			return 0; /* a structure's members: they have no numbers */
		if (i < count && type_class(types[i]) != type_class(handler->types[i]))
			differs = 1;
	}
	if (differs || count > place->field_count)
		handler_types(types, check->found, sizeof(check->found));
	return differs;
}

/* What the program says of the place by itself: not of fields that a spec names. */
static int probe_check(const struct handler_object *object, const struct control_handler *handler,
		       const struct code_request *asked, struct loaded_list *list,
		       struct detail detail)
{
	struct code_process process = loaded_process(list);
	struct code_request request = *asked;

	request.wish_count = 0;
	request.is_exact = request.is_once = request.wants_return = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct loaded *loaded = &list->all[i];
		struct probe_check check = { .handler = handler };

		if (!loaded->module ||
		    !code_request_takes(&request, loaded->path, &loaded->aliases))
			continue;
		code_resolve(&request, loaded->module, &process, place_check, &check);
		if (check.found[0])
			return mismatch(object, handler, loaded->path, check.found, detail);
	}
	return 0;
}

/* ---- all ---- */

/* The spec of a function's or probe's handler; NULL: it is a marker's. */
static const struct spec *spec_of(const struct spec_list *specs, unsigned int number)
{
	for (size_t i = 0; i < specs->count; i++)
		if (specs->all[i].handler == number && specs->all[i].request)
			return &specs->all[i];
	return NULL;
}

static int check_all(const struct wm_session *session, const struct catalog *catalog,
		     struct loaded_list *list, struct detail detail)
{
	int err = 0;

	for (size_t o = 0; o < session->handlers->count; o++) {
		const struct handler_object *object = &session->handlers->objects[o];

		for (unsigned int i = 0; i < object->count && !err; i++) {
			const struct spec *spec = spec_of(session->specs, object->first + i + 1);

			err = spec ? probe_check(object, &object->all[i], spec->request, list,
						 detail)
				   : marker_check(object, &object->all[i], catalog, detail);
		}
	}
	return err;
}

int handlers_check(const struct wm_session *session, const struct process *process,
		   struct detail detail)
{
	struct catalog catalog = { 0 };
	struct loaded_list list = { 0 };
	int err = catalog_add_process(&catalog, process->pid, detail);

	if (!err)
		err = loaded_read(&list, process->pid);
	if (!err)
		err = loaded_open(&list);
	if (!err)
		err = check_all(session, &catalog, &list, detail);
	loaded_release(&list);
	catalog_release(&catalog);
	return err == -ESRCH ? -WM_E_GONE : err;
}
