/* SPDX-License-Identifier: MIT */
#include "record/session/adopt.h"

#include "record/probe/probes.h"
#include "record/session/process.h"
#include "record/spec/spec.h"
#include "target/process/testing/folder.h"
#include "trace/schema.h"
#include "trace/writer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <waymark/marker.h>

/*
 * How many children count as started late after the agent of this one answered ADOPT with an error.
 */
static uint64_t late_starts(int let_go, uint8_t forked, int is_on)
{
	struct probes probes = { 0 };
	struct spec_list specs = { 0 };
	struct wm_session session = { .running = 1, .probes = &probes, .specs = &specs };
	struct process child = { .let_go = let_go,
				 .hello.forked = forked,
				 .events = event_list_new(NULL, 0),
				 .probed = { .adopts = 1, .is_on = is_on } };

	child.done.error = -EAGAIN;
	cr_assert_eq(adopt_answered(&session, &child), 0);
	cr_assert_eq(child.probed.adopts, 0);
	event_list_drop(child.events);
	return probes.late_starts;
}

Test(adopt, adopt_refused_counts_running_child_as_late)
{
	cr_assert_eq(late_starts(1, HELLO_FORKED, 1), 1);
	cr_assert_eq(late_starts(0, HELLO_FORKED, 1), 0, "the child still waits for GO");
	cr_assert_eq(late_starts(1, HELLO_SHARES, 1), 0, "its events go to its parent's store");
	cr_assert_eq(late_starts(1, HELLO_FORKED, 0), 0, "the session made it quiet");
}

/* A child that was asked to adopt event 1 of its parent, a place in code. */
static struct process asked(void)
{
	static const uint8_t types[16] = { WM_TYPE_U8 };
	struct event_list *events = event_list_new(NULL, 0);
	struct process child = { .trace = 1, .inherited.ids = 2, .probed.adopts = 1 };

	cr_assert_eq(event_list_add(events, 1, types, "md\na\nb\nc.c\n1\nx"), 0);
	child.events = event_list_new(events, 2);
	event_list_drop(events);
	cr_assert_eq(trace_schema_new(&child.schema), 0);
	return child;
}

static void release(struct process *child)
{
	trace_schema_free(child->schema);
	event_list_drop(child->events);
}

Test(adopt, events_of_a_child_that_has_not_answered_are_read)
{
	struct wm_session session = { .running = 1 };
	struct process child = asked();

	cr_assert_eq(adopt_declare(&session, &child), 0);
	cr_assert(schema_find(child.schema, 1));
	cr_assert_eq(adopt_answered(&session, &child), 0, "the answer was on its way");
	release(&child);
}

Test(adopt, events_of_a_child_that_has_not_answered_are_declared_in_the_trace)
{
	static const struct trace_process about = { .pid = 10,
						    .exe = "/x",
						    .ticks_hz = 1000000000 };
	struct wm_session session = { .running = 1 };
	struct process child = asked();

	folder_make();
	cr_assert_eq(trace_writer_open(&session.writer, folder), 0);
	cr_assert_eq(trace_process_add(session.writer, &about), 0);
	cr_assert_eq(trace_process_add(session.writer, &about), 1);
	cr_assert_eq(adopt_declare(&session, &child), 0);
	cr_assert_eq(trace_events_inherit(session.writer, 1, 0, 2), -EINVAL, "it has them");
	cr_assert_eq(adopt_answered(&session, &child), 0, "the answer was on its way");
	trace_writer_close(session.writer);
	folder_remove();
	release(&child);
}
