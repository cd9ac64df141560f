/* SPDX-License-Identifier: MIT */
/*
 * The test acts as the agent of a target that calls code in a page of its own without end. The code
 * returns OLD or, once it is changed, NEW: any other value ends the target. The process that stops
 * the target's threads can be killed, or held, at each of its calls of ptrace(2) and pwrite(2).
 */
#include "record/session/stopper.h"

#include "abi/stopper.h"
#include "base/halt_threads.h"
#include "base/syscall.h"
#include "base/testing/await.h"
#include "target/process/target.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define THREADS 3
#define OLD 0x11111111
#define NEW 0x22222222
#define STEPS_MAX 200
#define OTHER_USER 65534

static struct {
	pid_t pid;
	uint8_t *code; /* in the target; in the test another page at that address */
	/* shared: of each thread; then steps; then how many had `held`; then signals that it got */
	unsigned int *calls;
	int agent, sent; /* sockets: the agent's end, the stopper's end */
} target;

/* ---- what happens to the process that stops the threads ---- */

#define STEPS (2 * 3 * THREADS) /* before and after each thread is seized, interrupted, let go */

static int steps, step_at, step_signal;
static int is_signalled; /* each thread is about to take SIGUSR2 when it is stopped */
static int held = -1;	 /* a descriptor of the tool without close-on-exec */

static void step(void)
{
	__atomic_add_fetch(&target.calls[THREADS], 1, __ATOMIC_RELAXED);
	if (held >= 0 && fcntl(held, F_GETFD) >= 0)
		__atomic_add_fetch(&target.calls[THREADS + 1], 1, __ATOMIC_RELAXED);
	if (++steps == step_at)
		raise(step_signal);
}

ssize_t __real_pwrite64(int fd, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t bytes, off_t at);

long halt_threads_ptrace(long request, int32_t tid, long data)
{
	long got;

	step();
	got = syscall_raw(SYS_ptrace, request, tid, 0, data);
	if (request == PTRACE_SEIZE && is_signalled) {
		syscall_raw(SYS_tgkill, target.pid, tid, SIGUSR2, 0);
		if (!AWAIT(target_thread_state(target.pid, tid) == 't'))
			abort();
	}
	step();
	return got;
}

ssize_t __wrap_pwrite64(int fd, const void *from, size_t bytes, off_t at)
{
	ssize_t got;

	step();
	got = __real_pwrite64(fd, from, bytes, at);
	step();
	return got;
}

/* ---- the target ---- */

static void signal_count(int number)
{
	(void)number;
	__atomic_add_fetch(&target.calls[THREADS + 2], 1, __ATOMIC_RELAXED);
}

static void *call(void *number)
{
	int (*volatile code)(void) = (int (*)(void))(uintptr_t)target.code;
	unsigned int *calls = &target.calls[(intptr_t)number];

	for (;;) {
		int got = code();

		if (got != OLD && got != NEW)
			_exit(9);
		__atomic_add_fetch(calls, 1, __ATOMIC_RELAXED);
		usleep(100);
	}
	return NULL;
}

/* What the target does after it has passed the sockets on; NULL: it keeps running. */
static void (*leaves)(void);
static uid_t user; /* as which it makes them */
static char program[64];

static void execute(void)
{
	execl(program, "sleep", "1000", NULL);
	_exit(1);
}

/* Its other threads keep calling the code; SIGUSR1 makes it execute. */
static void pause_and_execute(void)
{
	sigset_t usr1;
	int number;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigwait(&usr1, &number);
	execute();
}

static void change_user(void)
{
	if (setresuid(OTHER_USER, OTHER_USER, OTHER_USER))
		_exit(1);
	pause();
}

/* The target makes the sockets, as an agent does, and passes both to the test. */
static void run_target(int out)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr head;
	} passed = { .head = { .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(2 * sizeof(int)) } };
	struct iovec part = { "", 1 };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = &passed,
			       .msg_controllen = sizeof(passed) };
	int ends[2];
	pthread_t thread;

	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	signal(SIGUSR2, signal_count);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if ((user && setresuid(user, user, user)) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		_exit(1);
	memcpy(CMSG_DATA(&passed.head), ends, sizeof(ends));
	for (intptr_t i = 1; i < THREADS; i++)
		if (pthread_create(&thread, NULL, call, (void *)i))
			_exit(1);
	if (sendmsg(out, &head, 0) != 1)
		_exit(1);
	close(ends[0]);
	close(ends[1]);
	close(out);
	if (leaves)
		leaves();
	call(NULL);
}

static void receive_ends(int in)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr head;
	} passed;
	char byte;
	struct iovec part = { &byte, 1 };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = &passed,
			       .msg_controllen = sizeof(passed) };
	int ends[2];

	cr_assert_eq(recvmsg(in, &head, 0), 1);
	memcpy(ends, CMSG_DATA(&passed.head), sizeof(ends));
	target.agent = ends[0];
	target.sent = ends[1];
}

static void begin(void)
{
	static const uint8_t code[] = { 0xb8, 0x11, 0x11, 0x11, 0x11, 0xc3 }; /* mov, ret */
	int pair[2];

	target.code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	target.calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memcpy(target.code, code, sizeof(code));
	mprotect(target.code, 4096, PROT_READ | PROT_EXEC);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	target.pid = fork();
	if (!target.pid)
		run_target(pair[1]);
	close(pair[1]);
	receive_ends(pair[0]);
	close(pair[0]);
}

static void start_stopper(void)
{
	char byte;

	cr_assert_eq(stopper_start(target.pid, -1, target.sent), 0);
	close(target.sent);
	cr_assert_eq(recv(target.agent, &byte, 1, 0), 1, "it is ready");
}

static int all_call(const unsigned int *before)
{
	int count = 0;

	for (int i = 0; i < THREADS; i++)
		count += __atomic_load_n(&target.calls[i], __ATOMIC_RELAXED) > before[i] + 2;
	return count == THREADS;
}

static int is_traced(void)
{
	pid_t *tids;
	int count = target_threads(target.pid, &tids), traced = 0;

	for (int i = 0; i < count; i++)
		traced |= target_status_number(tids[i], "TracerPid") != 0;
	free(tids);
	return traced;
}

static void expect_running(void)
{
	unsigned int before[THREADS];

	memcpy(before, target.calls, sizeof(before));
	cr_assert(AWAIT(all_call(before)), "all threads call the code");
	cr_assert_eq(waitpid(target.pid, NULL, WNOHANG), 0, "the target lives");
	cr_assert(AWAIT(!is_traced()));
}

static int code_now(void)
{
	struct iovec part = { &(int){ 0 }, sizeof(int) }, remote = { target.code + 1, sizeof(int) };

	cr_assert_eq(process_vm_readv(target.pid, &part, 1, &remote, 1, 0), (ssize_t)sizeof(int));
	return *(int *)part.iov_base;
}

static void end(void)
{
	kill(target.pid, SIGKILL);
	waitpid(target.pid, NULL, 0);
}

/* ---- its agent ---- */

struct packet {
	struct stopper_request head;
	struct stopper_change changes[2];
};

static struct packet packet_of(int from, int to)
{
	struct packet packet = { .head = { .count = 1, .patience_ms = 900 } };
	struct stopper_change *change = &packet.changes[0];

	change->address = (uintptr_t)target.code;
	change->bytes = 6;
	change->at = 1;
	change->count = 4;
	change->expected[0] = 0xb8;
	change->expected[5] = 0xc3;
	memcpy(change->expected + 1, &from, sizeof(from));
	memcpy(change->stored, &to, sizeof(to));
	return packet;
}

static size_t packet_bytes(const struct packet *packet)
{
	return sizeof(packet->head) + packet->head.count * sizeof(packet->changes[0]);
}

/* Returns the bytes of the answer; 0: the stopper has ended. */
static ssize_t exchange(const struct packet *packet, struct stopper_answer *answer)
{
	send(target.agent, packet, packet_bytes(packet), MSG_NOSIGNAL);
	return recv(target.agent, answer, sizeof(*answer), 0);
}

static void change(int from, int to, struct stopper_answer *answer)
{
	struct packet packet = packet_of(from, to);

	cr_assert_eq(exchange(&packet, answer), (ssize_t)sizeof(*answer));
}

TestSuite(stopper, .timeout = 100, .fini = end);

Test(stopper, change_stops_threads_and_lets_them_go)
{
	struct stopper_answer answer;

	begin();
	start_stopper();
	for (int i = 0; i < 20; i++) {
		change(i % 2 ? NEW : OLD, i % 2 ? OLD : NEW, &answer);
		cr_assert_eq(answer.error, 0, "%s", wm_error_text(answer.error));
		cr_assert_eq(answer.is_done[0], 1);
		cr_assert_eq(answer.threads, THREADS);
		cr_assert_eq(code_now(), i % 2 ? OLD : NEW);
		expect_running();
	}
}

Test(stopper, stopper_keeps_no_descriptor_of_the_tool)
{
	struct stopper_answer answer;

	held = fcntl(STDIN_FILENO, F_DUPFD, 200);
	cr_assert_geq(held, 0);
	begin();
	start_stopper();
	change(OLD, NEW, &answer);
	cr_expect_gt(target.calls[THREADS], 0);
	cr_expect_eq(target.calls[THREADS + 1], 0);
}

Test(stopper, change_of_unexpected_bytes_stores_nothing)
{
	struct stopper_answer answer;

	begin();
	start_stopper();
	change(NEW, OLD, &answer);
	cr_assert_eq(answer.error, 0);
	cr_assert_eq(answer.is_done[0], 0);
	cr_assert_eq(code_now(), OLD);
	expect_running();
}

Test(stopper, killed_stop_at_any_step_leaves_whole_code)
{
	struct stopper_answer answer = { .error = -EAGAIN };
	int now;

	step_signal = SIGKILL;
	for (step_at = 1; answer.error; step_at++) {
		cr_assert_lt(step_at, STEPS_MAX);
		begin();
		start_stopper();
		change(OLD, NEW, &answer);
		expect_running();
		now = code_now();
		cr_assert(now == OLD || now == NEW, "%x at step %d", (unsigned int)now, step_at);
		cr_assert(answer.error == -EAGAIN || (!answer.error && now == NEW));
		close(target.agent);
		end();
	}
	cr_assert_gt(step_at, STEPS);
	begin();
}

Test(stopper, killed_stop_loses_no_signal)
{
	struct stopper_answer answer;

	step_signal = SIGKILL;
	step_at = 4 * THREADS + 1; /* all are stopped, and none is let go */
	is_signalled = 1;
	begin();
	start_stopper();
	change(OLD, NEW, &answer);
	cr_assert_eq(answer.error, -EAGAIN);
	expect_running();
	cr_expect(AWAIT(__atomic_load_n(&target.calls[THREADS + 2], __ATOMIC_RELAXED) == THREADS));
}

Test(stopper, held_stop_is_killed)
{
	struct stopper_answer answer;

	step_signal = SIGSTOP;
	step_at = 3 * THREADS;
	begin();
	start_stopper();
	change(OLD, NEW, &answer);
	cr_assert_eq(answer.error, -EAGAIN);
	cr_assert_eq(code_now(), OLD);
	expect_running();
}

Test(stopper, agent_that_left_gets_no_change)
{
	struct packet packet;

	begin();
	packet = packet_of(OLD, NEW);
	start_stopper();
	cr_assert_gt(send(target.agent, &packet, packet_bytes(&packet), 0), 0);
	close(target.agent);
	cr_assert(AWAIT(__atomic_load_n(&target.calls[THREADS], __ATOMIC_RELAXED) == STEPS));
	cr_assert_eq(code_now(), OLD);
	expect_running();
}

Test(stopper, senseless_request_ends_it)
{
	for (int which = 0; which < 6; which++) {
		struct stopper_answer answer;
		struct packet packet;

		begin();
		packet = packet_of(OLD, NEW);
		start_stopper();
		switch (which) {
		case 0:
			packet.head.count = 2;
			break;
		case 1:
			packet.changes[0].bytes = STOPPER_BYTES + 1;
			break;
		case 2:
			packet.changes[0].at = 3;
			break;
		case 3:
			packet.changes[0].count = 0;
			break;
		case 4:
			packet.changes[0].address += 4096 - 3;
			break;
		case 5:
			packet.changes[0].address = UINT64_MAX - 2;
			break;
		}
		/* a request for two changes has only the first */
		send(target.agent, &packet, sizeof(packet.head) + sizeof(packet.changes[0]), 0);
		cr_assert_eq(recv(target.agent, &answer, sizeof(answer), 0), 0, "%d", which);
		cr_assert_eq(code_now(), OLD);
		expect_running();
		close(target.agent);
		end();
	}
	begin();
}

Test(stopper, socket_of_another_process_is_refused)
{
	int ends[2];

	begin();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	cr_assert_eq(stopper_start(target.pid, -1, ends[0]), -WM_E_PROTOCOL);
	cr_assert_eq(stopper_start(target.pid, -1, -1), -WM_E_PROTOCOL);
}

static int has_executed(void)
{
	char path[64], exe[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)target.pid);
	return readlink(path, exe, sizeof(exe) - 1) > 0 && !strcmp(exe, program);
}

/* The process executes a set-user-ID program: holders of its sockets must not change it. */
Test(stopper, program_that_gains_privileges_is_refused)
{
	char folder[] = "/tmp/stopper.XXXXXX", text[256];
	int got[2];

	if (geteuid()) {
		begin();
		cr_skip("only root can make such programs");
	}
	cr_assert(mkdtemp(folder) && !chmod(folder, 0755));
	snprintf(program, sizeof(program), "%s/sleep", folder);
	snprintf(text, sizeof(text), "cp \"$(command -v sleep)\" %s && chmod 4755 %s", program,
		 program);
	cr_assert_eq(system(text), 0);
	leaves = execute;
	user = OTHER_USER;
	begin();
	got[0] = AWAIT(target_status_number(target.pid, "Uid") == 0);
	got[1] = stopper_start(target.pid, -1, target.sent);
	unlink(program);
	rmdir(folder);
	if (!got[0]) /* /tmp is mounted nosuid */
		cr_skip("execve(2) gives no privileges here");
	cr_assert_eq(got[1], -EPERM, "%d", got[1]);
}

Test(stopper, process_of_another_user_than_the_sockets_maker_is_refused)
{
	if (geteuid()) {
		begin();
		cr_skip("only root changes its user");
	}
	leaves = change_user;
	begin();
	cr_assert(AWAIT(target_status_number(target.pid, "Uid") == OTHER_USER));
	cr_assert_eq(stopper_start(target.pid, -1, target.sent), -EPERM);
}

Test(stopper, stopper_ends_when_program_executes_another)
{
	struct packet packet;
	struct stopper_answer answer;

	snprintf(program, sizeof(program), "/usr/bin/sleep");
	leaves = pause_and_execute;
	begin();
	packet = packet_of(OLD, NEW);
	start_stopper();
	kill(target.pid, SIGUSR1);
	cr_assert(AWAIT(has_executed()));
	cr_assert_eq(exchange(&packet, &answer), 0, "it has ended");
	cr_assert_eq(__atomic_load_n(&target.calls[THREADS], __ATOMIC_RELAXED), 0,
		     "none is stopped");
}

Test(stopper, stoppers_that_run_are_bounded)
{
	unsigned int count = 0;
	int err = 0;

	begin();
	while (!err && count <= STOPPERS_ALL_MAX) {
		err = stopper_start(target.pid, -1, target.sent);
		count += !err;
	}
	cr_expect_eq(count, STOPPERS_ALL_MAX);
	cr_expect_eq(err, -EAGAIN);
	/* all see their socket closed, and end */
	close(target.agent);
	cr_expect(AWAIT(!stopper_start(target.pid, -1, target.sent)));
}
