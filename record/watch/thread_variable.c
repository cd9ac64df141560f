/* SPDX-License-Identifier: MIT */
#include "record/watch/thread_variable.h"

#include "record/session/process.h"
#include "target/expression/tls_block.h"
#include "target/process/loaded.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <unistd.h>
#include <waymark/error.h>

#define STOP_MS 2000

struct looker {
	pid_t tid;
	uint64_t pointer;
	int err;
};

static void *look(void *data)
{
	struct looker *looker = data;
	struct user_regs_struct registers;

	looker->err = tracee_seize(looker->tid);
	if (!looker->err)
		looker->err = tracee_stop(looker->tid, tracee_deadline(STOP_MS));
	if (looker->err)
		return NULL;
	if (ptrace(PTRACE_GETREGS, looker->tid, NULL, &registers))
		looker->err = -errno;
	looker->pointer = registers.fs_base;
	tracee_detach(looker->tid);
	return NULL;
}

/*
 * In a thread of its own: if a tracee could not be stopped in time, the kernel detaches it when
 * this thread ends.
 */
static int pointer_read(pid_t tid, uint64_t *pointer)
{
	struct looker looker = { .tid = tid };
	pthread_t thread;
	int err = -pthread_create(&thread, NULL, look, &looker);

	if (err)
		return err;
	pthread_join(thread, NULL);
	*pointer = looker.pointer;
	return looker.err;
}

int thread_concerns(const struct wm_session *session, pid_t pid, const struct watch_expr *expr,
		    struct watch_trouble *trouble)
{
	pid_t tid = expr->options.thread;
	long holder;

	if (tid <= 0)
		return 1;
	holder = target_status_number(tid, "Tgid");
	if (holder == pid)
		return 1;
	for (const struct process *p = session->processes; p && holder > 0; p = p->next)
		if (p->pid == holder)
			return 0;
	if (holder > 0)
		return expression_trouble_set(trouble, -WM_E_WATCH_NO_TID, 0, 0,
					      "%d is a thread of process %ld", (int)tid, holder);
	return expression_trouble_set(trouble, -WM_E_WATCH_NO_TID, 0, 0, "%d", (int)tid);
}

static int refuse(struct watch_trouble *trouble, pid_t tid, int err)
{
	if (err == -ESRCH)
		return expression_trouble_set(trouble, -WM_E_WATCH_NO_TID, 0, 0, "%d", (int)tid);
	if (err == -EPERM && target_status_number(tid, "TracerPid") > 0)
		err = -WM_E_TRACED;
	return expression_trouble_set(trouble, err, 0, 0, "of thread %d", (int)tid);
}

/*
 * Find the word by which the agent sees that the owner has ended. A main thread needs none: its
 * memory is not reused.
 */
static int owner_read(struct thread_owner *owner, const struct code_process *process,
		      uint64_t pointer, struct watch_trouble *trouble)
{
	int err;

	/*
	 * at each hit the agent reads the word with a system call, which a seccomp filter may
	 * forbid
	 */
	if (target_filters(owner->tid) > 0)
		return refuse(trouble, owner->tid, -WM_E_SECCOMP);
	err = expression_block_number(&owner->word, process, pointer, trouble);

	if (!err && process->memory.read(process->memory.data, owner->word, &owner->number,
					 sizeof(owner->number)))
		err = expression_trouble_set(trouble, -WM_E_WATCH_BLOCKS, 0, 0,
					     "its thread's number");
	if (!err && !owner->number)
		err = refuse(trouble, owner->tid, -ESRCH);
	return err;
}

int thread_find(struct thread_owner *owner, uint64_t *base, pid_t pid,
		const struct watch_place *place, pid_t tid, struct loaded_list *list,
		struct watch_trouble *trouble)
{
	struct code_process process = loaded_process(list);
	int err;

	*owner = (struct thread_owner){ .tid = tid == WATCH_THREAD_MAIN ? pid : tid };
	owner->start_time = target_start_time(owner->tid);
	err = pointer_read(owner->tid, base);
	if (err)
		return refuse(trouble, owner->tid, err);
	if (owner->tid != pid)
		err = owner_read(owner, &process, *base, trouble);
	if (!err && place->base == WATCH_IN_BLOCK)
		err = expression_block_find(base, &process, place->module, *base, trouble);
	return err;
}

int thread_has_ended(const struct thread_owner *owner, pid_t pid)
{
	if (!owner->tid || owner->tid == pid)
		return 0;
	return target_start_time(owner->tid) != owner->start_time;
}
