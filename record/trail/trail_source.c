/* SPDX-License-Identifier: MIT */
/* The trail as a source. */
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "target/process/launch.h"
#include "trace/writer.h"

static int owns(const struct spec *spec)
{
	return spec->trail != NULL;
}

/* Tell the trace's readers what a killed recorder takes with it. */
static int prepare(struct wm_session *session)
{
	const struct trail_request *trail = spec_trail(session->specs);
	int err = live_keep_ready(session);

	if (err || !session->writer || !trail || !trail->last_bytes ||
	    session->options.policy == WM_POLICY_CYCLIC)
		return err;
	err = trace_in_memory_add(session->writer, "branches");
	return err ? session_fail(session, err, "%s", session->dir) : 0;
}

static int arm(struct wm_session *session, struct process *process)
{
	return live_join(session, process);
}

static void status(const struct wm_session *session, struct wm_session_status *status)
{
	struct live_counts trails;

	live_counts(session, &trails);
	status->trail_instructions = trails.instructions;
	status->trail_blocks = trails.blocks;
	status->trail_lost = trails.lost;
	status->trail_threads = trails.threads;
	status->trail_processes = trails.processes;
	status->trail_unfollowed = trails.unfollowed;
	status->trail_unwritten = trails.unwritten;
	status->trail_unwritten_threads = trails.unwritten_threads;
	status->trail_words_bytes = trails.words * sizeof(uint32_t);
}

static int attach(struct wm_session *session, pid_t pid, int error)
{
	return error || !live_is_all(session) ? 1 : live_attach(session, pid);
}

static int launch(struct wm_session *session, const char *path, char *const argv[], int error)
{
	(void)path;
	(void)error; /* it may be about an agent alone */
	return live_is_all(session) ? live_launch(session, argv) : 0;
}

static int admit(struct wm_session *session, struct launch_options *launch)
{
	if (!launch)
		return live_joins(session);
	launch->is_traced |= live_is_wanted(session);
	return live_ready(session);
}

/* A program that the recorder runs from its start. */
static int start(struct wm_session *session, const char *path, char *const argv[],
		 const struct launch_options *launch)
{
	struct launch_environment environment;
	int pid;

	if (!live_launches(session))
		return 0;
	pid = launch_environment_make(&environment, launch);
	pid = pid ? pid : live_launch_with(session, path, argv, environment.list);
	launch_environment_release(&environment);
	return pid;
}

const struct source trail_source = {
	.owns = owns,
	.prepare = prepare,
	.arm = arm,
	.begin = live_start,
	.pump = live_pump,
	.waits = live_waits,
	.alive = live_count,
	.running = live_running,
	.status = status,
	.attach = attach,
	.launch = launch,
	.admit = admit,
	.start = start,
	.leave = live_stop,
	.release = live_release,
};
