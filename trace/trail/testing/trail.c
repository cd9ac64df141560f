/* SPDX-License-Identifier: MIT */
#include "trace/trail/testing/trail.h"

#include "trace/testing/packets.h"

#include <stdlib.h>
#include <string.h>

#define MARKERS_TID 99u

static void must(int is_so)
{
	if (!is_so)
		abort();
}

void sample_trail_begin(struct sample_trail *sample)
{
	static const struct trace_process process = { .pid = SAMPLE_TRAIL_PID,
						      .exe = "/bin/x",
						      .hostname = "h",
						      .clock = STORE_CLOCK_MONOTONIC,
						      .ticks_hz = 1000000000 };
	uint64_t now = SAMPLE_TRAIL_BEGIN_NS;

	*sample = (struct sample_trail){ .now = now };
	sample_folder(sample->folder);
	must(!trace_writer_open(&sample->writer, sample->folder));
	sample->process = trace_process_add(sample->writer, &process);
	must(sample->process >= 0);
	must(!trace_clock_set(sample->writer, 1000000000, 0, 1700000000000000000));
	must(!trail_writer_open(&sample->trail, sample->writer, sample->process, SAMPLE_TRAIL_PID,
				SAMPLE_TRAIL_FIRST_CLASS,
				&(struct trail_clock){ now, 1000000000, now, now, now }));
}

void sample_trail_module(struct sample_trail *sample, const char *path, uint64_t base,
			 const void *build_id, size_t bytes)
{
	struct control_module module = { .base = base, .build_id_bytes = (uint8_t)bytes };

	if (bytes)
		memcpy(module.build_id, build_id, bytes);
	must(!trail_writer_module(&sample->trail, &module, path));
}

void sample_trail_module_gone(struct sample_trail *sample, const char *path, uint64_t base)
{
	must(!trail_writer_module(&sample->trail,
				  &(struct control_module){ .base = base, .gone = 1 }, path));
}

void sample_trail_thread(struct sample_trail *sample, uint32_t tid, const char *comm)
{
	must(!trail_thread_begin(&sample->trail, &sample->thread, tid, comm, TRAIL_STEP,
				 sample->now));
}

void sample_trail_ran(struct sample_trail *sample, const struct trail_entry *entry,
		      const void *code)
{
	must(!trail_thread_block(&sample->trail, &sample->thread, entry, code, ++sample->now));
}

void sample_trail_event(struct sample_trail *sample, enum trail_event event, uint64_t at,
			uint32_t left, uint64_t first, uint64_t second)
{
	struct trail_between between = {
		.at = at, .left = left, .event = (uint8_t)event, .values = { first, second }
	};

	must(!trail_thread_event(&sample->trail, &sample->thread, &between, ++sample->now));
}

void sample_trail_thread_end(struct sample_trail *sample)
{
	must(!trail_thread_end(&sample->trail, &sample->thread, ++sample->now));
}

void sample_trail_marker(struct sample_trail *sample, const uint64_t *ticks, size_t count)
{
	struct sample packet = { .head = { .pid = SAMPLE_TRAIL_PID,
					   .tid = MARKERS_TID,
					   .instance = 1000,
					   .comm = "marks" } };

	must(!trace_event_add(sample->writer, sample->process, SAMPLE_TRAIL_MARKER, SAMPLE_TYPES(0),
			      "mj\ndb\nquery\na.c\n3\n"));
	sample_begin(&packet, ticks[0]);
	for (size_t i = 0; i < count; i++)
		sample_event(&packet, SAMPLE_TRAIL_MARKER, ticks[i], 0);
	must(!sample_write(&packet, sample->writer, sample->process));
	sample_release(&packet);
}

void sample_trail_close(struct sample_trail *sample)
{
	trail_writer_release(&sample->trail);
	must(!trace_writer_close(sample->writer));
}

void sample_trail_remove(struct sample_trail *sample)
{
	sample_folder_remove(sample->folder);
}
