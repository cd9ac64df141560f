/* SPDX-License-Identifier: MIT */
#include "trace/process_records.h"

#include <criterion/criterion.h>

Test(process_numbers, a_pid_is_the_process_that_it_was_then)
{
	struct fact_process processes[] = {
		{ .pid = 10, .begin_ns = 100 }, { .is_kernel = 1 },
		{ .pid = 20, .begin_ns = 100 }, { .pid = 10, .begin_ns = 500 },
		{ .pid = 10, .begin_ns = 300 },
	};
	/* a forked child in its parent's streams, until it executes another program */
	struct trace_stream streams[] = {
		{ .process = 0, .pid = 10, .packets = 1, .begin_ticks = 100 },
		{ .process = 0, .pid = 20, .packets = 1, .begin_ticks = 50 },
		{ .process = 0, .pid = 30, .packets = 1, .begin_ticks = 200 },
		{ .process = 0, .pid = 30, .packets = 1, .begin_ticks = 400 },
		{ .process = 0, .pid = 40, .begin_ticks = 200 },
		{ .process = 1, .packets = 1, .is_of_cpu = 1 },
	};
	struct trace_reader reader = {
		.meta = { .processes = processes,
			  .process_count = sizeof(processes) / sizeof(*processes),
			  .clocks[0].ticks_hz = 1000000000 },
		.streams = streams,
		.stream_count = sizeof(streams) / sizeof(*streams),
	};
	static const struct {
		uint32_t pid, process;
		uint64_t ns;
	} rows[] = {
		{ 10, 0, 0 },
		{ 10, 0, 299 },
		{ 10, 4, 300 },
		{ 10, 3, 900 },
		{ 20, 0, 99 },
		{ 20, 2, 100 },
		{ 30, 0, 1 },
		{ 30, 0, 900 },
		{ 40, PROCESS_NUMBER_NONE, 300 },
		{ 0, PROCESS_NUMBER_NONE, 300 },
		{ 99, PROCESS_NUMBER_NONE, 300 },
	};
	struct process_numbers numbers;

	cr_assert_eq(process_numbers_make(&numbers, &reader), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		cr_expect_eq(process_number_at(&numbers, rows[i].pid, rows[i].ns, NULL),
			     rows[i].process, "%zu: %u", i,
			     process_number_at(&numbers, rows[i].pid, rows[i].ns, NULL));
	process_numbers_release(&numbers);
	cr_expect_eq(process_number_at(&numbers, 10, 100, NULL), PROCESS_NUMBER_NONE);
}
