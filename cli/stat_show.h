/* SPDX-License-Identifier: MIT */
/* What `waymark stat` prints: a table, lines at intervals, or JSON. */
#ifndef CLI_STAT_SHOW_H
#define CLI_STAT_SHOW_H

#include "record/perf/counts.h"

#include <stdio.h>

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

/* The table. */
void stat_show(const struct stat_result *result, FILE *to);

/* One line for each event: what came since the last, `at_s` after the begin. */
void stat_show_interval(const struct stat_result *result, double at_s, FILE *to);

/* An object, on a line of its own; at_s below 0: it is of the whole. 0 or -errno. */
int stat_show_json(const struct stat_result *result, double at_s, int fd);

#endif
