/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/json.h"
#include "record/doctor/doctor.h"
#include "target/trial/simulate.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define STATE_COLUMNS 9
#define NAME_COLUMNS 21
#define INDENT 32 /* where words begin: two spaces, the state, the name */
#define WIDTH_LEAST 60

struct options {
	uint32_t pid;
	int json;
};

static const char usage[] =
	"Usage: waymark doctor [OPTION]...\n"
	"       waymark doctor [OPTION]... -p PID\n"
	"       waymark doctor [OPTION]... TRIAL...\n\n"
	"Show what works on this machine for this user, and what would make the rest work; or in which\n"
	"ways a running process can be recorded; or whether each TRIAL works, as breakpoint-write:\n"
	"then the exit status is 0 if all of them do, else 1.\n\n"
	"  -p, --pid=PID  make a trial in this process, which takes some 20 ms\n"
	"  -j, --json     print one JSON object\n"
	"  -h, --help     print this help\n";

static int option_take(void *data, int id, const char *text)
{
	struct options *options = data;
	if (id != 'j')
		return command_line_id("doctor", "--pid", text, &options->pid);
	options->json = 1;
	return CLI_FINE;
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

/* Words that begin at an indent, in lines of that width. */
static void put_words(struct out *out, const char *words, size_t indent, size_t width)
{
	size_t column = indent;

	while (*words) {
		size_t bytes = strcspn(words, " ");

		if (width && column > indent && column + bytes >= width) {
			out_char(out, '\n');
			put_spaces(out, indent);
			column = indent;
		} else if (column > indent) {
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

static void show_change(struct out *out, const struct check *check, size_t indent, size_t width)
{
	if (check->state == CHECK_FINE || !check->change[0])
		return;
	put_spaces(out, indent - 3);
	out_literal(out, "-> ");
	put_words(out, check->change, indent, width);
}

static void show(struct out *out, const struct check_list *list)
{
	size_t width = width_of_output();
	const char *group = "";

	for (size_t i = 0; i < list->count; i++) {
		const struct check *check = &list->all[i];

		if (strcmp(group, check->group) != 0) {
			group = check->group;
			if (i)
				out_char(out, '\n');
			out_text(out, group, strlen(group));
			out_char(out, '\n');
		}
		out_literal(out, "  ");
		put_padded(out, check_state_name(check->state), STATE_COLUMNS);
		put_padded(out, check->name, NAME_COLUMNS);
		put_words(out, check->found, INDENT, width);
		show_change(out, check, INDENT, width);
	}
}

static void show_sum(struct out *out, const struct check_list *list)
{
	int is_first = 1;

	if (!check_lacks(list)) {
		out_literal(out, "\neverything basic works here\n");
		return;
	}
	out_literal(out, "\nbasic mechanisms that were not seen to work here: ");
	for (size_t i = 0; i < list->count; i++) {
		const struct check *check = &list->all[i];

		if (!check_is_lack(check))
			continue;
		if (!is_first)
			out_literal(out, ", ");
		is_first = 0;
		out_text(out, check->name, strlen(check->name));
	}
	out_char(out, '\n');
}

static void show_json(struct out *out, const struct check_list *list, pid_t pid, uint64_t trials_us)
{
	struct json json = { .out = out };

	json_open(&json, NULL, '{');
	json_string(&json, "version", WAYMARK_VERSION);
	if (pid)
		json_number(&json, "pid", (uint64_t)pid);
	json_decimal(&json, "trials_ms", (double)trials_us / 1000, 3);
	json_number(&json, "uid", geteuid());
	json_bool(&json, "simulated", simulate_any());
	json_bool(&json, "works", !check_lacks(list));
	json_open(&json, "findings", '[');
	for (size_t i = 0; i < list->count; i++) {
		const struct check *check = &list->all[i];

		json_line(&json);
		json_open(&json, NULL, '{');
		json_string(&json, "group", check->group);
		json_string(&json, "name", check->name);
		json_string(&json, "state", check_state_name(check->state));
		json_bool(&json, "basic", check->is_basic);
		json_string(&json, "found", check->found);
		json_words(&json, "change", check->change);
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
	if (!simulate_any())
		return;
	snprintf(text, sizeof(text), "simulated failures: %s (WAYMARK_SIMULATE)\n\n",
		 secure_getenv("WAYMARK_SIMULATE"));
	out_text(out, text, strlen(text));
}

/* A line for each trial that was named. CLI_FAILED unless all work. */
static int show_trials(struct out *out, char **names, int is_json)
{
	static const char *const states[] = {
		[TRIAL_UNKNOWN] = "unknown", [TRIAL_FAILS] = "fails", [TRIAL_WORKS] = "works"
	};
	struct machine machine = { .is_filtered = doctor_is_filtered() };
	struct check_list list = { 0 };
	int status = CLI_FINE;

	for (; *names; names++) {
		enum trial trial = (enum trial)trial_find(*names);
		struct trial_answer *answer = &machine.trials[trial];
		const struct trial_row *row = trial_row(trial);
		struct check *check = check_add(&list, row->area, row->name);
		char text[CHECK_BYTES];

		trial_ask(trial, answer);
		trials_look_one(check, trial, &machine);
		trial_reason(trial, answer, text, sizeof(text));
		status = answer->state == TRIAL_WORKS ? status : CLI_FAILED;
		if (is_json)
			continue;
		put_padded(out, states[answer->state], STATE_COLUMNS);
		put_words(out, text, STATE_COLUMNS, 0);
		show_change(out, check, STATE_COLUMNS, 0);
	}
	if (is_json)
		show_json(out, &list, 0, 0);
	check_list_release(&list);
	return status;
}

static int names_check(char **names, const struct options *options)
{
	if (*names && options->pid)
		return complain_usage("doctor", "take a PID or trials, not both");
	for (; *names; names++) {
		if (trial_find(*names) >= 0)
			continue;
		complain_words("waymark doctor: %s: no such trial; there are", *names);
		for (int i = 0; i < TRIAL_COUNT; i++)
			fprintf(stderr, "%s %s", i ? "," : "", trial_row((enum trial)i)->name);
		fputs("\n  see waymark doctor --help\n", stderr);
		return CLI_USAGE;
	}
	return 0;
}

/*
 * To see whether starting a program works, start this very command, which needs nothing of the
 * machine.
 */
static uint64_t look(struct check_list *list)
{
	char self[PATH_MAX], word[] = "version";
	char *program[] = { self, word, NULL };
	ssize_t got = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[got > 0 ? got : 0] = '\0';
	return doctor_look(list, got > 0 ? program : NULL);
}

/* CLI_FAILED where something basic is missing. */
static int show_all(struct out *out, const struct options *options)
{
	struct check_list list = { 0 };
	uint64_t trials_us = 0;
	int err = 0, status;

	if (options->pid)
		err = doctor_look_at(&list, (pid_t)options->pid);
	else
		trials_us = look(&list);
	if (err) {
		check_list_release(&list);
		return complain(err, "pid %u", options->pid);
	}
	if (options->json) {
		show_json(out, &list, (pid_t)options->pid, trials_us);
	} else {
		show_head(out);
		show(out, &list);
		if (!options->pid)
			show_sum(out, &list);
	}
	status = check_lacks(&list) ? CLI_FAILED : CLI_FINE;
	check_list_release(&list);
	return status;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option table[] = {
		{ "pid", required_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const struct command_line line = { "doctor", usage, "p:jh", table, option_take };
	static struct out out;
	struct options options = { 0 };
	int status = command_line_read(&line, argc, argv, &options), err;

	if (status >= 0)
		return status;
	err = names_check(argv + optind, &options);
	if (err)
		return err;
	out_init(&out, STDOUT_FILENO);
	status = optind < argc ? show_trials(&out, argv + optind, options.json)
			       : show_all(&out, &options);
	err = out_flush(&out);
	return err ? complain(err, "standard output") : status;
}
