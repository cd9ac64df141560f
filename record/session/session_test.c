/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "record/probe/probes.h"
#include "record/session/process.h"
#include "record/session/testing/agent.h"
#include "record/spec/spec.h"
#include "target/process/target.h"
#include "target/process/testing/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/trace.h>

TestSuite(session, .init = folder_make, .fini = folder_remove, .timeout = 60);

static struct wm_session *open_with(const struct wm_session_options *options, const char *spec)
{
	struct wm_session *session;

	cr_assert_eq(wm_session_open(&session, options), 0);
	cr_assert_eq(wm_session_add(session, spec), 0);
	return session;
}

struct heard {
	unsigned int count, stop_at; /* stop_at: end the read at this event; 0: never */
	uint64_t last_ns;
	uint32_t pid;
};

static int hear(const struct wm_event *event, void *data)
{
	struct heard *heard = data;

	cr_assert_str_eq(event->name, SAMPLE_EVENT);
	cr_assert_eq(event->kind, 'm');
	cr_assert_eq(event->field_count, 0);
	cr_assert_eq(event->id, 1);
	cr_assert_geq(event->realtime_ns, heard->last_ns);
	heard->last_ns = event->realtime_ns;
	heard->pid = event->pid;
	return ++heard->count == heard->stop_at ? 77 : 0;
}

static struct wm_session_status status_of(struct wm_session *session)
{
	struct wm_session_status status = { .size = sizeof(status) };

	cr_assert_eq(wm_session_status_get(session, &status), 0);
	return status;
}

static void arm(struct wm_session *session, struct sample_agent *agent)
{
	sample_agent_start(agent);
	cr_assert_eq(wm_session_attach(session, agent->pid), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
}

/* Record the agent's process into a trace in the test's folder. */
static void start_recording(struct wm_session *session, struct sample_agent *agent)
{
	char dir[96];

	snprintf(dir, sizeof(dir), "%s/trace", folder);
	cr_assert_eq(wm_session_output(session, dir), 0);
	arm(session, agent);
}

Test(session, read_hands_out_events_of_open_pages_once)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 250 };
	struct wm_session *session = open_with(NULL, "marker:net:*");
	struct heard heard = { 0 };

	arm(session, &agent);
	cr_assert_eq(wm_session_read(session, hear, &heard), 0);
	cr_assert_eq(heard.count, 250);
	cr_assert_eq(heard.pid, (uint32_t)agent.pid);
	cr_assert_eq(wm_session_read(session, hear, &heard), 0);
	cr_assert_eq(wm_session_stop(session), 0);
	cr_assert_eq(wm_session_read(session, hear, &heard), 0);
	cr_assert_eq(heard.count, 250);
	cr_assert_eq(status_of(session).recorded, 250);
	cr_assert_eq(status_of(session).markers, 1);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, read_after_ended_read_continues)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 250 };
	struct wm_session *session = open_with(NULL, "net:rx");
	struct heard heard = { .stop_at = 120 };

	arm(session, &agent);
	cr_assert_eq(wm_session_read(session, hear, &heard), 77);
	heard.stop_at = 130;
	cr_assert_eq(wm_session_read(session, hear, &heard), 77);
	cr_assert_eq(wm_session_stop(session), 0);
	heard.stop_at = 0;
	cr_assert_eq(wm_session_read(session, hear, &heard), 0);
	cr_assert_eq(heard.count, 250);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, failed_session_writes_the_events_in_memory)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 250 };
	struct wm_session *session = open_with(NULL, "marker:net:*");
	const struct wm_event *event;
	struct wm_trace *trace;
	unsigned int count = 0;
	char dir[96];

	snprintf(dir, sizeof(dir), "%s/trace", folder);
	cr_assert_eq(wm_session_keep(session, 1 << 20, 0), 0);
	arm(session, &agent);
	cr_assert(AWAIT(wm_session_wait(session, 10) >= 0 && status_of(session).recorded == 250));
	session->trace_error = -ENOMEM;
	cr_expect_eq(wm_session_rotate(session, dir), -ENOMEM);
	wm_session_close(session);
	cr_assert_eq(wm_trace_open(&trace, dir, NULL), 0);
	while (wm_trace_next(trace, &event) > 0)
		count += !strcmp(event->name, SAMPLE_EVENT);
	cr_expect_eq(count, 250);
	wm_trace_close(trace);
	sample_agent_release(&agent);
}

/* During the callback the session refuses calls that would free a process, or read it again. */
static int call_back(const struct wm_event *event, void *data)
{
	struct wm_session *session = data;
	char *const argv[] = { "/bin/true", NULL };

	(void)event;
	cr_assert_eq(wm_session_stop(session), -EDEADLK);
	cr_assert_str_eq(wm_session_detail(session), "in a callback");
	cr_assert_eq(wm_session_wait(session, 0), -EDEADLK);
	cr_assert_eq(wm_session_read(session, call_back, session), -EDEADLK);
	cr_assert_eq(wm_session_start(session), -EDEADLK);
	cr_assert_eq(wm_session_add(session, "net:tx"), -EDEADLK);
	cr_assert_eq(wm_session_output(session, folder), -EDEADLK);
	cr_assert_eq(wm_session_attach(session, 1), -EDEADLK);
	cr_assert_eq(wm_session_launch(session, argv), -EDEADLK);
	cr_assert_eq(wm_session_change(session, NULL, 0, NULL, 0), -EDEADLK);
	return status_of(session).processes == 1 ? 0 : 1;
}

Test(session, failed_change_leaves_the_specs_as_before)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 1 };
	struct wm_session *session = open_with(NULL, "marker:net:*");
	const char *bad[] = { "marker:net:tx", "bad:::spec" }, *none[] = { "marker:no:such" };
	const char *removed = "marker:net:*";

	arm(session, &agent);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(wm_session_change(session, bad, 2, &removed, 1), -WM_E_SPEC);
		cr_expect_eq(wm_session_change(session, none, 1, &removed, 1), -WM_E_NO_MARKER);
	}
	cr_expect_eq(session->specs->count, 1);
	cr_expect_str_eq(session->specs->all[0].glob, "net:*");
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, failed_removal_arms_again_what_was_disarmed)
{
	struct sample_agent deaf = { .way = SAMPLE_DEAF }, agent = { .way = SAMPLE_GOOD };
	struct wm_session *session = open_with(NULL, "marker:net:*");
	const char *removed = "marker:net:*";

	agent.is_armed = mmap(NULL, sizeof(*agent.is_armed), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(agent.is_armed, MAP_FAILED);
	sample_agent_start(&deaf);
	cr_assert_eq(wm_session_attach(session, deaf.pid), 0);
	arm(session, &agent); /* the last one to come is the first to be disarmed */
	*agent.is_armed = -1;
	cr_expect_eq(wm_session_change(session, NULL, 0, &removed, 1), -WM_E_AGENT_SILENT);
	cr_expect_eq(*agent.is_armed, 1);
	sample_agent_release(&deaf);
	wm_session_close(session);
	sample_agent_release(&agent);
	munmap(agent.is_armed, sizeof(*agent.is_armed));
}

Test(session, call_in_callback_returns_edeadlk_except_status)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 250 };
	struct wm_session *session = open_with(NULL, "net:rx");

	arm(session, &agent);
	cr_assert_eq(wm_session_read(session, call_back, session), 0);
	cr_assert_eq(wm_session_stop(session), 0);
	cr_assert_eq(status_of(session).recorded, 250);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, committed_events_of_dead_process_are_recorded)
{
	struct sample_agent agent = { .way = SAMPLE_DIES, .events = 333, .losses = 9 };
	struct wm_session *session = open_with(NULL, "marker:*:*");
	int left = 1;

	start_recording(session, &agent);
	for (int i = 0; i < 500 && left > 0; i++)
		left = wm_session_wait(session, 10);
	cr_assert_eq(left, 0);
	cr_assert_eq(status_of(session).recorded, 333);
	cr_assert_eq(status_of(session).discarded, 9);
	cr_assert_eq(wm_session_stop(session), 0);
	wm_session_close(session);
	sample_agent_release(&agent);
}

/* Its connection closes before it is dead, so it may die after the pass that saw it alive. */
Test(session, dead_process_is_alive_until_recorded)
{
	struct sample_agent agent = { .way = SAMPLE_HANGS_UP, .events = 333 };
	struct wm_session *session = open_with(NULL, "marker:*:*");

	start_recording(session, &agent);
	for (int i = 0; i < 500 && session->processes->state < PROCESS_HUNG_UP; i++)
		cr_assert_geq(session_step(session, 10), 0);
	cr_assert_lt(status_of(session).recorded, 333, "a page is still open");
	sample_agent_release(&agent);
	cr_assert_eq(session_alive(session), 1);
	cr_assert_eq(session_running(session), 0);
	cr_assert_eq(wm_session_wait(session, 10), 0);
	cr_assert_eq(status_of(session).recorded, 333);
	cr_assert_eq(wm_session_stop(session), 0);
	wm_session_close(session);
}

Test(session, committed_events_of_dead_process_are_read)
{
	struct sample_agent agent = { .way = SAMPLE_DIES, .events = 333 };
	struct wm_session *session = open_with(NULL, "marker:*:*");
	struct heard heard = { 0 };

	arm(session, &agent);
	for (int i = 0; i < 500 && wm_session_wait(session, 10) > 0; i++)
		;
	cr_assert_eq(wm_session_read(session, hear, &heard), 0);
	cr_assert_eq(heard.count, 333);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, stop_records_open_pages)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 150 };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	start_recording(session, &agent);
	cr_assert_eq(wm_session_stop(session), 0);
	cr_assert_eq(status_of(session).recorded, 150);
	cr_assert_eq(wm_session_start(session), -EINVAL, "a folder is written once");
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, stop_waits_for_child_whose_fork_has_not_returned)
{
	struct sample_agent agent = { .way = SAMPLE_FORKS, .events = 150 };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	start_recording(session, &agent);
	cr_assert_eq(wm_session_stop(session), 0);
	cr_assert_eq(status_of(session).recorded, 151);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, close_after_stop_survives_late_module)
{
	struct sample_agent agent = { .way = SAMPLE_LOADS, .events = 150 };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	start_recording(session, &agent);
	cr_assert_eq(wm_session_stop(session), 0);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, cyclic_session_is_drained_at_stop)
{
	struct wm_session_options options = { .size = sizeof(options), .policy = WM_POLICY_CYCLIC };
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 150, .losses = 50 };
	struct wm_session *session = open_with(&options, "marker:net:rx");

	start_recording(session, &agent);
	wm_session_wait(session, 50);
	cr_assert_eq(status_of(session).recorded, 0);
	cr_assert_eq(wm_session_stop(session), 0);
	cr_assert_eq(status_of(session).recorded, 150);
	cr_assert_eq(status_of(session).discarded, 50);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, notify_session_notifies_at_watermark)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	struct wm_session_options options = {
		.size = sizeof(options),
		.policy = WM_POLICY_NOTIFY,
		.notify_fd = fd,
		.watermark_percent = 1,
	};
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 700 };
	struct wm_session *session = open_with(&options, "marker:net:rx");
	struct heard heard = { 0 };
	uint64_t reported = 0;

	arm(session, &agent);
	cr_assert_eq(read(fd, &reported, sizeof(reported)), (ssize_t)sizeof(reported));
	cr_assert_eq(reported, 1);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	usleep(20000); /* no second notification may come in this time */
	cr_assert_lt(read(fd, &reported, sizeof(reported)), 0,
		     "notified once, until it is drained");
	cr_assert_eq(wm_session_read(session, hear, &heard), 0);
	cr_assert_eq(heard.count, 700);
	wm_session_close(session);
	sample_agent_release(&agent);
	close(fd);
}

static void attach_fails(enum sample_way way, int error)
{
	struct sample_agent agent = { .way = way };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	sample_agent_start(&agent);
	cr_assert_eq(wm_session_attach(session, agent.pid), error);
	cr_assert_neq(wm_session_detail(session)[0], 0);
	cr_assert_eq(wm_session_wait(session, 0), 0);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, attach_to_silent_agent_returns_agent_silent)
{
	attach_fails(SAMPLE_SILENT, -WM_E_AGENT_SILENT);
}

Test(session, attach_to_agent_with_wrong_magic_returns_protocol)
{
	attach_fails(SAMPLE_RUBBISH, -WM_E_PROTOCOL);
}

Test(session, attach_to_agent_of_other_version_returns_protocol)
{
	attach_fails(SAMPLE_OTHER_VERSION, -WM_E_PROTOCOL);
}

Test(session, attach_with_refused_buffer_returns_buffer_limit)
{
	attach_fails(SAMPLE_NO_STORE, -WM_E_MEMORY_LIMIT);
}

Test(session, attach_to_store_without_seals_returns_protocol)
{
	attach_fails(SAMPLE_UNSEALED, -WM_E_PROTOCOL);
}

/* The agent would get quiet, but only after seconds of sleep. */
Test(session, stop_gives_up_sleeping_agent)
{
	struct sample_agent agent = { .way = SAMPLE_DEAF, .events = 150 };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	start_recording(session, &agent);
	cr_assert_eq(wm_session_stop(session), -WM_E_AGENT_SILENT);
	cr_expect(strstr(wm_session_detail(session), "; what it had recorded by then is kept"));
	cr_assert_eq(status_of(session).recorded, 150, "committed events are kept");
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, start_gives_up_sleeping_agent)
{
	struct sample_agent agent = { .way = SAMPLE_DEAF_ARM };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	sample_agent_start(&agent);
	cr_assert_eq(wm_session_attach(session, agent.pid), 0);
	cr_assert_eq(wm_session_start(session), -WM_E_AGENT_SILENT);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, stop_waits_for_agent_with_child)
{
	struct sample_agent agent = { .way = SAMPLE_PARENT };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	start_recording(session, &agent);
	cr_assert_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, flooding_agent_uses_bounded_memory)
{
	struct sample_agent agent = { .way = SAMPLE_FLOODS };
	struct wm_session *session = open_with(NULL, "marker:net:rx");
	const struct probe_refusals *refusals = &session->probes->refusals;
	struct stat about;

	start_recording(session, &agent);
	cr_expect_leq(refusals->count * strlen(refusals->all[0].name), 1u << 20);
	cr_expect_eq(refusals->count + refusals->left_out, SAMPLE_FLOOD);
	cr_assert(!wm_session_stop(session) && !chdir(folder) && !stat("trace/facts", &about));
	cr_expect(about.st_size > 15 << 20 && about.st_size < 17 << 20);
	wm_session_close(session);
	sample_agent_release(&agent);
}

/* The name of a held event must be found without a search of all events, which took minutes. */
Test(session, many_held_events_are_handled_fast, .timeout = 60)
{
	struct sample_agent agent = { .way = SAMPLE_HOLDS };
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	arm(session, &agent);
	cr_expect_eq(session->probes->foreign_count, SAMPLE_HOLDS_EACH);
	cr_expect_str_eq(session->probes->foreign[0].name, "");
	cr_assert_eq(wm_session_stop(session), 0);
	wm_session_close(session);
	sample_agent_release(&agent);
}

/* 1: the tracer has stopped the process; -1: the tracer ended without doing so; 0: neither yet. */
static int is_stopped_by(pid_t tracer, pid_t pid)
{
	if (target_thread_state(pid, pid) == 't')
		return 1;
	return tracer > 0 && target_thread_state(tracer, tracer) == 'Z' ? -1 : 0;
}

/* The first child of a process; 0: none yet. */
static pid_t child_of(pid_t pid)
{
	pid_t child = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%d", &child) != 1)
		child = 0;
	if (file)
		fclose(file);
	return child;
}

static struct wm_session *record_sample(struct sample_agent *agent)
{
	struct wm_session *session = open_with(NULL, "marker:net:rx");

	arm(session, agent);
	return session;
}

Test(session, stop_does_not_wait_for_stopped_process)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD };
	struct wm_session *session = record_sample(&agent);

	kill(agent.pid, SIGSTOP);
	cr_assert(AWAIT(target_thread_state(agent.pid, agent.pid) == 'T'));
	cr_assert_eq(wm_session_stop(session), -WM_E_STOPPED);
	kill(agent.pid, SIGCONT);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, stop_waits_for_briefly_stopped_process)
{
	struct sample_agent agent = { .way = SAMPLE_SLOW };
	struct wm_session *session = record_sample(&agent);
	pid_t waker;

	kill(agent.pid, SIGSTOP);
	cr_assert(AWAIT(target_thread_state(agent.pid, agent.pid) == 'T'));
	waker = fork();
	if (!waker) {
		usleep(30000); /* how long it is stopped is what is tested */
		kill(agent.pid, SIGCONT);
		_exit(0);
	}
	cr_assert_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	waitpid(waker, NULL, 0);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, stop_waits_for_process_stopped_by_own_agent)
{
	struct sample_agent agent = { .way = SAMPLE_STOPS };
	struct wm_session *session = record_sample(&agent);
	int stopped;

	cr_assert(AWAIT(stopped = is_stopped_by(child_of(agent.pid), agent.pid)));
	if (stopped < 0)
		cr_skip_test("ptrace(2) of a parent is not allowed here");
	cr_assert_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	wm_session_close(session);
	sample_agent_release(&agent);
}

/* A tracer of system calls has its tracee stopped most of the time, but not always. */
static void stop_again_and_again(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL))
		_exit(1);
	for (int i = 0; i < 30; i++) {
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
		if (waitpid(pid, &status, __WALL) != pid)
			_exit(1);
		usleep(i == 29 ? 0 : 40000); /* how long it is stopped is what is tested */
		ptrace(PTRACE_CONT, pid, NULL, NULL);
	}
	_exit(0); /* which detaches */
}

Test(session, stop_waits_for_repeatedly_traced_process)
{
	struct sample_agent agent = { .way = SAMPLE_SLOW };
	struct wm_session *session = record_sample(&agent);
	pid_t tracer = fork();
	int stopped;

	if (!tracer)
		stop_again_and_again(agent.pid);
	cr_assert(AWAIT(stopped = is_stopped_by(tracer, agent.pid)));
	if (stopped < 0)
		cr_skip_test("ptrace(2) is not allowed here");
	cr_assert_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(session, attach_to_wrong_pid_returns_its_error)
{
	struct wm_session *session = open_with(NULL, "marker:net:rx");
	siginfo_t ended;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT);
	cr_assert_eq(wm_session_attach(session, pid), -WM_E_GONE);
	waitpid(pid, NULL, 0);
	cr_assert_eq(wm_session_attach(session, pid), -ESRCH);
	cr_assert_eq(wm_session_attach(session, getpid()), -EINVAL);
	cr_assert_eq(wm_session_attach(session, -1), -EINVAL);
	wm_session_close(session);
}

Test(session, attach_to_other_users_process_returns_eperm)
{
	struct wm_session *session;

	if (geteuid() != 0)
		cr_skip_test("needs root, to become another user");
	chmod(folder, 0777);
	cr_assert_eq(seteuid(65534), 0);
	session = open_with(NULL, "marker:net:rx");
	unsetenv("XDG_RUNTIME_DIR");
	cr_assert_eq(wm_session_attach(session, getppid()), -EPERM);
	wm_session_close(session);
	cr_assert_eq(seteuid(0), 0);
}

Test(session, output_to_used_folder_is_refused)
{
	struct wm_session *session = open_with(NULL, "marker:net:rx");
	char path[96];
	struct stat st;

	snprintf(path, sizeof(path), "%s/mine", folder);
	fclose(fopen(path, "w"));
	cr_assert_eq(wm_session_output(session, folder), -WM_E_TRACE_DIR);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_str_eq(wm_session_detail(session), folder);
	wm_session_close(session);
}

Test(session, open_checks_options)
{
	struct {
		struct wm_session_options options;
		char more[16];
	} newer = { .options = { .size = sizeof(newer) } };
	struct wm_session_options options = { .size = 4 };
	struct wm_session *session;

	cr_assert_eq(wm_session_open(&session, &options), -EINVAL);
	cr_assert_null(session);
	options = (struct wm_session_options){ .size = sizeof(options), .policy = 9 };
	cr_assert_eq(wm_session_open(&session, &options), -EINVAL);
	options = (struct wm_session_options){ .size = sizeof(options), .follow = 3 };
	cr_assert_eq(wm_session_open(&session, &options), -EINVAL);
	options = (struct wm_session_options){ .size = sizeof(options),
					       .buffer_bytes = UINT64_MAX };
	cr_assert_eq(wm_session_open(&session, &options), -WM_E_MEMORY_LIMIT);
	options = (struct wm_session_options){ .size = sizeof(options),
					       .policy = WM_POLICY_NOTIFY,
					       .notify_signal = SIGKILL };
	cr_assert_eq(wm_session_open(&session, &options), -EINVAL);
	options.notify_signal = SIGSTOP;
	cr_assert_eq(wm_session_open(&session, &options), -EINVAL);
	options.notify_signal = 0;
	options.notify_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	cr_assert_eq(wm_session_open(&session, &options), -EINVAL, "not an eventfd");
	close(options.notify_fd);
	options.notify_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cr_assert_eq(wm_session_open(&session, &options), -EBADF, "not writable");
	close(options.notify_fd);
	cr_assert_eq(wm_session_open(&session, &options), -EBADF, "it is closed");
	options = (struct wm_session_options){ .size = sizeof(options), .agent_path = "agent.so" };
	cr_assert_eq(wm_session_open(&session, &options), -EINVAL, "a relative path");
	options = (struct wm_session_options){ .size = sizeof(options),
					       .engine_path = "engine.so" };
	cr_assert_eq(wm_session_open(&session, &options), -EINVAL, "a relative path");
	cr_assert_eq(wm_session_open(&session, &newer.options), 0,
		     "newer, but asks for nothing new");
	wm_session_close(session);
	newer.more[3] = 1;
	cr_assert_eq(wm_session_open(&session, &newer.options), -E2BIG);
	cr_assert_eq(wm_session_open(NULL, NULL), -EINVAL);
	wm_session_close(NULL);
}

Test(session, start_without_events_returns_error)
{
	struct wm_session *session;

	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_start(session), -WM_E_SPEC);
	wm_session_close(session);
}
