/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/mechanisms/row.h"
#include <waymark/error.h>

#define ROWS_MAX 32
#define EVENTS_USUAL 300000

struct options {
	uint64_t events;
	int json;
	char *peers[ROWS_MAX]; /* NAME=COMMAND */
	unsigned int peer_count;
};

struct table {
	struct row rows[ROWS_MAX];
	unsigned int count;
	struct base_line base;
	int live; /* somebody waits at a terminal */
};

static void usage(void)
{
	fputs("Usage: waymark bench mechanisms [OPTION]...\n\n"
	      "Measure on this machine what the ways of looking into a running program cost, in a\n"
	      "small program that is started for it: nanoseconds for passing the place while nobody\n"
	      "looks and while two arguments are recorded, bytes in the hot path, microseconds to\n"
	      "arm one place. Takes some seconds; what can't be measured here is told with its\n"
	      "reason.\n\n"
	      "  -n, --events=N           hits in each of the 9 runs of a row (default 300000)\n"
	      "  -p, --peer=NAME=COMMAND  one row more, measured by a command\n"
	      "  -j, --json               as one JSON array\n"
	      "  -h, --help               this help\n",
	      stdout);
}

static int events_take(struct options *options, const char *text)
{
	char *end;

	errno = 0;
	options->events = strtoull(text, &end, 10);
	if (errno || end == text || *end || options->events < 1 || options->events > 1000000000)
		return complain_usage("bench", "%s is no number of events", text);
	return CLI_FINE;
}

static int peer_take(struct options *options, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text || !equals[1])
		return complain_usage("bench", "--peer needs NAME=COMMAND");
	if (options->peer_count == ROWS_MAX / 2)
		return complain_usage("bench", "more than %d peers", ROWS_MAX / 2);
	options->peers[options->peer_count++] = text;
	return CLI_FINE;
}

/* CLI_FINE, -1 when all is said and done, or the status to end with. */
static int options_read(struct options *options, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "events", required_argument, NULL, 'n' },
		{ "peer", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c, status = CLI_FINE;

	optind = 1;
	while (!status && (c = getopt_long(argc, argv, "n:p:jh", longs, NULL)) != -1) {
		switch (c) {
		case 'n':
			status = events_take(options, optarg);
			break;
		case 'p':
			status = peer_take(options, optarg);
			break;
		case 'j':
			options->json = 1;
			break;
		case 'h':
			usage();
			return -1;
		default:
			return complain_usage("bench", "see above");
		}
	}
	if (!status && (optind != argc - 1 || strcmp(argv[optind], "mechanisms")))
		status = complain_usage("bench", "say what to measure: mechanisms");
	return status;
}

static struct row *row_add(struct table *table, const char *name)
{
	struct row *row = &table->rows[table->count++];

	*row = (struct row){
		.name = name, .dormant_ns = NAN, .hit_ns = NAN, .hot_bytes = NAN, .arm_us = NAN
	};
	if (table->live)
		fprintf(stderr, "\r\033[K%s ...", name);
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

static void measure_others(struct table *table, struct options *options)
{
	row_measure_kernel(row_add(table, "kernel uprobe"), &table->base, KERNEL_UPROBE);
	row_measure_kernel(row_add(table, "kernel nop5 uprobe"), &table->base, KERNEL_NOP5);
	row_measure_kernel(row_add(table, "kernel uprobe, and the return"), &table->base,
			   KERNEL_RETURN);
	for (unsigned int i = 0; i < options->peer_count; i++) {
		char *equals = strchr(options->peers[i], '=');

		*equals = 0;
		row_measure_peer(row_add(table, options->peers[i]), equals + 1);
	}
	if (!options->peer_count)
		row_skip(row_add(table, "LTTng-UST"),
			 "no part of Waymark; make bench measures it, by --peer");
}

int cmd_bench(int argc, char **argv)
{
	static struct table table;
	struct options options = { .events = EVENTS_USUAL };
	int status = options_read(&options, argc, argv), err;

	if (status)
		return status < 0 ? CLI_FINE : status;
	table.live = isatty(STDERR_FILENO);
	err = base_line_measure(&table.base, options.events);
	if (err)
		return complain(err, "starting mechanisms_target");
	measure_ours(&table);
	measure_others(&table, &options);
	if (table.live)
		fputs("\r\033[K", stderr);
	err = (options.json ? rows_print_json : rows_print)(table.rows, table.count);
	if (err)
		status = complain(err, "standard output");
	for (unsigned int i = 0; i < table.count; i++)
		if (!strncmp(table.rows[i].skipped, ROW_WRONG, strlen(ROW_WRONG))) {
			fprintf(stderr, "waymark: %s: %s\n", table.rows[i].name,
				table.rows[i].skipped);
			status = CLI_FAILED;
		}
	return status;
}
