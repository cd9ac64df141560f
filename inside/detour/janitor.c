/* SPDX-License-Identifier: MIT */
#include "inside/detour/janitor.h"

#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/detour/janitor_process.h"
#include "inside/detour/trap_book.h"
#include "inside/patch/batch.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"
#include "inside/store/arena.h"

#include <waymark/error.h>

#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define STACK_BYTES ((size_t)64 * 1024)
#define GUARD_BYTES 4096u
#define STOP_MAX_MS 1000
#define SWEEP_PATIENCE_MS 5
#define LOOK_PATIENCE_MS 50
#define ROOM_FIRST 1024u
#define ROOM_MAX (1u << 20)

enum task { TASK_DISARM, TASK_ARM, TASK_SWEEP, TASK_LOOK, TASK_UNBLOCK };

int (*janitor_stopper)(const struct text *text, struct janitor_site *sites, size_t count, int arm,
		       unsigned int patience_ms, struct janitor_outcome *outcome);

/* Its memory, kept: a stop should not wait for pages. */
static struct {
	unsigned char *stack; /* GUARD_BYTES of it are its guard */
	struct stop_job *job;
	struct halt_thread *threads;
	uint32_t *slots;
	uint32_t room;
} janitor;

static void *map(size_t bytes)
{
	void *start = kernel_map(NULL, bytes, PROT_READ | PROT_WRITE, 0);

	return start == MAP_FAILED ? NULL : start;
}

/* Two slots a thread: a hash that is half empty. What there is stays if there is no memory. */
static int make_room(uint32_t room)
{
	const size_t each = sizeof *janitor.threads + 2 * sizeof *janitor.slots;
	struct halt_thread *threads;

	if (janitor.room >= room)
		return 0;
	if (room > ROOM_MAX)
		return -EAGAIN;
	threads = map(room * each);
	if (!threads)
		return -ENOMEM;
	if (janitor.room)
		kernel_munmap(janitor.threads, janitor.room * each);
	janitor.threads = threads;
	janitor.slots = (uint32_t *)(threads + room);
	janitor.room = room;
	return 0;
}

static int prepare(void)
{
	if (!janitor.stack) {
		janitor.stack = map(GUARD_BYTES + STACK_BYTES);
		if (!janitor.stack)
			return -ENOMEM;
		kernel_mprotect(janitor.stack, GUARD_BYTES, PROT_NONE);
	}
	if (!janitor.job)
		janitor.job = map(sizeof *janitor.job);
	return janitor.job ? make_room(ROOM_FIRST) : -ENOMEM;
}

/* The prctl(2) lasts until the next; a program that uses it itself has to say so again. */
static int start(struct stop_job *job, int allow)
{
	long pid, got;
	int status;

	__atomic_store_n(&job->go, 0, __ATOMIC_RELEASE);
	pid = halt_spawn(janitor.stack + GUARD_BYTES + STACK_BYTES, janitor_stop_main, job);
	if (pid < 0)
		return (int)pid;
	if (allow)
		kernel_call(SYS_prctl, PR_SET_PTRACER, pid, 0, 0);
	__atomic_store_n(&job->go, 1, __ATOMIC_RELEASE);
	syscall_raw(SYS_futex, (long)&job->go, FUTEX_WAKE, 1, 0);
	do
		got = syscall_raw(SYS_wait4, pid, (long)&status, __WALL, 0);
	while (got == -EINTR);
	if (allow)
		kernel_call(SYS_prctl, PR_SET_PTRACER, 0, 0, 0);
	return 0;
}

/* Whether /proc shows the numbers of another pid namespace than ours: PID/task/TID. */
static int is_foreign_proc(int32_t tid)
{
	char link[64];
	ssize_t got = kernel_readlink("/proc/thread-self", link, sizeof link - 1);

	if (got <= 0)
		return 0;
	link[got] = 0;
	return tasks_last_number(link) != tid;
}

static int run_once(const struct text *text, struct janitor_site *sites, size_t count,
		    enum task task, unsigned int patience_ms, int allow)
{
	struct stop_job *job = janitor.job;
	uint64_t now_ns = lock_now_ns();
	int error;

	for (uint32_t i = 0; i < 2 * janitor.room; i++)
		janitor.slots[i] = 0;
	memset(job, 0, offsetof(struct stop_job, words));
	job->halt = (struct halt_threads){
		.pid = kernel_getpid(),
		.tid = kernel_gettid(),
		.patience_ns = now_ns + (uint64_t)patience_ms * 1000000,
		.deadline_ns = now_ns + (uint64_t)STOP_MAX_MS * 1000000,
		.threads = janitor.threads,
		.slots = janitor.slots,
		.room = janitor.room,
		.slot_mask = 2 * janitor.room - 1,
	};
	job->keeper = control_keeper;
	job->memory_fd = text_way() == WAY_PROC_MEM && text->is_mem ? text->fd : -1;
	job->arm = task == TASK_ARM;
	job->main_stack_end = arena_main_stack_end();
	job->sites = sites;
	job->count = count;
	job->sweep = task == TASK_SWEEP;
	job->looks = task == TASK_LOOK;
	job->masks = task == TASK_UNBLOCK ? STOP_MASKS_TAKE : 0;
	job->filters = tasks_own_filters();
	job->book_at = (intptr_t)&trap_thread - (intptr_t)__builtin_thread_pointer();
	job->result = STOP_RUNNING;
	job->halt.is_foreign_proc = is_foreign_proc(job->halt.tid);
	job->halt.tasks_fd = kernel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (job->halt.tasks_fd < 0)
		return errno == ENOENT || errno == EACCES ? -WM_E_NO_PROC : -errno;
	error = start(job, allow);
	kernel_close(job->halt.tasks_fd);
	if (error)
		return error;
	/* it was killed: what it had stored by then is found out by looking */
	return job->result == STOP_RUNNING ? -EAGAIN : job->result;
}

static int run(const struct text *text, struct janitor_site *sites, size_t count, enum task task,
	       unsigned int patience_ms, struct janitor_outcome *outcome)
{
	int error, allow = 0;

	if (text_way() == WAY_NONE)
		return -WM_E_NO_TEXT_WRITE;
	/* a filter that was put on all threads since may kill the program for what we call */
	if (control_is_filtered_since())
		return -WM_E_SECCOMP;
	batch_register();
	error = prepare();
	if (error)
		return error;
	for (unsigned int tries = 0; tries < 8; tries++) {
		error = run_once(text, sites, count, task, patience_ms, allow);
		outcome->stopped_ns += janitor.job->stopped_ns;
		if (error == -ENOBUFS && !make_room(janitor.room * 2))
			continue;
		if (error != -EPERM || allow)
			break;
		allow = 1; /* Yama's restricted mode (ptrace_scope 1) */
	}
	DEBUG_TRACE("agent/janitor", "task %d, %d sites: error %d, %d threads stopped for %d ns",
		    task, count, error, janitor.job->halt.count, outcome->stopped_ns);
	outcome->threads = janitor.job->halt.count;
	outcome->done_ns = janitor.job->done_ns;
	return error == -EPERM ? -WM_E_NO_PTRACE : error;
}

int janitor_run(const struct text *text, struct janitor_site *sites, size_t count, int arm,
		unsigned int patience_ms, struct janitor_outcome *outcome)
{
	int error = run(text, sites, count, arm ? TASK_ARM : TASK_DISARM, patience_ms, outcome);

	if (error == -WM_E_NO_PTRACE && janitor_stopper)
		error = janitor_stopper(text, sites, count, arm, patience_ms, outcome);
	return error;
}

int janitor_sweep(const struct text *text)
{
	struct janitor_outcome outcome = { 0 };

	return run(text, NULL, 0, TASK_SWEEP, SWEEP_PATIENCE_MS, &outcome);
}

int janitor_look(const struct text *text)
{
	struct janitor_outcome outcome = { 0 };
	int error = run(text, NULL, 0, TASK_LOOK, LOOK_PATIENCE_MS, &outcome);

	return error ? error : janitor.job->has_pending ? -EAGAIN : 0;
}

int janitor_unblock(void)
{
	static const struct text none = { .fd = -1 };
	struct janitor_outcome outcome = { 0 };

	return run(&none, NULL, 0, TASK_UNBLOCK, LOOK_PATIENCE_MS, &outcome);
}
