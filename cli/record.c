/* SPDX-License-Identifier: MIT */
#include "base/name_match.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/compress.h"
#include "cli/guardian.h"
#include "cli/origins.h"
#include "cli/outcome.h"
#include "cli/outcome_kernel.h"
#include "cli/outcome_watch.h"
#include "cli/progress.h"
#include "cli/record_options.h"
#include "cli/tree.h"
#include "cli/watch_stop.h"
#include "record/perf/descriptors.h"
#include "record/probe/probes.h"
#include "record/session/patience.h"
#include "record/session/session.h"
#include "record/session/unrecorded.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/watches.h"
#include "trace/folder.h"
#include "trace/index.h"
#include "trace/kernel_names.h"
#include "trace/perf_map.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define POLL_MS 50
#define CHILD_JOIN_MS 20	  /* for the hello of a child that was forked last */
#define CHILD_JOIN_NS 200000000u  /* the same, with --wait-all */
#define STILL_RUN_NS 1000000000u  /* for children that have ended, or are about to, to be drained */
#define CHILD_WAIT_NS 2000000000u /* after Ctrl-C, for the program to end while still recorded */

struct recording {
	const struct record_options *options;
	struct flight flight;
	struct wm_session *session;
	struct guardian guardian;
	struct progress progress;
	struct child child;
	struct probes probes;		   /* of the session, once it is closed; for --json */
	struct unrecorded_list unrecorded; /* likewise */
	struct watched_list watched;
	int error;	   /* what ended the recording early */
	char why[1200];	   /* in words, for --json */
	uint64_t alive_ns; /* --wait-all: when a process was recorded last */
};

/* ---- recording ---- */

/* Keep the reason, say it. Returns the error. */
static int fail(struct recording *recording, int error)
{
	const char *detail = wm_session_detail(recording->session);
	char where[256];

	if (!detail[0] && recording->flight.watch)
		detail = wm_session_detail(recording->flight.watch);
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

	return !wm_session_status_get(session, &status) && !status.sites && !status.markers &&
	       (session->probes->refusals.count || status.refused) &&
	       !spec_count_watches(session->specs) && !live_is_wanted(session);
}

/*
 * Of a running process all is there to be seen, except what a module may bring later. Whether all
 * that is missing may come, which is said then.
 */
static int await_modules(struct recording *recording)
{
	const struct spec_list *specs = recording->session->specs;

	if (recording->options->is_default || recording->flight.watch)
		return 0;
	for (size_t i = 0; i < specs->count; i++)
		if (spec_missing(&specs->all[i]) && !outcome_may_come(&specs->all[i]))
			return 0;
	for (size_t i = 0; i < specs->count; i++) {
		int error = spec_missing(&specs->all[i]);

		if (!error)
			continue;
		complain_words("waymark: %s: %s: waiting for a module that has it",
			       specs->all[i].text, wm_error_text(error));
		fputc('\n', stderr);
	}
	return 1;
}

/* Returns how many specs came to nothing. */
static size_t complain_unmatched(struct recording *recording)
{
	progress_clear(&recording->progress);
	if (patience_is_over(recording->session))
		return 0; /* its outcome is unknown */
	if (recording->flight.watch)
		return outcome_unmatched(recording->flight.watch->specs,
					 recording->flight.watch->names, 1, recording->why,
					 sizeof(recording->why));
	return outcome_unmatched(recording->session->specs, recording->session->names, 1,
				 recording->why, sizeof(recording->why));
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

static void complain_unfollowed(const struct recording *recording, const struct live_counts *counts)
{
	const struct natives *natives = &recording->session->live->natives;
	uint64_t rest = counts->unfollowed;

	for (int why = 0; why < ENGINE_UNFOLLOWEDS; why++) {
		uint32_t count = natives->unfollowed[why];

		if (count)
			fprintf(stderr, "waymark: %u child process%s went on unrecorded: %s\n",
				count, count == 1 ? "" : "es",
				native_unfollowed_words((enum engine_unfollowed)why));
		rest -= count < rest ? count : rest;
	}
	if (!rest)
		return;
	fprintf(stderr,
		"waymark: %llu child process%s went on unrecorded: ", (unsigned long long)rest,
		rest == 1 ? "" : "es");
	if (counts->processes >= counts->followed_max)
		fprintf(stderr,
			"at most %u processes are followed at a time; run fewer at once, "
			"or see \"CHILDREN\" in waymark-trail(7) for other causes\n",
			counts->followed_max);
	else if (recording->options->pid_count && recording->session->live->origin == ORIGIN_SOFT)
		fputs("trail/soft/ follows no children of a program that was running before; "
		      "launch it, or use trail/step/\n",
		      stderr);
	else
		fputs("\"CHILDREN\" in waymark-trail(7) has the causes\n", stderr);
}

static void complain_trails(const struct recording *recording)
{
	struct live_counts counts;

	live_counts(recording->session, &counts);
	if (counts.foreign)
		fprintf(stderr,
			"waymark: %u process%s executed a program that is not x86-64; the trail ends there\n",
			counts.foreign, counts.foreign == 1 ? "" : "es");
	if (counts.privileged)
		fprintf(stderr,
			"waymark: %llu process%s executed a program that gains rights; the trail ends there\n",
			(unsigned long long)counts.privileged, counts.privileged == 1 ? "" : "es");
	if (counts.unfollowed)
		complain_unfollowed(recording, &counts);
	if (counts.untrapped)
		fprintf(stderr,
			"waymark: %llu process%s ignored SIGTRAP; now it would end %s: %s\n",
			(unsigned long long)counts.untrapped, counts.untrapped == 1 ? "" : "es",
			counts.untrapped == 1 ? "it" : "them",
			counts.untrapped_error == -WM_E_SECCOMP
				? "its system calls are filtered"
				: wm_error_text(counts.untrapped_error));
}

static int take_in(struct recording *recording)
{
	const struct record_options *options = recording->options;
	int awaits_marker = recording->flight.trigger == TRIGGER_CALL, err = 0;

	for (size_t i = 0; i < options->pid_count && !err; i++) {
		if (awaits_marker)
			err = flight_attach(&recording->flight, options->pids[i]);
		if (!err)
			err = wm_session_attach(recording->session, options->pids[i]);
	}
	for (size_t i = 0; i < options->pid_count && !err && options->tree; i++)
		err = tree_take_in(recording->session, options->pids[i]);
	if (err < 0)
		return fail(recording, err);
	if (!options->command)
		return 0;
	err = awaits_marker ? flight_launch(&recording->flight, options->command)
			    : wm_session_launch(recording->session, options->command);
	if (err < 0)
		return fail(recording, err);
	recording->child.pid = err;
	/* it is in its agent, which waits for this command */
	err = awaits_marker ? wm_session_attach(recording->session, recording->child.pid) : 0;
	return err ? fail(recording, err) : 0;
}

/* While places are planned; Ctrl-C ends that, and the program continues without them. */
static int on_progress(const struct session_progress *plan, void *data)
{
	struct recording *recording = data;

	progress_plan(&recording->progress, plan);
	return child_interrupts() != 0;
}

static int set_up(struct recording *recording)
{
	const struct record_options *options = recording->options;
	int err = wm_session_open(&recording->session, &options->session);

	if (err) {
		recording->error = err;
		complain(err, "a buffer of %llu bytes",
			 (unsigned long long)options->session.buffer_bytes);
		return err;
	}
	recording->session->patience->watcher = (struct session_watcher){ on_progress, recording };
	for (size_t i = 0; i < options->spec_count; i++) {
		err = wm_session_add(recording->session, options->specs[i]);
		if (err)
			return fail(recording, err);
	}
	err = wm_session_output(recording->session, options->dir);
	if (err)
		return fail(recording, err);
	flight_set(&recording->flight, recording->session);
	err = take_in(recording);
	if (err)
		return err;
	err = wm_session_start(recording->session);
	if (!err)
		err = flight_start(&recording->flight);
	progress_clear(&recording->progress);
	if (err)
		return fail(recording, err);
	origins_tell(recording->session, options->verbose);
	outcome_ways(recording->session);
	outcome_unclaimed(recording->session);
	outcome_clock();
	outcome_waiting(recording->session);
	outcome_kernel(recording->session);
	watch_stops_complain(recording->session);
	if (!options->command && !await_modules(recording) && complain_unmatched(recording)) {
		if (options->verbose || recording->session->probes->refusals.count > 1)
			outcome_refusals(recording->session, options->verbose);
		return recording->error = -WM_E_NO_MARKER;
	}
	if (!options->command && is_all_refused(recording->session)) {
		outcome_refusals(recording->session, options->verbose);
		return fail(recording, -WM_E_ALL_REFUSED);
	}
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
	if (alive)
		recording->alive_ns = now_ns;
	return now_ns - recording->alive_ns > CHILD_JOIN_NS;
}

/* The program has ended; say how many of its children still run, as those of a daemon do. */
static void complain_alive(struct recording *recording)
{
	uint64_t until = progress_elapsed_ns(&recording->progress) + STILL_RUN_NS;
	int alive;

	if (!recording->options->command || recording->error || recording->child.pid)
		return;
	poll(NULL, 0, CHILD_JOIN_MS);
	do
		alive = wm_session_wait(recording->session, CHILD_JOIN_MS);
	while (alive > 0 && progress_elapsed_ns(&recording->progress) < until);
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
	uint64_t asked_ns = 0; /* when Ctrl-C was first seen */

	for (;;) {
		int alive = wm_session_wait(recording->session, POLL_MS);
		uint64_t now = progress_elapsed_ns(&recording->progress);
		int err;

		if (alive < 0) {
			fail(recording, alive);
			return;
		}
		wm_session_status_get(recording->session, &status);
		progress_show(&recording->progress, &status,
			      session_held_events(recording->session));
		err = flight_poll(&recording->flight, recording->session);
		if (err < 0) {
			fail(recording, err);
			return;
		}
		if (recording->session->live->fired.has)
			return;
		if (options->command ? is_over(recording, alive, now) : alive == 0) {
			if (!options->wait_all)
				complain_alive(recording);
			return;
		}
		if (options->for_ns && now >= options->for_ns)
			return;
		if (!child_interrupts())
			continue;
		child_pass_signal_on(&recording->child);
		asked_ns = asked_ns ? asked_ns : now;
		if (!recording->child.pid || child_interrupts() > 1 ||
		    now - asked_ns > CHILD_WAIT_NS)
			return;
	}
}

/*
 * Maps of JIT code; and what a folder that we have made has of streams: of a process that was
 * recorded until another could not be.
 */
static void remove_processes(DIR *list, int with_streams)
{
	struct dirent *entry;

	while ((entry = readdir(list))) {
		const char *name = entry->d_name;

		if (perf_map_is_name(name) || (with_streams && !name[strspn(name, "0123456789-")]))
			unlinkat(dirfd(list), name, 0);
	}
}

/* It did not come to a recording: take away what was made for it. */
static void remove_trace(const char *dir, int had_dir)
{
	int folder = folder_open(dir); /* its parent's owner may have put another in its place */
	DIR *list = folder < 0 ? NULL : fdopendir(folder);

	if (!list)
		return;
	unlinkat(folder, "metadata", 0);
	unlinkat(folder, INDEX_NAME, 0);
	unlinkat(folder, KERNEL_NAMES_FILE, 0);
	remove_processes(list, !had_dir);
	if (!had_dir)
		rmdir(dir);
	closedir(list);
}

/* The session ends here, except for the report of its probes. */
static void close_session(struct recording *recording)
{
	if (recording->session) {
		recording->probes = *recording->session->probes;
		*recording->session->probes = (struct probes){ 0 };
		recording->unrecorded = *recording->session->unrecorded;
		*recording->session->unrecorded = (struct unrecorded_list){ 0 };
		recording->watched = *recording->session->watched;
		*recording->session->watched = (struct watched_list){ 0 };
	}
	wm_session_close(recording->session);
	flight_release(&recording->flight);
	guardian_release(&recording->guardian);
}

/* Returns the exit status: `result`, or that of a failure to write. */
static int sum_up_json(struct recording *recording, const struct wm_session_status *status,
		       int result)
{
	int err = 0;

	if (recording->options->json)
		err = progress_sum_up_json(&recording->progress, status, recording->options->dir,
					   result, recording->why, &recording->probes,
					   &recording->unrecorded, &recording->watched,
					   &recording->flight);
	probes_release(&recording->probes);
	unrecorded_release(&recording->unrecorded);
	watched_list_release(&recording->watched);
	return err ? complain(err, "standard output") : result;
}

/* unshare(1) runs with the agent in it, whose threads keep it from a user namespace. */
static void explain_unshare(const struct recording *recording,
			    const struct wm_session_status *status)
{
	char *const *command = recording->options->command;

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
	int err = wm_session_stop(recording->session), result = CLI_FINE;
	int has_trace = flight_end(&recording->flight, recording->session);
	size_t unwatched;

	progress_clear(&recording->progress);
	if (err && err != recording->error)
		fail(recording, err);
	wm_session_status_get(recording->session, &status);
	recording->progress.trail_way = origins_way(recording->session->live);
	recording->progress.live = recording->session->live;
	if (has_trace)
		progress_sum_up(&recording->progress, &status, options->dir,
				recording->error ? WM_POLICY_DISCARD : options->session.policy,
				recording->error ? 0 : session_crowded_out(recording->session));
	origins_tell_natives(recording->session->live);
	origins_tell_losses(recording->session->live);
	outcome_ambiguous(recording->session);
	outcome_refusals(recording->session, options->verbose);
	outcome_unstoppable(recording->session->probes, options->verbose);
	outcome_foreign(recording->session->probes, options->verbose);
	outcome_unrecorded(recording->session->unrecorded);
	outcome_watches(recording->session->watched);
	outcome_kernel_end(recording->session);
	unwatched = recording->error ? 0 : outcome_unwatched(recording->session);
	complain_trails(recording);
	if (recording->session->probes->refusals.has_markers && !options->verbose &&
	    wm_session_detail(recording->session)[0]) {
		complain_words("waymark: refused last: %s", wm_session_detail(recording->session));
		fputc('\n', stderr);
	}
	if (complain_unmatched(recording) || unwatched || recording->error ||
	    complain_unarmed(recording, &status))
		result = CLI_FAILED;
	close_session(recording);
	if (!has_trace)
		remove_trace(options->dir, had_dir);
	flight_tell(&recording->flight, options->dir);
	child_wait(&recording->child);
	explain_unshare(recording, &status);
	if (recording->child.status && !recording->error)
		result = recording->child.status;
	if (recording->child.pid && !recording->error && child_interrupts())
		result = 128 + SIGINT;
	if (has_trace && options->compress && compress_recorded(options->dir) && result == CLI_FINE)
		result = CLI_FAILED;
	return sum_up_json(recording, &status, result);
}

/* It did not come to recording: nothing may be left behind, neither a program nor a folder. */
static int give_up(struct recording *recording, int had_dir)
{
	struct wm_session_status status = { .size = sizeof(status) };
	int has_trace = recording->session && recording->session->dir;

	if (recording->session)
		status.refused = recording->session->refused;
	if (recording->child.pid) {
		kill(recording->child.pid, SIGKILL);
		/* who steps through it sees it end before we do */
		live_stop(recording->session);
		while (!child_reap(&recording->child, 0))
			;
	}
	close_session(recording);
	if (has_trace || recording->options->made_dir)
		remove_trace(recording->options->dir, had_dir);
	return sum_up_json(recording, &status, CLI_FAILED);
}

static int run(const struct record_options *options)
{
	struct recording recording = { .options = options,
				       .flight = options->flight,
				       .guardian = { .fd = -1 } };
	int had_dir = !options->made_dir && access(options->dir, F_OK) == 0;

	child_catch_signals();
	progress_begin(&recording.progress);
	guardian_start(&recording.guardian, options->dir);
	if (set_up(&recording))
		return give_up(&recording, had_dir);
	/* after the program was started, which is to have the limit as it was */
	descriptors_raise();
	progress_begin(&recording.progress);
	record(&recording);
	return finish(&recording, had_dir);
}

int cmd_record(int argc, char **argv)
{
	struct record_options options;
	int status = record_options_parse(&options, argc, argv);

	if (status < 0)
		status = run(&options);
	record_options_release(&options);
	return status;
}
