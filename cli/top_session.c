/* SPDX-License-Identifier: MIT */
#include "cli/top_session.h"

#include "cli/cli.h"
#include "cli/findings.h"
#include "cli/output.h"
#include "cli/top_screen.h"
#include "record/perf/count_event.h"
#include "record/perf/instance.h"
#include "record/spec/spec.h"
#include "record/watch/watches.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

/* By default. The first needs an agent in the program; the others are the kernel's. */
static const struct {
	const char *spec;
	const char *counts; /* an event that the kernel has to permit; NULL: none */
} defaults[] = {
	{ "marker:*:*", NULL },
	{ "sample:cpu-clock/freq=100/", "cpu-clock" },
	{ "switch", "task-clock" },
};

#define DEFAULTS (sizeof(defaults) / sizeof(defaults[0]))
#define OF_MARKERS 1u

/* ---- which events ---- */

static void leave_out(struct top_session *recorded, const char *spec, const char *why)
{
	size_t used = strlen(recorded->left_out);

	snprintf(recorded->left_out + used, sizeof(recorded->left_out) - used, "%s%s: %s",
		 used ? "; " : "", spec, why);
}

/* Leave the `wanted` ones out, for an error of the session. */
static void leave_out_all(struct top_session *recorded, unsigned int wanted, int error)
{
	const char *detail = wm_session_detail(recorded->session);
	char specs[128] = "", why[384];

	for (size_t i = 0; i < DEFAULTS; i++)
		if (wanted >> i & 1)
			snprintf(specs + strlen(specs), sizeof(specs) - strlen(specs), "%s%s",
				 specs[0] ? " " : "", defaults[i].spec);
	snprintf(why, sizeof(why), "%s%s%.250s", wm_error_text(error), detail[0] ? ": " : "",
		 detail);
	leave_out(recorded, specs, why);
}

/* Those that the kernel lets us have of ourselves. */
static unsigned int defaults_permitted(struct top_session *recorded,
				       const struct top_options *options)
{
	unsigned int wanted = 0;

	for (size_t i = 0; i < DEFAULTS; i++) {
		char words[256] = "";
		struct detail detail = { words, sizeof(words) };
		struct count_event event;
		int err = 0;

		if (!defaults[i].counts && !options->targets.command &&
		    !options->targets.pids.count)
			continue; /* CPUs have no markers */
		if (defaults[i].counts)
			err = count_event_read(&event, defaults[i].counts, detail);
		if (!err && defaults[i].counts)
			err = count_event_probe(&event, detail);
		if (err)
			leave_out(recorded, defaults[i].spec,
				  words[0] ? words : wm_error_text(err));
		else
			wanted |= 1u << i;
	}
	return wanted;
}

static int specs_add(struct top_session *recorded, const struct top_options *options,
		     unsigned int wanted)
{
	int err = 0;

	for (size_t i = 0; i < options->specs.count && !err; i++)
		err = wm_session_add(recorded->session, options->specs.all[i]);
	for (size_t i = 0; i < DEFAULTS && !err; i++)
		if (wanted >> i & 1)
			err = wm_session_add(recorded->session, defaults[i].spec);
	recorded->has_switches = recorded->has_kernel = 0;
	for (size_t i = 0; i < recorded->session->specs->count; i++) {
		const char *text = recorded->session->specs->all[i].text;

		recorded->has_switches |= !strcmp(text, "switch");
		recorded->has_kernel |= recorded->session->specs->all[i].kernel != NULL;
	}
	return err;
}

/* ---- the program ---- */

static int put_in_place(int fd, int place)
{
	int kept = fcntl(place, F_DUPFD_CLOEXEC, 3);

	if (kept >= 0 && dup2(fd, place) < 0) {
		close(kept);
		return -1;
	}
	return kept;
}

static void put_back(int kept, int place)
{
	if (kept < 0)
		return;
	dup2(kept, place);
	close(kept);
}

/*
 * Start it. Its output is kept out of the tables: what it writes to standard output goes to a file,
 * and so does standard error where that is the terminal. It does not read the keys.
 */
static int launch(struct top_session *recorded, const struct top_options *options)
{
	int draws = !options->json && top_screen_is_fit();
	int kept[3] = { -1, -1, -1 }, out, in, err;

	recorded->output = options->output ? options->output : "/dev/null";
	recorded->says_output = 1;
	out = output_open_ready(recorded->output, O_WRONLY | O_CREAT | O_TRUNC);
	if (out < 0)
		return session_fail(recorded->session, out, "%s", recorded->output);
	in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	kept[1] = put_in_place(out, STDOUT_FILENO);
	if (draws && isatty(STDERR_FILENO))
		kept[2] = put_in_place(out, STDERR_FILENO);
	if (draws && in >= 0 && isatty(STDIN_FILENO))
		kept[0] = put_in_place(in, STDIN_FILENO);
	err = targets_take_in(&options->targets, recorded->session, &recorded->child);
	for (int i = 0; i < 3; i++)
		put_back(kept[i], i);
	close(out);
	if (in >= 0)
		close(in);
	return err;
}

/* ---- the session ---- */

/* *starts: the error came when all processes were in it. */
static int make(struct top_session *recorded, const struct top_options *options,
		unsigned int wanted, int *starts)
{
	int err = wm_session_open(&recorded->session, &options->targets.session);

	*starts = 0;
	if (!err)
		err = specs_add(recorded, options, wanted);
	if (!err)
		err = options->targets.command
			      ? launch(recorded, options)
			      : targets_take_in(&options->targets, recorded->session,
						&recorded->child);
	if (err)
		return err;
	/* after the program was started, which is to have the limit as it was */
	perf_descriptors_raise();
	*starts = 1;
	return wm_session_start(recorded->session);
}

/* It did not come to a session: no program is left behind. */
static int give_up(struct top_session *recorded, int err)
{
	const char *detail = wm_session_detail(recorded->session);

	complain(err, "%s", detail[0] ? detail : "preparing to look");
	child_kill(&recorded->child);
	wm_session_close(recorded->session);
	return CLI_FAILED;
}

static void name_what(struct top_session *recorded, const struct top_options *options)
{
	const char *cpus = options->targets.session.cpus, *cgroup = options->targets.session.cgroup;
	const struct command_ids *pids = &options->targets.pids;
	char **command = options->targets.command, *text = recorded->what;
	size_t bytes = sizeof(recorded->what), at;

	if (command) {
		at = (size_t)snprintf(text, bytes, "%s", command[0]);
		for (char **word = command + 1; *word && at < bytes; word++)
			at += (size_t)snprintf(text + at, bytes - at, " %s", *word);
		return;
	}
	if (!pids->count) {
		snprintf(text, bytes, "%s%s%s%s", strcmp(cpus, "all") ? "CPUs " : "all CPUs",
			 strcmp(cpus, "all") ? cpus : "", cgroup ? ", cgroup " : "",
			 cgroup ? cgroup : "");
		return;
	}
	at = (size_t)snprintf(text, bytes, "process%s", pids->count > 1 ? "es" : "");
	for (size_t i = 0; i < pids->count && at < bytes; i++)
		at += (size_t)snprintf(text + at, bytes - at, "%s %d", i ? "," : "",
				       (int)pids->all[i]);
}

int top_session_begin(struct top_session *recorded, const struct top_options *options)
{
	unsigned int wanted = options->specs.count ? 0 : defaults_permitted(recorded, options);
	struct findings findings = { 0 };
	int starts, err;

	name_what(recorded, options);
	if (!options->specs.count && !wanted) {
		complain_words("waymark: nothing is permitted that top records by default: %s\n",
			       recorded->left_out);
		return CLI_FAILED;
	}
	err = make(recorded, options, wanted, &starts);
	while (err && wanted && !recorded->child.pid) {
		/* an agent that can't come in, or events that the kernel refuses */
		unsigned int without = starts ? wanted & ~OF_MARKERS : wanted & OF_MARKERS;

		if (!without || without == wanted)
			break;
		leave_out_all(recorded, without, err);
		wm_session_close(recorded->session);
		recorded->session = NULL;
		wanted &= ~without;
		err = make(recorded, options, wanted, &starts);
	}
	if (err)
		return give_up(recorded, err);
	if (recorded->left_out[0]) {
		complain_words("waymark: without %s\n", recorded->left_out);
	}
	if (options->targets.command && !options->output) {
		complain_words("waymark: the output of %s goes to /dev/null; --output keeps it\n",
			       options->targets.command[0]);
	}
	watch_findings(recorded->session, 0, &findings);
	findings_print(&findings, 0, 0);
	findings_release(&findings);
	if (options->specs.count && !options->targets.command &&
	    findings_unmatched(recorded->session->specs, recorded->session->names, 1)) {
		wm_session_close(recorded->session);
		return CLI_FAILED;
	}
	return CLI_FINE;
}

int top_session_end(struct top_session *recorded, int result)
{
	struct child *child = &recorded->child;

	wm_session_close(recorded->session);
	if (!child_reap(child, WNOHANG) && !child_interrupts())
		fprintf(stderr, "waymark: the program (process %d) runs on; Ctrl-C ends it\n",
			(int)child->pid);
	child_wait(child);
	if (child->status && result == CLI_FINE)
		result = child->status;
	return result;
}
