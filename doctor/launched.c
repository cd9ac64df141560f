/* SPDX-License-Identifier: MIT */
#include "doctor/launched.h"

#include "session/process.h"
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/trail.h>

#define TRAIL_BYTES (1u << 20)
#define TRAIL_WAIT_MS 20000

static void streams_to_nowhere(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* As `waymark record` does it before it arms markers. */
static void launch(struct launched *launched, char *const argv[])
{
	struct wm_session *session;
	int pid = wm_session_open(&session, NULL);

	if (pid < 0) {
		launched->error = pid;
		return;
	}
	pid = wm_session_launch(session, argv);
	if (pid < 0) {
		launched->error = pid;
		snprintf(launched->words, sizeof(launched->words), "%s",
			 wm_session_detail(session));
	} else if (session->processes) {
		launched->way = session->processes->hello.way;
	}
	wm_session_close(session);
	if (pid > 0)
		end(pid);
}

static void record(struct launched *launched, char *const argv[])
{
	const struct wm_trail_options options = { .size = sizeof(options),
						  .bytes = TRAIL_BYTES,
						  .cap_bytes = TRAIL_BYTES,
						  .origin = WM_TRAIL_ORIGIN_SOFT };
	struct wm_trail_status status = { .size = sizeof(status) };
	struct wm_trail *trail;
	int pid = wm_trail_launch(&trail, argv, &options);

	if (pid < 0) {
		launched->error = pid;
		snprintf(launched->words, sizeof(launched->words), "%s", wm_trail_detail(NULL));
		return;
	}
	if (!wm_trail_wait(trail, TRAIL_WAIT_MS))
		launched->error = -ETIMEDOUT;
	wm_trail_status_get(trail, &status);
	launched->branches = status.branches + status.lost;
	if (!launched->error && status.state == WM_TRAIL_STATE_FAILED)
		launched->error = status.error;
	if (launched->error)
		snprintf(launched->words, sizeof(launched->words), "%s", wm_trail_detail(trail));
	wm_trail_close(trail);
	end(pid);
}

/* In a process of its own: its streams are discarded, and a session's changes end with it. */
static void apart(struct launched *launched, char *const argv[],
		  void (*how)(struct launched *launched, char *const argv[]))
{
	int ends[2];
	pid_t pid;

	*launched = (struct launched){ .error = -WM_E_AGENT_SILENT };
	if (pipe2(ends, O_CLOEXEC) < 0) {
		launched->error = -errno;
		return;
	}
	pid = fork();
	if (!pid) {
		launched->error = 0;
		streams_to_nowhere();
		how(launched, argv);
		_exit(write(ends[1], launched, sizeof(*launched)) < 0);
	}
	close(ends[1]);
	if (pid < 0)
		launched->error = -errno;
	else if (read(ends[0], launched, sizeof(*launched)) != (ssize_t)sizeof(*launched))
		launched->error = -ECANCELED;
	close(ends[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void launched_try(struct launched *launched, char *const argv[])
{
	apart(launched, argv, launch);
}

void launched_record(struct launched *launched, char *const argv[])
{
	apart(launched, argv, record);
}
