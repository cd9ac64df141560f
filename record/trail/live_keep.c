/* SPDX-License-Identifier: MIT */
/*
 * Keep a flight recorder's content whenever a watch with the option `trail` is hit. At such a hit,
 * the thread calls a function of the agent (abi/watch.h), which is in the thread's own trail: so
 * the place of the hit among the blocks is exact. How far back the trail reaches depends on the
 * recorder's size.
 */
#include "record/trail/live.h"
#include "record/session/process.h"
#include "record/trail/live_process.h"
#include "record/spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <waymark/error.h>

#define KEPT_MAX 64u /* hits kept in a session: each may be as large as the recorder */
#define AGENT_NAME "libwaymark-agent.so"

static const struct spec *keeper_of(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].watch && session->specs->all[i].watch->options.trail)
			return &session->specs->all[i];
	return NULL;
}

int live_keep_ready(struct wm_session *session)
{
	const struct trail_request *request = spec_trail(session->specs);
	const struct spec *keeper = keeper_of(session);
	struct only_names *only = &session->live->keeps_only;

	if (!keeper || session->live->keeps)
		return 0;
	if (session->live->processes)
		return session_fail(session, -EBUSY, "%s: a program is recorded already",
				    keeper->text);
	if (!request || !request->last_bytes)
		return session_fail(session, -WM_E_WATCH_OPTION,
				    "%s: trail needs a flight recorder: -e trail/last=64M/; "
				    "without last= all of a trail is kept",
				    keeper->text);
	if (request->only.count == ONLY_NAMES_MAX)
		return session_fail(
			session, -WM_E_SPEC,
			"%s: only= names as many modules as it can, and one must be left "
			"for " AGENT_NAME,
			keeper->text);
	session->live->keeps = 1;
	*only = request->only;
	if (only->count)
		snprintf(only->names[only->count++], ONLY_NAME_BYTES, "%s", AGENT_NAME);
	return 0;
}

/* The block just put is the agent's function: the blocks before it led to the hit. */
static void keep(void *data, pid_t pid, pid_t tid)
{
	struct live_process *process = live_process_of(data);
	struct live *live = process->session->live;
	int err;

	(void)pid;
	(void)tid;
	if (live->kept == KEPT_MAX) {
		live->unkept++;
		return;
	}
	live->kept++;
	err = kept_take(&process->kept, process->store);
	if (!err)
		err = trail_files_flush(&process->files);
	if (err && !process->tracer.wire.error)
		process->tracer.wire.error = err;
}

void live_keep_begin(struct live_process *process)
{
	if (!process->session->live->keeps || !process->store)
		return;
	kept_init(&process->kept, &process->files.sink);
	process->tracer.wire.on_sought = keep;
}

int live_keep_end(struct live_process *process)
{
	struct trail_store_status status;

	trail_store_status(process->store, &status);
	process->session->live->forgotten += status.blocks;
	trail_store_clear(process->store);
	return kept_end(&process->kept);
}

void live_keep_at(struct wm_session *session, const struct process *process)
{
	for (struct live_process *live = session->live->processes; live; live = live->next)
		if (live->pid == process->pid && live->tracer.wire.on_sought)
			wire_out_seek(&live->tracer.wire, process->kept_at);
}
