/* SPDX-License-Identifier: MIT */
/* How a session treats an agent whose process the freezer of cgroup v2 holds. */
#include "record/session/freezer.h"

#include "base/testing/await.h"
#include "record/session/process.h"
#include "record/session/testing/agent.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

#define THAW_US 2500000 /* longer than the second of sleep after which an agent is given up */

static char folder[64], group[128];
static struct sample_agent agent;

static int put(const char *name, const char *text)
{
	char path[192];
	ssize_t put;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	put = write(fd, text, strlen(text));
	close(fd);
	return put == (ssize_t)strlen(text);
}

static int make_group(const char *root)
{
	char path[192];

	snprintf(group, sizeof(group), "%s/waymark-test-%d", root, (int)getpid());
	snprintf(path, sizeof(path), "%s/cgroup.freeze", group);
	if (mkdir(group, 0755))
		return 0;
	if (access(path, W_OK) == 0)
		return 1;
	rmdir(group);
	return 0;
}

static void set_up(void)
{
	strcpy(folder, "/tmp/waymark-test-XXXXXX");
	cr_assert(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
	if (!make_group("/sys/fs/cgroup") && !make_group("/sys/fs/cgroup/unified"))
		group[0] = '\0';
}

static void tear_down(void)
{
	char command[128];

	if (group[0]) {
		put("cgroup.freeze", "0");
		sample_agent_release(&agent);
		cr_expect(AWAIT(rmdir(group) == 0));
	}
	snprintf(command, sizeof(command), "/bin/rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(freezer, .init = set_up, .fini = tear_down, .timeout = 60);

/* Start a session with an agent that is in the cgroup. */
static struct wm_session *attach(void)
{
	struct wm_session *session;
	char pid[32];

	agent = (struct sample_agent){ .way = SAMPLE_GOOD };
	sample_agent_start(&agent);
	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:*"), 0);
	cr_assert_eq(wm_session_attach(session, agent.pid), 0, "%s", wm_session_detail(session));
	snprintf(pid, sizeof(pid), "%d", (int)agent.pid);
	cr_assert(put("cgroup.procs", pid));
	return session;
}

static void freeze(void)
{
	cr_expect_not(freezer_holds(agent.pid));
	cr_assert(put("cgroup.freeze", "1"));
	cr_assert(AWAIT(freezer_holds(agent.pid)));
}

Test(freezer, frozen_agent_is_not_silent)
{
	struct wm_session *session;
	pid_t thaws;

	if (!group[0])
		cr_skip_test("no cgroup v2 that this user may change");
	session = attach();
	freeze();
	thaws = fork();
	if (!thaws) {
		usleep(THAW_US); /* this time is what is tested */
		_exit(!put("cgroup.freeze", "0"));
	}
	cr_expect_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	cr_assert_eq(waitpid(thaws, NULL, 0), thaws);
	cr_expect_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	wm_session_close(session);
}

Test(freezer, stop_of_frozen_process_returns_stopped)
{
	struct wm_session *session;

	if (!group[0])
		cr_skip_test("no cgroup v2 that this user may change");
	session = attach();
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	freeze();
	cr_expect_eq(wm_session_stop(session), -WM_E_STOPPED);
	cr_assert(put("cgroup.freeze", "0"));
	wm_session_close(session);
}
