/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "cli/mechanisms/row.h"

static void show(FILE *to, double value, int columns, int digits)
{
	if (isnan(value))
		fprintf(to, " %*s", columns, "-");
	else
		fprintf(to, " %*.*f", columns, digits, value);
}

void rows_print(FILE *to, const struct row *rows, unsigned int count)
{
	fprintf(to, "%-36s %10s %10s %10s %10s\n", "mechanism", "dormant ns", "hit ns", "hot bytes",
		"arming us");
	for (unsigned int i = 0; i < count; i++) {
		const struct row *row = &rows[i];

		fprintf(to, "%-36s", row->name);
		show(to, row->dormant_ns, 10, 2);
		show(to, row->hit_ns, 10, 1);
		show(to, row->hot_bytes, 10, 0);
		show(to, row->arm_us, 10, 1);
		fputc('\n', to);
	}
	for (unsigned int i = 0; i < count; i++)
		if (rows[i].skipped[0])
			fprintf(to, "skipped %s: %s\n", rows[i].name, rows[i].skipped);
		else if (rows[i].version[0])
			fprintf(to, "%s is %s\n", rows[i].name, rows[i].version);
}

static void show_json(FILE *to, const char *name, double value)
{
	if (isnan(value))
		fprintf(to, ",\"%s\":null", name);
	else
		fprintf(to, ",\"%s\":%.3f", name, value);
}

static void show_string(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(to, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(to, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, to);
	fputc('"', to);
}

void rows_print_json(FILE *to, const struct row *rows, unsigned int count)
{
	fputc('[', to);
	for (unsigned int i = 0; i < count; i++) {
		const struct row *row = &rows[i];

		fprintf(to, "%s{\"mechanism\":", i ? ",\n " : "");
		show_string(to, row->name);
		show_json(to, "dormant_ns", row->dormant_ns);
		show_json(to, "hit_ns", row->hit_ns);
		show_json(to, "hot_bytes", row->hot_bytes);
		show_json(to, "arming_us", row->arm_us);
		fputs(",\"skipped\":", to);
		if (row->skipped[0])
			show_string(to, row->skipped);
		else
			fputs("null", to);
		fputc('}', to);
	}
	fputs("]\n", to);
}
