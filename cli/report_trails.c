/* SPDX-License-Identifier: MIT */
#include "cli/report_trails.h"

#include "cli/trail_lost.h"

static void add_path(struct report_trails *sum, const struct trace_reader *reader,
		     const struct trail_path *path)
{
	static const struct trail_bound none;
	struct trail_range range;
	struct trail_lost lost;

	trail_range_init(&range, reader, path, &none, &none);
	trail_lost_count(&lost, reader, &range);
	sum->threads++;
	sum->blocks += path->blocks;
	sum->places += lost.places;
	sum->lost += lost.blocks;
	sum->unrecorded += lost.unrecorded;
	sum->cut += (uint64_t)lost.is_cut;
	sum->damaged += path->damage != NULL;
}

int report_trails(struct report_trails *sum, struct trace_reader *reader)
{
	struct trails trails;
	int err = trails_read(&trails, reader);

	*sum = (struct report_trails){ 0 };
	for (size_t i = 0; i < trails.path_count && !err; i++)
		add_path(sum, reader, &trails.paths[i]);
	for (size_t i = 0; i < trails.threads.count && !err; i++) {
		const struct trail_thread_entry *threads = &trails.threads.all[i];
		int is_gone = trail_lost_is_gone(reader, threads);

		/* the recorder has counted these itself, as unwritten */
		if (reader->write_error && is_gone)
			continue;
		sum->threads += threads->is_missing != 0;
		sum->cut += (uint64_t)is_gone;
		sum->damaged += threads->is_missing && !is_gone && !reader->live;
	}
	trails_release(&trails, reader);
	return err;
}

static const struct row_column trail_columns[] = {
	{ "threads", ROW_U64, ROW_COUNT, 0, "that have a trail, or had one" },
	{ "blocks", ROW_U64, ROW_COUNT, 0, "that ran, as far as they are there" },
	{ "lost_places", ROW_U64, ROW_COUNT, ROW_QUIET, "where blocks are missing" },
	{ "lost_blocks", ROW_U64, ROW_COUNT, ROW_QUIET, "how many, that are known of" },
	{ "unrecorded_places", ROW_U64, ROW_COUNT, ROW_QUIET, "where code ran unrecorded" },
	{ "cut_threads", ROW_U64, ROW_COUNT, ROW_QUIET, "whose recording was cut off" },
	{ "damaged_threads", ROW_U64, ROW_COUNT, ROW_QUIET, "whose trail is damaged, or gone" },
};
static ROW_TABLE(report_trail_table, "trail", "The trails of all threads together.", trail_columns);

void report_trails_print(const struct report_trails *sum, struct rows *rows)
{
	if (!sum->threads)
		return;
	rows_open(rows, &report_trail_table, &(struct rows_layout){ .title = "Trails" });
	ROWS_PUT(rows, trail_columns, row_u64(sum->threads), row_u64(sum->blocks),
		 row_u64(sum->places), row_u64(sum->lost), row_u64(sum->unrecorded),
		 row_u64(sum->cut), row_u64(sum->damaged));
	rows_close(rows);
}
