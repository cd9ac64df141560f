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
	"  --buffer SIZE       the buffer for each process, as 64M (default 16M)\n"
	"  --no-follow         leave the program's children alone\n"
	"  -j, --json          on stdout one JSON object for each interval\n"
	"  -h, --help          this text\n";

enum { OPT_FOR = 256, OPT_TREE, OPT_BUFFER, OPT_NO_FOLLOW };

static const struct option table[] = {
	{ "event", required_argument, NULL, 'e' },
	{ "pid", required_argument, NULL, 'p' },
	{ "tree", no_argument, NULL, OPT_TREE },
	{ "all", no_argument, NULL, 'a' },
	{ "cpu", required_argument, NULL, 'C' },
	{ "cgroup", required_argument, NULL, 'G' },
	{ "output", required_argument, NULL, 'o' },
	{ "interval", required_argument, NULL, 'I' },
	{ "for", required_argument, NULL, OPT_FOR },
	{ "count", required_argument, NULL, 'n' },
	{ "buffer", required_argument, NULL, OPT_BUFFER },
	{ "no-follow", no_argument, NULL, OPT_NO_FOLLOW },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int option_take(void *data, int id, const char *text)
{
	struct top_options *options = data;

	switch (id) {
	case 'e':
		options->specs[options->spec_count++] = text;
		return CLI_FINE;
	case 'p':
		return command_line_ids("top", "--pid", text, &options->pids, &options->pid_count,
					&options->pid_room);
	case 'a':
		options->cpus = "all";
		return CLI_FINE;
	case 'C':
		options->cpus = text;
		return CLI_FINE;
	case 'G':
		options->cgroup = text;
		return CLI_FINE;
	case 'o':
		options->output = text;
		return CLI_FINE;
	case 'I':
		return command_line_time("top", "--interval", text, INTERVAL_NS_MIN,
					 &options->interval_ns);
	case OPT_FOR:
		return command_line_time("top", "--for", text, 1, &options->for_ns);
	case 'n':
		return command_line_number("top", "--count", text, 1, ROWS_MAX, &options->row_max);
	case OPT_BUFFER:
		return command_line_size("top", "--buffer", text, &options->buffer_bytes);
	case OPT_TREE:
		options->tree = 1;
		return CLI_FINE;
	case OPT_NO_FOLLOW:
		options->no_follow = 1;
		return CLI_FINE;
	default:
		options->json = 1;
		return CLI_FINE;
	}
}

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
	static const struct command_line line = { .name = "top",
						  .usage = usage,
						  .letters = "+e:p:aC:G:o:I:n:jh",
						  .table = table,
						  .take = option_take };
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
