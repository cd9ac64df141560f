/* SPDX-License-Identifier: MIT */
/* As the agent's own janitor (inside/detour/janitor_process.c), from outside. */
#include "target/process/stopper_halt.h"

#include "arch/halt.h"
#include "base/halt_threads.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>

#define THREADS_MAX (1u << 20)

/* Zeroed; takes memory where it is written to. NULL. */
static void *map(size_t bytes)
{
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return start == MAP_FAILED ? NULL : start;
}

/* A signal that is being delivered decides by itself what becomes of an interrupted call. */
static void restart_call(const struct halt_thread *thread, long filters)
{
	struct halt_regs regs;

	if (thread->signal || halt_regs_get(thread->tid, &regs))
		return;
	if (halt_restart(&regs, halt_is_resuming(&regs) && target_filters(thread->tid) > filters))
		halt_regs_set(thread->tid, &regs);
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

static int change_all(const struct stopper_target *target, const struct halt_threads *halt,
		      struct stopper_job *job)
{
	int done = 1;

	if (is_deserted(target))
		return -EAGAIN;
	for (uint32_t i = 0; i < halt->count; i++) {
		if (halt->threads[i].is_stopped)
			restart_call(&halt->threads[i], (long)job->request.filters);
	}
	for (uint32_t i = 0; i < job->request.count && done >= 0; i++) {
		done = change(target, &job->changes[i]);
		job->answer.is_done[i] = done > 0;
	}
	return done < 0 ? done : 0;
}

void stopper_halt(const struct stopper_target *target, struct stopper_job *job)
{
	static struct halt_threads halt;
	uint64_t begin_ns = ticks_monotonic_ns();
	int err;

	halt = (struct halt_threads){ .pid = target->pid,
				      .tasks_fd = target->tasks,
				      .patience_ns = tracee_deadline(job->request.patience_ms),
				      .deadline_ns = tracee_deadline(STOPPER_STOP_MAX_MS),
				      .threads = map(THREADS_MAX * sizeof(*halt.threads)),
				      .slots = map(2 * THREADS_MAX * sizeof(*halt.slots)),
				      .room = THREADS_MAX,
				      .slot_mask = 2 * THREADS_MAX - 1 };
	err = halt.threads && halt.slots ? halt_threads_stop(&halt) : -ENOMEM;
	if (!err)
		err = change_all(target, &halt, job);
	halt_threads_resume(&halt);
	job->answer.error = err == -EPERM ? -WM_E_NO_PTRACE : err == -ENOENT ? -WM_E_GONE : err;
	job->answer.threads = halt.count;
	job->answer.stopped_ns = ticks_monotonic_ns() - begin_ns;
}
