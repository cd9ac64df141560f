/* SPDX-License-Identifier: MIT */
/* Watches as a source: through an agent, or from outside where there is none. */
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/unrecorded.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/figures.h"
#include "record/watch/later.h"
#include "record/watch/outside.h"
#include "record/watch/watching.h"

#include <string.h>
#include <waymark/error.h>

static int owns(const struct spec *spec)
{
	return spec->watch != NULL;
}

static int attach(struct wm_session *session, pid_t pid, int error)
{
	if (error ? !outside_serves(session, error) : !outside_is_all(session))
		return 1;
	return outside_attach(session, pid, error);
}

static int launch(struct wm_session *session, const char *path, char *const argv[], int error)
{
	if (error ? !outside_serves(session, error) : !outside_is_all(session))
		return 0;
	return outside_launch(session, path, argv, error);
}

static int message(struct wm_session *session, struct process *process,
		   const struct link_message *message)
{
	struct control_watch_table table;
	struct control_watch_lost lost;

	switch (message->type) {
	case CONTROL_WATCH_TABLE:
		if (message->bytes < sizeof(table))
			return -WM_E_PROTOCOL;
		memcpy(&table, message->body, sizeof(table));
		process->kept_at = table.kept_at;
		live_keep_at(session, process);
		return watching_table(process, message->fd, table.bytes);
	case CONTROL_WATCH_LOST:
		if (message->bytes < sizeof(lost))
			return -WM_E_PROTOCOL;
		memcpy(&lost, message->body, sizeof(lost));
		watching_lost(session, process, lost.error);
		return 0;
	default:
		return 1;
	}
}

static int take(struct wm_session *session, struct process *process)
{
	int count = 0, err = outside_pump(session, process, &count);

	if (err == -WM_E_GONE) {
		/* take its last hits before the store is drained for the last time */
		watching_end(session, process);
	} else if (err) {
		watching_lost(session, process, err);
		process_hang_up(process, -WM_E_GONE);
	}
	return count;
}

static int module_came(struct wm_session *session, struct process *process, uint64_t base,
		       const char *path)
{
	(void)path;
	return later_module_came(session, process, base);
}

static void go(struct process *process)
{
	if (process->outside)
		outside_go(process);
}

static void forget(struct process *process)
{
	watching_drop(process);
	outside_free(process);
}

static int quiet(struct wm_session *session, struct process *process)
{
	watching_end(session, process);
	return 0;
}

static void results(struct wm_session *session)
{
	figures_write(session->watched, session->writer);
}

static void release(struct wm_session *session)
{
	watched_list_release(session->watched);
}

const struct source watch_source = {
	.owns = owns,
	.has_agent = 1,
	.arm = watching_arm,
	.attach = attach,
	.launch = launch,
	.welcome = later_welcome,
	.attend = later_attend,
	.message = message,
	.take = take,
	.module_came = module_came,
	.module_gone = watching_module_gone,
	.go = go,
	.lost = watching_lost,
	.forget = forget,
	.quiet = quiet,
	.results = results,
	.release = release,
};
