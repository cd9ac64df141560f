/* SPDX-License-Identifier: MIT */
#include "base/name_match.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/compress.h"
#include "cli/control.h"
#include "cli/findings.h"
#include "cli/flight.h"
#include "cli/folder_plan.h"
#include "cli/guardian.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/targets.h"
#include "cli/watch_counts.h"
#include "read/locks/locks.h"
#include "read/locks/wait_calls.h"
#include "record/perf/instance.h"
#include "record/probe/probes.h"
#include "record/session/patience.h"
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/watches.h"
#include "trace/writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define POLL_MS 50
#define SUMS_SHOWN 20		 /* rows of each spec; waymark report -n 0 shows all */
#define CHILD_JOIN_MS 20	 /* for the hello of a child that was forked last */
#define CHILD_JOIN_NS 200000000u /* the same, with --wait-all */
#define STILL_RUN_NS 1000000000u /* for children that have ended, or are about to, to be drained */

/* ---- options ---- */

struct record_options {
	struct targets targets;
	struct command_texts specs, handlers;
	char dir[PATH_MAX];
	uint64_t for_ns; /* 0: no end */
	int json, verbose, wait_all, compress;
	int is_default;		 /* no spec was given */
	int made_dir;		 /* dir[] is the default name, and we made that folder */
	struct command_texts on; /* --on; without --last, */
	struct flight flight;	 /* which is this */
	struct folder_plan plan; /* --last, --rotate */
};

static const char help[] =
	"Usage: waymark record [OPTION]... -p PID [-p PID]...\n"
	"       waymark record [OPTION]... [--] CMD [ARG]...\n"
	"       waymark record [OPTION]... {-a | -C LIST}\n"
	"\n"
	"  -e, --event SPEC    what to record, as marker:SUBSYSTEM:EVENT or func:NAME/ret,arg1/; may be\n"
	"                      given again; see waymark help spec (default: every marker)\n"
	"  --handler FILE.so   call its handlers at markers and probes: waymark-handler(3); may be given\n"
	"                      again\n"
	"  --locks             also what waymark report --locks reads: calls that lock a mutex\n"
	"  --waits             also what waymark report --waits reads: calls that wait for a lock,\n"
	"                      a descriptor, a child, or some time\n"
	"  -o, --output DIR    the trace folder, new or empty (default: waymark-DATE-TIME)\n" TARGETS_HELP
		TARGETS_CPU_HELP
	"  --policy POLICY     when a buffer is full: discard (default), cyclic, block, notify\n"
	"  --last TIME|SIZE    keep the newest events in memory, and write them at the end, or:\n"
	"  --on TRIGGER        write them whenever an event of a SPEC comes, on crash, exit, or a\n"
	"                      signal:USR1 to waymark; waymark control PID snapshot does it, too\n"
	"                      with -e trail/last=SIZE/ write the trace, print the last branches\n"
	"                      and end on crash, exit or signal[:NAME]\n"
	"  --per-hour N        of --on: write so often at most (default: 60)\n"
	"  --rotate TIME|SIZE  begin a new folder, DIR/0001 and so on, after each hour or gigabyte\n"
	"  --keep N            of --last and --rotate: keep the N newest folders\n"
	"  --for TIME          stop after this time, as 500ms, 10s, 2m\n"
	"  --strict            stop every thread of the program while its code changes\n"
	"  --prearm            change every site once as the program starts, before it can\n"
	"                      lock its code down\n"
	"  --ordered           make times follow the order in which threads hand over data;\n"
	"                      an event costs some 17 ns more\n"
	"  --wait-all          record until the program's children have ended, too\n"
	"  --compress          make the trace smaller once it is recorded: waymark-compress(1)\n"
	"  -v, --verbose       name each place that was refused, why, and what to do\n"
	"  --json              sum up on stdout, as one JSON object\n"
	"  --help              this text\n";

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

static int locks_take(void *data, const struct command_option *option, const char *text,
		      const char *name)
{
	(void)option, (void)text, (void)name;
	for (int i = 0; i < LOCK_SPECS; i++)
		if (command_line_text(lock_specs[i], &((struct record_options *)data)->specs))
			return CLI_FAILED;
	return CLI_FINE;
}

static int waits_take(void *data, const struct command_option *option, const char *text,
		      const char *name)
{
	(void)option, (void)text, (void)name;
	for (int i = 0; i < WAIT_SPECS; i++)
		if (command_line_text(wait_specs[i], &((struct record_options *)data)->specs))
			return CLI_FAILED;
	return CLI_FINE;
}

static int trigger_take(void *data, const struct command_option *option, const char *text,
			const char *name)
{
	(void)option;
	(void)name;
	return command_line_text(text, &((struct record_options *)data)->on) ? CLI_FAILED
									     : CLI_FINE;
}

static int last_take(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	(void)option;
	(void)name;
	return folder_plan_read_last(&((struct record_options *)data)->plan, text);
}

static int rotate_take(void *data, const struct command_option *option, const char *text,
		       const char *name)
{
	(void)option;
	(void)name;
	return folder_plan_read_rotate(&((struct record_options *)data)->plan, text);
}

/* In the order of enum wm_policy, without the default. */
static const char *const policies[] = { "discard", "cyclic", "block", "notify", NULL };

static const char *const triggers[] = { "crash", "exit", "signal", "signal:", NULL };

static const struct command_option table[] = {
	{ "event", 'e', COMMAND_TEXTS, COMMAND_TO(record_options, specs) },
	{ "handler", 0, COMMAND_TEXTS, COMMAND_TO(record_options, handlers) },
	{ "locks", 0, COMMAND_CALL, .take = locks_take, .has_no_value = 1 },
	{ "waits", 0, COMMAND_CALL, .take = waits_take, .has_no_value = 1 },
	{ "output", 'o', COMMAND_CALL, .take = dir_take },
	TARGETS_ROWS(record_options),
	TARGETS_CPU_ROWS(record_options),
	{ "policy", 0, COMMAND_WORD, COMMAND_TO(record_options, targets.session.policy),
	  .min = WM_POLICY_DISCARD, .words = policies },
	{ "last", 0, COMMAND_CALL, .take = last_take },
	{ "on", 0, COMMAND_CALL, .take = trigger_take, .words = triggers },
	{ "per-hour", 0, COMMAND_NUMBER, COMMAND_TO(record_options, plan.per_hour), .min = 1,
	  .max = SNAPSHOTS_AN_HOUR_MAX },
	{ "rotate", 0, COMMAND_CALL, .take = rotate_take },
	{ "keep", 0, COMMAND_NUMBER, COMMAND_TO(record_options, plan.folders.keep), .min = 1,
	  .max = UINT32_MAX },
	{ "for", 0, COMMAND_TIME, COMMAND_TO(record_options, for_ns), .min = 1 },
	{ "strict", 0, COMMAND_FLAG, COMMAND_TO(record_options, targets.session.strict), .min = 1 },
	{ "prearm", 0, COMMAND_FLAG, COMMAND_TO(record_options, targets.session.prearm), .min = 1 },
	{ "ordered", 0, COMMAND_FLAG, COMMAND_TO(record_options, targets.session.ordered),
	  .min = 1 },
	{ "wait-all", 0, COMMAND_FLAG, COMMAND_TO(record_options, wait_all), .min = 1 },
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

/* Whether --on goes with the other options: CLI_FINE or CLI_USAGE. */
static int on_check(struct record_options *options)
{
	if (folder_plan_keeps(&options->plan))
		return CLI_FINE;
	if (options->on.count > 1)
		return complain_usage("record", "--on can be given again with --last alone");
	if (options->on.count && flight_parse(&options->flight, options->on.all[0]))
		return CLI_USAGE;
	return flight_check(&options->flight, options->specs.all, options->specs.count);
}

/* Read the command line: -1, or the exit status to end with. */
static int options_read(struct record_options *options, int argc, char **argv)
{
	const struct targets *targets = &options->targets;
	int status = command_line_read(&line, argc, argv, options);

	if (status < 0)
		status = targets_check(&options->targets, "record", argv + optind);
	if (status >= 0)
		return status;
	if (!targets->command && targets->session.prearm)
		return complain_usage("record",
				      "--prearm is for a program that is started, not for -p");
	status = folder_plan_check(&options->plan, &options->on, targets->command != NULL);
	if (status == CLI_FINE)
		status = on_check(options);
	if (status != CLI_FINE)
		return status;
	if (folder_plan_is_used(&options->plan) && options->compress)
		return complain_usage("record", "--compress is for a recording of one folder: use "
						"waymark compress DIR/0001");
	options->is_default = !options->specs.count && !options->handlers.count;
	if (options->is_default && command_line_text("marker:*:*", &options->specs))
		return CLI_FAILED;
	/* with a trigger, a program without markers is worth to be recorded */
	options->is_default = options->is_default && !options->plan.specs.count;
	return options->dir[0] ? -1 : make_dir(options);
}

/* ---- recording ---- */

struct recording {
	const struct record_options *options;
	struct flight flight;
	struct wm_session *session;
	struct guardian guardian;
	struct progress progress;
	struct child child;
	struct control control;
	struct folder_plan plan;
	struct findings findings;
	int error;	   /* what ended the recording early */
	char why[1200];	   /* in words, for --json */
	uint64_t alive_ns; /* --wait-all: when a process was recorded last */
};

/* Keep the reason, say it. Returns the error. */
static int fail(struct recording *recording, int error)
{
	const char *detail = wm_session_detail(recording->session);
	char where[256];

	if (!detail[0]) {
		snprintf(where, sizeof(where), "while recording into %.200s",
			 recording->options->dir);
		detail = where;
	}

	progress_clear(&recording->progress);
	if (!recording->error)
		snprintf(recording->why, sizeof(recording->why), "%s%s%s", wm_error_text(error),
			 detail[0] ? ": " : "", detail);
	recording->error = recording->error ? recording->error : error;
	complain(error, "%s", detail);
	return error;
}

/* Nothing was asked for but markers and probes, and none could be armed. */
static int is_all_refused(struct wm_session *session)
{
	struct wm_session_status status = { .size = sizeof(status) };

	for (size_t i = 0; i < session->specs->count; i++)
		if (!session->specs->all[i].glob && !session->specs->all[i].request)
			return 0;
	return !wm_session_status_get(session, &status) && !status.sites && !status.markers &&
	       (session->probes->refusals.count || status.refused);
}

/*
 * Whether what a spec of a running process lacks may come with a module that is loaded later: its
 * module is not there, or it is a glob that is not of a module that is.
 */
static int may_come(const struct spec *spec)
{
	const char *module = spec->request ? spec->request->module : NULL;
	int error = spec_missing(spec);

	return error == -WM_E_NO_MODULE ||
	       (spec_is_glob(spec) && (!module || code_is_glob(module)) &&
		(error == -WM_E_NO_MARKER || error == -WM_E_NO_FUNCTION || error == -WM_E_NO_USDT));
}

/*
 * Of a running process all is there to be seen, except what a module may bring later. Whether a
 * spec came to nothing that none may bring; else those that wait for a module are noted.
 */
static int has_unmatched(struct recording *recording)
{
	const struct spec_list *specs = recording->session->specs;

	for (size_t i = 0; i < specs->count; i++)
		if (spec_missing(&specs->all[i]) &&
		    (recording->options->is_default || !may_come(&specs->all[i])))
			return !patience_is_over(recording->session);
	for (size_t i = 0; i < specs->count; i++) {
		int error = spec_missing(&specs->all[i]);

		if (error)
			finding_add(&recording->findings, "awaited", FINDING_NOTE,
				    "%s: waiting for a module that has it", wm_error_text(error))
				->subject = strdup(specs->all[i].text);
	}
	return 0;
}

/* Add the specs that came to nothing; of an interrupted plan that is unknown. */
static void add_unmatched(struct recording *recording)
{
	const struct wm_session *session = recording->session;

	if (!patience_is_over(session))
		spec_findings(session->specs, session->names, 1, &recording->findings);
}

/* Print what was found since number `first`. */
static void print_findings(struct recording *recording, size_t first)
{
	progress_clear(&recording->progress);
	findings_print(&recording->findings, first, recording->options->verbose);
}

/* Whether of all the places that could be had by their code none could be armed in any process. */
static int complain_unarmed(struct recording *recording, const struct wm_session_status *status)
{
	if (status->sites || status->recorded ||
	    (!recording->session->probes->refusals.count && !status->refused))
		return 0;
	snprintf(recording->why, sizeof(recording->why), "%s", wm_error_text(-WM_E_ALL_REFUSED));
	complain(-WM_E_ALL_REFUSED, NULL);
	return 1;
}

/* While places are planned; Ctrl-C ends that, and the program continues without them. */
static int on_progress(const struct session_progress *plan, void *data)
{
	struct recording *recording = data;

	progress_plan(&recording->progress, plan);
	return child_interrupts() != 0;
}

/* For waymark control. */
static int folder_write(void *data, int is_rotation, const char **name)
{
	struct recording *recording = data;

	progress_clear(&recording->progress);
	return folder_plan_ask(&recording->plan, recording->session, is_rotation, name);
}

static int set_up(struct recording *recording)
{
	const struct record_options *options = recording->options;
	const struct targets *targets = &options->targets;
	int err = wm_session_open(&recording->session, &targets->session), has_none;

	if (err) {
		recording->error = err;
		complain(err, "a buffer of %llu bytes",
			 (unsigned long long)targets->session.buffer_bytes);
		return err;
	}
	recording->session->patience->watcher = (struct session_watcher){ on_progress, recording };
	for (size_t i = 0; i < options->specs.count && !err; i++)
		err = wm_session_add(recording->session, options->specs.all[i]);
	for (size_t i = 0; i < options->handlers.count && !err; i++)
		err = wm_session_handler_add(recording->session, options->handlers.all[i]);
	if (!err)
		err = folder_plan_is_used(&options->plan)
			      ? folder_plan_begin(&recording->plan, recording->session)
			      : wm_session_output(recording->session, options->dir);
	if (err)
		return fail(recording, err);
	control_begin(&recording->control, options->dir);
	recording->control.folder_write = folder_write;
	recording->control.data = recording;
	flight_set(&recording->flight, recording->session);
	err = targets_take_in(targets, recording->session, &recording->child);
	if (!err)
		err = wm_session_start(recording->session);
	progress_clear(&recording->progress);
	if (err)
		return fail(recording, err);
	session_findings(recording->session, 0, &recording->findings);
	has_none = !targets->command && has_unmatched(recording);
	print_findings(recording, 0);
	if (has_none)
		return recording->error = -WM_E_NO_MARKER;
	if (targets->command)
		return 0;
	if (is_all_refused(recording->session))
		return fail(recording, -WM_E_ALL_REFUSED);
	return 0;
}

/* Whether the program has ended, and with --wait-all its children too; `alive` are recorded now. */
static int is_over(struct recording *recording, int alive, uint64_t now_ns)
{
	if (!child_reap(&recording->child, WNOHANG))
		return 0;
	if (!recording->options->wait_all)
		return 1;
	/* a child that was forked last may not have said hello yet */
	if (alive || !recording->alive_ns)
		recording->alive_ns = now_ns;
	return now_ns - recording->alive_ns > CHILD_JOIN_NS;
}

/* The program has ended; say how many of its children still run, as those of a daemon do. */
static void complain_alive(struct recording *recording)
{
	uint64_t until = progress_elapsed_ns(&recording->progress) + STILL_RUN_NS;
	int alive;

	if (!recording->options->targets.command || recording->error || recording->child.pid)
		return;
	poll(NULL, 0, CHILD_JOIN_MS);
	do
		alive = wm_session_wait(recording->session, CHILD_JOIN_MS);
	while (alive > 0 && progress_elapsed_ns(&recording->progress) < until);
	if (alive < 0)
		fail(recording, alive);
	/* The recorder may be behind: do not count children that have ended. */
	if (alive > 0)
		alive = session_running(recording->session);
	progress_clear(&recording->progress);
	if (alive > 0)
		fprintf(stderr,
			"waymark: the recording ends with the program; %d recorded child process%s still run%s: use --wait-all to record until all have ended\n",
			alive, alive == 1 ? "" : "es", alive == 1 ? "s" : "");
}

/* Until the program or the time is over, Ctrl-C, or trouble. */
static void record(struct recording *recording)
{
	const struct record_options *options = recording->options;
	struct wm_session_status status = { .size = sizeof(status) };

	for (;;) {
		int alive = wm_session_wait(recording->session, POLL_MS), err;
		uint64_t now = progress_elapsed_ns(&recording->progress);

		if (alive < 0) {
			fail(recording, alive);
			return;
		}
		wm_session_status_get(recording->session, &status);
		progress_show(&recording->progress, &status,
			      session_held_events(recording->session));
		control_serve(&recording->control, recording->session);
		err = folder_plan_attend(&recording->plan, recording->session, &status,
					 &recording->progress);
		if (err) {
			fail(recording, err);
			return;
		}
		if (recording->session->live->fired.has)
			return;
		if (options->targets.command ? is_over(recording, alive, now) : alive == 0) {
			if (!options->wait_all)
				complain_alive(recording);
			return;
		}
		if (options->for_ns && now >= options->for_ns)
			return;
		if (child_is_interrupted(&recording->child, now))
			return;
	}
}

/* The session ends here; what is to be printed of it as JSON is kept. */
static void close_session(struct recording *recording, const struct wm_session_status *status)
{
	const struct finding *failure = findings_failure(&recording->findings);

	if (failure && !recording->why[0])
		snprintf(recording->why, sizeof(recording->why), "%s: %s", failure->subject,
			 failure->text);
	if (recording->options->json)
		progress_json(&recording->progress, status, recording->session,
			      recording->options->dir, &recording->flight, &recording->plan,
			      &recording->findings);
	findings_release(&recording->findings);
	wm_session_close(recording->session);
	guardian_release(&recording->guardian);
}

/* Returns the exit status: `result`, or that of a failure to write. */
static int sum_up_json(const struct recording *recording, int result)
{
	int err = recording->options->json ? progress_json_end(result, recording->why) : 0;

	return err ? complain(err, "standard output") : result;
}

/* unshare(1) runs with the agent in it, whose threads keep it from a user namespace. */
static void explain_unshare(const struct recording *recording,
			    const struct wm_session_status *status)
{
	char *const *command = recording->options->targets.command;

	if (!command || strcmp(name_last_part(command[0]), "unshare") != 0 ||
	    recording->child.status != 1 || status->recorded)
		return;
	fputs("waymark: if unshare failed with \"Invalid argument\": the agent's threads are in it, and only a process of one "
	      "thread gets a user namespace\n"
	      "  run waymark in the namespace: unshare OPTION... waymark record -- PROGRAM\n",
	      stderr);
}

static int finish(struct recording *recording, int had_dir)
{
	struct wm_session_status status = { .size = sizeof(status) };
	const struct record_options *options = recording->options;
	int has_folders = folder_plan_is_used(&options->plan);
	int result = CLI_FINE, has_sums = 0, has_trace, err, stopped;
	size_t first = recording->findings.count;
	struct drain_counts counts;

	err = folder_plan_end(&recording->plan, recording->session, recording->child.is_crashed,
			      recording->error != 0);
	stopped = wm_session_stop(recording->session);
	has_trace = has_folders ? recording->plan.folders.written != 0
				: flight_end(&recording->flight, recording->session);
	progress_clear(&recording->progress);
	err = err ? err : stopped;
	if (err && err != recording->error)
		fail(recording, err);
	wm_session_status_get(recording->session, &status);
	session_count(recording->session, &counts);
	if (has_trace || has_folders)
		progress_sum_up(&recording->progress, &status, recording->session->live,
				has_folders ? NULL : options->dir,
				recording->error ? WM_POLICY_DISCARD
						 : options->targets.session.policy,
				recording->error ? 0 : counts.crowded_out);
	if (has_folders)
		folder_plan_sum_up(&recording->plan, recording->session, recording->error != 0);
	watches_print(recording->session->watched);
	has_sums = has_trace && !has_folders && spec_sums(recording->session->specs);
	session_findings(recording->session, 1, &recording->findings);
	add_unmatched(recording);
	print_findings(recording, first);
	if (findings_failure(&recording->findings) || recording->error || recording->plan.failed ||
	    complain_unarmed(recording, &status))
		result = CLI_FAILED;
	close_session(recording, &status);
	if (has_sums && !options->json && (err = report_sums_of(options->dir, SUMS_SHOWN)))
		complain(err, "%s", options->dir);
	if (has_folders)
		folder_plan_release(&recording->plan, 0);
	else if (!has_trace)
		trace_remove(options->dir, had_dir);
	flight_tell(&recording->flight, options->dir);
	child_wait(&recording->child);
	explain_unshare(recording, &status);
	if (recording->child.status && !recording->error)
		result = recording->child.status;
	if (has_trace && options->compress && compress_recorded(options->dir) && result == CLI_FINE)
		result = CLI_FAILED;
	return sum_up_json(recording, result);
}

/* Nothing could be recorded, as nothing matched or all was refused: which, and why. */
static void add_refused(struct recording *recording)
{
	const struct probe_refusals *refusals = &recording->session->probes->refusals;
	size_t first = recording->findings.count;

	if (recording->error == -WM_E_NO_MARKER) {
		add_unmatched(recording);
		print_findings(recording, first);
		first = recording->findings.count;
	}
	probe_findings(recording->session, 1, &recording->findings);
	/* the reason of a single probe is printed already */
	if (recording->error == -WM_E_ALL_REFUSED ||
	    (recording->error == -WM_E_NO_MARKER &&
	     (recording->options->verbose || refusals->has_markers || refusals->count > 1)))
		print_findings(recording, first);
}

/* It did not come to recording: nothing may be left behind, neither a program nor a folder. */
static int give_up(struct recording *recording, int had_dir)
{
	struct wm_session_status status = { .size = sizeof(status) };
	int has_trace = recording->session && recording->session->dir;

	control_end(&recording->control);
	if (recording->child.pid) {
		kill(recording->child.pid, SIGKILL);
		/* who steps through it sees it end before we do */
		live_stop(recording->session);
		while (!child_reap(&recording->child, 0))
			;
	}
	if (recording->session) {
		status.refused = recording->session->refused;
		add_refused(recording);
	}
	close_session(recording, &status);
	if (folder_plan_is_used(&recording->plan))
		folder_plan_release(&recording->plan, 1);
	else if (has_trace || recording->options->made_dir)
		trace_remove(recording->options->dir, had_dir);
	return sum_up_json(recording, CLI_FAILED);
}

static int run(const struct record_options *options)
{
	struct recording recording = { .options = options,
				       .flight = options->flight,
				       .plan = options->plan,
				       .control = { .folder = -1, .listener = -1, .client = -1 },
				       .guardian = { .fd = -1 } };
	int had_dir = !options->made_dir && access(options->dir, F_OK) == 0;

	recording.plan.folders.dir = options->dir;
	recording.plan.folders.made_dir = options->made_dir;
	recording.plan.folders.fd = -1;
	child_catch_signals();
	progress_begin(&recording.progress);
	guardian_start(&recording.guardian, options->dir);
	if (set_up(&recording))
		return give_up(&recording, had_dir);
	/* after the program was started, which is to have the limit as it was */
	perf_descriptors_raise();
	progress_begin(&recording.progress);
	record(&recording);
	control_end(&recording.control);
	return finish(&recording, had_dir);
}

int cmd_record(int argc, char **argv)
{
	struct record_options options = { .targets.session = WM_SESSION_OPTIONS_INIT };
	int status;

	options.targets.session.allow_unmatched = 1;
	status = options_read(&options, argc, argv);

	if (status < 0)
		status = run(&options);
	free(options.specs.all);
	free(options.on.all);
	free(options.plan.specs.all);
	free(options.targets.pids.all);
	return status;
}
