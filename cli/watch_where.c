/* SPDX-License-Identifier: MIT */
#include "cli/watch_where.h"

#include "base/array.h"
#include "base/name_match.h"
#include "base/out.h"
#include "base/slots.h"
#include "record/session/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A place that was asked for. Its texts are its own: an image goes when modules come. */
struct known {
	struct where where;
	uint32_t process, then; /* image_then() */
	int is_return; /* the address is where a call returns to: the place is the call's */
};

/*
 * A process that runs. One that executes another program is another: it has another number in the
 * session.
 */
struct living {
	uint32_t number;
	struct fact_process process;
	struct image *image; /* NULL: modules came */
};

struct watch_wheres {
	struct images *images;	    /* of a trace; NULL: */
	struct wm_session *session; /* it is of a session */
	struct image_files *files;
	struct living *living;
	size_t count, room;
	struct known **places;
	size_t place_count, place_room;
	struct slots slots; /* of places */
};

int watch_wheres_new(struct watch_wheres **out, struct wm_session *session)
{
	struct watch_wheres *wheres = *out = calloc(1, sizeof(*wheres));

	if (!wheres)
		return -ENOMEM;
	wheres->session = session;
	return image_files_open(&wheres->files, "");
}

int watch_wheres_read(struct watch_wheres **wheres, struct images *images)
{
	*wheres = calloc(1, sizeof(**wheres));
	if (!*wheres)
		return -ENOMEM;
	(*wheres)->images = images;
	return 0;
}

void watch_wheres_free(struct watch_wheres *wheres)
{
	if (!wheres)
		return;
	for (size_t i = 0; i < wheres->count; i++) {
		image_close(wheres->living[i].image);
		fact_modules_release(&wheres->living[i].process);
	}
	for (size_t i = 0; i < wheres->place_count; i++) {
		spot_release(&wheres->places[i]->where.spot);
		free(wheres->places[i]);
	}
	free(wheres->living);
	free(wheres->places);
	free(wheres->slots.all);
	image_files_close(wheres->files);
	free(wheres);
}

/* ---- processes ---- */

static const struct process *process_of(const struct wm_session *session, uint32_t number)
{
	const struct process *process = session->processes;

	while (process && process->number != number)
		process = process->next;
	return process;
}

/* The image of one that runs, made again if modules came since. NULL: no memory. */
static struct image *living_image(struct watch_wheres *wheres, uint32_t number)
{
	const struct process *process = process_of(wheres->session, number);
	struct fact_process *known;
	struct living *living;
	size_t at = wheres->count;

	while (at && wheres->living[at - 1].number != number)
		at--;
	if (!at) {
		if (array_grow(&wheres->living, &wheres->room, wheres->count + 1, sizeof(*living)))
			return NULL;
		wheres->living[wheres->count] = (struct living){ .number = number };
		at = ++wheres->count;
	}
	living = &wheres->living[at - 1];
	known = &living->process;
	if (living->image && (!process || process->module_count == known->module_count))
		return living->image;
	image_close(living->image);
	living->image = NULL;
	for (size_t i = known->module_count; process && i < process->module_count; i++) {
		const struct process_module *from = &process->modules[i];
		const struct fact_module about = { .base = from->about.base,
						   .ns = from->ns,
						   .gone = from->about.gone };

		if (fact_module_add(known, &about, from->path, from->about.build_id,
				    from->about.build_id_bytes))
			return NULL;
	}
	(void)image_open(&living->image, known, &(struct image_options){ .files = wheres->files });
	return living->image;
}

/* ---- places ---- */

static struct known *known_new(struct image *image, const struct known *like)
{
	struct known *known = malloc(sizeof(*known));
	uint64_t is_return = (uint64_t)like->is_return;

	if (!known)
		return NULL;
	*known = *like;
	known->where.is_restorer = spot_is_restorer(image, like->where.address);
	if (!spot_find(&known->where.spot, image, like->where.address - is_return)) {
		known->where.spot.offset += is_return;
		return known;
	}
	spot_release(&known->where.spot);
	free(known);
	return NULL;
}

static int is_same(const struct known *a, const struct known *b)
{
	return a->where.address == b->where.address && a->is_return == b->is_return &&
	       a->process == b->process && a->then == b->then;
}

static const struct where *where_of(struct watch_wheres *wheres, uint32_t process, uint64_t ns,
				    uint64_t address, int is_return)
{
	struct known like = { .where.address = address,
			      .process = process,
			      .is_return = is_return };
	struct image *image = wheres->images ? images_get(wheres->images, process)
					     : living_image(wheres, process);
	uint32_t hash, number;
	struct known *known;

	image = image ? image_then(image, ns, &like.then) : NULL;
	if (!image || slots_fit(&wheres->slots) ||
	    array_grow(&wheres->places, &wheres->place_room, wheres->place_count + 1,
		       sizeof(struct known *)))
		return NULL;
	hash = slots_hash(address ^ (uint64_t)process << 40 ^ (uint64_t)like.then << 20);
	for (uint64_t at = hash; slots_next(&wheres->slots, hash, &at, &number);)
		if (is_same(wheres->places[number], &like))
			return &wheres->places[number]->where;
	known = known_new(image, &like);
	if (!known)
		return NULL;
	slots_add(&wheres->slots, hash, (uint32_t)wheres->place_count);
	wheres->places[wheres->place_count++] = known;
	return &known->where;
}

const struct where *watch_where_at(struct watch_wheres *wheres, uint32_t process, uint64_t ns,
				   uint64_t address)
{
	return where_of(wheres, process, ns, address, 0);
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

/* The hit's place, then where its callers continue. */
static void callchain_take(struct addresses *to, const struct wm_event_field *field)
{
	size_t count = field->value.run.bytes / sizeof(uint64_t);
	const char *at = field->value.run.start;

	to->count = 0;
	if (count)
		memcpy(&to->ip, at, sizeof(to->ip));
	for (size_t i = 1; i < count && to->count < WATCH_CALLERS_SHOWN; i++)
		memcpy(&to->callers[to->count++], at + i * sizeof(to->ip), sizeof(to->ip));
}

/* The places up to the first 0. */
static int make(struct watch_wheres *wheres, uint32_t process, uint64_t ns,
		const struct addresses *of, struct where_backtrace *backtrace)
{
	const struct where *frame = where_of(wheres, process, ns, of->ip, 0);

	backtrace->count = 0;
	for (unsigned int i = 0;; i++) {
		if (!frame)
			return -ENOMEM;
		backtrace->frames[backtrace->count++] = frame;
		if (i == of->count || !of->callers[i])
			return 0;
		/* a signal comes between two instructions: there is no call before */
		frame = where_of(wheres, process, ns, of->callers[i], !frame->is_restorer);
	}
}

int watch_backtrace_event(struct watch_wheres *wheres, uint32_t process,
			  const struct wm_event *event, struct where_backtrace *backtrace)
{
	struct addresses addresses = { 0 };

	for (uint32_t i = 0; i < event->field_count; i++) {
		const struct wm_event_field *field = &event->fields[i];

		if (field->type == WM_TYPE_PTR)
			address_take(&addresses, field->name, field->value.u);
		/* behind all fields of the program's */
		if (field->type == WM_TYPE_ADDRESSES)
			callchain_take(&addresses, field);
	}
	return make(wheres, process, event->realtime_ns, &addresses, backtrace);
}

int watch_backtrace_has(const struct trace_class *class)
{
	return !strncmp(class->name, "watch:", 6) && class->count && class->fixed_bytes >= 0 &&
	       class->types[0] == WM_TYPE_PTR && !strcmp(class->fields[0], "ip");
}

int watch_callchain_has(const struct trace_class *class)
{
	for (unsigned int i = 0; i < class->count && !class->has_thread; i++)
		if (class->types[i] == WM_TYPE_ADDRESSES &&
		    !strcmp(class->fields[i], FIELD_CALLCHAIN))
			return 1;
	return 0;
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

static const struct row_column frame_columns[] = {
	{ "hit", ROW_U64, ROW_PLAIN, ROW_DETAIL, "whose frame it is; null in waymark dump" },
	WATCH_WHERE_COLUMNS,
	{ "inlined", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "the function is in line in the next" },
	{ "signal", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "the caller is a signal's handling" },
};
ROW_TABLE(frame_table, "frame", "Where a hit was, the innermost function first, and its callers.",
	  frame_columns);

void watch_frames_put(const struct where_backtrace *backtrace, struct row_value hit,
		      struct rows *rows)
{
	for (unsigned int i = 0; i < backtrace->count; i++) {
		const struct spot *spot = &backtrace->frames[i]->spot;

		for (size_t j = 0; j < spot->count; j++)
			ROWS_PUT(rows, frame_columns, hit,
				 WATCH_WHERE_VALUES(backtrace->frames[i]->address, spot->module,
						    spot->offset, &spot->frames[j]),
				 row_bool(j + 1 < spot->count),
				 row_bool(backtrace->frames[i]->is_restorer && i));
	}
}
