/* SPDX-License-Identifier: MIT */
#include "cli/watch_where.h"

#include "base/array.h"
#include "history/image.h"
#include "session/process.h"
#include "trace/out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A place that was asked for. */
struct known {
	struct where where;
	char *texts; /* of `where`: the image that had them goes when modules come */
};

/* A process, as the image reads it. One that executes another program is another: it has another number in the session. */
struct seen {
	uint32_t number;
	struct tsdl_process process;
	struct image *image;
	struct known **places; /* by address */
	size_t place_count, place_room;
};

struct watch_wheres {
	struct wm_session *session;
	struct image_files *files;
	struct seen **all;
	size_t count, room;
};

int watch_wheres_new(struct watch_wheres **out, struct wm_session *session)
{
	struct watch_wheres *wheres = *out = calloc(1, sizeof(*wheres));

	if (!wheres)
		return -ENOMEM;
	wheres->session = session;
	return image_files_open(&wheres->files, "");
}

static void seen_free(struct seen *seen)
{
	image_close(seen->image);
	for (size_t i = 0; i < seen->process.module_count; i++) {
		free(seen->process.modules[i].path);
		free(seen->process.modules[i].build_id);
	}
	free(seen->process.modules);
	for (size_t i = 0; i < seen->place_count; i++) {
		free(seen->places[i]->texts);
		free(seen->places[i]);
	}
	free(seen->places);
	free(seen);
}

void watch_wheres_free(struct watch_wheres *wheres)
{
	if (!wheres)
		return;
	for (size_t i = 0; i < wheres->count; i++)
		seen_free(wheres->all[i]);
	free(wheres->all);
	image_files_close(wheres->files);
	free(wheres);
}

/* ---- processes ---- */

static char *hex_of(const uint8_t *bytes, size_t count)
{
	char *text = malloc(2 * count + 1);

	for (size_t i = 0; text && i < count; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return text;
}

static int module_take(struct tsdl_process *to, const struct process_module *from)
{
	struct tsdl_module *module;

	if (array_grow(&to->modules, &to->module_room, to->module_count + 1, sizeof(*to->modules)))
		return -ENOMEM;
	module = &to->modules[to->module_count++];
	*module = (struct tsdl_module){ .base = from->about.base, .gone = from->about.gone };
	module->path = strdup(from->path);
	if (from->about.build_id_bytes)
		module->build_id = hex_of(from->about.build_id, from->about.build_id_bytes);
	return module->path && !from->about.build_id_bytes == !module->build_id ? 0 : -ENOMEM;
}

static const struct process *process_of(const struct wm_session *session, uint32_t number)
{
	const struct process *process = session->processes;

	while (process && process->number != number)
		process = process->next;
	return process;
}

/* Modules that came since the image was made: it is made anew then. */
static int seen_refresh(struct watch_wheres *wheres, struct seen *seen,
			const struct process *process)
{
	if (seen->image && (!process || process->module_count == seen->process.module_count))
		return 0;
	image_close(seen->image);
	seen->image = NULL;
	for (size_t i = seen->process.module_count; process && i < process->module_count; i++)
		if (module_take(&seen->process, &process->modules[i]))
			return -ENOMEM;
	return image_open(&seen->image, &seen->process,
			  &(struct image_options){ .files = wheres->files });
}

static struct seen *seen_of(struct watch_wheres *wheres, uint32_t number)
{
	const struct process *process = process_of(wheres->session, number);
	struct seen *seen = NULL;

	for (size_t i = wheres->count; i-- && !seen;)
		if (wheres->all[i]->number == number)
			seen = wheres->all[i];
	if (!seen) {
		seen = calloc(1, sizeof(*seen));
		if (!seen || array_grow(&wheres->all, &wheres->room, wheres->count + 1,
					sizeof(struct seen *))) {
			free(seen);
			return NULL;
		}
		wheres->all[wheres->count++] = seen;
		seen->number = number;
	}
	return seen_refresh(wheres, seen, process) ? NULL : seen;
}

/* ---- places ---- */

static size_t place_index(const struct seen *seen, uint64_t address)
{
	size_t low = 0, high = seen->place_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (seen->places[middle]->where.address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const char *copy(char **at, const char *text)
{
	char *to = *at;

	if (!text)
		return NULL;
	*at = stpcpy(to, text) + 1;
	return to;
}

static size_t room_of(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static struct known *known_new(struct image *image, uint64_t address)
{
	const struct image_place *place = image_place(image, address);
	struct known *known = place ? calloc(1, sizeof(*known)) : NULL;
	struct image_line line;
	const char *module;
	char *at;

	if (!known)
		return NULL;
	image_line(image, address, &line);
	module = place->module ? place->module->name : NULL;
	at = known->texts = malloc(room_of(module) + room_of(place->function) +
				   room_of(line.source) + 1);
	if (!at) {
		free(known);
		return NULL;
	}
	known->where = (struct where){
		.address = address,
		.module = copy(&at, module),
		.function = copy(&at, place->function),
		.source = copy(&at, line.source),
		.line = line.line,
	};
	if (place->function)
		known->where.offset = address - place->start;
	else if (place->module)
		known->where.offset = address - place->module->base;
	return known;
}

const struct where *watch_where(struct watch_wheres *wheres, uint32_t process, uint64_t address)
{
	struct seen *seen = seen_of(wheres, process);
	struct known *known;
	size_t at;

	if (!seen)
		return NULL;
	at = place_index(seen, address);
	if (at < seen->place_count && seen->places[at]->where.address == address)
		return &seen->places[at]->where;
	known = known_new(seen->image, address);
	if (!known || array_grow(&seen->places, &seen->place_room, seen->place_count + 1,
				 sizeof(struct known *))) {
		if (known)
			free(known->texts);
		free(known);
		return NULL;
	}
	memmove(seen->places + at + 1, seen->places + at,
		(seen->place_count - at) * sizeof(struct known *));
	seen->places[at] = known;
	seen->place_count++;
	return &known->where;
}

char *watch_where_text(const struct where *where, char *text, size_t room)
{
	char plain[512];
	const char *slash = where->source ? strrchr(where->source, '/') : NULL;
	const char *source = slash && slash[1] ? slash + 1 : where->source;

	if (!where->address)
		snprintf(plain, sizeof(plain), "?");
	else if (where->function && source)
		snprintf(plain, sizeof(plain), "%s (%s:%u)", where->function, source, where->line);
	else if (where->function)
		snprintf(plain, sizeof(plain), "%s+0x%llx", where->function,
			 (unsigned long long)where->offset);
	else if (where->module)
		snprintf(plain, sizeof(plain), "%s+0x%llx", where->module,
			 (unsigned long long)where->offset);
	else
		snprintf(plain, sizeof(plain), "0x%llx", (unsigned long long)where->address);
	out_tame(text, room, plain);
	return text;
}
