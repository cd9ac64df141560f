/* SPDX-License-Identifier: MIT */
#include "record/watch/figures.h"

#include "trace/reader.h"
#include "trace/testing/packets.h"
#include "trace/writer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <waymark/error.h>

/* Each count is read as it was written. */
Test(figures, read_returns_written_counts)
{
	struct watched_spec all[3] = { { .text = (char *)"watch:a/if=value==1/",
					 .processes = 1,
					 .uncovered_ns = UINT64_MAX,
					 .counts = { .hits = 3, .filtered = 2 } },
				       { 0 },
				       { .text = (char *)"watch:\"b\" =\n",
					 .processes = 2,
					 .pieces = 4,
					 .outside = 1,
					 .why = -WM_E_BREAKPOINT_DEAD,
					 .lost = -EPERM,
					 .is_local = 1,
					 .counts = { .missed = 99, .frames = { .unsure = 5 } } } };
	struct watched_list list = { .all = all, .count = 3, .unproven = -WM_E_BREAKPOINT_DEAD };
	struct watched_spec read;
	struct trace_reader *reader;
	struct trace_writer *writer;
	char dir[64];
	int unproven;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	figures_write(&list, writer);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(reader->meta.watch_count, 2);
	cr_assert_eq(figures_read(&read, &unproven, &reader->meta.watches[0]), 0);
	cr_assert_str_eq(read.text, all[0].text);
	cr_assert_eq(unproven, 0, "it had hits");
	cr_assert_eq(read.uncovered_ns, UINT64_MAX);
	cr_assert_eq(memcmp(&read.counts, &all[0].counts, sizeof(read.counts)), 0);
	watched_spec_release(&read);
	cr_assert_eq(figures_read(&read, &unproven, &reader->meta.watches[1]), 0);
	cr_assert_str_eq(read.text, all[2].text);
	cr_assert_eq(unproven, WM_E_BREAKPOINT_DEAD);
	cr_assert_eq(read.pieces, 4);
	cr_assert_eq(read.why, WM_E_BREAKPOINT_DEAD);
	cr_assert_eq(read.lost, EPERM);
	cr_assert_eq(memcmp(&read.counts, &all[2].counts, sizeof(read.counts)), 0);
	watched_spec_release(&read);
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

/* A trace may come from any source. */
Test(figures, read_ignores_unknown_names_and_cuts_large_numbers)
{
	struct fact_figure all[] = { { (char *)"later", 4 },
				     { (char *)"why", UINT64_MAX },
				     { (char *)"hits", 2 },
				     { (char *)"", 1 } };
	const struct fact_watch watch = { .spec = (char *)"a", .figures = all, .count = 4 };
	struct watched_spec read;
	int unproven;

	cr_assert_eq(figures_read(&read, &unproven, &watch), 0);
	cr_assert_eq(read.counts.hits, 2);
	cr_assert_eq(read.why, INT32_MAX);
	cr_assert_str_eq(read.text, "a");
	watched_spec_release(&read);
}
