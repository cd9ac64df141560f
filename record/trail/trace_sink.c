/* SPDX-License-Identifier: MIT */
#include "record/trail/trace_sink.h"

#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_CLASS 1

static struct trail_files *files_of(struct trail_sink *sink)
{
	return (struct trail_files *)((char *)sink - offsetof(struct trail_files, sink));
}

struct files_thread {
	struct files_thread *next;
	struct trail_thread trail;
	int is_fresh;	/* it has what is not on disk */
	uint64_t ticks; /* of that, the last */
};

static struct files_thread *thread_of(struct sink_thread *thread)
{
	return (struct files_thread *)thread;
}

static void touch(struct sink_thread *thread, uint64_t ticks)
{
	thread_of(thread)->is_fresh = 1;
	thread_of(thread)->ticks = ticks;
}

int trail_files_begin(struct trail_files *files, const struct sink_process *process)
{
	struct ticks_point now;
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	ticks_now(STORE_CLOCK_MONOTONIC, &now);
	files->process = trace_process_add(
		files->writer,
		&(struct trace_process){ .pid = (uint32_t)process->pid,
					 .uid = (uid_t)target_status_number(process->pid, "Uid"),
					 .ppid = (uint32_t)process->ppid,
					 .start_time = process->start_time,
					 .exe = process->exe,
					 .hostname = host,
					 .clock = STORE_CLOCK_MONOTONIC,
					 .ticks_hz = 1000000000 });
	if (files->process < 0)
		return files->process;
	return trail_writer_open(&files->trail, files->writer, files->process,
				 (uint32_t)process->pid, FIRST_CLASS,
				 &(struct trail_clock){ now.ticks, 1000000000, now.monotonic_ns,
							now.monotonic_raw_ns, now.realtime_ns });
}

static int files_begin(struct trail_sink *sink, pid_t pid)
{
	struct target target;
	int err = target_read(&target, pid);

	if (err)
		return err;
	return trail_files_begin(files_of(sink),
				 &(struct sink_process){ pid, target.ppid, target.start_time,
							 target.exe });
}

static int files_module(struct trail_sink *sink, const struct control_module *module,
			const char *path)
{
	return trail_writer_module(&files_of(sink)->trail, module, path);
}

static int files_thread_begin(struct trail_sink *sink, struct sink_thread **out, pid_t tid,
			      const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct trail_files *files = files_of(sink);
	struct files_thread *thread = calloc(1, sizeof(*thread));

	*out = (struct sink_thread *)thread;
	if (!thread)
		return -ENOMEM;
	thread->next = files->threads;
	files->threads = thread;
	touch(*out, ticks);
	return trail_thread_begin(&files->trail, &thread->trail, (uint32_t)tid, comm, origin,
				  ticks);
}

/* A stream's name is that of its last packet: what is not written yet has it too. */
static int files_thread_name(struct trail_sink *sink, struct sink_thread *thread, const char *comm)
{
	char *name = thread_of(thread)->trail.packet.head.comm;

	(void)sink;
	memset(name, 0, sizeof(thread_of(thread)->trail.packet.head.comm));
	memcpy(name, comm, strnlen(comm, sizeof(thread_of(thread)->trail.packet.head.comm) - 1));
	return 0;
}

static int files_since(struct trail_sink *sink, struct sink_thread *thread, uint32_t from)
{
	(void)sink;
	trail_thread_since(&thread_of(thread)->trail, from);
	return 0;
}

static int files_block(struct trail_sink *sink, struct sink_thread *thread,
		       const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	touch(thread, ticks);
	return trail_thread_block(&files_of(sink)->trail, &thread_of(thread)->trail, entry, code,
				  ticks);
}

static int files_path(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_source_path *path, uint64_t ticks)
{
	touch(thread, ticks);
	return trail_thread_path(&files_of(sink)->trail, &thread_of(thread)->trail, path, ticks);
}

static int files_event(struct trail_sink *sink, struct sink_thread *thread,
		       const struct trail_between *between, uint64_t ticks)
{
	touch(thread, ticks);
	return trail_thread_event(&files_of(sink)->trail, &thread_of(thread)->trail, between,
				  ticks);
}

static int files_thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	struct files_thread **at = &files_of(sink)->threads, *ended = thread_of(thread);
	int err = 0;

	if (!ended)
		return 0;
	while (*at != ended)
		at = &(*at)->next;
	*at = ended->next;
	if (ended->trail.packet.content)
		err = trail_thread_end(&files_of(sink)->trail, &ended->trail, ticks);
	free(ended);
	return err;
}

int trail_files_flush(struct trail_files *files)
{
	int err = 0;

	for (struct files_thread *thread = files->threads; thread && !err; thread = thread->next) {
		if (!thread->is_fresh || !thread->trail.packet.content)
			continue;
		thread->is_fresh = 0;
		err = trail_thread_flush(&files->trail, &thread->trail, thread->ticks);
	}
	return err;
}

static const struct trail_sink_calls files_calls = {
	.begin = files_begin,
	.module = files_module,
	.thread_begin = files_thread_begin,
	.thread_name = files_thread_name,
	.since = files_since,
	.block = files_block,
	.path = files_path,
	.event = files_event,
	.thread_end = files_thread_end,
};

void trail_files_init(struct trail_files *files, struct trace_writer *writer)
{
	*files = (struct trail_files){ .sink.calls = &files_calls,
				       .writer = writer,
				       .process = -1 };
}

void trail_files_release(struct trail_files *files)
{
	trail_writer_release(&files->trail);
}
