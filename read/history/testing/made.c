/* SPDX-License-Identifier: MIT */
#include "read/history/testing/made.h"

#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>

struct made made;

static struct sample_trail sample;

static struct fact_module module = { .path = (char *)CALLS_FIXTURE };
static const struct fact_process process = { .modules = &module, .module_count = 1 };

void made_begin(void)
{
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, SAMPLE_TRAIL_PID, "name");
}

void made_end(void)
{
	functions_close(&made.functions);
	image_close(made.image);
	if (made.reader)
		trails_release(&made.trails, made.reader);
	trace_reader_close(made.reader);
	sample_trail_remove(&sample);
}

void made_ran(uint64_t start, enum trail_kind kind, uint64_t target)
{
	struct trail_entry entry = { .start = start,
				     .target = target,
				     .bytes = 4,
				     .last = 2,
				     .instructions = 2,
				     .kind = (uint8_t)kind };

	sample_trail_ran(&sample, &entry, NULL);
}

void made_event(enum trail_event kind, uint64_t at, uint32_t left, uint64_t first, uint64_t second)
{
	sample_trail_event(&sample, kind, at, left, first, second);
}

const struct trail_path *made_read(void)
{
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	cr_assert_eq(trace_reader_open(&made.reader, sample.folder), 0);
	cr_assert_eq(trails_read(&made.trails, made.reader), 0);
	cr_assert_eq(made.trails.path_count, 1);
	cr_assert_null(made.trails.paths[0].damage, "%s", made.trails.paths[0].damage);
	cr_assert_eq(image_open(&made.image, &process, NULL), 0);
	cr_assert_eq(functions_open(&made.functions, made.image), 0);
	return &made.trails.paths[0];
}
