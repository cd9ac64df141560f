/* SPDX-License-Identifier: MIT */
/* All tables: `waymark help --tables` prints the part TABLES of waymark-tables(7). */
#include "cli/cli.h"
#include "cli/findings.h"
#include "cli/flight.h"
#include "cli/report.h"
#include "cli/tables.h"
#include "cli/trail.h"
#include "cli/trail_crash.h"
#include "cli/trail_event.h"
#include "cli/trail_words.h"
#include "cli/watch_counts.h"
#include "cli/watch_writers.h"

#include <stdio.h>

static const struct row_table *const tables[] = {
	&report_trace_table,
	&report_process_table,
	&report_event_table,
	&report_span_table,
	&report_span_time_table,
	&report_span_cost_table,
	&report_thread_table,
	&report_wait_table,
	&report_waker_table,
	&report_place_table,
	&report_count_table,
	&report_sample_table,
	&report_sample_function_table,
	&report_sample_line_table,
	&report_sample_thread_table,
	&report_sample_caller_table,
	&report_trail_table,
	&report_loss_table,
	&report_throttle_table,
	&report_change_table,
	&report_gap_table,
	&report_unrecorded_table,
	&report_damage_table,
	&trail_function_table,
	&trail_thread_table,
	&trail_event_table,
	&branch_table,
	&instruction_table,
	&block_table,
	&block_next_table,
	&block_code_table,
	&enter_table,
	&leave_table,
	&source_line_table,
	&jump_table,
	&crash_table,
	&register_table,
	&crash_frame_table,
	&argument_table,
	&watch_table,
	&writer_line_table,
	&writer_table,
	&hit_table,
	&frame_table,
	&watch_run_table,
	&finding_table,
	&flight_table,
	&check_table,
	&machine_table,
	&claim_table,
	&perf_table,
	&ledger_table,
	&marker_table,
	&site_table,
	&place_table,
	&countable_table,
	&watchable_table,
	&count_table,
	&counting_table,
	&diff_table,
	&pair_table,
	&step_table,
	&harmless_table,
	&recording_table,
	&recorded_trail_table,
	&recording_end_table,
	&source_table,
	&coverage_all_table,
	&packing_table,
	&control_table,
	&spec_table,
	&top_table,
	&top_event_table,
	&top_span_table,
	&top_function_table,
	&top_thread_table,
};

static const char *type_words(const struct row_column *column)
{
	static const char *const units[] = {
		[ROW_COUNT] = "count",
		[ROW_NS] = "nanoseconds",
		[ROW_TIME] = "time, ns since 1970",
		[ROW_SINCE] = "ns since the begin",
		[ROW_BYTES] = "bytes",
		[ROW_SHARE] = "percent",
	};
	static const char *const types[] = {
		[ROW_BOOL] = "true or false", [ROW_U64] = "number",	 [ROW_S64] = "number",
		[ROW_DOUBLE] = "number",      [ROW_ADDRESS] = "address", [ROW_TEXT] = "text",
	};

	return column->unit ? units[column->unit] : types[column->type];
}

int tables_print(void)
{
	printf("# TABLES\n");
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		printf("\n## %s\n\n%s\n\n| column | type | what it is |\n|:--|:--|:--|\n",
		       tables[i]->name, tables[i]->meaning);
		for (unsigned int j = 0; j < tables[i]->count; j++) {
			const struct row_column *column = &tables[i]->columns[j];
			char key[ROWS_KEY_BYTES];

			printf("| %s | %s | %s%s |\n", rows_key(column, key), type_words(column),
			       column->meaning,
			       column->flags & ROW_FOR_TEXT ? " (in text alone)" : "");
		}
	}
	printf("\n");
	return fflush(stdout) ? CLI_FAILED : CLI_FINE;
}
