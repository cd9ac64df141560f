/* SPDX-License-Identifier: MIT */
#include "record/session/adopt.h"

#include "record/probe/probes.h"
#include "record/session/process.h"
#include "record/spec/spec.h"
#include "trace/writer.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Find the parent, with all events that it had declared by the fork. NULL if it is not known any
 * more.
 */
static struct process *find_parent(struct wm_session *session, const struct process *child)
{
	struct process *parent = session->processes;

	while (parent &&
	       (parent == child || parent->number != PROBE_SET_NUMBER(child->inherited.set)))
		parent = parent->next;
	if (!parent || child->inherited.set > parent->probed.set ||
	    child->inherited.set < parent->probed.since)
		return NULL;
	/* all that it sent before the fork has been read or is in its socket */
	messages_pump(session, parent);
	return event_list_ids(parent->events) >= child->inherited.ids ? parent : NULL;
}

/*
 * Copy the modules whose places the parent had by that set. One that the parent has unloaded since
 * is not in its list any more: the child's next look finds it, and places it again.
 */
static int take_modules(struct process *child, const struct process *parent)
{
	struct probed *to = &child->probed;
	const struct probed *from = &parent->probed;

	to->modules = calloc(from->count + 1, sizeof(*to->modules));
	if (!to->modules)
		return -ENOMEM;
	to->room = from->count + 1;
	for (size_t i = 0; i < from->count; i++) {
		if (from->modules[i].set > child->inherited.set)
			continue;
		to->modules[to->count] = from->modules[i];
		to->modules[to->count++].set = 0;
	}
	return 0;
}

int adopt_ask(struct wm_session *session, struct process *process)
{
	struct process *parent = process->inherited.set ? find_parent(session, process) : NULL;
	struct control_adopt adopt = { .set = process->inherited.set,
				       .watches = spec_count(session->specs, SPEC_OF(watch)) != 0 };
	struct iovec part = { &adopt, sizeof(adopt) };
	struct event_list *events;
	int err;

	if (!parent || process->probed.count || process->events->count ||
	    (session->writer && parent->trace < 0))
		return 0;
	process->parent_trace = parent->trace;
	events = event_list_new(parent->events, process->inherited.ids);
	if (!events)
		return -ENOMEM;
	event_list_drop(process->events);
	process->events = events;
	err = take_modules(process, parent);
	if (err)
		return err;
	adopt.as = probe_next_set(process);
	process->probed.adopts = 1;
	err = process_request(process, CONTROL_ADOPT, &part, 1);
	return err ? err : 1;
}

static int add_to_schema(const struct event *event, void *data)
{
	return trace_schema_add(data, event->id, event->types, event->text);
}

static int count(const struct event *event, void *data)
{
	struct wm_session *session = data;

	(void)event;
	session->markers++;
	return 0;
}

/* Once for a process, whether it has answered or not. */
static int declare(struct wm_session *session, struct process *process)
{
	if (process->probed.has_inherited)
		return 0;
	process->probed.has_inherited = 1;
	if (session->writer)
		return trace_events_inherit(session->writer, process->trace, process->parent_trace,
					    process->inherited.ids);
	return event_list_each_before(process->events, add_to_schema, process->schema);
}

int adopt_declare(struct wm_session *session, struct process *process)
{
	return process->probed.adopts ? declare(session, process) : 0;
}

int adopt_answered(struct wm_session *session, struct process *process)
{
	struct event_list *events;
	int err;

	process->probed.adopts = 0;
	if (!process->done.error) {
		session->sites += process->done.sites;
		process->probed.is_followed = 1;
		event_list_each_before(process->events, count, session);
		err = declare(session, process);
		/*
		 * A module may have been loading at the fork; its code has not run in this process
		 * yet. Don't look if the session is ending: then the child has its parent's places,
		 * but the parent's are dropped.
		 */
		return err || !session->running ? err : probe_look(session, process);
	}
	/*
	 * place everything as in any process; the child may already run, unless it waits for its
	 * watches
	 */
	events = event_list_new(NULL, 0);
	if (!events)
		return -ENOMEM;
	event_list_drop(process->events);
	process->events = events;
	process->probed.count = 0;
	if (!process->probed.is_on) /* the session made it quiet meanwhile */
		return 0;
	session->probes->late_starts += process->let_go && process->hello.forked != HELLO_SHARES;
	return probe_arm(session, process);
}
