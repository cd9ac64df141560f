/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/wire.h"

#include "base/array.h"
#include "trace/packet_walk.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WIRE_BUFFER_BYTES (64u << 10)
#define WIRE_RUN_MAX 1024u
#define WIRE_TEXT_MAX 4096u /* of a module's path, of a thread's name */

enum wire_kind {
	WIRE_BEGIN,	   /* thread: the pid */
	WIRE_MODULE,	   /* struct control_module, path */
	WIRE_THREAD_BEGIN, /* struct wire_thread, comm */
	WIRE_BLOCK,	   /* struct trail_entry, code if it has some */
	WIRE_EVENT,	   /* struct trail_between */
	WIRE_THREAD_END,
	WIRE_NOTE,
	WIRE_CHILD,	  /* process: its own number; struct wire_child, exe */
	WIRE_PROCESS_END, /* struct sink_ending */
	WIRE_THREAD_NAME, /* comm */
	WIRE_DEFINE,	  /* thread: a block's number; struct trail_entry, code if it has some */
	WIRE_PATH,	  /* thread: a path's number; numbers of blocks */
	WIRE_RUN,	  /* numbers of paths */
	WIRE_SINCE,	  /* an epoch's name */
};

/* Before each message's own bytes. */
struct wire_head {
	uint32_t bytes; /* behind this */
	uint16_t kind;
	uint16_t has_code;
	uint32_t thread;  /* its number, given by the end that puts in */
	uint32_t process; /* likewise; unused for a thread that has begun */
	uint64_t ticks;
};

struct wire_child {
	int32_t pid, ppid;
	uint64_t start_time;
};

struct wire_thread {
	int32_t tid;
	uint32_t origin;
};

#define KEPT_BYTES (64u << 10)
#define TAKES_MAX 16
#define RUN_WAITS 1 /* of deliver(): there is no room for all of it now */
#define MESSAGE_MAX (sizeof(struct wire_head) + sizeof(struct control_module) + WIRE_TEXT_MAX)

/* ---- the numbers of blocks and paths ---- */

/* Chunks never move, so pointers into them stay valid. */
struct wire_chunk {
	struct wire_chunk *next;
	size_t used;
	_Alignas(16) uint8_t space[KEPT_BYTES];
};

/* The wire's number: 1: it had one before; 0: it is new; -ENOMEM. */
static int wire_told_number(struct wire_told *reported, uint32_t number, uint32_t *wires)
{
	size_t before = reported->room;
	int had;

	if (array_grow(&reported->list, &reported->room, number + (size_t)1,
		       sizeof(*reported->list)))
		return -ENOMEM;
	memset(reported->list + before, 0, (reported->room - before) * sizeof(*reported->list));
	had = reported->list[number] != 0;
	if (!had)
		reported->list[number] = ++reported->count;
	*wires = reported->list[number] - 1;
	return had;
}

static void wire_told_release(struct wire_told *reported)
{
	free(reported->list);
	*reported = (struct wire_told){ 0 };
}

/* `bytes` is KEPT_BYTES at most. */
static void *keep(struct wire_numbers *numbers, size_t bytes)
{
	struct wire_chunk *chunk = numbers->chunks;
	void *kept;

	bytes = (bytes + 7) & ~(size_t)7;
	if (!chunk || chunk->used + bytes > KEPT_BYTES) {
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->next = numbers->chunks;
		chunk->used = 0;
		numbers->chunks = chunk;
	}
	kept = chunk->space + chunk->used;
	chunk->used += bytes;
	return kept;
}

/* 0; -ENOMEM; -EPROTO where it is not the number that is to come next. `code` may be NULL. */
static int wire_numbers_add(struct wire_numbers *numbers, uint32_t number,
			    const struct trail_entry *entry, const uint8_t *code)
{
	uint8_t *kept = NULL;

	if (number != numbers->block_count)
		return -EPROTO;
	if (array_grow(&numbers->blocks, &numbers->block_room, number + (size_t)1,
		       sizeof(*numbers->blocks)))
		return -ENOMEM;
	if (code) {
		kept = keep(numbers, entry->bytes);
		if (!kept)
			return -ENOMEM;
		memcpy(kept, code, entry->bytes);
	}
	numbers->blocks[numbers->block_count++] = (struct trail_source_block){ *entry, kept };
	return 0;
}

/*
 * A path of blocks of these numbers, `count` in `list`, which is aligned to nothing. Likewise;
 * -EPROTO for blocks that are not there.
 */
static int wire_numbers_path(struct wire_numbers *numbers, uint32_t number, const uint8_t *list,
			     size_t count)
{
	struct trail_source_block *blocks;
	uint64_t instructions = 0;

	if (number != numbers->path_count || !count || count > WIRE_PATH_BLOCKS_MAX)
		return -EPROTO;
	if (array_grow(&numbers->paths, &numbers->path_room, number + (size_t)1,
		       sizeof(*numbers->paths)))
		return -ENOMEM;
	blocks = keep(numbers, count * sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		uint32_t block = load_u32(list + 4 * i);

		if (block >= numbers->block_count)
			return -EPROTO;
		blocks[i] = numbers->blocks[block];
		instructions += blocks[i].entry.instructions;
	}
	numbers->paths[numbers->path_count++] = (struct wire_path){ blocks, (uint32_t)count,
								    instructions };
	return 0;
}

static void wire_numbers_release(struct wire_numbers *numbers)
{
	while (numbers->chunks) {
		struct wire_chunk *next = numbers->chunks->next;

		free(numbers->chunks);
		numbers->chunks = next;
	}
	free(numbers->blocks);
	free(numbers->paths);
	*numbers = (struct wire_numbers){ 0 };
}

/* A path, or NULL: the number is unused. */
static const struct wire_path *path_of(const struct wire_out *out,
				       const struct wire_thread_out *thread, uint32_t number)
{
	const struct wire_numbers *numbers = &out->processes[thread->process].numbers;

	return number < numbers->path_count ? &numbers->paths[number] : NULL;
}

/* ---- where it comes out ---- */

static int is_frozen(const struct wire_out *out)
{
	return __atomic_load_n(&out->is_frozen, __ATOMIC_RELAXED);
}

/* Output waits in the buffer, then in the socket; then the tracer waits. */
static int is_full(const struct wire_out *out)
{
	return !out->error && !out->takes_all && !is_frozen(out) && out->to->calls->is_full &&
	       out->to->calls->is_full(out->to);
}

/* The process of that number; NULL: there is no such process, or no longer. */
static struct wire_process_out *process_of(struct wire_out *out, uint32_t number)
{
	if (number >= out->process_count || !out->processes[number].to)
		return NULL;
	return &out->processes[number];
}

static int process_add(struct wire_out *out, struct trail_sink *to, pid_t pid)
{
	if (array_grow(&out->processes, &out->process_room, out->process_count + 1,
		       sizeof(*out->processes)))
		return -ENOMEM;
	out->processes[out->process_count++] = (struct wire_process_out){ .to = to, .pid = pid };
	return 0;
}

/* The first, whose sink is there before it is. */
static int first_add(struct wire_out *out)
{
	return out->process_count ? 0 : process_add(out, out->to, 0);
}

static int out_begin(struct wire_out *out, const struct wire_head *head)
{
	struct wire_process_out *process = process_of(out, head->process);

	if (!process)
		return -EPROTO;
	process->pid = (pid_t)head->thread;
	if (!out->error)
		out->error = process->to->calls->begin(process->to, process->pid);
	return 0;
}

/* A text of a message, and what comes before it. */
static int read_text(const struct wire_head *head, const uint8_t *body, void *before,
		     size_t before_bytes, char text[WIRE_TEXT_MAX])
{
	size_t bytes = head->bytes - before_bytes;

	if (head->bytes < before_bytes || bytes >= WIRE_TEXT_MAX)
		return -EPROTO;
	memcpy(before, body, before_bytes);
	memcpy(text, body + before_bytes, bytes);
	text[bytes] = '\0';
	return 0;
}

static int out_child(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	struct trail_sink *to = NULL;
	struct wire_child about;
	char exe[WIRE_TEXT_MAX];
	int err;

	if (!out->on_child || head->process != out->process_count ||
	    read_text(head, body, &about, sizeof(about), exe))
		return -EPROTO;
	err = process_add(out, NULL, about.pid);
	if (err || out->error)
		return err;
	out->error = out->on_child(
		out->data, &(struct sink_process){ about.pid, about.ppid, about.start_time, exe },
		&to);
	if (!out->error)
		out->processes[head->process].to = to;
	return 0;
}

static int out_module(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	const struct wire_process_out *process = process_of(out, head->process);
	struct control_module module;
	char path[WIRE_TEXT_MAX];

	if (head->process >= out->process_count ||
	    read_text(head, body, &module, sizeof(module), path) ||
	    module.build_id_bytes > sizeof(module.build_id))
		return -EPROTO;
	if (out->error || !process)
		return 0;
	out->pid = process->pid;
	out->error = process->to->calls->module(process->to, &module, path);
	return 0;
}

static int out_thread_begin(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	struct wire_process_out *process = process_of(out, head->process);
	struct sink_thread *thread = NULL;
	struct wire_thread about;
	char comm[WIRE_TEXT_MAX];
	int is_begun;

	if (head->process >= out->process_count || head->thread != out->thread_count ||
	    read_text(head, body, &about, sizeof(about), comm))
		return -EPROTO;
	if (array_grow(&out->threads, &out->thread_room, out->thread_count + 1,
		       sizeof(*out->threads)))
		return -ENOMEM;
	out->pid = process ? process->pid : 0;
	if (!out->error && process)
		out->error = process->to->calls->thread_begin(process->to, &thread, about.tid, comm,
							      (enum trail_origin)about.origin,
							      head->ticks);
	is_begun = process && !out->error;
	if (is_begun)
		process->live++;
	out->threads[out->thread_count++] = (struct wire_thread_out){
		.thread = thread, .process = head->process, .tid = about.tid, .is_begun = is_begun
	};
	out->threads_ever++;
	return 0;
}

static int out_thread_name(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	const struct wire_thread_out *thread = &out->threads[head->thread];
	struct trail_sink *to;
	char comm[WIRE_TEXT_MAX];

	if (read_text(head, body, comm, 0, comm))
		return -EPROTO;
	if (out->error || !thread->is_begun)
		return 0;
	to = out->processes[thread->process].to;
	if (to->calls->thread_name)
		out->error = to->calls->thread_name(to, thread->thread, comm);
	return 0;
}

static int out_since(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	const struct wire_thread_out *thread = &out->threads[head->thread];
	struct trail_sink *to;
	uint32_t from;

	if (head->bytes != sizeof(from))
		return -EPROTO;
	memcpy(&from, body, sizeof(from));
	if (out->error || !thread->is_begun)
		return 0;
	to = out->processes[thread->process].to;
	if (to->calls->since)
		out->error = to->calls->since(to, thread->thread, from);
	return 0;
}

/* A block, and its code; NULL: it came without. */
static int read_entry(struct trail_entry *entry, const uint8_t **code, const struct wire_head *head,
		      const uint8_t *body)
{
	if (head->bytes < sizeof(*entry))
		return -EPROTO;
	memcpy(entry, body, sizeof(*entry));
	if (!trail_entry_is_sane(entry) ||
	    head->bytes != sizeof(*entry) + (head->has_code ? entry->bytes : 0u))
		return -EPROTO;
	*code = head->has_code ? body + sizeof(*entry) : NULL;
	return 0;
}

static void look_at(struct wire_out *out, const struct wire_thread_out *thread,
		    const struct trail_entry *entry)
{
	uint32_t count = out->sought_count < WIRE_SOUGHT_MAX ? out->sought_count : WIRE_SOUGHT_MAX;

	for (uint32_t i = 0; i < count && !out->error; i++)
		if (entry->start == out->sought[i])
			out->on_sought(out->data, out->processes[thread->process].pid, thread->tid);
}

static int out_block(struct wire_out *out, const struct wire_head *head,
		     struct wire_thread_out *thread, const uint8_t *body)
{
	struct trail_entry entry;
	const uint8_t *code;

	if (read_entry(&entry, &code, head, body))
		return -EPROTO;
	thread->left_max = entry.instructions;
	if (!out->error && thread->is_begun) {
		struct trail_sink *to = out->processes[thread->process].to;

		out->error = to->calls->block(to, thread->thread, &entry, code, head->ticks);
		look_at(out, thread, &entry);
	}
	out->blocks++;
	out->instructions += entry.instructions;
	return 0;
}

static int out_define(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	struct trail_entry entry;
	const uint8_t *code;

	if (read_entry(&entry, &code, head, body))
		return -EPROTO;
	return head->process < out->process_count
		       ? wire_numbers_add(&out->processes[head->process].numbers, head->thread,
					  &entry, code)
		       : -EPROTO;
}

static int out_path(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	if (head->bytes % sizeof(uint32_t) || head->process >= out->process_count)
		return -EPROTO;
	return wire_numbers_path(&out->processes[head->process].numbers, head->thread, body,
				 head->bytes / sizeof(uint32_t));
}

/*
 * A path's blocks, from the `from`th on, into a sink that has no path(). How many of them it took.
 */
static uint32_t put_blocks(struct wire_out *out, const struct wire_thread_out *thread,
			   const struct wire_path *path, uint32_t from, uint64_t ticks)
{
	struct trail_sink *to = out->processes[thread->process].to;
	uint32_t at = from;

	for (; at < path->count && !out->error && !is_full(out); at++) {
		const struct trail_source_block *block = &path->blocks[at];

		out->error = to->calls->block(to, thread->thread, &block->entry, block->code,
					      ticks);
		out->instructions += block->entry.instructions;
		look_at(out, thread, &block->entry);
	}
	return at - from;
}

static uint32_t put_path(struct wire_out *out, const struct wire_thread_out *thread,
			 uint32_t number, uint64_t ticks)
{
	const struct wire_path *path = path_of(out, thread, number);
	struct trail_sink *to = out->processes[thread->process].to;

	out->error = to->calls->path(
		to, thread->thread,
		&(struct trail_source_path){ number, 0, path->count, path->blocks }, ticks);
	out->instructions += path->instructions;
	return path->count;
}

/*
 * The blocks of a run's paths, from out->run_done on. 1: all; 0: the sink has no room for the rest.
 */
static int put_run(struct wire_out *out, const struct wire_thread_out *thread,
		   const uint32_t *numbers, size_t count, uint64_t ticks)
{
	int has_paths = out->processes[thread->process].to->calls->path != NULL;
	uint64_t before = 0;

	for (size_t i = 0; i < count && !out->error && !is_frozen(out); i++) {
		uint32_t blocks = path_of(out, thread, numbers[i])->count, done;

		before += blocks;
		if (before <= out->run_done)
			continue;
		done = has_paths ? put_path(out, thread, numbers[i], ticks)
				 : put_blocks(out, thread, path_of(out, thread, numbers[i]),
					      (uint32_t)(out->run_done + blocks - before), ticks);
		out->blocks += done;
		out->run_done += done;
		if (out->run_done < before && !out->error)
			return 0;
	}
	return 1;
}

/* Count the blocks of a run that come after an error of the sink, from out->run_done on. */
static void count_rest(struct wire_out *out, const struct wire_thread_out *thread,
		       const uint32_t *numbers, size_t count)
{
	uint64_t at = 0;

	for (size_t i = 0; i < count; i++) {
		const struct wire_path *path = path_of(out, thread, numbers[i]);

		for (uint32_t k = 0; k < path->count; k++) {
			if (at++ < out->run_done)
				continue;
			out->blocks++;
			out->instructions += path->blocks[k].entry.instructions;
		}
	}
}

/* What there is no room for waits as messages do. */
static int out_run(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	size_t count = head->bytes / sizeof(uint32_t);
	const struct wire_path *last = NULL;
	struct wire_thread_out *thread;
	uint32_t numbers[WIRE_RUN_MAX];

	if (head->thread >= out->thread_count || !count || count > WIRE_RUN_MAX ||
	    head->bytes % sizeof(*numbers))
		return -EPROTO;
	memcpy(numbers, body, head->bytes);
	out->last_ticks = head->ticks;
	thread = &out->threads[head->thread];
	for (size_t i = 0; i < count; i++) {
		last = path_of(out, thread, numbers[i]);
		if (!last)
			return -EPROTO;
	}
	thread->left_max = last->blocks[last->count - 1].entry.instructions;
	if (!out->error && thread->is_begun && !put_run(out, thread, numbers, count, head->ticks))
		return RUN_WAITS;
	if (out->error)
		count_rest(out, thread, numbers, count);
	out->run_done = 0;
	return 0;
}

static int out_event(struct wire_out *out, const struct wire_head *head,
		     struct wire_thread_out *thread, const uint8_t *body)
{
	const struct wire_process_out *process;
	struct trail_between between;

	if (head->bytes != sizeof(between))
		return -EPROTO;
	memcpy(&between, body, sizeof(between));
	if (between.event >= TRAIL_EVENTS || between.left > thread->left_max)
		return -EPROTO;
	if (between.event != TRAIL_VALUE)
		thread->left_max = 0;
	if (out->error || !thread->is_begun)
		return 0;
	process = &out->processes[thread->process];
	out->error = process->to->calls->event(process->to, thread->thread, &between, head->ticks);
	if (out->on_event)
		out->on_event(out->data, process->pid, thread->tid, &between);
	return 0;
}

static void thread_end(struct wire_out *out, size_t number, uint64_t ticks)
{
	static const struct trail_between lost = { .event = TRAIL_LOST };
	struct wire_thread_out *thread = &out->threads[number];
	struct wire_process_out *process = &out->processes[thread->process];
	int err = 0;

	if (!thread->is_begun)
		return;
	/* since another process's sink failed, this one got no more */
	if (out->error)
		process->to->calls->event(process->to, thread->thread, &lost, ticks);
	err = process->to->calls->thread_end(process->to, thread->thread, ticks);
	thread->is_begun = 0;
	process->live--;
	out->error = out->error ? out->error : err;
}

/* What the other end left open of the process is closed. */
static int out_process_end(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	struct wire_process_out *process = process_of(out, head->process);
	struct sink_ending ending;
	struct trail_sink *to;

	if (head->process >= out->process_count || head->bytes != sizeof(ending))
		return -EPROTO;
	if (!process)
		return 0;
	memcpy(&ending, body, sizeof(ending));
	for (size_t i = 0; process->live && i < out->thread_count; i++)
		if (out->threads[i].process == head->process)
			thread_end(out, i, out->last_ticks);
	to = process->to;
	if (head->process) {
		process->to = NULL;
		wire_numbers_release(&process->numbers);
	}
	if (out->on_end)
		out->on_end(out->data, to, &ending);
	return 0;
}

static int deliver(struct wire_out *out, const struct wire_head *head, const uint8_t *body)
{
	struct wire_thread_out *thread = NULL;

	if (first_add(out))
		return -ENOMEM;
	if (is_frozen(out) && head->kind != WIRE_NOTE)
		return 0;
	if (head->kind >= WIRE_BLOCK && head->kind <= WIRE_THREAD_END) {
		if (head->thread >= out->thread_count)
			return -EPROTO;
		thread = &out->threads[head->thread];
		out->last_ticks = head->ticks;
	}
	switch (head->kind) {
	case WIRE_BEGIN:
		return out_begin(out, head);
	case WIRE_CHILD:
		return out_child(out, head, body);
	case WIRE_PROCESS_END:
		return out_process_end(out, head, body);
	case WIRE_THREAD_NAME:
		return head->thread < out->thread_count ? out_thread_name(out, head, body)
							: -EPROTO;
	case WIRE_SINCE:
		return head->thread < out->thread_count ? out_since(out, head, body) : -EPROTO;
	case WIRE_MODULE:
		return out_module(out, head, body);
	case WIRE_THREAD_BEGIN:
		return out_thread_begin(out, head, body);
	case WIRE_BLOCK:
		return out_block(out, head, thread, body);
	case WIRE_EVENT:
		return out_event(out, head, thread, body);
	case WIRE_THREAD_END:
		thread_end(out, head->thread, head->ticks);
		return 0;
	case WIRE_DEFINE:
		return out_define(out, head, body);
	case WIRE_PATH:
		return out_path(out, head, body);
	case WIRE_RUN:
		return out_run(out, head, body);
	case WIRE_NOTE:
		if (out->on_note)
			out->on_note(out->data, body, head->bytes);
		return 0;
	default:
		return -EPROTO;
	}
}

/* All whole messages there are, or that there is room for. */
static int deliver_all(struct wire_out *out)
{
	size_t at = 0;
	int err = 0;

	while (!err && !is_full(out) && out->bytes - at >= sizeof(struct wire_head)) {
		struct wire_head head;

		memcpy(&head, out->buffer + at, sizeof(head));
		if (head.bytes > MESSAGE_MAX)
			return -EPROTO;
		if (out->bytes - at - sizeof(head) < head.bytes)
			break;
		err = deliver(out, &head, out->buffer + at + sizeof(head));
		if (err == RUN_WAITS)
			break;
		at += sizeof(head) + head.bytes;
	}
	memmove(out->buffer, out->buffer + at, out->bytes - at);
	out->bytes -= at;
	return err == RUN_WAITS ? 0 : err;
}

void wire_out_init(struct wire_out *out, int fd, struct trail_sink *to)
{
	*out = (struct wire_out){ .fd = fd, .to = to };
}

void wire_out_seek(struct wire_out *out, uint64_t at)
{
	out->sought[out->sought_count++ % WIRE_SOUGHT_MAX] = at;
}

int wire_out_take(struct wire_out *out, int timeout_ms)
{
	struct pollfd ready = { .fd = out->fd, .events = POLLIN };
	int err = 0;

	if (!out->buffer) {
		out->room = 2 * WIRE_BUFFER_BYTES;
		out->buffer = malloc(out->room);
		if (!out->buffer)
			return -ENOMEM;
	}
	if (timeout_ms && poll(&ready, 1, timeout_ms) <= 0)
		return 1;
	err = deliver_all(out); /* there may be room now */
	/* a busy program sends faster than we take: let the caller look at requests in between */
	for (int i = 0; i < TAKES_MAX && !err && !is_full(out) && out->bytes < out->room; i++) {
		ssize_t got = recv(out->fd, out->buffer + out->bytes, out->room - out->bytes,
				   MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno == ECONNRESET))
			return 0;
		if (got < 0)
			return errno == EAGAIN || errno == EINTR ? 1 : -errno;
		out->bytes += (size_t)got;
		err = deliver_all(out);
	}
	return err ? err : 1;
}

void wire_out_release(struct wire_out *out)
{
	struct trail_between last = { .event = TRAIL_LOST };

	if (is_frozen(out))
		last = (struct trail_between){ .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	for (size_t i = 0; i < out->thread_count; i++) {
		if (!out->threads[i].is_begun)
			continue;
		if (!out->error) {
			struct trail_sink *to = out->processes[out->threads[i].process].to;

			out->error = to->calls->event(to, out->threads[i].thread, &last,
						      out->last_ticks);
		}
		thread_end(out, i, out->last_ticks);
	}
	for (size_t i = 0; i < out->process_count; i++)
		wire_numbers_release(&out->processes[i].numbers);
	free(out->threads);
	free(out->processes);
	out->processes = NULL;
	out->process_count = out->process_room = 0;
	free(out->buffer);
	out->threads = NULL;
	out->buffer = NULL;
	out->thread_count = out->thread_room = 0;
}

/* ---- where it is put in ---- */

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
