/* SPDX-License-Identifier: MIT */
#include "cli/watch_where.h"

#include "base/array.h"
#include "base/name_match.h"
#include "base/out.h"
#include "record/session/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A place that was asked for. Its texts are its own: the image goes when modules come. */
struct known {
	struct where where;
	uint32_t then; /* image_then() */
	int is_return; /* the address is where a call returns to: the place is the call's */
};

/*
 * A process, as the image reads it. One that executes another program is another: it has another
 * number in the session.
 */
struct seen {
	uint32_t number;
	struct fact_process process;
	struct image *image;
	struct known **places; /* by address, then by is_return, then by `then` */
	size_t place_count, place_room;
};

struct watch_wheres {
	struct wm_session *session;	   /* NULL: */
	const struct trace_reader *reader; /* it is of a trace */
	struct image_files *files;
	struct seen **all;
	size_t count, room;
};

static int wheres_new(struct watch_wheres **out)
{
	struct watch_wheres *wheres = *out = calloc(1, sizeof(*wheres));

	return wheres ? image_files_open(&wheres->files, "") : -ENOMEM;
}

int watch_wheres_new(struct watch_wheres **wheres, struct wm_session *session)
{
	int err = wheres_new(wheres);

	if (!err)
		(*wheres)->session = session;
	return err;
}

int watch_wheres_read(struct watch_wheres **wheres, const struct trace_reader *reader)
{
	int err = wheres_new(wheres);

	if (!err)
		(*wheres)->reader = reader;
	return err;
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
		spot_release(&seen->places[i]->where.spot);
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

static int module_take(struct fact_process *to, const struct process_module *from)
{
	struct fact_module *module;

	if (array_grow(&to->modules, &to->module_room, to->module_count + 1, sizeof(*to->modules)))
		return -ENOMEM;
	module = &to->modules[to->module_count++];
	*module = (struct fact_module){ .base = from->about.base,
					.ns = from->ns,
					.gone = from->about.gone };
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

/* Make the image again if modules came since. */
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

/* Read the process's modules from the trace; a process that the trace lacks has none. */
static int seen_read(struct watch_wheres *wheres, struct seen *seen)
{
	const struct facts *meta = &wheres->reader->meta;
	const struct fact_process *process = seen->number < meta->process_count
						     ? &meta->processes[seen->number]
						     : &seen->process;

	return seen->image ? 0
			   : image_open(&seen->image, process,
					&(struct image_options){ .files = wheres->files,
								 .trace = wheres->reader });
}

static struct seen *seen_of(struct watch_wheres *wheres, uint32_t number)
{
	struct seen *seen = NULL;
	int err;

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
	err = wheres->reader ? seen_read(wheres, seen)
			     : seen_refresh(wheres, seen, process_of(wheres->session, number));
	return err ? NULL : seen;
}

/* ---- places ---- */

/* Whose addresses are asked for, and of when. */
struct asked {
	uint32_t process;
	uint64_t ns; /* the time, by the wall clock */
};

static int known_compare(const struct known *known, uint64_t address, int is_return, uint32_t then)
{
	if (known->where.address != address)
		return known->where.address < address ? -1 : 1;
	if (known->is_return != is_return)
		return known->is_return - is_return;
	return (known->then > then) - (known->then < then);
}

/* Where a place is, or would be. */
static size_t place_index(const struct seen *seen, uint64_t address, int is_return, uint32_t then)
{
	size_t low = 0, high = seen->place_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (known_compare(seen->places[middle], address, is_return, then) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct known *known_new(struct image *image, uint64_t address, int is_return, uint32_t then)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->where.address = address;
	known->is_return = is_return;
	known->then = then;
	known->where.is_restorer = spot_is_restorer(image, address);
	if (!spot_find(&known->where.spot, image, address - (uint64_t)is_return)) {
		known->where.spot.offset += (uint64_t)is_return;
		return known;
	}
	spot_release(&known->where.spot);
	free(known);
	return NULL;
}

static const struct where *where_of(struct watch_wheres *wheres, const struct asked *asked,
				    uint64_t address, int is_return)
{
	struct seen *seen = seen_of(wheres, asked->process);
	struct image *image;
	struct known *known;
	uint32_t then;
	size_t at;

	image = seen ? image_then(seen->image, asked->ns, &then) : NULL;
	if (!image)
		return NULL;
	at = place_index(seen, address, is_return, then);
	if (at < seen->place_count && !known_compare(seen->places[at], address, is_return, then))
		return &seen->places[at]->where;
	if (array_grow(&seen->places, &seen->place_room, seen->place_count + 1,
		       sizeof(struct known *)))
		return NULL;
	known = known_new(image, address, is_return, then);
	if (!known)
		return NULL;
	memmove(seen->places + at + 1, seen->places + at,
		(seen->place_count - at) * sizeof(struct known *));
	seen->places[at] = known;
	seen->place_count++;
	return &known->where;
}

const struct where *watch_where_at(struct watch_wheres *wheres, uint32_t process, uint64_t ns,
				   uint64_t address)
{
	return where_of(wheres, &(struct asked){ process, ns }, address, 0);
}

/* A hit's addresses, by the names of its event's fields (abi/watch.h). */
struct addresses {
	uint64_t ip, callers[WATCH_CALLERS_SHOWN];
	unsigned int count;
};

static void address_take(struct addresses *to, const char *name, uint64_t value)
{
	if (!strcmp(name, "ip"))
		to->ip = value;
	else if (!strncmp(name, "caller", 6) && to->count < WATCH_CALLERS_SHOWN)
		to->callers[to->count++] = value;
}

/* The places up to the first 0. */
static int make(struct watch_wheres *wheres, const struct asked *asked, const struct addresses *of,
		struct where_backtrace *backtrace)
{
	const struct where *frame = where_of(wheres, asked, of->ip, 0);

	backtrace->count = 0;
	for (unsigned int i = 0;; i++) {
		if (!frame)
			return -ENOMEM;
		backtrace->frames[backtrace->count++] = frame;
		if (i == of->count || !of->callers[i])
			return 0;
		/* a signal comes between two instructions: there is no call before */
		frame = where_of(wheres, asked, of->callers[i], !frame->is_restorer);
	}
}

int watch_backtrace_event(struct watch_wheres *wheres, uint32_t process,
			  const struct wm_event *event, struct where_backtrace *backtrace)
{
	struct addresses addresses = { 0 };

	for (uint32_t i = 0; i < event->field_count; i++)
		if (event->fields[i].type == WM_TYPE_PTR)
			address_take(&addresses, event->fields[i].name, event->fields[i].value.u);
	return make(wheres, &(struct asked){ process, event->realtime_ns }, &addresses, backtrace);
}

int watch_backtrace_has(const struct trace_class *class)
{
	return !strncmp(class->name, "watch:", 6) && class->count && class->fixed_bytes >= 0 &&
	       class->types[0] == WM_TYPE_PTR && !strcmp(class->fields[0], "ip");
}

int watch_backtrace_read(struct watch_wheres *wheres, const struct merge_event *event,
			 struct where_backtrace *backtrace)
{
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct wm_event made;

	merge_event_make(event, &made, fields);
	return watch_backtrace_event(wheres, event->stream->process, &made, backtrace);
}

/* ---- text ---- */

/* One function's part, in text[room]. Returns its length. */
static size_t frame_text(const struct where *where, size_t index, char *text, size_t room)
{
	const struct spot *spot = &where->spot;
	const struct spot_frame *frame = &spot->frames[index];
	const char *source = frame->source ? name_last_part(frame->source) : NULL;
	const char *base = frame->function ? frame->function : spot->module;
	int bytes;

	if (!where->address)
		bytes = snprintf(text, room, "?");
	else if (frame->function && source)
		bytes = snprintf(text, room, "%s (%s:%u)", frame->function, source, frame->line);
	else if (frame->function && index + 1 < spot->count)
		bytes = snprintf(text, room, "%s", frame->function);
	else if (base)
		bytes = snprintf(text, room, "%s+0x%llx", base, (unsigned long long)spot->offset);
	else
		bytes = snprintf(text, room, "0x%llx", (unsigned long long)where->address);
	return (size_t)bytes < room ? (size_t)bytes : room - 1;
}

char *watch_where_text(const struct where *where, char *text, size_t room)
{
	char plain[WATCH_WHERE_BYTES];
	size_t at = 0;

	for (size_t i = 0; i < where->spot.count && at + 1 < sizeof(plain); i++) {
		if (i)
			at += (size_t)snprintf(plain + at, sizeof(plain) - at, " in ");
		if (at < sizeof(plain))
			at += frame_text(where, i, plain + at, sizeof(plain) - at);
	}
	out_tame(text, room, plain);
	return text;
}

void watch_backtrace_lines(const struct where_backtrace *backtrace,
			   void (*line)(const char *text, void *data), void *data)
{
	char plain[WATCH_WHERE_BYTES], tame[WATCH_WHERE_BYTES], text[WATCH_WHERE_BYTES + 16];
	unsigned int number = 0;

	for (unsigned int i = 0; i < backtrace->count; i++) {
		const struct where *where = backtrace->frames[i];

		for (size_t j = 0; j < where->spot.count; j++) {
			frame_text(where, j, plain, sizeof(plain));
			out_tame(tame, sizeof(tame),
				 where->is_restorer && i ? "<signal handler called>" : plain);
			snprintf(text, sizeof(text), "#%u %s", number++, tame);
			line(text, data);
		}
	}
}

/* ---- JSON ---- */

static void frame_json(const struct where *where, size_t index, struct json *json)
{
	const struct spot_frame *frame = &where->spot.frames[index];

	json_number(json, "address", where->address);
	json_words(json, "module", where->spot.module);
	json_words(json, "function", frame->function);
	json_number(json, "offset", where->spot.offset);
	json_words(json, "source", frame->source);
	if (frame->source)
		json_number(json, "line", frame->line);
	else
		json_null(json, "line");
}

void watch_where_json(const struct where *where, struct json *json)
{
	frame_json(where, 0, json);
}

void watch_frames_json(const struct where_backtrace *backtrace, struct json *json)
{
	json_open(json, "frames", '[');
	for (unsigned int i = 0; i < backtrace->count; i++) {
		const struct where *where = backtrace->frames[i];

		for (size_t j = 0; j < where->spot.count; j++) {
			json_open(json, NULL, '{');
			frame_json(where, j, json);
			json_bool(json, "inlined", j + 1 < where->spot.count);
			json_bool(json, "signal", where->is_restorer && i);
			json_close(json, '}');
		}
	}
	json_close(json, ']');
}
