/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/wire_own.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct sink_thread {
	uint32_t number;
};

static struct wire_source *source_of(struct trail_sink *sink)
{
	return (struct wire_source *)((char *)sink - offsetof(struct wire_source, sink));
}

static struct wire_in *in_of(struct trail_sink *sink)
{
	return source_of(sink)->in;
}

int wire_in_is_deserted(const struct wire_in *in, short events)
{
	struct pollfd ready[2] = { { .fd = in->owner, .events = POLLIN },
				   { .fd = in->fd, .events = events } };

	while (poll(ready, events ? 2 : 1, events ? -1 : 0) < 0)
		if (errno != EINTR)
			return 1;
	return ready[0].revents != 0;
}

int wire_in_flush(struct wire_in *in)
{
	size_t at = 0;

	while (at < in->bytes) {
		ssize_t sent = send(in->fd, in->buffer + at, in->bytes - at,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EAGAIN && wire_in_is_deserted(in, POLLOUT))
			return -EPIPE;
		if (sent < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		at += sent > 0 ? (size_t)sent : 0;
	}
	in->bytes = in->run_end = 0;
	return 0;
}

static int put(struct wire_in *in, const struct wire_head *about, const void *first,
	       size_t first_bytes, const void *second, size_t second_bytes)
{
	struct wire_head head = *about;
	size_t all = sizeof(head) + first_bytes + second_bytes;
	uint8_t *to;
	int err;

	if (in->is_unwanted && head.kind != WIRE_NOTE)
		return -ECANCELED;
	err = in->bytes + all > WIRE_BUFFER_BYTES ? wire_in_flush(in) : 0;
	to = in->buffer + in->bytes;
	if (err)
		return err;
	head.bytes = (uint32_t)(first_bytes + second_bytes);
	memcpy(to, &head, sizeof(head));
	if (first_bytes)
		memcpy(to + sizeof(head), first, first_bytes);
	if (second_bytes)
		memcpy(to + sizeof(head) + first_bytes, second, second_bytes);
	in->bytes += all;
	return 0;
}

static int in_begin(struct trail_sink *sink, pid_t pid)
{
	struct wire_head head = { .kind = WIRE_BEGIN,
				  .thread = (uint32_t)pid,
				  .process = source_of(sink)->number };

	return put(in_of(sink), &head, NULL, 0, NULL, 0);
}

static int in_module(struct trail_sink *sink, const struct control_module *module, const char *path)
{
	struct wire_head head = { .kind = WIRE_MODULE, .process = source_of(sink)->number };

	return put(in_of(sink), &head, module, sizeof(*module), path,
		   strnlen(path, WIRE_TEXT_MAX - 1));
}

static int in_thread_begin(struct trail_sink *sink, struct sink_thread **out, pid_t tid,
			   const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct wire_in *in = in_of(sink);
	struct wire_thread about = { .tid = tid, .origin = origin };
	struct wire_head head = { .kind = WIRE_THREAD_BEGIN,
				  .process = source_of(sink)->number,
				  .ticks = ticks };

	*out = malloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->number = head.thread = in->threads++;
	return put(in, &head, &about, sizeof(about), comm, strnlen(comm, WIRE_TEXT_MAX - 1));
}

static int in_thread_name(struct trail_sink *sink, struct sink_thread *thread, const char *comm)
{
	struct wire_head head = { .kind = WIRE_THREAD_NAME, .thread = thread->number };

	return put(in_of(sink), &head, comm, strnlen(comm, WIRE_TEXT_MAX - 1), NULL, 0);
}

static int in_since(struct trail_sink *sink, struct sink_thread *thread, uint32_t from)
{
	struct wire_head head = { .kind = WIRE_SINCE, .thread = thread->number };

	return put(in_of(sink), &head, &from, sizeof(from), NULL, 0);
}

static int in_block(struct trail_sink *sink, struct sink_thread *thread,
		    const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct wire_head head = {
		.kind = WIRE_BLOCK, .thread = thread->number, .has_code = !!code, .ticks = ticks
	};

	return put(in_of(sink), &head, entry, sizeof(*entry), code, code ? entry->bytes : 0);
}

static int in_define(struct wire_source *source, uint32_t number,
		     const struct trail_source_block *block)
{
	struct wire_head head = { .kind = WIRE_DEFINE,
				  .thread = number,
				  .process = source->number,
				  .has_code = block->code != NULL };

	return put(source->in, &head, &block->entry, sizeof(block->entry), block->code,
		   block->code ? block->entry.bytes : 0);
}

/* The wire's number of a path, whose meaning goes first. */
static int in_number(struct wire_source *source, const struct trail_source_path *path,
		     uint32_t *number)
{
	int known = wire_told_number(&source->told_paths, path->number, number), err = 0;
	struct wire_head head = { .kind = WIRE_PATH, .thread = *number, .process = source->number };
	uint32_t blocks[WIRE_PATH_BLOCKS_MAX];

	if (known)
		return known < 0 ? known : 0;
	for (uint32_t i = 0; i < path->count && !err; i++) {
		known = wire_told_number(&source->told_blocks, path->first + i, &blocks[i]);
		err = known < 0 ? known : 0;
		if (!known)
			err = in_define(source, blocks[i], &path->blocks[i]);
	}
	return err ? err : put(source->in, &head, blocks, path->count * sizeof(*blocks), NULL, 0);
}

/* Whether a number continues the run that was put in last. */
static int run_goes_on(const struct wire_in *in, uint32_t thread, uint64_t ticks)
{
	struct wire_head head;

	if (!in->run_end || in->run_end != in->bytes ||
	    in->bytes + sizeof(uint32_t) > WIRE_BUFFER_BYTES)
		return 0;
	memcpy(&head, in->buffer + in->run_at, sizeof(head));
	return head.thread == thread && head.ticks == ticks &&
	       head.bytes < WIRE_RUN_MAX * sizeof(uint32_t);
}

static int in_blocks(struct trail_sink *sink, struct sink_thread *thread,
		     const struct trail_source_path *path, uint64_t ticks)
{
	int err = 0;

	for (uint32_t i = 0; i < path->count && !err; i++)
		err = in_block(sink, thread, &path->blocks[i].entry, path->blocks[i].code, ticks);
	return err;
}

static int in_path(struct trail_sink *sink, struct sink_thread *thread,
		   const struct trail_source_path *path, uint64_t ticks)
{
	struct wire_head head = { .kind = WIRE_RUN, .thread = thread->number, .ticks = ticks };
	struct wire_in *in = in_of(sink);
	uint32_t number;
	int err;

	if (path->count > WIRE_PATH_BLOCKS_MAX)
		return in_blocks(sink, thread, path, ticks);
	err = in_number(source_of(sink), path, &number);
	if (err)
		return err;
	if (run_goes_on(in, thread->number, ticks)) {
		memcpy(&head, in->buffer + in->run_at, sizeof(head));
		head.bytes += sizeof(number);
		memcpy(in->buffer + in->run_at, &head, sizeof(head));
		memcpy(in->buffer + in->bytes, &number, sizeof(number));
		in->bytes += sizeof(number);
	} else {
		err = put(in, &head, &number, sizeof(number), NULL, 0);
		in->run_at = in->bytes - sizeof(head) - sizeof(number);
	}
	in->run_end = err ? 0 : in->bytes;
	return err;
}

static int in_event(struct trail_sink *sink, struct sink_thread *thread,
		    const struct trail_between *between, uint64_t ticks)
{
	struct wire_head head = { .kind = WIRE_EVENT, .thread = thread->number, .ticks = ticks };

	return put(in_of(sink), &head, between, sizeof(*between), NULL, 0);
}

static int in_thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	struct wire_head head = { .kind = WIRE_THREAD_END,
				  .thread = thread->number,
				  .ticks = ticks };

	free(thread);
	return put(in_of(sink), &head, NULL, 0, NULL, 0);
}

static int in_child(struct trail_sink *sink, struct trail_sink **child,
		    const struct sink_process *process)
{
	struct wire_child about = { process->pid, process->ppid, process->start_time };
	struct wire_head head = { .kind = WIRE_CHILD };
	struct wire_source *made = malloc(sizeof(*made));
	struct wire_in *in = in_of(sink);

	if (!made)
		return -ENOMEM;
	*made = (struct wire_source){ .sink = *sink, .in = in, .number = ++in->processes };
	*child = &made->sink;
	head.process = made->number;
	return put(in, &head, &about, sizeof(about), process->exe,
		   strnlen(process->exe, WIRE_TEXT_MAX - 1));
}

static int in_process_end(struct trail_sink *sink, const struct sink_ending *ending)
{
	struct wire_source *source = source_of(sink);
	struct wire_head head = { .kind = WIRE_PROCESS_END, .process = source->number };
	struct wire_in *in = source->in;

	wire_told_release(&source->told_blocks);
	wire_told_release(&source->told_paths);
	if (source != &in->first)
		free(source);
	return put(in, &head, ending, sizeof(*ending), NULL, 0);
}

#define IN_CALLS                                                                                   \
	.begin = in_begin, .module = in_module, .thread_begin = in_thread_begin,                   \
	.thread_name = in_thread_name, .since = in_since, .block = in_block, .event = in_event,    \
	.thread_end = in_thread_end, .path = in_path

static const struct trail_sink_calls in_calls = { IN_CALLS };
static const struct trail_sink_calls following_calls = { IN_CALLS, .child = in_child,
							 .process_end = in_process_end };

int wire_in_init(struct wire_in *in, int fd)
{
	*in = (struct wire_in){ .first = { .sink = { &in_calls }, .in = in },
				.fd = fd,
				.owner = -1,
				.buffer = malloc(WIRE_BUFFER_BYTES) };
	return in->buffer ? 0 : -ENOMEM;
}

void wire_in_follow(struct wire_in *in)
{
	in->first.sink.calls = &following_calls;
}

void wire_in_release(struct wire_in *in)
{
	wire_told_release(&in->first.told_blocks);
	wire_told_release(&in->first.told_paths);
	free(in->buffer);
	in->buffer = NULL;
}

void wire_in_unwanted(struct wire_in *in)
{
	in->is_unwanted = 1;
	in->bytes = in->run_end = 0;
}

int wire_in_note(struct wire_in *in, const void *note, size_t bytes)
{
	struct wire_head head = { .kind = WIRE_NOTE };
	int err = bytes > WIRE_NOTE_MAX ? -EMSGSIZE : put(in, &head, note, bytes, NULL, 0);

	return err ? err : wire_in_flush(in);
}
