/* SPDX-License-Identifier: MIT */
#include "cli/folder_plan.h"

#include "base/quantity.h"
#include "base/signal_name.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "record/session/session.h"
#include "record/session/triggers.h"
#include "record/spec/spec.h"
#include "target/process/ticks.h"
#include "trace/writer.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define HOUR_NS 3600000000000u
#define BYTES_MIN (1u << 20)
#define BYTES (1u << 30) /* of memory, where --last is a time alone */
#define AN_HOUR 60	 /* snapshots, by default */
/* A burst of triggers may use up so much of what an hour allows; then some time has to go by. */
#define BURST_PARTS 6

static const char *const signal_texts[] = { "signal:USR1", "signal:USR2" };
static volatile sig_atomic_t signals; /* that have come, of struct folder_plan */

static void on_signal(int signal)
{
	(void)signal;
	signals = signals + 1;
}

/* ---- the command line ---- */

int folder_plan_keeps(const struct folder_plan *plan)
{
	return plan->last_bytes || plan->last_ns;
}

int folder_plan_is_used(const struct folder_plan *plan)
{
	return folder_plan_keeps(plan) || plan->rotate_bytes || plan->rotate_ns;
}

/* Read a time or a size. 0, or a negative error; what is not read stays as it was. */
static int read_limit(const char *text, uint64_t min_ns, uint64_t *ns, uint64_t *bytes)
{
	size_t length = strlen(text);

	/* 2m is two minutes, as for every other option, and 2M two megabytes */
	if (length && isupper((unsigned char)text[length - 1]))
		return quantity_size(text, BYTES_MIN, UINT64_MAX, bytes);
	return quantity_time(text, min_ns, ns) ? quantity_size(text, BYTES_MIN, UINT64_MAX, bytes)
					       : 0;
}

int folder_plan_read_last(struct folder_plan *plan, const char *text)
{
	if (!read_limit(text, 1, &plan->last_ns, &plan->last_bytes))
		return CLI_FINE;
	return complain_usage("record",
			      "--last takes a time, as 30s, or a size of 1M or more, as 256M, "
			      "not %s",
			      text);
}

int folder_plan_read_rotate(struct folder_plan *plan, const char *text)
{
	if (!read_limit(text, 1000000000, &plan->rotate_ns, &plan->rotate_bytes))
		return CLI_FINE;
	return complain_usage("record",
			      "--rotate takes a time of 1s or more, or a size of 1M or more, "
			      "not %s",
			      text);
}

static int read_one(struct folder_plan *plan, const char *text, int has_command)
{
	static const char of_signal[] = "signal:";

	if (!strcmp(text, "exit")) {
		plan->at_exit = 1;
		return CLI_FINE;
	}
	if (!strcmp(text, "crash")) {
		plan->at_crash = 1;
		return has_command ? CLI_FINE
				   : complain_usage("record",
						    "--on crash is for a program that is started: "
						    "how another ended is unknown");
	}
	if (strncmp(text, of_signal, strlen(of_signal)) != 0)
		return command_line_text(text, &plan->specs) ? CLI_FAILED : CLI_FINE;
	if (plan->signal)
		return complain_usage("record", "--on signal: can be given once");
	plan->signal = signal_name_read(text + strlen(of_signal));
	return plan->signal == SIGUSR1 || plan->signal == SIGUSR2
		       ? CLI_FINE
		       : complain_usage(
				 "record",
				 "with --last, --on signal: takes USR1 or USR2, which are sent "
				 "to waymark itself, not %s",
				 text + strlen(of_signal));
}

static int read_on(struct folder_plan *plan, const struct command_texts *on, int has_command)
{
	struct sigaction action = { .sa_handler = on_signal };

	if (!plan->per_hour)
		plan->per_hour = AN_HOUR;
	for (size_t i = 0; i < on->count; i++) {
		int status = read_one(plan, on->all[i], has_command);

		if (status != CLI_FINE)
			return status;
	}
	plan->at_exit |= !on->count;
	if (plan->signal)
		sigaction(plan->signal, &action, NULL);
	return CLI_FINE;
}

int folder_plan_check(struct folder_plan *plan, const struct command_texts *on, int has_command)
{
	int rotates = plan->rotate_bytes || plan->rotate_ns;

	if (folder_plan_keeps(plan) && rotates)
		return complain_usage("record", "--last and --rotate exclude each other");
	if (plan->folders.keep && !folder_plan_is_used(plan))
		return complain_usage("record", "--keep is for --last and --rotate");
	if (folder_plan_keeps(plan))
		return read_on(plan, on, has_command);
	return plan->per_hour ? complain_usage("record", "--per-hour is for --last") : CLI_FINE;
}

/* ---- rotation ---- */

/* Continue in the next folder. Where it can't be made, the present one continues. */
static int rotate(struct folder_plan *plan, struct wm_session *session)
{
	struct wm_session_status status = { .size = sizeof(status) };
	const char *next = folders_next(&plan->folders);
	int err = wm_session_rotate(session, next);

	wm_session_status_get(session, &status);
	plan->begin_ns = ticks_monotonic_ns();
	plan->begin_bytes = status.bytes;
	/* also where the folder before it could not be ended well */
	if (session->dir && !strcmp(session->dir, next)) {
		folders_took(&plan->folders);
		folders_prune(&plan->folders);
	} else {
		folders_failed(&plan->folders);
	}
	return err;
}

static int is_rotation_due(const struct folder_plan *plan, const struct wm_session_status *status)
{
	return (plan->rotate_ns && ticks_monotonic_ns() - plan->begin_ns >= plan->rotate_ns) ||
	       (plan->rotate_bytes && status->bytes - plan->begin_bytes >= plan->rotate_bytes);
}

/* ---- snapshots ---- */

static const char *text_of(const struct wm_session *session, unsigned int trigger)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].trigger == trigger)
			return session->specs->all[i].text;
	return "";
}

/* Whether fewer than `most` were taken in the last `time_ns`; most 0: any. */
static int has_room(const struct folder_plan *plan, uint64_t most, uint64_t time_ns,
		    uint64_t now_ns)
{
	uint64_t before_ns;

	if (!most || plan->taken < most)
		return 1;
	before_ns = plan->taken_ns[(plan->taken - most) % SNAPSHOTS_AN_HOUR_MAX];
	return now_ns - before_ns >= time_ns;
}

/* What came since the last call; NULL: nothing that a snapshot is due for. */
static const char *trigger_due(struct folder_plan *plan, const struct wm_session *session)
{
	uint64_t now_ns = ticks_monotonic_ns(), fresh = session->triggers->hits - plan->hits_seen;
	int count = signals - plan->signals_seen;

	plan->hits_seen += fresh;
	plan->signals_seen += count;
	fresh += (uint64_t)count;
	if (!fresh)
		return NULL;
	if (!has_room(plan, plan->per_hour, HOUR_NS, now_ns) ||
	    !has_room(plan, (plan->per_hour + BURST_PARTS - 1) / BURST_PARTS, HOUR_NS / BURST_PARTS,
		      now_ns)) {
		plan->passed_over += fresh;
		return NULL;
	}
	plan->passed_over += fresh - 1;
	plan->taken_ns[plan->taken++ % SNAPSHOTS_AN_HOUR_MAX] = now_ns;
	return count ? signal_texts[plan->signal == SIGUSR2]
		     : text_of(session, session->triggers->last);
}

static int snapshot(struct folder_plan *plan, struct wm_session *session, const char *why)
{
	const char *name = folders_next(&plan->folders);
	uint64_t kept_ns = session_kept_ns(session);
	int err = wm_session_snapshot(session, name);

	if (err) {
		plan->failed++;
		folders_failed(&plan->folders);
		complain(err, "%s: the snapshot %s", why, wm_session_detail(session));
		return err;
	}
	folders_took(&plan->folders);
	folders_prune(&plan->folders);
	complain_words("waymark: %s: the last %.1f s are in %s\n", why, (double)kept_ns / 1e9,
		       name);
	return 0;
}

/* ---- the recording ---- */

int folder_plan_begin(struct folder_plan *plan, struct wm_session *session)
{
	uint64_t bytes = plan->last_bytes ? plan->last_bytes : BYTES;
	int err = session_folders_refused(session);

	if (!err)
		err = folders_open(&plan->folders);
	for (size_t i = 0; i < plan->specs.count && !err; i++)
		err = session_trigger_add(session, plan->specs.all[i]);
	if (err)
		return err;
	if (folder_plan_keeps(plan))
		return wm_session_keep(session, bytes, plan->last_ns);
	err = wm_session_output(session, folders_next(&plan->folders));
	if (!err)
		folders_took(&plan->folders);
	plan->begin_ns = ticks_monotonic_ns();
	return err;
}

int folder_plan_attend(struct folder_plan *plan, struct wm_session *session,
		       const struct wm_session_status *status, struct progress *progress)
{
	const char *why;
	int err;

	if (folder_plan_keeps(plan)) {
		why = trigger_due(plan, session);
		if (!why)
			return 0;
		progress_clear(progress);
		snapshot(plan, session, why);
		return 0;
	}
	if (!is_rotation_due(plan, status))
		return 0;
	err = rotate(plan, session);
	if (!err || session->trace_error)
		return err;
	progress_clear(progress);
	complain(err, "%s; the recording continues in %s", wm_session_detail(session),
		 plan->folders.name);
	return 0;
}

int folder_plan_ask(struct folder_plan *plan, struct wm_session *session, int is_rotation,
		    const char **name)
{
	int err;

	if (is_rotation == folder_plan_keeps(plan) || !folder_plan_is_used(plan))
		return -EOPNOTSUPP;
	err = is_rotation ? rotate(plan, session) : snapshot(plan, session, "control");
	*name = plan->folders.name;
	return err;
}

int folder_plan_end(struct folder_plan *plan, struct wm_session *session, int has_crashed,
		    int has_error)
{
	int err;

	if (!folder_plan_keeps(plan))
		return 0;
	if (!has_error && !plan->at_exit && !(plan->at_crash && has_crashed))
		return 0;
	err = rotate(plan, session);
	/* somebody else may have taken that number */
	return err == -WM_E_TRACE_DIR ? rotate(plan, session) : err;
}

/* ---- printed ---- */

void folder_plan_sum_up(const struct folder_plan *plan, const struct wm_session *session,
			int has_error)
{
	const struct folders *folders = &plan->folders;
	const char *what = folder_plan_keeps(plan) ? "the last of these events are"
						   : "the trace is";
	uint64_t misfits = session->triggers->misfits;
	char text[32];

	if (!folders->written && !plan->failed && !has_error)
		complain_words("waymark: no trace was written: no trigger came\n");
	else if (!folders->written)
		complain_words("waymark: no whole trace was written\n");
	else if (folders->written == 1)
		complain_words("waymark: %s in %s\n", what, folders->name);
	else
		complain_words("waymark: %u traces were written to %s, from %04u to %04u\n",
			       folders->written, folders->dir, folders->first, folders->last);
	if (plan->failed)
		complain_words("waymark: %s snapshots could not be written whole\n",
			       quantity_show_count(plan->failed, text, sizeof(text)));
	if (plan->passed_over)
		complain_words("waymark: %s more triggers made no snapshot of their own; "
			       "--per-hour %u allows a sixth of it in ten minutes\n",
			       quantity_show_count(plan->passed_over, text, sizeof(text)),
			       (unsigned int)plan->per_hour);
	if (misfits)
		complain_words("waymark: %s events of --on's markers have no such field, or of "
			       "another type\n",
			       quantity_show_count(misfits, text, sizeof(text)));
}

static const struct row_column columns[] = {
	{ "first", ROW_U64, ROW_PLAIN, 0, "number of the first folder; 0: none was written" },
	{ "last", ROW_U64, ROW_PLAIN, 0, "of the last" },
	{ "written", ROW_U64, ROW_COUNT, 0, "folders" },
	{ "failed", ROW_U64, ROW_COUNT, 0, "snapshots that could not be written whole" },
	{ "passed_over", ROW_U64, ROW_COUNT, 0, "triggers without a snapshot of their own" },
};
static ROW_TABLE(folders_table, "folders", "The folders that --last and --rotate wrote.", columns);

void folder_plan_rows(struct rows *rows, const struct folder_plan *plan)
{
	const struct folders *folders = &plan->folders;

	if (!folder_plan_is_used(plan))
		return;
	rows_open(rows, &folders_table, NULL);
	ROWS_PUT(rows, columns, row_u64(folders->first), row_u64(folders->last),
		 row_u64(folders->written), row_u64(plan->failed), row_u64(plan->passed_over));
	rows_close(rows);
}

void folder_plan_release(struct folder_plan *plan, int is_given_up)
{
	if (is_given_up && plan->folders.written)
		trace_remove(plan->folders.name, 0);
	folders_close(&plan->folders);
}
