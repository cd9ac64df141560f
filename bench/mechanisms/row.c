/* SPDX-License-Identifier: MIT */
#include "bench/mechanisms/row.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "bench/mechanisms/child.h"
#include <waymark/error.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double row_median(double *values, unsigned int count)
{
	qsort(values, count, sizeof(*values), compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void row_skip(struct row *row, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(row->skipped, sizeof(row->skipped), format, args);
	va_end(args);
}

typedef double layout_runs[TARGET_LAYOUTS][ROW_RUNS];

/* Each run's delta is the median over the layouts, timed one after the other. */
static double delta(const layout_runs way, const layout_runs none)
{
	double runs[ROW_RUNS], layouts[TARGET_LAYOUTS];

	for (unsigned int run = 0; run < ROW_RUNS; run++) {
		for (unsigned int layout = 0; layout < TARGET_LAYOUTS; layout++)
			layouts[layout] = way[layout][run] - none[layout][run];
		runs[run] = row_median(layouts, TARGET_LAYOUTS);
	}
	return row_median(runs, ROW_RUNS);
}

int base_line_measure(struct base_line *base, uint64_t count)
{
	static layout_runs ns[TARGET_WAYS];
	struct child child;
	int err = child_start(&child, NULL);

	base->count = count;
	base->hello = child.hello;
	for (unsigned int run = 0; run < ROW_RUNS && !err; run++)
		for (unsigned int layout = 0; layout < TARGET_LAYOUTS; layout++)
			for (unsigned int way = 0; way < TARGET_WAYS; way++) {
				ns[way][layout][run] = child_run(&child, way, layout, count);
				err = ns[way][layout][run] < 0 ? -WM_E_GONE : err;
			}
	for (unsigned int way = 0; way < TARGET_WAYS; way++)
		base->delta_ns[way] = delta(ns[way], ns[TARGET_NONE]);
	for (unsigned int way = 0; way < TARGET_WAYS; way++)
		for (unsigned int layout = 0; layout < TARGET_LAYOUTS; layout++)
			base->ns[way][layout] = row_median(ns[way][layout], ROW_RUNS);
	child_release(&child);
	return err;
}

void base_line_fill(const struct base_line *base, enum target_way way, struct row *row)
{
	row->dormant_ns = base->delta_ns[way];
	row->hot_bytes = (double)base->hello.leaves[way].hot_bytes;
	if (row->hot_bytes < 0)
		row->hot_bytes = NAN;
}

int row_measure_hits(struct row *row, struct child *child, const struct base_line *base,
		     enum target_way way, unsigned int layouts, uint64_t count)
{
	double hit_ns[ROW_RUNS];

	for (unsigned int run = 0; run < ROW_RUNS; run++) {
		unsigned int layout = run % layouts;
		double ns = child_run(child, way, layout, count);

		if (ns < 0)
			return -WM_E_GONE;
		hit_ns[run] = ns - base->ns[way][layout];
	}
	row->hit_ns = row_median(hit_ns, ROW_RUNS);
	return 0;
}

static void take_raw(struct row *row, const char *line)
{
	static const char *const names[] = { "dormant", "hit", "bytes", "arm" };
	double *const to[] = { &row->dormant_ns, &row->hit_ns, &row->hot_bytes, &row->arm_us };
	char name[32];
	double value;

	if (sscanf(line, "raw %31s %lf", name, &value) == 2)
		for (unsigned int i = 0; i < sizeof(to) / sizeof(to[0]); i++)
			if (!strcmp(name, names[i]))
				*to[i] = value;
}

void row_measure_peer(struct row *row, const char *command)
{
	FILE *output = popen(command, "r");
	char line[256], last[256] = "it said nothing";
	int status;

	if (!output) {
		row_skip(row, "%s can't be run", command);
		return;
	}
	while (fgets(line, sizeof(line), output)) {
		take_raw(row, line);
		line[strcspn(line, "\n")] = 0;
		if (line[0])
			memcpy(last, line, sizeof(last));
	}
	status = pclose(output);
	if (status && WIFEXITED(status) && WEXITSTATUS(status) == 77)
		row_skip(row, "%s", last);
	else if (status || isnan(row->hit_ns))
		row_skip(row, "%s failed: %s", command, last);
}
