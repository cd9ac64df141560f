/* SPDX-License-Identifier: MIT */
#include "cli/top_options.h"

#include "cli/cli.h"
#include "cli/command_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INTERVAL_NS 1000000000u
#define INTERVAL_NS_MIN 50000000u /* what threads do is known a little later: top.c */
#define ROWS_MAX 1000000u

static const char usage[] =
	"Usage: waymark top [OPTION]... -p PID [-p PID]...\n"
	"       waymark top [OPTION]... {-a | -C LIST} [[--] CMD [ARG]...]\n"
	"       waymark top [OPTION]... [--] CMD [ARG]...\n"
	"\n"
	"Show live what a program reports and does: markers by rate, spans by time, functions by\n"
	"samples, threads by state, and what was lost. On a terminal: q quits, s shows the next\n"
	"table alone, p pauses, h helps. Elsewhere one table comes after each interval.\n"
	"\n"
	"  -e, --event SPEC    what to record, as waymark record takes it; may be given again\n"
	"                      (default: marker:*:*, sample:cpu-clock/freq=100/ and switch, without\n"
	"                      those that are not permitted)\n"
	"  -p, --pid PID       a running process to attach to; several may be given\n"
	"  --tree              with -p: the processes that descend from it too\n"
	"  -a, --all           kernel events of all CPUs\n"
	"  -C, --cpu LIST      of these CPUs: 0-3,6\n"
	"  -G, --cgroup PATH   with -a or -C: only what this cgroup runs there\n"
	"  -o, --output FILE   the program's output goes there (default: it is thrown away)\n"
	"  -I, --interval TIME how often, as 500ms (default 1s)\n"
	"  --for TIME          stop after this time, as 10s, 2m\n"
	"  -n, --count N       N lines of each table (default: what the terminal has room for, or 10)\n"
	"  --buffer SIZE       the buffer for each process, as 64M (default 32M)\n"
	"  --no-follow         leave the program's children alone\n"
	"  -j, --json          on stdout one JSON object for each interval\n"
	"  -h, --help          this text\n";

static int spec_take(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct top_options *options = data;

	(void)option;
	(void)name;
	options->specs[options->spec_count++] = text;
	return CLI_FINE;
}

static int pids_take(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct top_options *options = data;

	(void)option;
	return command_line_ids(name, "--pid", text, &options->pids, &options->pid_count,
				&options->pid_room);
}

static const char *const all_cpus[] = { "all" };

static const struct command_option table[] = {
	{ "event", 'e', COMMAND_CALL, .take = spec_take },
	{ "pid", 'p', COMMAND_CALL, .take = pids_take },
	{ "tree", 0, COMMAND_FLAG, COMMAND_TO(top_options, tree), .min = 1 },
	{ "all", 'a', COMMAND_FLAG, COMMAND_TO(top_options, cpus), .words = all_cpus },
	{ "cpu", 'C', COMMAND_TEXT, COMMAND_TO(top_options, cpus) },
	{ "cgroup", 'G', COMMAND_TEXT, COMMAND_TO(top_options, cgroup) },
	{ "output", 'o', COMMAND_TEXT, COMMAND_TO(top_options, output) },
	{ "interval", 'I', COMMAND_TIME, COMMAND_TO(top_options, interval_ns),
	  .min = INTERVAL_NS_MIN },
	{ "for", 0, COMMAND_TIME, COMMAND_TO(top_options, for_ns), .min = 1 },
	{ "count", 'n', COMMAND_NUMBER, COMMAND_TO(top_options, row_max), 1, ROWS_MAX },
	{ "buffer", 0, COMMAND_SIZE, COMMAND_TO(top_options, buffer_bytes) },
	{ "no-follow", 0, COMMAND_FLAG, COMMAND_TO(top_options, no_follow), .min = 1 },
	{ "json", 'j', COMMAND_FLAG, COMMAND_TO(top_options, json), .min = 1 },
	{ .name = NULL },
};

static int check(const struct top_options *options)
{
	if (options->command && options->pid_count)
		return complain_usage("top", "give either -p or a program, not both");
	if (!options->command && !options->pid_count && !options->cpus)
		return complain_usage("top", "name a process with -p, or a program to start");
	if (options->cgroup && !options->cpus)
		return complain_usage("top", "-G is for -a or -C");
	if (options->tree && !options->pid_count)
		return complain_usage("top", "--tree is for -p");
	if (options->output && !options->command)
		return complain_usage("top", "--output is for a program that is started");
	return -1;
}

int top_options_parse(struct top_options *options, int argc, char **argv)
{
	static const struct command_line line = { "top", usage, table, 1 };
	int status;

	*options = (struct top_options){ .interval_ns = INTERVAL_NS };
	/* no more specs than words */
	options->specs = calloc((size_t)argc + 1, sizeof(*options->specs));
	if (!options->specs)
		return complain(-ENOMEM, NULL);
	status = command_line_read(&line, argc, argv, options);
	if (status >= 0)
		return status;
	options->command = optind < argc ? argv + optind : NULL;
	return check(options);
}

void top_options_release(struct top_options *options)
{
	free(options->specs);
	free(options->pids);
}
