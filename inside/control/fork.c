/* SPDX-License-Identifier: MIT */
/*
 * fork: the child begins with the parent's text, armed as it was, and with none of its sessions.
 * The agent's lock is held over the fork, so that the registry is whole in the child; if it was not
 * to be had soon, the registry is abandoned there: its markers do nothing but count.
 *
 * The child writes to its parent's stores, of those sessions that follow to children, until it has
 * sessions of its own (SESSION_INHERITED). Where it may not, its hits until then are lost, and
 * counted there as discarded. A process with privileges shares nothing with its child, which may
 * give them up (store_is_alone()): such a child waits for sessions of its own before it continues.
 *
 * Children of vfork and of a bare clone() don't come here. The former share our memory and must not
 * touch it; the latter have no control thread, and their hits end where the store finds itself
 * wiped (inside/store/arena.h). They are counted, unless the process has privileges: then the child
 * has nothing of the store.
 */
#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/control/agent.h"
#include "inside/control/agent_session.h"
#include "inside/control/control_thread.h"
#include "inside/control/handler_objects.h"
#include "inside/control/session_table.h"
#include "inside/detour/detour.h"
#include "inside/detour/return.h"
#include "inside/marker/cost_counters.h"
#include "inside/marker/marker.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"
#include "inside/watch/sigtrap.h"
#include "inside/watch/watch.h"

#include <waymark/error.h>

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#define FORK_LOCK_MS 200
/* the tool is busy or stopped: the child continues, not recorded yet */
#define FORK_GO_WAIT_MS 1000
#define FORK_GO_MAX_MS 10000 /* the tool is at work */
#define FORK_BEHIND_MS 100
/* of a child that has no store until the tool has come, while the tool reads other stores */
#define FORK_ALONE_WAIT_MS 5000
#define BEHIND_NS UINT64_C(10000000000)

static __thread int has_lock __attribute__((tls_model("initial-exec")));
/* a signal handler forks: the hit that it interrupted continues in the parent, and counts there */
static __thread int is_inside __attribute__((tls_model("initial-exec")));
static __thread int32_t forking_tid __attribute__((tls_model("initial-exec")));
static __thread uint32_t followed __attribute__((tls_model("initial-exec"))); /* lanes */

/*
 * Shared by a process without privileges and all its descendants, so that a stopped tool holds back
 * one of them and not each. After one has waited in vain, the others wait only a moment for some
 * time, until the tool answers one of them. NULL: no memory, each waits.
 */
static uint64_t *behind_until_ns;

static void wait_for_tool(unsigned int usual_ms)
{
	uint64_t until_ns = 0;
	int is_behind, error;

	if (behind_until_ns)
		until_ns = __atomic_load_n(behind_until_ns, __ATOMIC_RELAXED);
	is_behind = lock_now_ns() < until_ns;
	error = control_wait_go(is_behind ? FORK_BEHIND_MS : usual_ms,
				is_behind ? FORK_BEHIND_MS : FORK_GO_MAX_MS);
	if (behind_until_ns && !(error && is_behind))
		__atomic_store_n(behind_until_ns, error ? lock_now_ns() + BEHIND_NS : 0,
				 __ATOMIC_RELAXED);
}

static void before(void)
{
	struct reentrancy_guard guard;
	int error;

	reentrancy_guard_enter(&guard);
	error = errno;
	forking_tid = writer_self ? writer_self->tid : 0;
	has_lock = !lock_take(&agent_lock, FORK_LOCK_MS);
	is_inside = store_self_is_inside();
	followed = is_inside ? 0 : store_forking(session_followed(), has_lock);
	reentrancy_guard_leave(&guard);
	errno = error;
}

static void parent(void)
{
	struct reentrancy_guard guard;
	int error;

	reentrancy_guard_enter(&guard);
	error = errno;
	if (has_lock) {
		store_forking_end();
		lock_release(&agent_lock);
	}
	has_lock = 0;
	reentrancy_guard_leave(&guard);
	errno = error;
}

/*
 * Nothing here may wait for a lock of libc's: other libraries' handlers, a malloc's among them, are
 * still to run. pthread_create() needs no memory from malloc here, since libc has the stacks, and
 * what goes with them, of the parent's control thread and keeper to give to ours.
 */
static void child(void)
{
	static char paths[SESSIONS_MAX][SESSION_PATH_BYTES];
	struct reentrancy_guard guard;
	unsigned int count;
	int error, is_whole, why = 0;
	int was_watched = watch_any_live();
	unsigned int usual_ms = FORK_GO_WAIT_MS;

	reentrancy_guard_enter(&guard);
	error = errno;
	count = session_tool_paths(paths);
	if (store_is_silent(followed, FORK_ALONE_WAIT_MS))
		usual_ms = FORK_BEHIND_MS;
	else if (store_any_is_alone(followed))
		usual_ms = FORK_ALONE_WAIT_MS;
	session_inherit(has_lock);
	detour_forked(has_lock, followed);
	sigtrap_forked();
	is_whole = registry_forked(has_lock, followed);
	watch_forked();
	/* also where nothing is armed in it: the fork is over, and the tool waits for that */
	store_forked(followed);
	cost_counters_forked();
	registry_listen(NULL);
	session_forked(followed, !is_whole || was_watched);
	objects_forked(followed);
	control_forked();
	lock_forked(&agent_lock, has_lock);
	return_forked(forking_tid, kernel_gettid());
	if (!is_whole)
		why = -EBUSY;
	else if (count && control_is_filtered_since())
		why = -WM_E_FILTERED_PROGRAM;
	if (count && !why) {
		for (unsigned int i = 0; i < count; i++)
			control_add_tool(paths[i]);
		/* as a launched program: so that what the child does first is recorded too */
		why = control_start(CONTROL_WANT_CONNECT, SESSION_FORKED | SESSION_LAUNCHED);
		if (!why)
			wait_for_tool(usual_ms);
	}
	if (count)
		DEBUG_TRACE("agent/fork", "child with %d tools, lanes %x, whole %d: error %d",
			    count, followed, is_whole, why);
	for (unsigned int i = 0; why && i < count; i++)
		session_unreached(paths[i], why);
	store_forked_end();
	has_lock = 0;
	reentrancy_guard_leave(&guard);
	errno = error;
}

void fork_register(void)
{
	/* each child of a process with privileges waits for itself */
	long shared = syscall_raw6(SYS_mmap, 0, sizeof *behind_until_ns, PROT_READ | PROT_WRITE,
				   (store_is_alone() ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS,
				   -1, 0);

	behind_until_ns = shared > 0 ? (uint64_t *)shared : NULL;
	pthread_atfork(before, parent, child);
}
