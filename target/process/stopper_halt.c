/* SPDX-License-Identifier: MIT */
/*
 * As the agent's own janitor (inside/detour/janitor_process.c), from outside: passes over the
 * threads seize those that are not seized yet, until one finds none and the kernel's count says so
 * too.
 */
#include "target/process/stopper_halt.h"

#include "arch/halt.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define THREADS_MAX (1u << 20)
#define TIDS_MAX (1u << 22) /* PID_MAX_LIMIT of the kernel */
#define SPINS 40	    /* looks before the first sleep: most stops come within 20 us */
#define SLEEP_NS 200000

struct halted {
	pid_t tid;
	int stop;   /* enum tracee_stop; 0: not stopped */
	int signal; /* that it was about to get */
};

struct halt {
	const struct stopper_target *target;
	struct halted *threads;
	uint8_t *seized; /* by tid, a bit each */
	uint32_t count;
	int has_leader_ended; /* a zombie that is listed while there are other threads */
	uint64_t patience_ns, deadline_ns;
};

/* Zeroed; takes memory where it is written to. NULL. */
static void *map(size_t bytes)
{
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return start == MAP_FAILED ? NULL : start;
}

static int has_ended(struct halt *halt, pid_t tid)
{
	char state = target_thread_state(halt->target->pid, tid);

	halt->has_leader_ended |= tid == halt->target->pid && state == 'Z';
	return !target_state_lives(state);
}

/* ---- seizing ---- */

static int why_not(struct halt *halt, pid_t tid, int err)
{
	if (has_ended(halt, tid))
		return 0;
	if (target_status_number(tid, "TracerPid") > 0)
		return -WM_E_TRACED;
	return err == -EPERM ? -WM_E_NO_PTRACE : err;
}

static int seize(struct halt *halt, pid_t tid)
{
	uint8_t *seized, bit = (uint8_t)(1u << tid % 8);
	char name[16];
	int err;

	if (tid <= 0 || (uint32_t)tid >= TIDS_MAX || halt->count == THREADS_MAX)
		return -EAGAIN;
	seized = &halt->seized[tid / 8];
	if (*seized & bit)
		return 0;
	err = tracee_seize(tid);
	if (err)
		return err == -ESRCH ? 0 : why_not(halt, tid, err);
	*seized |= bit;
	halt->threads[halt->count++] = (struct halted){ .tid = tid };
	/* a thread that ended may have left its number to another process's; ours keeps it now */
	snprintf(name, sizeof(name), "%d", (int)tid);
	return faccessat(halt->target->tasks, name, F_OK, 0) ? -EAGAIN : 0;
}

static int seize_all(struct halt *halt)
{
	pid_t *tids;
	int count = target_threads(halt->target->pid, &tids), err = 0;

	for (int i = 0; i < count && !err; i++)
		err = seize(halt, tids[i]);
	free(tids);
	return count < 0 ? -WM_E_GONE : err;
}

/* ---- waiting ---- */

/* Until something has become of a tracee, or for a moment. */
static void rest(void)
{
	const struct timespec time = { .tv_nsec = SLEEP_NS };
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigtimedwait(&child, NULL, &time);
}

static int wait_for(struct halt *halt, struct halted *thread)
{
	for (unsigned int tries = 0;; tries++) {
		int signal = 0, stop = tracee_look(thread->tid, &signal);

		if (stop < 0)
			return 0; /* it has ended */
		if (stop) {
			thread->stop = stop;
			thread->signal = stop == TRACEE_SIGNAL ? signal : 0;
			return 0;
		}
		if (tries < SPINS)
			continue;
		rest();
		/* no wait reports a leader that ended before its other threads */
		if (has_ended(halt, thread->tid))
			return 0;
		if (tracee_late(halt->deadline_ns) ||
		    (tracee_late(halt->patience_ns) &&
		     target_thread_state(halt->target->pid, thread->tid) == 'D'))
			return -WM_E_STRICT;
	}
}

/* By the number of links of /proc/PID/task: two, and one for each thread. */
static int are_all_stopped(const struct halt *halt)
{
	uint64_t count = (uint64_t)(halt->has_leader_ended != 0);
	struct stat found;

	if (fstat(halt->target->tasks, &found))
		return 1;
	for (uint32_t i = 0; i < halt->count; i++)
		count += (uint64_t)(halt->threads[i].stop != 0);
	return (uint64_t)found.st_nlink <= count + 2;
}

static int stop_all(struct halt *halt)
{
	uint32_t waited = 0, before;
	int err;

	for (;;) {
		before = waited;
		err = seize_all(halt);
		while (!err && waited < halt->count)
			err = wait_for(halt, &halt->threads[waited++]);
		if (err || (waited == before && are_all_stopped(halt)))
			return err;
		if (waited == before && tracee_late(halt->patience_ns))
			return -WM_E_STRICT;
	}
}

/* A signal that is being delivered decides by itself what becomes of an interrupted call. */
static void restart_call(const struct halted *thread, long filters)
{
	struct halt_regs regs;

	if (thread->signal || halt_regs_get(thread->tid, &regs))
		return;
	if (halt_restart(&regs, halt_is_resuming(&regs) && target_filters(thread->tid) > filters))
		halt_regs_set(thread->tid, &regs);
}

/* Those that are still on their way to a stop are let go by our end. */
static void let_go(const struct halt *halt)
{
	for (uint32_t i = 0; i < halt->count; i++) {
		const struct halted *thread = &halt->threads[i];

		if (thread->stop)
			ptrace(PTRACE_DETACH, thread->tid, NULL, (void *)(intptr_t)thread->signal);
	}
}

/* ---- changing ---- */

/*
 * 1; 0: other bytes are there; or an error. One call stores, in one page: it is done as a whole
 * or not.
 */
static int change(const struct stopper_target *target, const struct stopper_change *change)
{
	uint8_t found[STOPPER_BYTES];
	off_t address = (off_t)change->address;

	if (pread(target->memory, found, change->bytes, address) != change->bytes ||
	    memcmp(found, change->expected, change->bytes) != 0)
		return 0;
	if (pwrite(target->memory, change->stored, change->count, address + change->at) !=
	    change->count)
		return -WM_E_NO_TEXT_WRITE;
	return 1;
}

/*
 * The agent gave up, and takes what it finds for what is there: its thread is stopped, so that
 * holds.
 */
static int is_deserted(const struct stopper_target *target)
{
	struct pollfd end = { .fd = target->socket, .events = 0 };

	return poll(&end, 1, 0) != 0;
}

static int change_all(const struct halt *halt, struct stopper_job *job)
{
	int done = 1;

	if (is_deserted(halt->target))
		return -EAGAIN;
	for (uint32_t i = 0; i < halt->count; i++) {
		if (halt->threads[i].stop)
			restart_call(&halt->threads[i], (long)job->request.filters);
	}
	for (uint32_t i = 0; i < job->request.count && done >= 0; i++) {
		done = change(halt->target, &job->changes[i]);
		job->answer.is_done[i] = done > 0;
	}
	return done < 0 ? done : 0;
}

void stopper_halt(const struct stopper_target *target, struct stopper_job *job)
{
	uint64_t begin_ns = ticks_monotonic_ns();
	struct halt halt = { .target = target,
			     .threads = map(THREADS_MAX * sizeof(*halt.threads)),
			     .seized = map(TIDS_MAX / 8),
			     .patience_ns = tracee_deadline(job->request.patience_ms),
			     .deadline_ns = tracee_deadline(STOPPER_STOP_MAX_MS) };
	int err = halt.threads && halt.seized ? stop_all(&halt) : -ENOMEM;

	if (!err)
		err = change_all(&halt, job);
	let_go(&halt);
	job->answer.error = err;
	job->answer.threads = halt.count;
	job->answer.stopped_ns = ticks_monotonic_ns() - begin_ns;
}
