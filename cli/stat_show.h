/* SPDX-License-Identifier: MIT */
/* What `waymark stat` prints. */
#ifndef CLI_STAT_SHOW_H
#define CLI_STAT_SHOW_H

#include "record/perf/counts.h"

#include <stddef.h>

struct stat_row {
	struct count_event event;
	struct count_value value; /* of the last run */
	double mean, squares;	  /* of scaled counts, over all runs: Welford's */
};

struct stat_result {
	struct stat_row *rows;
	size_t row_count;
	const char *what; /* is counted */
	unsigned int runs;
	double elapsed_s, elapsed_squares; /* mean, and as of a row */
	double user_s, system_s;	   /* of a command's last run */
	int has_command;
	int status; /* the command's, where there is one */
	/* they would be among the rows by default */
	int lacks_hardware, lacks_switches;
	struct counts_coverage coverage;
};

/* Take the counts of a run of so many seconds into the means. */
void stat_run_add(struct stat_result *result, double elapsed_s);

/*
 * Print a table, or one JSON object; at_s from 0 on: what came in an interval that ended so many
 * seconds after the begin, without titles, or as JSON lines. 0 or a negative error.
 */
int stat_show(const struct stat_result *result, double at_s, int json, int fd);

#endif
