/* SPDX-License-Identifier: MIT */
#include "history/made.h"

#include "trace/sample.h"
#include "trace/trail/write.h"

#include <criterion/criterion.h>

#define FIRST_CLASS 40

struct made made;

static char folder[64];
static struct trace_writer *writer;
static struct trail_writer trail;
static struct trail_thread thread;
static uint64_t now = 1000;

static struct tsdl_module module = { .path = (char *)CALLS_FIXTURE };
static const struct tsdl_process process = { .modules = &module, .module_count = 1 };

void made_begin(void)
{
	struct trace_process traced = { .pid = MADE_PID,
					.exe = "/bin/x",
					.hostname = "h",
					.clock = STORE_CLOCK_MONOTONIC,
					.ticks_hz = 1000000000 };
	struct trail_clock clock = { now, 1000000000, now, now, 5000000000 };
	int number;

	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	number = trace_process_add(writer, &traced);
	cr_assert_geq(number, 0);
	cr_assert_eq(trail_writer_open(&trail, writer, number, MADE_PID, FIRST_CLASS, &clock), 0);
	cr_assert_eq(trail_thread_begin(&trail, &thread, MADE_PID, "name", TRAIL_STEP, now), 0);
}

void made_end(void)
{
	functions_close(&made.functions);
	image_close(made.image);
	if (made.reader)
		trails_release(&made.trails, made.reader);
	trace_reader_close(made.reader);
	sample_folder_remove(folder);
}

void made_ran(uint64_t start, enum trail_kind kind, uint64_t target)
{
	struct trail_entry entry = { .start = start,
				     .target = target,
				     .bytes = 4,
				     .last = 2,
				     .instructions = 2,
				     .kind = (uint8_t)kind };

	cr_assert_eq(trail_thread_block(&trail, &thread, &entry, NULL, ++now), 0);
}

void made_event(enum trail_event kind, uint64_t at, uint32_t left, uint64_t first, uint64_t second)
{
	struct trail_between between = {
		.at = at, .left = left, .event = (uint8_t)kind, .values = { first, second }
	};

	cr_assert_eq(trail_thread_event(&trail, &thread, &between, ++now), 0);
}

const struct trail_path *made_read(void)
{
	cr_assert_eq(trail_thread_end(&trail, &thread, ++now), 0);
	trail_writer_release(&trail);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&made.reader, folder), 0);
	cr_assert_eq(trails_read(&made.trails, made.reader), 0);
	cr_assert_eq(made.trails.path_count, 1);
	cr_assert_null(made.trails.paths[0].damage, "%s", made.trails.paths[0].damage);
	cr_assert_eq(image_open(&made.image, &process, NULL), 0);
	cr_assert_eq(functions_open(&made.functions, made.image), 0);
	return &made.trails.paths[0];
}
