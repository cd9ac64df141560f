/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_threads.h"

#include "base/array.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define STOP_MS 1000   /* for one thread */
#define LEAD_MS 20000  /* for a way: memory is mapped there */
#define POLL_NS 200000 /* a restartable sequence is over by then */
#define PARKED_POLL_NS                                                                             \
	2000000		/* what else may become of a thread on its way is looked for so often */
#define ROUNDS_MAX 1000 /* of looks for threads that came meanwhile */

static int is_held(const struct soft_threads *stopped, pid_t tid)
{
	for (size_t i = 0; i < stopped->count; i++)
		if (stopped->threads[i].tid == tid)
			return 1;
	return 0;
}

static int is_over(pid_t pid, pid_t tid)
{
	char state = target_thread_state(pid, tid);

	return !state || state == 'Z' || state == 'X';
}

/* What else than "not permitted" there is to say of one that can't be stopped. */
static int not_stopped(const struct soft_threads *stopped, pid_t tid, int err, struct detail detail)
{
	struct target target;

	if (err == -EPERM && !target_read(&target, stopped->pid)) {
		int why = target_may_trace(&target, detail);

		if (why)
			return why;
	}
	if (err == -ETIMEDOUT)
		return detail_set(
			detail, err,
			"thread %d can't be stopped now: it is in state %c, in a system call that nothing breaks off, such "
			"as vfork(2) while its child runs",
			tid, target_thread_state(stopped->pid, tid));
	if (err == -EOPNOTSUPP)
		return detail_set(detail, -WM_E_ENGINE_REFUSED,
				  "thread %d runs 32-bit code, or handles its system calls itself "
				  "(PR_SET_SYSCALL_USER_DISPATCH)",
				  tid);
	if (err == -WM_E_STOPPED)
		return detail_set(detail, err, "continue it first: kill -CONT %d", stopped->pid);
	return detail_set(detail, err, "thread %d", tid);
}

static int stop_one(struct soft_threads *stopped, pid_t tid, uint64_t deadline_ns,
		    struct detail detail)
{
	struct remote_thread *thread;
	int err;

	if (array_grow(&stopped->threads, &stopped->room, stopped->count + 1,
		       sizeof(*stopped->threads)))
		return detail_set(detail, -ENOMEM, "thread %d", tid);
	thread = &stopped->threads[stopped->count];
	for (;;) {
		uint64_t until = tracee_deadline(STOP_MS);

		err = remote_thread_stop(thread, tid, until < deadline_ns ? until : deadline_ns);
		if (err != -EAGAIN || tracee_late(deadline_ns))
			break;
		nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	if (err && err != -ESRCH && !(err == -EPERM && is_over(stopped->pid, tid)))
		return not_stopped(stopped, tid, err, detail);
	if (err)
		return 0;
	if (stopped->count) {
		close(thread->mem);
		thread->mem = -1;
	}
	stopped->count++;
	return 1;
}

/* Returns whether others may be running. */
static int stop_more(struct soft_threads *stopped, uint64_t deadline_ns, struct detail detail)
{
	pid_t *tids;
	int count = target_threads(stopped->pid, &tids), found = 0;

	if (count < 0)
		return detail_set(detail, count, "process %d", stopped->pid);
	for (int i = 0; i < count && found >= 0; i++) {
		int got = is_held(stopped, tids[i]) || is_over(stopped->pid, tids[i])
				  ? 0
				  : stop_one(stopped, tids[i], deadline_ns, detail);

		found = got < 0 ? got : found + got;
	}
	if (!found && !target_threads_are(stopped->pid, tids, count))
		found = 1;
	free(tids);
	return found;
}

int soft_threads_stop(struct soft_threads *stopped, pid_t pid, unsigned int for_ms,
		      struct detail detail)
{
	uint64_t deadline_ns = tracee_deadline(for_ms);
	int found = 1;

	*stopped = (struct soft_threads){ .pid = pid };
	for (int i = 0; found > 0 && i < ROUNDS_MAX; i++)
		found = stop_more(stopped, deadline_ns, detail);
	if (!found && !stopped->count)
		found = detail_set(detail, -ESRCH, "process %d has ended", pid);
	if (found > 0)
		found = detail_set(detail, -EAGAIN, "threads come faster than they can be stopped");
	if (found)
		soft_threads_end(stopped);
	return found;
}

void soft_threads_end(struct soft_threads *stopped)
{
	/* the first last: the others' memory is seen by way of it */
	for (size_t i = stopped->count; i-- > 0;)
		remote_thread_end(&stopped->threads[i]);
	free(stopped->threads);
	*stopped = (struct soft_threads){ 0 };
}

static int is_fault(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGTRAP ||
	       signal == SIGFPE || signal == SIGSYS;
}

/* Less than `count` of them: until the engine says of one more. */
static int are_parked(const struct engine_channel *head, size_t count)
{
	const struct timespec poll_wait = { .tv_nsec = PARKED_POLL_NS };
	uint32_t parked = __atomic_load_n(&head->parked, __ATOMIC_ACQUIRE);

	if (parked < count)
		syscall(SYS_futex, &head->parked, FUTEX_WAIT, parked, &poll_wait, NULL, 0);
	return parked >= count;
}

/*
 * Continue it from any stop, with its pending signal. A fault is the engine's, not the program's:
 * -EFAULT.
 */
static int on(const struct remote_thread *thread, int stop, int signal)
{
	if (stop == TRACEE_SIGNAL && is_fault(signal))
		return -EFAULT;
	return ptrace(PTRACE_CONT, thread->tid, NULL, stop == TRACEE_SIGNAL ? signal : 0) ? -ESRCH
											  : 0;
}

/* Until all are parked. SIGSTOP and SIGKILL alone can come between. */
static int park_all(const struct remote_thread *threads, size_t count,
		    const struct engine_channel *head)
{
	uint64_t deadline_ns = tracee_deadline(LEAD_MS);
	int err = 0;

	while (!err && !are_parked(head, count)) {
		for (size_t i = 0; i < count && !err; i++) {
			int signal, stop = tracee_look(threads[i].tid, &signal);

			err = stop > 0 ? on(&threads[i], stop, signal) : stop;
		}
		if (!err && tracee_late(deadline_ns))
			err = -ETIMEDOUT;
	}
	return err;
}

static int await_stop(struct remote_thread *thread)
{
	uint64_t deadline_ns = tracee_deadline(LEAD_MS);
	int err = 0;

	while (!err && !thread->is_stopped) {
		int signal, stop = tracee_wait(thread->tid, deadline_ns, &signal);

		thread->is_stopped = stop == TRACEE_INTERRUPTED || stop == TRACEE_GROUP_STOP;
		if (!thread->is_stopped)
			err = stop < 0 ? stop : tracee_interrupt(thread->tid, stop, signal);
	}
	return err;
}

int soft_threads_may_lead(const struct engine_places *places, uint64_t start, uint64_t bytes)
{
	const uint64_t inside[] = { places->take,      places->commit,	  places->undo,
				    places->leave,     places->call_done, places->call_back,
				    places->stack - 1, places->mappings };
	int may = places->start == start && places->bytes && places->bytes <= bytes;

	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
		may = may && inside[i] - start < places->bytes;
	return may;
}

/* On its way; it does not run yet. */
static int set_out(struct remote_thread *thread, const struct soft_way *way)
{
	static const uint64_t all = ~UINT64_C(0);
	const uint64_t arguments[6] = { way->first, way->second, way->third };
	struct halt_regs regs, now;
	int err = halt_regs_get(thread->tid, &now);

	if (err)
		return err;
	remote_regs_call(&regs, &thread->saved, way->at, -1, arguments);
	remote_regs_stack_set(&regs, way->stack);
	regs.regs.gs_base = now.regs.gs_base; /* the engine's, where it has been there */
	err = halt_regs_set(thread->tid, &regs);
	if (err)
		return err;
	/* second: who is on his way there sets it back by himself */
	if (!thread->entered && ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(all), &all))
		return -errno;
	thread->entered = way->head != NULL;
	return 0;
}

void soft_threads_unpark(struct engine_channel *head)
{
	__atomic_add_fetch(&head->way, 1, __ATOMIC_RELEASE);
}

int soft_threads_lead_all(struct remote_thread *threads, const struct soft_way *ways, size_t count)
{
	struct engine_channel *head = count ? ways[0].head : NULL;
	int err = 0;

	if (head) {
		__atomic_store_n(&head->parked, 0, __ATOMIC_RELEASE);
		soft_threads_unpark(head);
	}
	for (size_t i = 0; i < count && !err; i++)
		err = set_out(&threads[i], &ways[i]);
	for (size_t i = 0; i < count && !err && head; i++) {
		threads[i].is_stopped = 0;
		err = on(&threads[i], TRACEE_OTHER, 0);
	}
	if (err || !head)
		return err;
	err = park_all(threads, count, head);
	for (size_t i = 0; i < count && !err; i++)
		err = ptrace(PTRACE_INTERRUPT, threads[i].tid, NULL, NULL) ? -ESRCH : 0;
	for (size_t i = 0; i < count && !err; i++)
		err = await_stop(&threads[i]);
	return err;
}

int soft_threads_lead(struct remote_thread *thread, const struct soft_way *way)
{
	return soft_threads_lead_all(thread, way, 1);
}
