/* SPDX-License-Identifier: MIT */
/* waymark compress: a trace made smaller, and back. */
#include "cli/compress.h"

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/json.h"
#include "cli/quantity.h"
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

enum option_id { OPT_JSON = 256 };

static const struct option table[] = {
	{ "decompress", no_argument, NULL, 'd' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int take_option(void *data, int id, const char *text)
{
	struct compress_options *options = data;
	(void)text;
	options->decompress |= id == 'd';
	options->json |= id == OPT_JSON;
	return CLI_FINE;
}

static const struct command_line line = { "compress", usage, "dh", table, take_option };

/* -1 to continue, else the exit status. */
static int read_options(struct compress_options *options, int argc, char **argv)
{
	int status;

	*options = (struct compress_options){ 0 };
	status = command_line_read(&line, argc, argv, options);
	return status < 0 ? command_line_folder(&line, argc, argv, &options->dir) : status;
}

/* A line on the terminal, renewed at each percent. */
static void show_progress(void *context, uint64_t done, uint64_t all)
{
	int *shown = context, percent = all ? (int)((double)done * 100 / (double)all) : 0;

	if (percent == *shown)
		return;
	*shown = percent;
	fprintf(stderr, "\r%d %%", percent);
}

static int change(const char *dir, int decompress, struct trace_packing *done)
{
	struct trace_packing packing = { 0 };
	int shown = -1, count;

	if (isatty(STDERR_FILENO)) {
		packing.progress = show_progress;
		packing.context = &shown;
	}
	signal(SIGXFSZ, SIG_IGN); /* too large a file is an error like any other */
	count = decompress ? trace_decompress(dir, &packing) : trace_compress(dir, &packing);
	if (shown >= 0)
		fputs("\r\033[K", stderr);
	packing.context = NULL;
	*done = packing;
	return count;
}

static void say(const struct compress_options *options, const struct trace_packing *packing)
{
	uint64_t before = options->decompress ? packing->packed_bytes : packing->plain_bytes;
	uint64_t after = options->decompress ? packing->plain_bytes : packing->packed_bytes;
	char texts[2][32];

	if (options->json) {
		static struct out out;
		struct json json = { &out, 0 };

		out_init(&out, STDOUT_FILENO);
		json_open(&json, NULL, '{');
		json_string(&json, "trace", options->dir);
		json_number(&json, "streams", packing->files);
		json_number(&json, "bytes_before", before);
		json_number(&json, "bytes_after", after);
		json_number(&json, "damaged", packing->damaged);
		json_close(&json, '}');
		out_char(&out, '\n');
		out_flush(&out);
	} else if (!packing->files) {
		puts("nothing to do");
	} else {
		printf("%s made %s\n", quantity_show_bytes(before, texts[0], sizeof(texts[0])),
		       quantity_show_bytes(after, texts[1], sizeof(texts[1])));
	}
}

int cmd_compress(int argc, char **argv)
{
	struct trace_packing packing = { 0 };
	struct compress_options options;
	int count, status = read_options(&options, argc, argv);

	if (status >= 0)
		return status;
	count = change(options.dir, options.decompress, &packing);
	if (count < 0)
		return complain(count, "%s", options.dir);
	say(&options, &packing);
	if (!packing.damaged)
		return CLI_FINE;
	fprintf(stderr,
		"waymark: %llu of its streams could be unpacked only up to a damage\n"
		"  what they were is kept in .cut-STREAM.zst beside them\n",
		(unsigned long long)packing.damaged);
	return CLI_FAILED;
}

int compress_recorded(const char *dir)
{
	struct trace_packing packing = { 0 };
	int count = change(dir, 0, &packing);

	if (count >= 0)
		return CLI_FINE;
	fputs("waymark: the trace stays as it was recorded: it could not be compressed\n", stderr);
	return complain(count, "%s", dir);
}
