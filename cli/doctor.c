/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/output.h"
#include "record/doctor/doctor.h"
#include "target/trial/simulate.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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

static const struct row_column check_columns[] = {
	{ "group", ROW_TEXT, ROW_PLAIN, 0, "what it belongs to" },
	{ "state", ROW_TEXT, ROW_PLAIN, 0, "fine, limited, absent or unknown" },
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "of the mechanism, or of the trial" },
	{ "basic", ROW_BOOL, ROW_PLAIN, ROW_QUIET, "Waymark is of little use without it" },
	{ "found", ROW_TEXT, ROW_PLAIN, 0, "what was seen" },
	{ "change", ROW_TEXT, ROW_PLAIN, 0, "what would make it better" },
};
static ROW_TABLE(check_table, "check", "What works on this machine, or in a process.",
		 check_columns);

static const struct row_column machine_columns[] = {
	{ "version", ROW_TEXT, ROW_PLAIN, 0, "Waymark's" },
	{ "kernel", ROW_TEXT, ROW_PLAIN, 0, "and the machine's kind" },
	{ "uid", ROW_U64, ROW_PLAIN, 0, "the user" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process that was looked at; null: none" },
	{ "trials", ROW_U64, ROW_NS, ROW_QUIET, "how long the trials took" },
	{ "simulated", ROW_TEXT, ROW_PLAIN, 0, "failures, by WAYMARK_SIMULATE" },
	{ "works", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "all that is basic does" },
};
static ROW_TABLE(machine_table, "machine", "What waymark doctor looked at.", machine_columns);

static void put_machine(struct rows *rows, const struct check_list *list, pid_t pid,
			uint64_t trials_us)
{
	struct utsname names;
	char kernel[256];

	uname(&names);
	snprintf(kernel, sizeof(kernel), "%s %s %s", names.sysname, names.release, names.machine);
	rows_record(rows, &machine_table,
		    (const struct row_value[]){
			    row_text(WAYMARK_VERSION), row_text(kernel), row_u64(geteuid()),
			    row_known((uint64_t)pid), row_u64(trials_us * 1000),
			    row_text(simulate_any() ? secure_getenv("WAYMARK_SIMULATE") : NULL),
			    row_bool(!check_lacks(list)) });
}

static void put_checks(struct rows *rows, const struct check_list *list, int is_change,
		       const struct rows_layout *layout)
{
	rows_open(rows, &check_table, layout);
	for (size_t i = 0; i < list->count; i++) {
		const struct check *check = &list->all[i];
		int has_change = check->state != CHECK_FINE && check->change[0];

		if (has_change || !is_change)
			ROWS_PUT(rows, check_columns, row_text(check->group),
				 row_text(check_state_name(check->state)), row_text(check->name),
				 row_bool(check->is_basic), row_text(check->found),
				 row_text(has_change ? check->change : NULL));
	}
	rows_close(rows);
}

/* " a b": the names of what is basic and was not seen to work. Returns text. */
static const char *lacks_text(const struct check_list *list, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < list->count && used < bytes; i++)
		if (check_is_lack(&list->all[i]))
			used += (size_t)snprintf(text + used, bytes - used, " %s",
						 list->all[i].name);
	return text;
}

/* In text, words may be long: what would change something is a table of its own. */
static int print(const struct check_list *list, pid_t pid, uint64_t trials_us, int is_json)
{
	int is_whole = trials_us != 0;
	static const struct rows_layout whole = { .hidden = 1 << 5 };
	static const struct rows_layout changes = {
		.title = "What would change it:", .hidden = 1 << 1 | 1 << 3 | 1 << 4, .is_bare = 1
	};
	struct rows *rows = output_rows(is_json ? ROWS_JSON : ROWS_TEXT);
	char text[512];

	put_machine(rows, list, pid, trials_us);
	put_checks(rows, list, 0, &whole);
	if (!is_json)
		put_checks(rows, list, 1, &changes);
	if (is_whole && !is_json)
		out_char(rows->out, '\n');
	if (is_whole)
		rows_note(rows, "%s%s",
			  check_lacks(list) ? "basic mechanisms that were not seen to work here:"
					    : "everything basic works here",
			  lacks_text(list, text, sizeof(text)));
	return output_rows_end(check_lacks(list) ? CLI_FAILED : CLI_FINE);
}

/* The trials that were named. CLI_FAILED unless all work. */
static int show_trials(char **names, int is_json)
{
	struct machine machine = { .is_filtered = doctor_is_filtered() };
	struct check_list list = { 0 };
	int status = CLI_FINE, printed;

	for (; *names; names++) {
		enum trial trial = (enum trial)trial_find(*names);
		const struct trial_row *row = trial_row(trial);

		trial_ask(trial, &machine.trials[trial]);
		doctor_look_trial(check_add(&list, row->area, row->name), trial, &machine);
		if (machine.trials[trial].state != TRIAL_WORKS)
			status = CLI_FAILED;
	}
	printed = print(&list, 0, 0, is_json);
	check_list_release(&list);
	return printed ? printed : status;
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

static int show_all(const struct options *options)
{
	struct check_list list = { 0 };
	uint64_t trials_us = 0;
	int err = 0, status;

	if (options->pid)
		err = doctor_look_at(&list, (pid_t)options->pid);
	else
		trials_us = look(&list);
	status = err ? complain(err, "pid %u", options->pid)
		     : print(&list, (pid_t)options->pid, trials_us, options->json);
	check_list_release(&list);
	return status;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct command_option table[] = {
		{ "pid", 'p', COMMAND_ID, COMMAND_TO(options, pid) },
		{ "json", 'j', COMMAND_FLAG, COMMAND_TO(options, json), .min = 1 },
		{ .name = NULL },
	};
	static const struct command_line line = { "doctor", usage, table, 0 };
	struct options options = { 0 };
	int status = command_line_read(&line, argc, argv, &options), err;

	if (status >= 0)
		return status;
	err = names_check(argv + optind, &options);
	if (err)
		return err;
	return optind < argc ? show_trials(argv + optind, options.json) : show_all(&options);
}
