/* SPDX-License-Identifier: MIT */
/* Cursors over trails, there and back, by each unit. */
#include "record/trail/trail.h"
#include "record/trail/testing/steps.h"
#include "trace/testing/packets.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <waymark/error.h>
#include <waymark/trail.h>

#define WAIT_MS 60000

static struct wm_trail *trail;
static struct wm_trail_cursor *cursor;
static pid_t child;
static char folder[64];

struct steps {
	struct wm_trail_step *all;
	size_t count, room;
};

static struct steps there, back;

static void end(void)
{
	wm_trail_cursor_close(cursor);
	wm_trail_close(trail);
	free(there.all);
	free(back.all);
	if (folder[0])
		sample_folder_remove(folder);
}

static void begin(void)
{
	setenv("WAYMARK_ENGINE", "/nowhere", 1);
}

TestSuite(walk, .init = begin, .fini = end, .timeout = 120);

/* To its end, with a cursor on its first thread. */
static void walk_of(const char *program, const char *mode)
{
	const struct wm_trail_options options = { .size = sizeof(options),
						  .flags = WM_TRAIL_FLAG_SIGNALS |
							   WM_TRAIL_FLAG_SYSCALLS,
						  .origin = TRAIL_ORIGIN_ORACLE };
	char *argv[] = { (char *)program, (char *)mode, NULL };

	child = wm_trail_launch(&trail, argv, &options);
	cr_assert_gt(child, 0, "%s", wm_trail_detail(NULL));
	cr_assert_eq(wm_trail_wait(trail, WAIT_MS), 1);
	waitpid(child, NULL, 0);
	cr_assert_eq(wm_trail_cursor_open(&cursor, trail, 0), 0);
}

static void add(struct steps *steps, const struct wm_trail_step *step)
{
	if (steps->count == steps->room) {
		steps->room = steps->room ? 2 * steps->room : 64;
		steps->all = reallocarray(steps->all, steps->room, sizeof(*step));
	}
	steps->all[steps->count++] = *step;
}

static void walk_there(enum wm_trail_unit unit)
{
	struct wm_trail_step step = { .size = sizeof(step) };

	there.count = 0;
	cr_assert_eq(wm_trail_cursor_seek(cursor, WM_TRAIL_OLDEST), 0);
	while (wm_trail_cursor_next(cursor, unit, &step) == 1)
		add(&there, &step);
	cr_assert_eq(wm_trail_cursor_next(cursor, unit, &step), 0);
}

static void walk_back(enum wm_trail_unit unit)
{
	struct wm_trail_step step = { .size = sizeof(step) };

	back.count = 0;
	while (wm_trail_cursor_previous(cursor, unit, &step) == 1)
		add(&back, &step);
	cr_assert_eq(wm_trail_cursor_previous(cursor, unit, &step), 0);
}

static uint64_t instructions(const struct steps *steps)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < steps->count; i++)
		sum += steps->all[i].instructions;
	return sum;
}

static int is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* What it went over there, it goes over back. */
static void check_unit(enum wm_trail_unit unit)
{
	walk_there(unit);
	walk_back(unit);
	cr_assert_eq(there.count, back.count, "unit %d: %zu there, %zu back", unit, there.count,
		     back.count);
	for (size_t i = 0; i < there.count; i++) {
		const struct wm_trail_step *a = &there.all[i], *b = &back.all[there.count - 1 - i];

		cr_assert_eq(a->start, b->start, "unit %d, step %zu", unit, i);
		cr_assert_eq(a->last, b->last, "unit %d, step %zu", unit, i);
		cr_assert_eq(a->instructions, b->instructions);
		cr_assert_eq(a->branch.from, b->branch.from);
		cr_assert_eq(a->branch.to, b->branch.to);
		cr_assert_eq(a->branch.flags, b->branch.flags, "unit %d, step %zu: %#x, %#x", unit,
			     i, a->branch.flags, b->branch.flags);
		cr_assert_eq(a->line, b->line);
		cr_assert(is_same_text(a->source, b->source));
		cr_assert(is_same_text(a->function, b->function));
		cr_assert_eq(a->code, b->code);
	}
}

Test(walk, goes_back_over_what_it_went_over_by_each_unit)
{
	static const char *const modes[] = { "l", "c", "r", "s", "f" };

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		uint64_t all;

		walk_of(STEPS, modes[i]);
		check_unit(WM_TRAIL_UNIT_INSTRUCTIONS);
		all = instructions(&there);
		cr_expect_gt(all, 10);
		check_unit(WM_TRAIL_UNIT_BLOCKS);
		cr_expect_eq(instructions(&there), all);
		check_unit(WM_TRAIL_UNIT_LINES);
		cr_expect_eq(instructions(&there), all);
		check_unit(WM_TRAIL_UNIT_BRANCHES);
		check_unit(WM_TRAIL_UNIT_CALLS);
		wm_trail_cursor_close(cursor);
		wm_trail_close(trail);
		cursor = NULL;
		trail = NULL;
	}
}

Test(walk, changes_its_unit_anywhere)
{
	struct wm_trail_step one = { .size = sizeof(one) }, rest = { .size = sizeof(rest) };

	walk_of(STEPS, "c");
	walk_there(WM_TRAIL_UNIT_BLOCKS);
	for (size_t i = 0; i < there.count; i++) {
		const struct wm_trail_step *whole = &there.all[i];

		cr_assert_eq(wm_trail_cursor_seek(cursor, there.count - 1 - i), 0);
		if (whole->instructions < 2)
			continue;
		/* an instruction, then the rest of its block */
		cr_assert_eq(wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_INSTRUCTIONS, &one), 1);
		cr_assert_eq(one.start, whole->start);
		cr_assert_eq(wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BLOCKS, &rest), 1);
		cr_assert_eq(rest.start, one.start + one.code_bytes);
		cr_assert_eq(rest.last, whole->last);
		cr_assert_eq(rest.instructions, whole->instructions - 1);
		cr_assert_eq(rest.branch.flags, 0);
		/* an instruction back, then what is before it in the block */
		cr_assert_eq(wm_trail_cursor_previous(cursor, WM_TRAIL_UNIT_INSTRUCTIONS, &one), 1);
		cr_assert_eq(one.start, whole->last);
		cr_assert_eq(wm_trail_cursor_previous(cursor, WM_TRAIL_UNIT_BLOCKS, &rest), 1);
		cr_assert_eq(rest.start, whole->start);
		cr_assert_eq(rest.instructions, whole->instructions - 1);
		cr_assert_eq(rest.branch.flags, whole->branch.flags);
	}
}

Test(walk, seeks_by_the_index_of_records)
{
	struct wm_branch branch = { .size = sizeof(branch) };
	struct wm_trail_step step = { .size = sizeof(step) };
	int64_t count;

	walk_of(STEPS, "s");
	count = wm_trail_records(trail, 0);
	for (int64_t i = 0; i < count; i++) {
		int depth;

		cr_assert_eq(wm_trail_get(trail, 0, (uint64_t)i, &branch), 1);
		cr_assert_eq(wm_trail_cursor_seek(cursor, (uint64_t)i), 0);
		cr_assert_eq(wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BLOCKS, &step), 1);
		cr_assert_eq(step.branch.from, branch.from);
		cr_assert_eq(step.branch.to, branch.to);
		cr_assert_eq(step.branch.flags, branch.flags);
		cr_assert_eq(step.branch.last, branch.last);
		/* and it is as deep there as who walked there */
		depth = step.depth;
		wm_trail_cursor_seek_end(cursor);
		for (int64_t j = 0; j < i; j++)
			wm_trail_cursor_previous(cursor, WM_TRAIL_UNIT_BLOCKS, &step);
		wm_trail_cursor_previous(cursor, WM_TRAIL_UNIT_BLOCKS, &step);
		wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BLOCKS, &step);
		cr_assert_eq(step.depth, depth, "record %lld: %d, %d", (long long)i, step.depth,
			     depth);
	}
}

Test(walk, counts_how_deep_calls_are)
{
	int deepest = 0;

	walk_of(STEPS, "c");
	walk_there(WM_TRAIL_UNIT_CALLS);
	cr_expect_eq(there.count, 6 + 6 + 1, "calls, returns, the end: %zu", there.count);
	walk_there(WM_TRAIL_UNIT_BLOCKS);
	for (size_t i = 0; i < there.count; i++)
		deepest = there.all[i].depth > deepest ? there.all[i].depth : deepest;
	cr_expect_eq(deepest, 5);
	cr_expect_eq(there.all[there.count - 1].depth, 0);
}

Test(walk, names_functions_and_lines)
{
	int named = 0, lined = 0;

	walk_of(THREADS, NULL);
	walk_there(WM_TRAIL_UNIT_LINES);
	for (size_t i = 0; i < there.count; i++) {
		const struct wm_trail_step *step = &there.all[i];

		named += step->function && !strcmp(step->function, "main");
		lined += step->source && strstr(step->source, "steps_threads.c") && step->line;
	}
	cr_expect_gt(named, 2);
	cr_expect_gt(lined, 5);
}

Test(walk, stays_as_it_was_when_the_trail_is_cleared)
{
	walk_of(STEPS, "c");
	walk_there(WM_TRAIL_UNIT_BLOCKS);
	cr_assert_eq(wm_trail_clear(trail), 0);
	walk_back(WM_TRAIL_UNIT_BLOCKS);
	cr_expect_eq(there.count, back.count);
}

/* ---- recorded ones ---- */

Test(walk, knows_the_last_instruction_of_a_block_without_code)
{
	static const struct trail_entry entry = {
		.start = 0x1000, .bytes = 7, .last = 5, .instructions = 2, .kind = TRAIL_SYSCALL
	};
	struct wm_trail_step step = { .size = sizeof(step) };
	struct wm_branch branch = { .size = sizeof(branch) };
	struct sample_trail sample;

	sample_trail_begin(&sample);
	sample_trail_thread(&sample, SAMPLE_TRAIL_PID, "bare");
	sample_trail_ran(&sample, &entry, NULL);
	sample_trail_event(&sample, TRAIL_END, 0, 0, TRAIL_EXITED, 0);
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	memcpy(folder, sample.folder, sizeof(folder));
	cr_assert_eq(wm_trail_open_dir(&trail, folder), 0, "%s", wm_trail_detail(NULL));
	cr_assert_eq(wm_trail_get(trail, 0, 1, &branch), 1);
	cr_expect_eq(branch.last, 0x1005);
	cr_assert_eq(wm_trail_cursor_open(&cursor, trail, 0), 0);
	cr_assert_eq(wm_trail_cursor_seek(cursor, WM_TRAIL_OLDEST), 0);
	cr_assert_eq(wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BLOCKS, &step), 1);
	cr_expect_eq(step.start, 0x1000);
	cr_expect_eq(step.last, 0x1005);
	cr_expect_eq(step.branch.last, 0x1005);
	cr_expect_eq(step.instructions, 2);
}

Test(walk, reads_recorded_trails_as_live_ones)
{
	struct wm_trail_status status = { .size = sizeof(status) };
	struct wm_branch *live, branch = { .size = sizeof(branch) };
	int64_t count;

	walk_of(STEPS, "s");
	count = wm_trail_records(trail, 0);
	live = calloc((size_t)count, sizeof(*live));
	for (int64_t i = 0; i < count; i++) {
		live[i].size = sizeof(*live);
		cr_assert_eq(wm_trail_get(trail, 0, (uint64_t)i, &live[i]), 1);
	}
	wm_trail_cursor_close(cursor);
	wm_trail_close(trail);
	cursor = NULL;
	sample_steps(folder, (char *[]){ (char *)STEPS, (char *)"s", NULL });
	cr_assert_eq(wm_trail_open_dir(&trail, folder), 0, "%s", wm_trail_detail(NULL));
	cr_assert_eq(wm_trail_records(trail, 0), count);
	for (int64_t i = 0; i < count; i++) {
		cr_assert_eq(wm_trail_get(trail, 0, (uint64_t)i, &branch), 1);
		cr_assert_eq(branch.from, live[i].from);
		cr_assert_eq(branch.to, live[i].to);
		cr_assert_eq(branch.last, live[i].last);
		cr_assert_eq(branch.flags, live[i].flags);
		cr_assert_eq(branch.event, live[i].event);
	}
	free(live);
	cr_assert_eq(wm_trail_status_get(trail, &status), 0);
	cr_expect_eq(status.state, WM_TRAIL_STATE_RECORDED);
	cr_expect_eq(status.origin, TRAIL_ORIGIN_ORACLE);
	cr_expect_eq(status.branches + status.events, (uint64_t)count);
	cr_expect_eq(wm_trail_clear(trail), -EINVAL);
	cr_expect_eq(wm_trail_wait(trail, -1), 1);
	cr_assert_eq(wm_trail_cursor_open(&cursor, trail, 0), 0);
	check_unit(WM_TRAIL_UNIT_INSTRUCTIONS);
	check_unit(WM_TRAIL_UNIT_LINES);
}

Test(walk, refuses_folders_without_a_trail)
{
	struct trace_writer *writer;

	cr_expect_lt(wm_trail_open_dir(&trail, "/nonexistent/trace"), 0);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), "/nonexistent/trace"));
	cr_expect_eq(wm_trail_open_dir(&trail, NULL), -EINVAL);
	cr_expect_eq(wm_trail_open_dir(NULL, folder), -EINVAL);
	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_expect_eq(wm_trail_open_dir(&trail, folder), -WM_E_NOT_RECORDED);
	cr_expect_null(trail);
}

Test(walk, refuses_what_cannot_be)
{
	struct wm_trail_step step = { .size = sizeof(step) }, none = { 0 };

	walk_of(STEPS, "c");
	cr_expect_eq(wm_trail_cursor_next(NULL, WM_TRAIL_UNIT_BLOCKS, &step), -EINVAL);
	cr_expect_eq(wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BLOCKS, NULL), -EINVAL);
	cr_expect_eq(wm_trail_cursor_next(cursor, WM_TRAIL_UNIT_BLOCKS, &none), -EINVAL);
	cr_expect_eq(wm_trail_cursor_next(cursor, (enum wm_trail_unit)5, &step), -EINVAL);
	cr_expect_eq(wm_trail_cursor_seek(NULL, 0), -EINVAL);
	wm_trail_cursor_close(cursor);
	cr_expect_eq(wm_trail_cursor_open(&cursor, trail, 1), -ESRCH);
	cr_expect_null(cursor);
	cr_expect_eq(wm_trail_cursor_open(&cursor, NULL, 0), -EINVAL);
	cr_expect_eq(wm_trail_cursor_open(NULL, trail, 0), -EINVAL);
}
