/* SPDX-License-Identifier: MIT */
/* The tables of commands that no other file uses, for waymark-tables(7). */
#ifndef CLI_TABLES_H
#define CLI_TABLES_H

#include "read/rows/row.h"

extern const struct row_table check_table, machine_table;			  /* doctor */
extern const struct row_table claim_table, perf_table, ledger_table;		  /* claims */
extern const struct row_table marker_table, site_table, place_table;		  /* list */
extern const struct row_table countable_table, watchable_table;			  /* list */
extern const struct row_table count_table, counting_table;			  /* stat */
extern const struct row_table diff_table, pair_table, step_table, harmless_table; /* diff */
extern const struct row_table recording_table, recorded_trail_table,
	recording_end_table;						  /* record */
extern const struct row_table source_table, coverage_all_table;		  /* coverage */
extern const struct row_table packing_table;				  /* compress */
extern const struct row_table spec_table, control_table;		  /* control */
extern const struct row_table top_table, top_event_table, top_span_table; /* top */
extern const struct row_table top_function_table, top_thread_table;	  /* top */

#endif
