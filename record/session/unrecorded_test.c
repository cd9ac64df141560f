/* SPDX-License-Identifier: MIT */
/* What a session reports about programs that run without its agent. */
#include "record/session/unrecorded.h"

#include "base/socketdir.h"
#include "base/testing/await.h"
#include "read/pass/summary.h"
#include "record/session/session.h"
#include "record/session/testing/agent.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

static char folder[64];

static void set_up(void)
{
	strcpy(folder, "/tmp/waymark-test-XXXXXX");
	cr_assert(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
	setenv("WAYMARK_AGENT", AGENT, 1);
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "/bin/rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(unrecorded, .init = set_up, .fini = tear_down, .timeout = 60);

/* WAYMARK_AGENT names another agent, beside the session's own. */
Test(unrecorded, missing_agent_is_that_of_session_options)
{
	char agent[96], go[96], script[160], command[512];
	struct wm_session_options options = { .size = sizeof(options),
					      .allow_unmatched = 1,
					      .agent_path = agent };
	char *argv[] = { (char *)"/bin/sh", (char *)"-c", script, NULL };
	struct wm_session *session;
	int pid, fd;

	snprintf(agent, sizeof(agent), "%s/agent.so", folder);
	snprintf(command, sizeof(command), "cp %s %s", AGENT, agent);
	cr_assert_eq(system(command), 0);
	snprintf(go, sizeof(go), "%s/go", folder);
	cr_assert_eq(mkfifo(go, 0600), 0);
	fd = open(go, O_RDWR | O_CLOEXEC);
	snprintf(script, sizeof(script), "read line <%s; exec sleep 1000", go);
	cr_assert_eq(wm_session_open(&session, &options), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:*"), 0);
	pid = wm_session_launch(session, argv);
	cr_assert_gt(pid, 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	cr_assert_eq(unlink(agent), 0);
	cr_assert_eq(write(fd, "\n", 1), 1);
	cr_expect(AWAIT(wm_session_wait(session, 10) >= 0 && session->unrecorded->count));
	if (session->unrecorded->count) {
		cr_expect_eq(session->unrecorded->all[0].error, -WM_E_NO_AGENT);
		cr_expect(strstr(session->unrecorded->all[0].detail, agent), "%s",
			  session->unrecorded->all[0].detail);
	}
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	wm_session_close(session);
	close(fd);
}

/* A shell runs its own file again without our environment, with these words around that. */
static void expect_not_preloaded(const char *before, const char *after)
{
	char go[96], command[200], script[400];
	struct wm_session_options options = { .size = sizeof(options), .allow_unmatched = 1 };
	char *argv[] = { (char *)"/bin/bash", (char *)"-c", script, NULL };
	const struct unrecorded *one;
	struct wm_session *session;
	int pid, fd;

	snprintf(go, sizeof(go), "%s/go", folder);
	cr_assert_eq(mkfifo(go, 0600), 0);
	fd = open(go, O_RDWR | O_CLOEXEC);
	snprintf(command, sizeof(command), "/bin/bash -c 'read line <%s'", go);
	snprintf(script, sizeof(script), "read line <%s; %s %s%s", go, before, command, after);
	cr_assert_eq(wm_session_open(&session, &options), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:*"), 0);
	pid = wm_session_launch(session, argv);
	cr_assert_gt(pid, 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	cr_expect_eq(session->unrecorded->count, 0);
	cr_assert_eq(write(fd, "\n", 1), 1);
	cr_expect(AWAIT(wm_session_wait(session, 10) >= 0 && session->unrecorded->count), "%s",
		  script);
	one = session->unrecorded->all;
	cr_expect(one && one->error == -WM_E_NOT_PRELOADED && strstr(one->program, "bash"), "%s",
		  script);
	cr_assert_eq(write(fd, "\n", 1), 1);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	wm_session_close(session);
	close(fd);
	unlink(go);
}

Test(unrecorded, own_file_executed_again_without_environment_is_named)
{
	expect_not_preloaded("exec -c", "");
	expect_not_preloaded("(exec -c", "); :");
	/* with the agent, which hears nothing of the session */
	expect_not_preloaded("unset ${!WAYMARK*}; exec", "");
	expect_not_preloaded("(unset ${!WAYMARK*}; exec", "); :");
}

/* Whether the trace's facts contain these words. */
static int trace_says(const char *words)
{
	char path[96], text[65536];
	size_t bytes;
	FILE *file;

	snprintf(path, sizeof(path), "%s/trace/" FACTS_FILE, folder);
	file = fopen(path, "re");
	cr_assert(file);
	bytes = fread(text, 1, sizeof(text), file);
	fclose(file);
	return memmem(text, bytes, words, strlen(words)) != NULL;
}

/* Start a session that records the agent's process into a trace. */
static struct wm_session *record(struct sample_agent *agent)
{
	struct wm_session *session;
	char dir[96];

	snprintf(dir, sizeof(dir), "%s/trace", folder);
	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:*"), 0);
	cr_assert_eq(wm_session_output(session, dir), 0);
	sample_agent_start(agent);
	cr_assert_eq(wm_session_attach(session, agent->pid), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	return session;
}

Test(unrecorded, process_whose_agent_sends_garbage_is_unrecorded_with_cause)
{
	struct sample_agent agent = { .way = SAMPLE_BREAKS, .events = 250 };
	struct wm_session *session = record(&agent);
	struct wm_session_status status = { .size = sizeof(status) };
	const struct unrecorded *one = NULL;
	char words[64];

	cr_assert_eq(kill(agent.pid, SIGUSR1), 0);
	cr_assert(AWAIT(wm_session_wait(session, 10) >= 0 && session->unrecorded->count));
	one = &session->unrecorded->all[0];
	snprintf(words, sizeof(words), "process %d is not recorded to its end", agent.pid);
	cr_expect_eq(one->error, -WM_E_PROTOCOL);
	cr_expect_str_eq(one->program, "/bin/sample");
	cr_expect_str_eq(one->detail, words);
	cr_expect_eq(one->processes, 1);
	wm_session_stop(session);
	cr_expect(trace_says(words));
	cr_assert_eq(wm_session_status_get(session, &status), 0);
	cr_expect_eq(status.recorded, 250);
	wm_session_close(session);
	sample_agent_release(&agent);
}

/* As where there is no memory to take a declaration: what follows it is not read. */
Test(unrecorded, undeclared_events_of_dropped_process_are_discarded)
{
	struct sample_agent agent = { .way = SAMPLE_BREAKS, .events = 250, .undeclared = 3 };
	struct wm_session *session = record(&agent);
	struct wm_session_status status = { .size = sizeof(status) };
	struct trace_reader *reader;
	struct summary *summary;
	char dir[96];

	cr_assert_eq(kill(agent.pid, SIGUSR1), 0);
	cr_assert(AWAIT(wm_session_wait(session, 10) >= 0 && session->unrecorded->count));
	wm_session_stop(session);
	cr_assert_eq(wm_session_status_get(session, &status), 0);
	cr_expect_eq(status.recorded, 250);
	cr_expect_eq(status.discarded, 3);
	wm_session_close(session);
	snprintf(dir, sizeof(dir), "%s/trace", folder);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_expect_eq(reader->damages_ever, 0);
	cr_expect_eq(summary->total, 250);
	cr_expect_eq(summary->discarded, 3);
	summary_free(summary);
	trace_reader_close(reader);
	sample_agent_release(&agent);
}

Test(unrecorded, programs_without_an_entry_are_counted)
{
	struct unrecorded_list list = { 0 };
	struct wm_session session = { .unrecorded = &list };
	char name[32];

	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "/bin/%d", i);
		unrecorded_add(&session, 1 << 30, name, -WM_E_NOT_PRELOADED, "");
	}
	cr_expect_eq(list.count + list.unnamed, 300);
	cr_expect_gt(list.unnamed, 0);
	unrecorded_release(&list);
}

Test(unrecorded, process_that_sent_garbage_and_ended_is_counted)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD };
	struct wm_session *session = record(&agent);
	struct sockaddr_un address;
	pid_t pid;

	cr_assert_eq(socketdir_address(&address, "", session->listeners->path), 0);
	pid = fork();
	if (!pid) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		_exit(connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
		      write(fd, "?", 1) != 1);
	}
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_expect(AWAIT(wm_session_wait(session, 10) >= 0 && session->unrecorded->count));
	if (session->unrecorded->count)
		cr_expect_str_eq(session->unrecorded->all[0].program, "a process that has ended");
	wm_session_close(session);
	sample_agent_release(&agent);
}
