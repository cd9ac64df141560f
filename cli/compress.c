/* SPDX-License-Identifier: MIT */
/* waymark compress: a trace made smaller, and back. */
#include "cli/compress.h"

#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/output.h"
#include "trace/compress.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const char usage
	[] = "Usage: waymark compress [OPTION] DIR\n"
	     "Make the trace in DIR smaller. waymark's commands read it as before; other programs\n"
	     "that read traces can do so once it is unpacked.\n"
	     "\n"
	     "  -d, --decompress  unpack it again\n"
	     "  --json            say what was done as a JSON object\n"
	     "  -h, --help        this\n";

struct compress_options {
	const char *dir;
	int decompress, json;
};

static const struct command_option table[] = {
	{ "decompress", 'd', COMMAND_FLAG, COMMAND_TO(compress_options, decompress), .min = 1 },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(compress_options, json), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "compress", usage, table, 0 };

static int change(const char *dir, int decompress, struct trace_packing *packing)
{
	signal(SIGXFSZ, SIG_IGN); /* too large a file is an error like any other */
	return decompress ? trace_decompress(dir, packing) : trace_compress(dir, packing);
}

static const struct row_column columns[] = {
	{ "trace", ROW_TEXT, ROW_PLAIN, 0, "the folder" },
	{ "streams", ROW_U64, ROW_COUNT, 0, "that were packed or unpacked" },
	{ "before", ROW_U64, ROW_BYTES, 0, "their size" },
	{ "after", ROW_U64, ROW_BYTES, 0, "their size" },
	{ "damaged", ROW_U64, ROW_COUNT, 0, "files that were left as they are" },
};
static ROW_TABLE(packing_table, "packing", "What waymark compress --json prints.", columns);

static int say(const struct compress_options *options, const struct trace_packing *packing)
{
	char before[32], after[32];

	if (options->json) {
		const struct row_value row[] = { row_text(options->dir), row_u64(packing->files),
						 row_u64(packing->before), row_u64(packing->after),
						 row_u64(packing->damaged) };

		rows_record(output_rows(ROWS_JSON), &packing_table, row);
		return output_rows_end(CLI_FINE);
	}
	if (!packing->files) {
		puts("nothing to do");
	} else {
		printf("%s made %s\n", quantity_show_bytes(packing->before, before, sizeof(before)),
		       quantity_show_bytes(packing->after, after, sizeof(after)));
	}
	return CLI_FINE;
}

int cmd_compress(int argc, char **argv)
{
	struct trace_packing packing = { 0 };
	struct compress_options options = { 0 };
	int count, status = command_line_read(&line, argc, argv, &options);

	if (status < 0)
		status = command_line_folder(&line, argc, argv, &options.dir);
	if (status >= 0)
		return status;
	count = change(options.dir, options.decompress, &packing);
	if (count < 0)
		return complain(count, "%s", options.dir);
	status = say(&options, &packing);
	if (!packing.damaged)
		return status;
	fprintf(stderr,
		"waymark: %llu of its streams could be unpacked only up to a damage\n"
		"  what they were is kept in .cut-STREAM.zst beside them\n",
		(unsigned long long)packing.damaged);
	return CLI_FAILED;
}

int compress_recorded(const char *dir)
{
	int count = change(dir, 0, NULL);

	if (count >= 0)
		return CLI_FINE;
	fputs("waymark: the trace stays as it was recorded: it could not be compressed\n", stderr);
	return complain(count, "%s", dir);
}
