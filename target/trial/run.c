/* SPDX-License-Identifier: MIT */
/*
 * A child for each group, side by side: the first event of the kernel's waits for a grace period of
 * some 15 ms, and all groups wait for the same one.
 *
 * The children have no exit signal, so a program that embeds us gets no SIGCHLD and its waitpid(-1)
 * does not see them.
 */
#include "target/process/ticks.h"
#include "target/trial/simulate.h"
#include "target/trial/trial_groups.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static trial_group_fn *const group_of[TRIAL_COUNT] = {
#define X(id, name, group, kept, lack, area, needs, works, fails, instead)                         \
	[TRIAL_##id] = trial_group_##group,
#include "target/trial/trial.def"
#undef X
};

unsigned int trial_rounds;

struct child {
	trial_group_fn *group;
	pid_t pid; /* 0: none */
};

void trial_says(struct trial_answer *answer, int works, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer->words, sizeof(answer->words), format, arguments);
	va_end(arguments);
	answer->error = 0;
	/* last: a child that is killed in between has said nothing */
	__atomic_store_n(&answer->state, works ? TRIAL_WORKS : TRIAL_FAILS, __ATOMIC_RELEASE);
}

void trial_unknown(struct trial_answer *answer, int error)
{
	answer->state = TRIAL_UNKNOWN;
	answer->error = error;
}

size_t trial_cpus(int *cpus, size_t room)
{
	cpu_set_t allowed;
	size_t total, count = 0, seen = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return 0;
	total = (size_t)CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE && count < room; cpu++) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		/* the i-th of `room`, spread over all */
		if (total <= room || seen * (room - 1) >= count * (total - 1))
			cpus[count++] = cpu;
		seen++;
	}
	return count;
}

int trial_move(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/*
 * Whatever the program has set up for itself must not come in our way, nor outlive its end. Open
 * are the signals that trials raise. The others stay blocked: a terminal's Ctrl-C and timeout(1)
 * signal the whole process group, and what the program tries as it ends must have its answer.
 */
static void child_begin(pid_t parent)
{
	static const int raised[] = { SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGSYS, SIGALRM };
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t open;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	sigemptyset(&open);
	for (size_t i = 0; i < sizeof(raised) / sizeof(*raised); i++) {
		sigaction(raised[i], &action, NULL);
		sigaddset(&open, raised[i]);
	}
	sigprocmask(SIG_UNBLOCK, &open, NULL);
	while (simulate_is_on(SIMULATED_HANG))
		pause();
}

static void child_start(struct child *child, struct trial_answer *shared, const int ends[2])
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!pid) {
		close(ends[0]);
		child_begin(parent);
		child->group(shared);
		close(ends[1]); /* pairs with await_answers() */
		_exit(0);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	child->pid = pid > 0 ? pid : 0;
}

/* Until each child has closed its end, having answered or being killed. 0, or -ETIMEDOUT. */
static int await_answers(int fd)
{
	uint64_t end_ms = ticks_monotonic_ns() / 1000000 + TRIAL_LIMIT_MS, now;
	struct pollfd ended = { .fd = fd }; /* POLLHUP alone */

	while ((now = ticks_monotonic_ns() / 1000000) < end_ms)
		if (poll(&ended, 1, (int)(end_ms - now)) > 0)
			return 0;
	return -ETIMEDOUT;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

static void child_end(const struct child *child, int is_late)
{
	if (!child->pid)
		return;
	if (is_late)
		kill(child->pid, SIGKILL);
	reap(child->pid);
}

/* The groups of the rows that are wanted, each once. How many. */
static size_t groups_take(uint64_t wanted, struct child children[TRIAL_COUNT])
{
	size_t count = 0;

	for (int i = 0; i < TRIAL_COUNT; i++) {
		size_t k = 0;

		if (!(wanted >> i & 1))
			continue;
		while (k < count && children[k].group != group_of[i])
			k++;
		if (k == count)
			children[count++] = (struct child){ .group = group_of[i] };
	}
	return count;
}

/* Run all children to their answers, or to the end of the time. 0, or why some gave none. */
static int children_run(struct child *children, size_t count, struct trial_answer *shared)
{
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	for (size_t k = 0; k < count; k++)
		child_start(&children[k], shared, ends);
	close(ends[1]);
	err = await_answers(ends[0]);
	close(ends[0]);
	for (size_t k = 0; k < count; k++)
		child_end(&children[k], err != 0);
	return err ? err : -ECANCELED;
}

uint64_t trial_run(uint64_t wanted, struct trial_answer answers[TRIAL_COUNT])
{
	const size_t bytes = sizeof(*answers) * TRIAL_COUNT;
	struct trial_answer *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child children[TRIAL_COUNT];
	size_t count = groups_take(wanted, children);
	uint64_t tried = 0;
	int err = -ENOMEM;

	trial_rounds++;
	memset(answers, 0, bytes);
	if (shared != MAP_FAILED) {
		err = children_run(children, count, shared);
		memcpy(answers, shared, bytes);
		munmap(shared, bytes);
	}
	for (int i = 0; i < TRIAL_COUNT; i++) {
		for (size_t k = 0; k < count; k++)
			if (group_of[i] == children[k].group)
				tried |= UINT64_C(1) << i;
		answers[i].words[TRIAL_WORDS_BYTES - 1] = '\0';
		if (answers[i].state == TRIAL_UNKNOWN && !answers[i].error)
			answers[i].error = err;
	}
	return tried;
}
