/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/json.h"
#include "cli/quantity.h"
#include "session/doctor/doctor.h"
#include "session/trial/trial.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NAME_COLUMNS 21
#define INDENT 32 /* where words begin: two spaces, the state, the name */
#define WIDTH_LEAST 60

struct options {
	pid_t pid;
	int json, verbose;
};

static const char usage[] =
	"Usage: waymark doctor [OPTION]...\n"
	"       waymark doctor [OPTION]... -p PID\n"
	"       waymark doctor TRIAL...\n\n"
	"Show what this machine and this user can do, each line with what would change it; or\n"
	"whether a running process can be recorded, and by which ways; or whether each TRIAL works,\n"
	"as breakpoint-write, which the exit status says too.\n\n"
	"  -p, --pid=PID  this process; it is not touched\n"
	"  -v, --verbose  say of what is fine, too, what would change it\n"
	"  -j, --json     as one JSON object\n"
	"  -h, --help     this help\n";

static int option_take(void *data, int id, const char *text)
{
	struct options *options = data;
	uint64_t pid;

	switch (id) {
	case 'p':
		if (quantity_number(text, INT32_MAX, &pid) || !pid)
			return complain_usage("doctor", "%s is no process number", text);
		options->pid = (pid_t)pid;
		return 0;
	case 'v':
		options->verbose = 1;
		return 0;
	default:
		options->json = 1;
		return 0;
	}
}

/* How wide a line may be; 0: as long as it is. */
static size_t width_of_output(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 0;
	return size.ws_col < WIDTH_LEAST ? WIDTH_LEAST : size.ws_col;
}

static void put_spaces(struct out *out, size_t count)
{
	while (count--)
		out_char(out, ' ');
}

/* Words that begin at the indent, in lines of that width. */
static void put_words(struct out *out, const char *words, size_t width)
{
	size_t column = INDENT;

	while (*words) {
		size_t bytes = strcspn(words, " ");

		if (width && column > INDENT && column + bytes >= width) {
			out_char(out, '\n');
			put_spaces(out, INDENT);
			column = INDENT;
		} else if (column > INDENT) {
			out_char(out, ' ');
			column++;
		}
		/* names of programs are among them */
		out_escaped(out, words, bytes);
		column += bytes;
		words += bytes + strspn(words + bytes, " ");
	}
	out_char(out, '\n');
}

static void put_padded(struct out *out, const char *text, size_t columns)
{
	size_t bytes = strlen(text);

	out_text(out, text, bytes);
	put_spaces(out, bytes < columns ? columns - bytes : 1);
}

static void show(struct out *out, const struct finding_list *list, int verbose)
{
	size_t width = width_of_output();
	const char *group = "";

	for (size_t i = 0; i < list->count; i++) {
		const struct finding *finding = &list->all[i];

		if (strcmp(group, finding->group) != 0) {
			group = finding->group;
			if (i)
				out_char(out, '\n');
			out_text(out, group, strlen(group));
			out_char(out, '\n');
		}
		out_literal(out, "  ");
		put_padded(out, finding_state_name(finding->state), INDENT - 2 - NAME_COLUMNS);
		put_padded(out, finding->name, NAME_COLUMNS);
		put_words(out, finding->found, width);
		if (!finding->change[0] || (finding->state == FINDING_FINE && !verbose))
			continue;
		put_spaces(out, INDENT - 3);
		out_literal(out, "-> ");
		put_words(out, finding->change, width);
	}
}

static void show_sum(struct out *out, const struct finding_list *list)
{
	size_t lacks = finding_lacks(list);
	int is_first = 1;

	if (!lacks) {
		out_literal(out, "\nall that Waymark is made for works here\n");
		return;
	}
	out_literal(out, "\nnot seen to work here, of what Waymark is made for: ");
	for (size_t i = 0; i < list->count; i++) {
		const struct finding *finding = &list->all[i];

		if (!finding_is_lack(finding))
			continue;
		if (!is_first)
			out_literal(out, ", ");
		is_first = 0;
		out_text(out, finding->name, strlen(finding->name));
	}
	out_char(out, '\n');
}

static void show_json(struct out *out, const struct finding_list *list,
		      const struct options *options)
{
	struct json json = { .out = out };

	json_open(&json, NULL, '{');
	json_string(&json, "version", WAYMARK_VERSION);
	if (options->pid)
		json_number(&json, "pid", (uint64_t)options->pid);
	json_number(&json, "uid", geteuid());
	json_bool(&json, "works", !finding_lacks(list));
	json_open(&json, "findings", '[');
	for (size_t i = 0; i < list->count; i++) {
		const struct finding *finding = &list->all[i];

		json_line(&json);
		json_open(&json, NULL, '{');
		json_string(&json, "group", finding->group);
		json_string(&json, "name", finding->name);
		json_string(&json, "state", finding_state_name(finding->state));
		json_bool(&json, "basic", finding->is_basic);
		json_string(&json, "found", finding->found);
		json_words(&json, "change", finding->change);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	out_char(out, '\n');
}

static void show_head(struct out *out)
{
	struct utsname names;
	char text[512];

	uname(&names);
	snprintf(text, sizeof(text), "waymark %s, %s %s %s, user %u\n\n", WAYMARK_VERSION,
		 names.sysname, names.release, names.machine, geteuid());
	out_text(out, text, strlen(text));
}

/* The trials that are named: a line each. CLI_FAILED unless all work. */
static int show_trials(char **names)
{
	static const char *const states[] = {
		[TRIAL_UNKNOWN] = "unknown", [TRIAL_FAILS] = "fails", [TRIAL_WORKS] = "works"
	};
	int status = CLI_FINE;

	for (; *names; names++) {
		int trial = trial_find(*names);
		struct trial_answer answer;
		char text[512];

		if (trial < 0)
			return complain_usage("doctor", "there is no trial %s", *names);
		trial_ask((enum trial)trial, &answer);
		trial_reason((enum trial)trial, &answer, text, sizeof(text));
		printf("%-9s%s\n", states[answer.state], text);
		if (answer.state != TRIAL_WORKS)
			status = CLI_FAILED;
	}
	return fflush(stdout) ? complain(-errno, "standard output") : status;
}

/* What is started to see whether that works: this very command, which needs nothing of the machine. */
static int look(struct finding_list *list, pid_t pid)
{
	char self[PATH_MAX], word[] = "version";
	char *trial[] = { self, word, NULL };
	struct machine machine = { .trial = trial };
	ssize_t got = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (got <= 0)
		machine.trial = NULL;
	else
		self[got] = '\0';
	if (pid)
		return doctor_look_at(list, &machine, pid);
	doctor_look(list, &machine);
	return 0;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option table[] = {
		{ "pid", required_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const struct command_line line = { "doctor", usage, "p:vjh", table, option_take };
	static struct out out;
	struct options options = { 0 };
	struct finding_list list = { 0 };
	int status = command_line_read(&line, argc, argv, &options), err;

	if (status >= 0)
		return status;
	if (optind < argc)
		return show_trials(argv + optind);
	err = look(&list, options.pid);
	if (err) {
		finding_list_release(&list);
		return complain(err, "pid %d", (int)options.pid);
	}
	out_init(&out, STDOUT_FILENO);
	if (options.json) {
		show_json(&out, &list, &options);
	} else {
		show_head(&out);
		show(&out, &list, options.verbose);
		if (!options.pid)
			show_sum(&out, &list);
	}
	status = finding_lacks(&list) ? CLI_FAILED : CLI_FINE;
	finding_list_release(&list);
	err = out_flush(&out);
	return err ? complain(err, "standard output") : status;
}
