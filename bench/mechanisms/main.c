/* SPDX-License-Identifier: MIT */
/*
 * The costs of the ways of looking into a running program:
 * bench_mechanisms [EVENTS [NAME=COMMAND]...].
 *
 * It starts mechanisms_target, arms one place in it in each way, and prints a line for each, its
 * parts divided by tabs:
 *
 *	name		the way
 *	dormant_ns	the time that a dormant place adds to a call: the median over eight layouts
 *			of the code, as some layouts are luckier than others. Less than a tenth is
 *			noise
 *	hit_ns		the time that it adds when it records two arguments. The buffer is
 *			overwritten, not read. Of Waymark's ways 1,000 further hits are read back
 *			and compared
 *	hot_bytes	code in the way of those who only pass
 *	arming_us	from asking for the place to its being armed, in a process that is
 *			attached to
 *	skipped		why there is no hit_ns, or empty
 *
 * Times are CPU time of a thread, medians of nine runs of EVENTS calls. An unknown figure is nan.
 * Each NAME=COMMAND adds the line of a peer (row_measure_peer()).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/mechanisms/row.h"
#include <waymark/error.h>

#define ROWS_MAX 32
#define EVENTS_USUAL 300000

struct table {
	struct row rows[ROWS_MAX];
	unsigned int count;
	struct base_line base;
};

static struct row *row_add(struct table *table, const char *name)
{
	struct row *row = &table->rows[table->count++];

	*row = (struct row){
		.name = name, .dormant_ns = NAN, .hit_ns = NAN, .hot_bytes = NAN, .arm_us = NAN
	};
	return row;
}

static void measure_ours(struct table *table)
{
	static const struct {
		const char *name, *spec;
		enum target_way way;
	} ours[] = {
		{ "static marker", "marker:mechanism:marker", TARGET_MARKER },
		{ "portable flag", "marker:mechanism:flag", TARGET_FLAG },
		{ "USDT by Waymark", "usdt:mechanism:usdt", TARGET_USDT },
		{ "filler", "func:mechanism_filler_*/arg1,arg2/", TARGET_FILLER },
		{ "moved jump", "func:mechanism_none_*/arg1,arg2/", TARGET_NONE },
		{ "moved jump, and the return", "func:mechanism_none_*/ret,arg1,arg2/",
		  TARGET_NONE },
	};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		row_measure_spec(row_add(table, ours[i].name), &table->base, ours[i].way,
				 ours[i].spec);
}

static void measure_kernel(struct table *table)
{
	row_measure_kernel(row_add(table, "kernel uprobe"), &table->base, KERNEL_UPROBE);
	row_measure_kernel(row_add(table, "kernel nop5 uprobe"), &table->base, KERNEL_NOP5);
	row_measure_kernel(row_add(table, "kernel uprobe, and the return"), &table->base,
			   KERNEL_RETURN);
}

int main(int argc, char **argv)
{
	static struct table table;
	uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : EVENTS_USUAL;
	int err, status = 0;

	if (!events)
		return 2;
	err = base_line_measure(&table.base, events);
	if (err) {
		fprintf(stderr, "mechanisms_target: %s\n", wm_error_text(err));
		return 1;
	}
	measure_ours(&table);
	measure_kernel(&table);
	for (int i = 2; i < argc && table.count < ROWS_MAX; i++) {
		char *equals = strchr(argv[i], '=');

		if (!equals)
			return 2;
		*equals = '\0';
		row_measure_peer(row_add(&table, argv[i]), equals + 1);
	}
	for (unsigned int i = 0; i < table.count; i++) {
		const struct row *row = &table.rows[i];

		printf("%s\t%.3f\t%.3f\t%.3f\t%.3f\t%s\n", row->name, row->dormant_ns, row->hit_ns,
		       row->hot_bytes, row->arm_us, row->skipped);
		status |= !strncmp(row->skipped, ROW_WRONG, strlen(ROW_WRONG));
	}
	return fflush(stdout) ? 1 : status;
}
