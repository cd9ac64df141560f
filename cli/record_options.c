/* SPDX-License-Identifier: MIT */
#include "cli/record_options.h"

#include "cli/cli.h"
#include "cli/command_line.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
	"Usage: waymark record [OPTION]... -p PID [-p PID]...\n"
	"       waymark record [OPTION]... [--] CMD [ARG]...\n"
	"       waymark record [OPTION]... {-a | -C LIST}\n"
	"\n"
	"  -e, --event SPEC    what to record, as marker:SUBSYSTEM:EVENT or func:NAME/ret,arg1/; may be\n"
	"                      given again; see waymark help spec (default: every marker)\n"
	"  -o, --output DIR    the trace folder, new or empty (default: waymark-DATE-TIME)\n"
	"  -p, --pid PID       a running process to attach to; several may be given\n"
	"  --tree              with -p: the processes that descend from it too\n"
	"  -a, --all           record kernel events of all CPUs, also those that come later\n"
	"  -C, --cpu LIST      of these CPUs: 0-3,6\n"
	"  -G, --cgroup PATH   with -a or -C: only what this cgroup runs there\n"
	"  --policy POLICY     when a buffer is full: discard (default), cyclic, block, notify\n"
	"  --buffer SIZE       the buffer for each process, as 64M (default 32M)\n"
	"  --on TRIGGER        with -e trail/last=SIZE/: write the trace, print the last branches and\n"
	"                      end on crash, exit or signal[:NAME]\n"
	"  --for TIME          stop after this time, as 500ms, 10s, 2m\n"
	"  --strict            stop every thread of the program while its code changes\n"
	"  --prearm            change every site once as the program starts, before it can\n"
	"                      lock its code down\n"
	"  --ordered           make times follow the order in which threads hand over data;\n"
	"                      an event costs some 17 ns more\n"
	"  --no-follow         leave the program's children alone\n"
	"  --wait-all          record until the program's children have ended, too\n"
	"  --compress          make the trace smaller once it is recorded: waymark-compress(1)\n"
	"  -v, --verbose       name each place that was refused, why, and what to do\n"
	"  --json              sum up on stdout, as one JSON object\n"
	"  --help              this text\n";

static int spec_take(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct record_options *options = data;

	(void)option;
	(void)name;
	options->specs[options->spec_count++] = text;
	return CLI_FINE;
}

static int dir_take(void *data, const struct command_option *option, const char *text,
		    const char *name)
{
	struct record_options *options = data;

	(void)option;
	if (!text[0] || strlen(text) >= sizeof(options->dir))
		return complain_usage(name, "-o needs a folder's name");
	strcpy(options->dir, text);
	return CLI_FINE;
}

static int pids_take(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct record_options *options = data;

	(void)option;
	return command_line_ids(name, "--pid", text, &options->pids, &options->pid_count,
				&options->pid_room);
}

static int trigger_take(void *data, const struct command_option *option, const char *text,
			const char *name)
{
	(void)option;
	(void)name;
	return flight_parse(&((struct record_options *)data)->flight, text);
}

/* In the order of enum wm_policy, without the default. */
static const char *const policies[] = { "discard", "cyclic", "block", "notify", NULL };
static const char *const all_cpus[] = { "all" };

static const struct command_option table[] = {
	{ "event", 'e', COMMAND_CALL, .take = spec_take },
	{ "output", 'o', COMMAND_CALL, .take = dir_take },
	{ "pid", 'p', COMMAND_CALL, .take = pids_take },
	{ "policy", 0, COMMAND_WORD, COMMAND_TO(record_options, session.policy),
	  .min = WM_POLICY_DISCARD, .words = policies },
	{ "buffer", 0, COMMAND_SIZE, COMMAND_TO(record_options, session.buffer_bytes) },
	{ "on", 0, COMMAND_CALL, .take = trigger_take },
	{ "for", 0, COMMAND_TIME, COMMAND_TO(record_options, for_ns), .min = 1 },
	{ "strict", 0, COMMAND_FLAG, COMMAND_TO(record_options, session.strict), .min = 1 },
	{ "prearm", 0, COMMAND_FLAG, COMMAND_TO(record_options, session.prearm), .min = 1 },
	{ "ordered", 0, COMMAND_FLAG, COMMAND_TO(record_options, session.ordered), .min = 1 },
	{ "no-follow", 0, COMMAND_FLAG, COMMAND_TO(record_options, session.follow),
	  .min = WM_FOLLOW_NONE },
	{ "wait-all", 0, COMMAND_FLAG, COMMAND_TO(record_options, wait_all), .min = 1 },
	{ "all", 'a', COMMAND_FLAG, COMMAND_TO(record_options, session.cpus), .words = all_cpus },
	{ "cpu", 'C', COMMAND_TEXT, COMMAND_TO(record_options, session.cpus) },
	{ "cgroup", 'G', COMMAND_TEXT, COMMAND_TO(record_options, session.cgroup) },
	{ "tree", 0, COMMAND_FLAG, COMMAND_TO(record_options, tree), .min = 1 },
	{ "compress", 0, COMMAND_FLAG, COMMAND_TO(record_options, compress), .min = 1 },
	{ "verbose", 'v', COMMAND_FLAG, COMMAND_TO(record_options, verbose), .min = 1 },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(record_options, json), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "record", help, table, 1 };

/*
 * waymark-YYYYmmdd-HHMMSS, with a number behind it if that is taken. We make it at once: a folder
 * that exists belongs to another recording, or to another user.
 */
static int make_dir(struct record_options *options)
{
	time_t now = time(NULL);
	struct tm parts;
	char stem[64];

	localtime_r(&now, &parts);
	strftime(stem, sizeof(stem), "waymark-%Y%m%d-%H%M%S", &parts);
	strcpy(options->dir, stem);
	for (int i = 2; mkdir(options->dir, 0700); i++) {
		if (errno != EEXIST || i == INT_MAX)
			return complain(-errno, "%s", options->dir);
		snprintf(options->dir, sizeof(options->dir), "%s-%d", stem, i);
	}
	options->made_dir = 1;
	return -1;
}

static int check(struct record_options *options, int argc, char **argv)
{
	if (optind < argc && options->pid_count)
		return complain_usage("record", "give either -p or a program, not both");
	if (optind >= argc && !options->pid_count && !options->session.cpus)
		return complain_usage("record", "name a process with -p, or a program to start");
	if (options->session.cgroup && !options->session.cpus)
		return complain_usage("record", "-G is for -a or -C");
	if (optind < argc)
		options->command = argv + optind;
	if (!options->command && options->session.prearm)
		return complain_usage("record",
				      "--prearm is for a program that is started, not for -p");
	if (options->command && options->tree)
		return complain_usage("record",
				      "--tree is for -p; the children of a program that is started "
				      "are recorded anyway");
	if (flight_check(&options->flight, options->specs, options->spec_count))
		return CLI_USAGE;
	options->is_default = !options->spec_count;
	if (options->is_default)
		options->specs[options->spec_count++] = "marker:*:*";
	return options->dir[0] ? -1 : make_dir(options);
}

int record_options_parse(struct record_options *options, int argc, char **argv)
{
	int status;

	*options = (struct record_options){ .session = WM_SESSION_OPTIONS_INIT };
	options->session.allow_unmatched = 1;
	/* no more specs than words */
	options->specs = calloc((size_t)argc + 1, sizeof(*options->specs));
	if (!options->specs)
		return complain(-ENOMEM, NULL);
	status = command_line_read(&line, argc, argv, options);
	return status < 0 ? check(options, argc, argv) : status;
}

void record_options_release(struct record_options *options)
{
	free(options->specs);
	free(options->pids);
}
