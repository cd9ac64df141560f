/* SPDX-License-Identifier: MIT */
#include "inside/runtime/control_life.h"

#include "base/kernel.h"
#include "inside/runtime/idle.h"
#include "inside/runtime/agent_thread.h"

#include <sys/prctl.h>

#define WAKE_LOCK_MS 200

struct control_life control_life;
int32_t control_keeper;

int control_runs(void)
{
	return __atomic_load_n(&control_life.state, __ATOMIC_ACQUIRE) != CONTROL_NONE;
}

/* Under the lock, so that the thread can't have ended and its number be another's. */
void control_wake_locked(void)
{
	if (!control_life.tid)
		return;
	syscall_raw(SYS_tgkill, kernel_getpid(), control_life.tid, THREAD_WAKE_SIGNAL, 0);
	idle_wake();
}

int control_wake(void)
{
	int is_there;

	if (lock_take(&control_life.lock, WAKE_LOCK_MS))
		return control_runs();
	is_there = control_life.tid != 0;
	control_wake_locked();
	lock_release(&control_life.lock);
	return is_there;
}

int control_is_filtered_since(void)
{
	/* mode 2 at the start already: a container's filter, which lets threads be */
	return control_life.seccomp == 0 && kernel_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0) > 0;
}
