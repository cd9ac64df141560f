/* SPDX-License-Identifier: MIT */
#include "cli/flight.h"

#include "base/signal_name.h"
#include "cli/cli.h"
#include "cli/trail.h"
#include "record/trail/live.h"
#include "record/session/session.h"
#include "record/spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LAST_BRANCHES 16

static const char of_signal[] = "signal:";

static int complain_signal(const char *name)
{
	const char *names[NSIG];
	size_t count = 0;

	for (int i = 1; i < SIGRTMIN; i++)
		if (sigabbrev_np(i))
			names[count++] = sigabbrev_np(i);
	complain_usage("record",
		       "--on signal:NAME takes a signal, such as SEGV, RTMIN+1 or 11, not %s",
		       name);
	complain_meant(strncasecmp(name, "SIG", 3) ? name : name + 3, names, count);
	return CLI_USAGE;
}

int flight_parse(struct flight *flight, const char *text)
{
	static const char *const names[] = { "exit", "crash", "signal" };

	*flight = (struct flight){ .text = text };
	for (unsigned int i = 0; i < 3; i++)
		if (!strcmp(text, names[i]))
			flight->trigger = (enum live_trigger)(TRIGGER_EXIT + i);
	if (!strncmp(text, of_signal, strlen(of_signal))) {
		flight->trigger = TRIGGER_SIGNAL;
		flight->signal = signal_name_read(text + strlen(of_signal));
		return flight->signal ? 0 : complain_signal(text + strlen(of_signal));
	}
	if (flight->trigger)
		return 0;
	if (strchr(text, ':'))
		return complain_usage("record",
				      "--on %s: the events before one of a spec are kept by --last",
				      text);
	complain_usage("record", "--on: there is no trigger %s", text);
	complain_meant(text, names, sizeof(names) / sizeof(names[0]));
	return CLI_USAGE;
}

int flight_check(const struct flight *flight, const char *const *specs, size_t count)
{
	const char *other = NULL;
	int has_last = 0;

	if (!flight->trigger)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct spec spec;

		if (spec_read(&spec, specs[i], (struct detail){ 0 }))
			return 0; /* it is complained of where it is added */
		if (!spec.trail)
			other = specs[i];
		has_last |= spec.trail && spec.trail->last_bytes;
		spec_release(&spec);
	}
	if (!has_last)
		return complain_usage(
			"record",
			"--on %s is for events in memory, --last 30s, or for a flight recorder of a trail, -e trail/last=64M/",
			flight->text);
	return other ? complain_usage("record", "with --on a trail alone is recorded: leave out %s",
				      other)
		     : 0;
}

void flight_set(const struct flight *flight, struct wm_session *session)
{
	session->live->trigger = flight->trigger;
	session->live->signal = flight->signal;
}

/* ---- printed ---- */

static int show_way(struct trail_show *show)
{
	int err = instruction_format_open(&show->format, INSTRUCTION_ATT);

	for (size_t i = 0; i < show->view.trails.path_count && !err; i++)
		if (trail_wants(&show->options.wanted, show->view.trails.paths[i].stream))
			err = trail_backtrace(show, &show->view.trails.paths[i]);
	if (!err)
		err = trail_branches(show);
	instruction_format_close(show->format);
	return err;
}

/* The way there: the last branches of that thread. */
static void tell_way(const struct flight *flight, const char *dir)
{
	static struct out out;
	struct trail_show show = { .options = { .dir = dir,
						.last = LAST_BRANCHES,
						.wanted = { .tid = (uint32_t)flight->fired.tid,
							    .pid = (uint32_t)flight->fired.pid } },
				   .out = &out };
	int status, err;

	out_init(&out, STDERR_FILENO);
	status = trail_view_open(&show.view, dir, &show.options.image);
	if (status == CLI_FINE) {
		err = show_way(&show);
		out_flush(&out);
		if (err)
			complain(err, "%s", dir);
	}
	trail_view_close(&show.view, status);
}

int flight_end(struct flight *flight, const struct wm_session *session)
{
	flight->fired = session->live->fired;
	return !flight->trigger || flight->fired.has;
}

void flight_tell(const struct flight *flight, const char *dir)
{
	const struct live_fired *fired = &flight->fired;
	char name[32];

	if (!flight->trigger)
		return;
	if (!fired->has) {
		complain_words("waymark: --on %s: it did not come to that; no trace was written\n",
			       flight->text);
		return;
	}
	complain_words("waymark: --on %s: in thread %d of process %d", flight->text,
		       (int)fired->tid, (int)fired->pid);
	if (fired->signal)
		fprintf(stderr, ", by signal %s", signal_name_show((uint64_t)fired->signal, name));
	fputs("; the last instructions:\n", stderr);
	tell_way(flight, dir);
}

static const struct row_column columns[] = {
	{ "trigger", ROW_TEXT, ROW_PLAIN, 0, "as given" },
	{ "fired", ROW_BOOL, ROW_PLAIN, 0, "it came to that" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "in which process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "in which thread" },
	{ "signal", ROW_S64, ROW_PLAIN, 0, "by which signal; 0: none" },
};
static ROW_TABLE(flight_table, "on", "What --on waited for, and whether it came.", columns);

void flight_rows(struct rows *rows, const struct flight *flight)
{
	const struct live_fired *fired = &flight->fired;

	if (!flight->trigger)
		return;
	rows_open(rows, &flight_table, NULL);
	ROWS_PUT(rows, columns, row_text(flight->text), row_bool(fired->has),
		 row_u64((uint64_t)fired->pid), row_u64((uint64_t)fired->tid),
		 row_s64(fired->signal));
	rows_close(rows);
}
