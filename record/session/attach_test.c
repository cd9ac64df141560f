/* SPDX-License-Identifier: MIT */
/* Attach while the target changes. inject_agent() is wrapped, all else is real. */
#include "base/testing/await.h"
#include "record/session/process.h"
#include "record/watch/watches.h"
#include "target/process/testing/folder.h"
#include "target/process/testing/subject.h"
#include "target/trial/testing/needs.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

static struct subject subject;
static unsigned int injections, fruitless;
static int kills;

int __real_injector_agent(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
			  size_t detail_bytes);
int __wrap_injector_agent(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
			  size_t detail_bytes);

/*
 * The first calls load nothing, as when a leaving agent's socket was found; or they kill the
 * target.
 */
int __wrap_injector_agent(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
			  size_t detail_bytes)
{
	injections++;
	if (kills)
		kill(pid, SIGKILL);
	if (kills || injections <= fruitless) {
		detail[0] = 0;
		return 0;
	}
	return __real_injector_agent(pid, agent_path, socket_dir, detail, detail_bytes);
}

static int attach(struct wm_session **session)
{
	setenv("WAYMARK_AGENT", AGENT, 1);
	subject_start(&subject, "waits", "poll");
	setenv("XDG_RUNTIME_DIR", subject.dir, 1);
	cr_assert_eq(wm_session_open(session, NULL), 0);
	cr_assert_eq(wm_session_add(*session, "marker:no:thing"), 0);
	return wm_session_attach(*session, subject.pid);
}

Test(attach, attach_to_leaving_agent_loads_it_again, .timeout = 60)
{
	struct wm_session *session;
	int err;

	fruitless = 2;
	err = attach(&session);
	cr_expect_eq(err, 0, "%s: %s", wm_error_text(err), wm_session_detail(session));
	cr_expect_eq(injections, 3);
	wm_session_close(session);
	subject_end(&subject);
}

Test(attach, attach_target_killed_while_loading_returns_gone, .timeout = 60)
{
	struct wm_session *session;
	char command[128];

	kills = 1;
	cr_expect_eq(attach(&session), -WM_E_GONE);
	cr_expect_eq(injections, 1);
	wm_session_close(session);
	cr_expect_eq(waitpid(subject.pid, NULL, 0), subject.pid);
	snprintf(command, sizeof(command), "/bin/rm -rf %s", subject.dir);
	cr_expect_eq(system(command), 0);
}

/* Without a folder, the caller reads what a process left: maybe after the session's end. */
Test(attach, hit_of_a_process_that_ended_unread_counts_at_the_end, .timeout = 60)
{
	static volatile uint64_t word;
	struct wm_session *session;
	char spec[40], byte;
	int ends[2];
	pid_t pid;

	NEEDS(TRIAL_BREAKPOINT_WRITE);
	NEEDS(TRIAL_BREAKPOINT_SIGNAL);
	folder_make();
	setenv("WAYMARK_AGENT", AGENT, 1);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		word = (uint64_t)read(ends[0], &byte, 1);
		_exit(0);
	}
	snprintf(spec, sizeof(spec), "watch:%p/8", (void *)(uintptr_t)&word);
	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_add(session, spec), 0);
	cr_assert_eq(wm_session_attach(session, pid), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	/* so the end can't prove a zero */
	setenv("WAYMARK_SIMULATE", "debug-registers", 1);
	cr_assert_eq(write(ends[1], "", 1), 1);
	cr_expect(AWAIT(wm_session_wait(session, 10) >= 0 &&
			session->processes->state == PROCESS_HUNG_UP));
	cr_expect_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	cr_expect_eq(session->watched->all[0].counts.hits, 1);
	wm_session_close(session);
	cr_expect_eq(waitpid(pid, NULL, 0), pid);
	folder_remove();
}
