/* SPDX-License-Identifier: MIT */
/*
 * Between an origin and a trail's store: takes the lock, and leaves out what was not requested.
 * Where that would leave blocks that can't follow each other, it puts a gap (abi/trail.h).
 */
#include "record/trail/trail.h"

#include <errno.h>
#include <stdlib.h>

static struct trail_source *source_of(struct trail_sink *sink)
{
	return (struct trail_source *)((char *)sink - offsetof(struct trail_source, sink));
}

static struct wm_trail *trail_of(struct trail_sink *sink)
{
	return source_of(sink)->trail;
}

static struct trail_sink *begin(struct wm_trail *trail)
{
	pthread_mutex_lock(&trail->lock);
	return trail_store_sink(trail->store);
}

static int end(struct wm_trail *trail, int result)
{
	pthread_mutex_unlock(&trail->lock);
	return result;
}

/* The same, with a record more. */
static int end_record(struct wm_trail *trail, int result)
{
	trail_fd_raise(trail);
	return end(trail, result);
}

static int sink_begin(struct trail_sink *sink, pid_t pid)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	source_of(sink)->pid = pid;
	return end(trail, to->calls->begin(to, pid));
}

static int sink_module(struct trail_sink *sink, const struct control_module *module,
		       const char *path)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail_store_process(trail->store, source_of(sink)->pid);
	return end(trail, to->calls->module(to, module, path));
}

static int sink_thread_begin(struct trail_sink *sink, struct sink_thread **thread, pid_t tid,
			     const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail_store_process(trail->store, source_of(sink)->pid);
	return end(trail, to->calls->thread_begin(to, thread, tid, comm, origin, ticks));
}

static int sink_thread_name(struct trail_sink *sink, struct sink_thread *thread, const char *comm)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->thread_name(to, thread, comm));
}

static int sink_since(struct trail_sink *sink, struct sink_thread *thread, uint32_t from)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->since(to, thread, from));
}

static int sink_block(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail->last = thread;
	trail->last_next = entry->start + entry->bytes;
	return end_record(trail, to->calls->block(to, thread, entry, code, ticks));
}

static uint32_t flag_of(const struct trail_between *between)
{
	switch (between->event) {
	case TRAIL_DEPART:
	case TRAIL_ARRIVE:
		return WM_TRAIL_FLAG_SWITCHES;
	case TRAIL_SIGNAL: /* 0: an interrupt, which is part of the kernel's trail */
		return between->values[0] ? WM_TRAIL_FLAG_SIGNALS : 0;
	case TRAIL_SYSCALLED:
		return WM_TRAIL_FLAG_SYSCALLS;
	default:
		return 0;
	}
}

static int sink_event(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_between *between, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);
	uint32_t flag = flag_of(between);
	struct trail_between gap = { .event = TRAIL_GAP,
				     .at = between->at,
				     .left = between->left,
				     .values = { TRAIL_GAP_KERNEL } };
	int is_straight = trail->last == thread && between->at == trail->last_next &&
			  between->event != TRAIL_SIGNAL && !between->left;

	if (between->event == TRAIL_VALUE) /* the library's events have none */
		return end(trail, 0);
	if (!flag || trail->options.flags & flag)
		return end_record(trail, to->calls->event(to, thread, between, ticks));
	if (is_straight)
		return end(trail, 0);
	if (between->event == TRAIL_SIGNAL && between->values[1])
		gap.at = between->values[1];
	return end_record(trail, to->calls->event(to, thread, &gap, ticks));
}

static int sink_thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail->last = NULL;
	return end_record(trail, to->calls->thread_end(to, thread, ticks));
}

static int sink_is_full(struct trail_sink *sink)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, !trail->must_end && to->calls->is_full(to));
}

static int sink_child(struct trail_sink *sink, struct trail_sink **out,
		      const struct sink_process *process)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_source *child = malloc(sizeof(*child));

	if (!child)
		return -ENOMEM;
	*child = (struct trail_source){ *sink, trail, process->pid, trail->children };
	trail->children = child;
	*out = &child->sink;
	return 0;
}

static int sink_process_end(struct trail_sink *sink, const struct sink_ending *ending)
{
	struct trail_source *child = source_of(sink), **at = &child->trail->children;

	(void)ending;
	while (*at != child)
		at = &(*at)->next;
	*at = child->next;
	free(child);
	return 0;
}

static const struct trail_sink_calls calls = {
	.begin = sink_begin,
	.module = sink_module,
	.thread_begin = sink_thread_begin,
	.thread_name = sink_thread_name,
	.since = sink_since,
	.block = sink_block,
	.event = sink_event,
	.thread_end = sink_thread_end,
	.is_full = sink_is_full,
	.child = sink_child,
	.process_end = sink_process_end,
};

void trail_sink_init(struct wm_trail *trail)
{
	trail->source = (struct trail_source){ .sink.calls = &calls, .trail = trail };
}

void trail_sink_release(struct wm_trail *trail)
{
	while (trail->children) {
		struct trail_source *child = trail->children;

		trail->children = child->next;
		free(child);
	}
}
