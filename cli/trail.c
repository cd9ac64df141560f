/* SPDX-License-Identifier: MIT */
/*
 * waymark trail: which way threads took, out of a trace that has it.
 */
#include "cli/trail.h"

#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LAST_DEFAULT 32

static const char usage
	[] = "Usage: waymark trail [OPTION]... DIR\n"
	     "Show which way the threads of the trace in DIR took.\n"
	     "\n"
	     "  -n, --last N  only the last N branches of each thread (default 32; 0: all)\n"
	     "  --tid T       only this thread\n"
	     "  --pid P       only this process\n" TRAIL_BOUNDS_HELP
	     "  --root DIR    find the program's files below DIR, as they were on another machine\n"
	     "  --json        one JSON object a line\n"
	     "  -h, --help    this\n";

enum option_id { OPT_TID = 256, OPT_PID, OPT_FROM, OPT_TO, OPT_ROOT, OPT_JSON, OPT_WAY };

/* Ways to show a trail, in the order of OPT_WAY and on. */
static int (*const ways[])(struct trail_show *show) = {
	trail_branches,
};

static const struct option table[] = {
	{ "last", required_argument, NULL, 'n' },
	{ "tid", required_argument, NULL, OPT_TID },
	{ "pid", required_argument, NULL, OPT_PID },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "to", required_argument, NULL, OPT_TO },
	{ "branches", no_argument, NULL, OPT_WAY },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int take_number(const char *text, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || *end || *value > max)
		return complain_usage("trail", "this is no number: %s", text);
	return CLI_FINE;
}

static int take_option(struct trail_options *options, int id, const char *text)
{
	uint64_t number = 0;
	int status = CLI_FINE;

	switch (id) {
	case 'n':
		status = take_number(text, UINT64_MAX - 1, &number);
		options->last = number ? number : UINT64_MAX;
		break;
	case OPT_TID:
	case OPT_PID:
		status = take_number(text, UINT32_MAX, &number);
		*(id == OPT_TID ? &options->tid : &options->pid) = (uint32_t)number;
		break;
	case OPT_FROM:
	case OPT_TO:
		status = trail_bounds_take(&options->bounds, "trail", id == OPT_TO, text);
		break;
	case OPT_ROOT:
		options->image.root = text;
		break;
	case OPT_JSON:
		options->json = 1;
		break;
	default:
		options->way = (unsigned int)(id - OPT_WAY);
	}
	return status;
}

/* -1 to go on, else the exit status. */
static int read_options(struct trail_options *options, int argc, char **argv)
{
	int id, status;

	*options = (struct trail_options){ .last = LAST_DEFAULT };
	opterr = 0;
	optind = 0;
	while ((id = getopt_long(argc, argv, "n:h", table, NULL)) != -1) {
		if (id == 'h') {
			fputs(usage, stdout);
			return CLI_FINE;
		}
		if (id == '?')
			return complain_usage("trail",
					      "this option is not known or lacks its value: %s",
					      argv[optind - 1]);
		status = take_option(options, id, optarg);
		if (status)
			return status;
	}
	if (optind != argc - 1)
		return complain_usage("trail", optind == argc ? "name the trace's folder"
							      : "only one folder at a time");
	options->dir = argv[optind];
	return -1;
}

int trail_is_wanted(const struct trail_show *show, const struct trail_path *path)
{
	return (!show->options.tid || path->stream->tid == show->options.tid) &&
	       (!show->options.pid || path->stream->pid == show->options.pid);
}

void trail_range_wanted(const struct trail_show *show, const struct trail_path *path,
			struct trail_range *range)
{
	trail_bounds_range(&show->options.bounds, &show->view, path, range);
}

int cmd_trail(int argc, char **argv)
{
	static struct out out;
	struct trail_show show = { .out = &out };
	int err, status = read_options(&show.options, argc, argv);

	if (status >= 0)
		return status;
	out_init(&out, STDOUT_FILENO);
	status = trail_view_open(&show.view, show.options.dir, &show.options.image);
	if (status == CLI_FINE)
		status = trail_bounds_find(&show.options.bounds, "trail", &show.view);
	if (status == CLI_FINE) {
		err = ways[show.options.way](&show);
		out_flush(&out);
		err = err ? err : out.error;
		if (err)
			status = complain(err, "%s", show.options.dir);
	}
	return trail_view_close(&show.view, status);
}
