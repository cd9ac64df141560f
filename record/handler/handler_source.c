/* SPDX-License-Identifier: MIT */
/* Handlers as a source: each agent loads them before anything is armed. */
#include "record/handler/handler_file.h"
#include "record/session/findings.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/unrecorded.h"
#include "record/spec/spec.h"
#include "target/process/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define PIECE_BYTES (CONTROL_BYTES_MAX - 1024)

/* ---- adding ---- */

static int handler_is_taken(const struct handlers *list, const struct handler_object *object,
			    unsigned int number)
{
	const struct control_handler *handler = &object->all[number];

	for (size_t o = 0; o <= list->count; o++) {
		const struct handler_object *other = o < list->count ? &list->objects[o] : object;
		unsigned int count = other == object ? number : other->count;

		for (unsigned int i = 0; i < count; i++)
			if (other->all[i].kind == handler->kind &&
			    !strcmp(other->all[i].name, handler->name) &&
			    !strcmp(other->modules[i], object->modules[number]))
				return 1;
	}
	return 0;
}

/* Markers that a spec names already: the handler judges those of its hits that it wants. */
static int marker_is_asked(const struct spec_list *specs, const char *name)
{
	for (size_t i = 0; i < specs->count; i++)
		if (spec_matches(&specs->all[i], name))
			return 1;
	return 0;
}

/* The spec of one handler, as if it had been given with wm_session_add(). */
static int spec_of_handler(struct wm_session *session, const struct handler_object *object,
			   unsigned int number)
{
	const struct control_handler *handler = &object->all[number];
	int is_marker = strchr("mbe", handler->kind) != NULL, err;
	char text[SPEC_BYTES_MAX], types[256];
	struct spec *spec;

	if (handler_is_taken(session->handlers, object, number))
		return session_fail(session, -WM_E_HANDLER, "%s: %s has two handlers", object->path,
				    handler->name);
	if (handler_spec(object, number, text, sizeof(text)))
		return session_fail(session, -WM_E_HANDLER,
				    "%s: %s%s: probes have numbers, pointers and text alone",
				    object->path, handler->name,
				    handler_types(handler->types, types, sizeof(types)));
	if (is_marker && marker_is_asked(session->specs, handler->name))
		return 0;
	err = session_spec_add(session, text);
	if (err || is_marker)
		return err;
	spec = &session->specs->all[session->specs->count - 1];
	spec->handler = object->first + number + 1;
	spec->request->is_exact = 1;
	spec->request->is_once = handler_is_at_return(handler);
	spec->request->replaces = handler->kind == 'x';
	return 0;
}

/* The object's own markers, by which it records values. */
static int marker_of_object(const struct elf_site *site, void *data)
{
	struct wm_session *session = data;
	char name[512], text[sizeof(name) + 8];

	if (spec_name_of(site->text, name, sizeof(name)) || marker_is_asked(session->specs, name))
		return 0;
	snprintf(text, sizeof(text), "marker:%s", name);
	return session_spec_add(session, text);
}

static int markers_of_object(struct wm_session *session, const char *path)
{
	struct elf elf;
	int err = elf_open(&elf, path);

	if (!err)
		err = elf_sites(&elf, marker_of_object, session);
	elf_release(&elf);
	return err;
}

int wm_session_handler_add(struct wm_session *session, const char *path)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = path ? session_call_refused(session) : -EINVAL;
	struct handler_object object = { 0 }, *more;
	struct handlers *list;
	char words[512] = "";
	size_t specs;

	if (err)
		return err;
	if (session->running)
		return session_fail(session, -EBUSY, "%s: the session runs", path);
	list = session->handlers;
	specs = session->specs->count;
	err = handler_object_read(&object, path, (struct detail){ words, sizeof(words) });
	if (err)
		session_fail(session, err, "%s%s%s", path, words[0] ? ": " : "", words);
	if (!err && list->count)
		object.first = list->objects[list->count - 1].first +
			       list->objects[list->count - 1].count;
	if (!err && object.first + object.count > HANDLERS_MAX)
		err = session_fail(session, -WM_E_HANDLER, "%s: more than %d handlers", path,
				   HANDLERS_MAX);
	for (unsigned int i = 0; i < object.count && !err; i++)
		err = spec_of_handler(session, &object, i);
	if (!err)
		err = markers_of_object(session, path);
	more = err ? NULL : realloc(list->objects, (list->count + 1) * sizeof(*more));
	if (!more) {
		while (session->specs->count > specs)
			spec_drop(session->specs);
		handler_object_release(&object);
		return err ? err : -ENOMEM;
	}
	list->objects = more;
	list->objects[list->count++] = object;
	return 0;
}

const char *handlers_path(const struct wm_session *session, const uint8_t *id, int id_bytes)
{
	for (size_t o = 0; o < session->handlers->count; o++) {
		const struct handler_object *object = &session->handlers->objects[o];

		if (object->build_id_bytes == id_bytes &&
		    !memcmp(object->build_id, id, (size_t)id_bytes))
			return object->path;
	}
	return NULL;
}

/* ---- in a process ---- */

static int file_send(struct process *process, const struct handler_object *object)
{
	struct control_handler_file piece = { .key = object->key };
	struct iovec parts[2] = { { &piece, sizeof(piece) } };
	int err = 0;

	for (; piece.offset < object->byte_count && !err; piece.offset += PIECE_BYTES) {
		size_t left = object->byte_count - piece.offset;

		parts[1] = (struct iovec){ object->bytes + piece.offset,
					   left < PIECE_BYTES ? left : PIECE_BYTES };
		err = process_request(process, CONTROL_HANDLER_FILE, parts, 2);
	}
	return err;
}

static int load_ask(struct process *process, const struct handler_object *object)
{
	struct control_handlers head = { .key = object->key, .count = object->count };
	struct iovec parts[] = { { &head, sizeof(head) },
				 { object->all, object->count * sizeof(*object->all) } };
	const char *name = strrchr(object->path, '/');

	snprintf(head.object, sizeof(head.object), "%s", name ? name + 1 : object->path);
	return process_request(process, CONTROL_HANDLERS, parts, 2);
}

/* Nothing is recorded of a process that they do not fit: one that came by itself is named. */
static void misfit_note(struct wm_session *session, const struct process *process, int err,
			const char *words)
{
	if (session->started_ns && err != -WM_E_GONE)
		unrecorded_add(session, process->pid, process->exe, err, words);
}

int handlers_send(struct wm_session *session, struct process *process)
{
	char words[DETAIL_BYTES - 64] = "";
	int err = 0;

	if (!session->handlers->count || process->has_handlers || process->outside)
		return 0;
	/* a child of a fork has what its parent had */
	if (!process->hello.forked)
		err = handlers_check(session, process, (struct detail){ words, sizeof(words) });
	if (err) {
		misfit_note(session, process, err, words);
		return err == -WM_E_GONE ? err : session_fail(session, err, "%s", words);
	}
	process->has_handlers = 1;
	/* all files first: while the agent loads, it reads nothing, and a file fills the socket */
	for (size_t o = 0; o < session->handlers->count && !err; o++)
		err = file_send(process, &session->handlers->objects[o]);
	for (size_t o = 0; o < session->handlers->count && !err; o++)
		err = load_ask(process, &session->handlers->objects[o]);
	return err;
}

/* Words of the loader's. */
static int message(struct wm_session *session, struct process *process,
		   const struct link_message *message)
{
	(void)process;
	if (message->type != CONTROL_HANDLER_FAILED)
		return 1;
	session_fail(session, -WM_E_HANDLER, "%.400s", (const char *)message->body);
	return 0;
}

static int answered(struct wm_session *session, struct process *process, uint16_t request)
{
	if (request == CONTROL_HANDLERS && process->done.error)
		misfit_note(session, process, process->done.error, "");
	if (request != CONTROL_UNLOAD || process->done.error != -ETIMEDOUT)
		return 0;
	for (size_t o = 0; o < session->handlers->count; o++)
		session->handlers->objects[o].stays_in = process->pid;
	return 0;
}

void handlers_ended(struct wm_session *session, const struct process *process)
{
	uint32_t number = session->handlers->count && process_is_dead(process)
				  ? drain_handler(process->drain)
				  : 0;

	for (size_t o = 0; number && o < session->handlers->count; o++) {
		struct handler_object *object = &session->handlers->objects[o];

		if (object->ended_in || number <= object->first ||
		    number - object->first > object->count)
			continue;
		object->ended_in = process->pid;
		object->ended_number = number - object->first - 1;
	}
}

static void ended_finding(const struct handler_object *object, struct findings *list)
{
	const char *module = object->modules[object->ended_number];

	finding_add(list, "handler-ended", FINDING_LOSS,
		    "process %d ended while the handler of %s%s%s of %s ran", (int)object->ended_in,
		    module, *module ? ":" : "", object->all[object->ended_number].name,
		    object->path)
		->pid = object->ended_in;
}

static void findings(const struct wm_session *session, int is_over, struct findings *list)
{
	for (size_t o = 0; is_over && o < session->handlers->count; o++) {
		const struct handler_object *object = &session->handlers->objects[o];

		if (object->stays_in)
			finding_add(list, "handler-stays", FINDING_LOSS,
				    "%s stays loaded in process %d: a handler has not returned",
				    object->path, (int)object->stays_in)
				->pid = object->stays_in;
		if (object->ended_in)
			ended_finding(object, list);
	}
}

static void release(struct wm_session *session)
{
	for (size_t o = 0; o < session->handlers->count; o++)
		handler_object_release(&session->handlers->objects[o]);
	free(session->handlers->objects);
	*session->handlers = (struct handlers){ 0 };
}

/* Its specs are of markers and probes. */
static int owns(const struct spec *spec)
{
	(void)spec;
	return 0;
}

const struct source handler_source = {
	.owns = owns,
	.ask = handlers_send,
	.message = message,
	.answered = answered,
	.findings = findings,
	.release = release,
};
