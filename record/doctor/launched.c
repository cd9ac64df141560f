/* SPDX-License-Identifier: MIT */
/*
 * A program started with the agent, or under the engine, to see whether that works. In a process of
 * its own: the program's output is discarded, and a session's changes end with it.
 */
#include "record/doctor/doctor.h"
#include "record/session/process.h"
#include "record/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/trail.h>

#define TRAIL_BYTES (1u << 20)
#define TRAIL_WAIT_MS 20000

struct launched {
	int error;		 /* 0, -errno or -WM_E_* */
	uint32_t way;		 /* with the agent: enum control_way, which it reported */
	uint64_t branches;	 /* under the engine: how many were recorded */
	char words[CHECK_BYTES]; /* about the error, or "" */
};

static void say(struct launched *launched, int error, const char *words)
{
	launched->error = error;
	snprintf(launched->words, sizeof(launched->words), "%s", words);
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
		say(launched, pid, "");
		return;
	}
	pid = wm_session_launch(session, argv);
	if (pid < 0)
		say(launched, pid, wm_session_detail(session));
	else if (session->processes)
		launched->way = session->processes->hello.way;
	wm_session_close(session);
	if (pid > 0)
		end(pid);
}

/* Under trail/soft/, to its end. */
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
		say(launched, pid, wm_trail_detail(NULL));
		return;
	}
	if (!wm_trail_wait(trail, TRAIL_WAIT_MS))
		say(launched, -ETIMEDOUT, wm_trail_detail(trail));
	wm_trail_status_get(trail, &status);
	launched->branches = status.branches + status.lost;
	if (!launched->error && status.state == WM_TRAIL_STATE_FAILED)
		say(launched, status.error, wm_trail_detail(trail));
	wm_trail_close(trail);
	end(pid);
}

static struct launched apart(char *const argv[],
			     void (*how)(struct launched *launched, char *const argv[]))
{
	struct launched result = { .error = -ENOMEM }, *shared;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return result;
	shared->error = -ECANCELED; /* unless it gets to its end */
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		for (int fd = 0; fd < 3 && null >= 0; fd++)
			dup2(null, fd);
		result.error = 0;
		how(&result, argv);
		*shared = result;
		_exit(0);
	}
	if (pid < 0)
		shared->error = -errno;
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	result = *shared;
	munmap(shared, sizeof(*shared));
	return result;
}

void launched_look(struct check_list *list, char *const program[])
{
	struct check *check = check_add(list, "waymark", "preload");
	struct launched launched = { 0 };

	check->is_basic = 1;
	if (!program) {
		check_say(check, CHECK_UNKNOWN, "not tried: /proc/self/exe names no program");
		return;
	}
	launched = apart(program, launch);
	if (launched.error)
		check_error(check, launched.error, launched.words);
	else if (launched.way == WAY_PROC_MEM || launched.way == WAY_MPROTECT)
		check_say(check, CHECK_FINE,
			  "a program was started with the agent, which writes code by %s",
			  launched.way == WAY_PROC_MEM ? "/proc/self/mem" : "mprotect(2)");
	else
		check_say(check, CHECK_LIMITED,
			  "a program was started with the agent, which cannot write code");
	if (check->state == CHECK_LIMITED)
		check_change(check, wm_error_hint(WM_E_NO_TEXT_WRITE));
}

void launched_look_soft(struct check *check, char *const program[])
{
	struct launched launched = apart(program, record);

	if (!launched.error && launched.branches) {
		check_say(check, CHECK_FINE, "a program was recorded: %" PRIu64 " branches",
			  launched.branches);
		return;
	}
	check->found[0] = '\0';
	check_say(check, CHECK_ABSENT, "a program could not be recorded");
	if (launched.error)
		check_error(check, launched.error, launched.words);
}
