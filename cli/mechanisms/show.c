/* SPDX-License-Identifier: MIT */
#include "cli/mechanisms/row.h"

#include "cli/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static void show(double value, int columns, int digits)
{
	if (isnan(value))
		printf(" %*s", columns, "-");
	else
		printf(" %*.*f", columns, digits, value);
}

int rows_print(const struct row *rows, unsigned int count)
{
	errno = 0;
	printf("%-36s %10s %10s %10s %10s\n", "mechanism", "dormant ns", "hit ns", "hot bytes",
	       "arming us");
	for (unsigned int i = 0; i < count; i++) {
		const struct row *row = &rows[i];

		printf("%-36s", row->name);
		show(row->dormant_ns, 10, 2);
		show(row->hit_ns, 10, 1);
		show(row->hot_bytes, 10, 0);
		show(row->arm_us, 10, 1);
		putchar('\n');
	}
	for (unsigned int i = 0; i < count; i++)
		if (rows[i].skipped[0])
			printf("skipped %s: %s\n", rows[i].name, rows[i].skipped);
		else if (rows[i].version[0])
			printf("%s is %s\n", rows[i].name, rows[i].version);
	return fflush(stdout) || ferror(stdout) ? (errno ? -errno : -EIO) : 0;
}

int rows_print_json(const struct row *rows, unsigned int count)
{
	static struct out out;
	struct json json = { &out, 0 };

	out_init(&out, STDOUT_FILENO);
	json_open(&json, NULL, '[');
	for (unsigned int i = 0; i < count; i++) {
		const struct row *row = &rows[i];

		json_line(&json);
		json_open(&json, NULL, '{');
		json_string(&json, "mechanism", row->name);
		json_decimal(&json, "dormant_ns", row->dormant_ns, 3);
		json_decimal(&json, "hit_ns", row->hit_ns, 3);
		json_decimal(&json, "hot_bytes", row->hot_bytes, 3);
		json_decimal(&json, "arming_us", row->arm_us, 3);
		json_words(&json, "skipped", row->skipped);
		json_close(&json, '}');
	}
	out_literal(&out, "\n]\n");
	return out_flush(&out);
}
