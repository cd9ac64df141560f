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
	"  --buffer SIZE       the buffer for each process, as 64M (default 16M)\n"
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

enum {
	OPT_POLICY = 256,
	OPT_BUFFER,
	OPT_FOR,
	OPT_STRICT,
	OPT_PREARM,
	OPT_ORDERED,
	OPT_NO_FOLLOW,
	OPT_JSON,
	OPT_COMPRESS,
	OPT_TREE,
	OPT_WAIT_ALL,
	OPT_ON,
	OPT_HELP
};

static const struct option long_options[] = {
	{ "event", required_argument, NULL, 'e' },
	{ "output", required_argument, NULL, 'o' },
	{ "pid", required_argument, NULL, 'p' },
	{ "policy", required_argument, NULL, OPT_POLICY },
	{ "buffer", required_argument, NULL, OPT_BUFFER },
	{ "on", required_argument, NULL, OPT_ON },
	{ "for", required_argument, NULL, OPT_FOR },
	{ "strict", no_argument, NULL, OPT_STRICT },
	{ "prearm", no_argument, NULL, OPT_PREARM },
	{ "ordered", no_argument, NULL, OPT_ORDERED },
	{ "no-follow", no_argument, NULL, OPT_NO_FOLLOW },
	{ "wait-all", no_argument, NULL, OPT_WAIT_ALL },
	{ "all", no_argument, NULL, 'a' },
	{ "cpu", required_argument, NULL, 'C' },
	{ "cgroup", required_argument, NULL, 'G' },
	{ "tree", no_argument, NULL, OPT_TREE },
	{ "compress", no_argument, NULL, OPT_COMPRESS },
	{ "verbose", no_argument, NULL, 'v' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ 0 },
};

static int take_policy(struct record_options *options, const char *name)
{
	static const char *const names[] = { "discard", "cyclic", "block", "notify" };

	/* in the order of enum wm_policy, without the default */
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name))
			continue;
		options->session.policy = (enum wm_policy)(WM_POLICY_DISCARD + i);
		return 0;
	}
	complain_usage("record", "there is no policy %s", name);
	complain_meant(name, names, sizeof(names) / sizeof(names[0]));
	return CLI_USAGE;
}

static int take_option(struct record_options *options, int letter)
{
	switch (letter) {
	case 'e':
		options->specs[options->spec_count++] = optarg;
		return 0;
	case 'o':
		if (!optarg[0] || strlen(optarg) >= sizeof(options->dir))
			return complain_usage("record", "-o needs a folder's name");
		strcpy(options->dir, optarg);
		return 0;
	case 'p':
		return command_line_ids("record", "--pid", optarg, &options->pids,
					&options->pid_count, &options->pid_room);
	case OPT_POLICY:
		return take_policy(options, optarg);
	case OPT_BUFFER:
		return command_line_size("record", "--buffer", optarg,
					 &options->session.buffer_bytes);
	case OPT_FOR:
		return command_line_time("record", "--for", optarg, 1, &options->for_ns);
	case OPT_ON:
		return flight_parse(&options->flight, optarg);
	case OPT_STRICT:
		options->session.strict = 1;
		return 0;
	case OPT_PREARM:
		options->session.prearm = 1;
		return 0;
	case OPT_ORDERED:
		options->session.ordered = 1;
		return 0;
	case OPT_NO_FOLLOW:
		options->session.follow = WM_FOLLOW_NONE;
		return 0;
	case 'a':
		options->session.cpus = "all";
		return 0;
	case 'C':
		options->session.cpus = optarg;
		return 0;
	case 'G':
		options->session.cgroup = optarg;
		return 0;
	case OPT_TREE:
		options->tree = 1;
		return 0;
	case OPT_WAIT_ALL:
		options->wait_all = 1;
		return 0;
	case 'v':
		options->verbose = 1;
		return 0;
	case OPT_COMPRESS:
		options->compress = 1;
		return 0;
	case OPT_JSON:
		options->json = 1;
		return 0;
	default:
		return CLI_USAGE;
	}
}

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
	int letter, status;

	*options = (struct record_options){ .session = WM_SESSION_OPTIONS_INIT };
	options->session.allow_unmatched = 1;
	/* no more specs than words */
	options->specs = calloc((size_t)argc + 1, sizeof(*options->specs));
	if (!options->specs)
		return complain(-ENOMEM, NULL);
	optind = 1;
	opterr = 0;
	while ((letter = getopt_long(argc, argv, "+:e:o:p:aC:G:vh", long_options, NULL)) != -1) {
		if (letter == OPT_HELP || letter == 'h') {
			fputs(help, stdout);
			return CLI_FINE;
		}
		status = letter == '?' || letter == ':'
				 ? command_line_complain("record", long_options, letter,
							 argv[optind - 1])
				 : take_option(options, letter);
		if (status)
			return status;
	}
	return check(options, argc, argv);
}

void record_options_release(struct record_options *options)
{
	free(options->specs);
	free(options->pids);
}
