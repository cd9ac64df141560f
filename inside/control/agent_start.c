/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "base/kernel.h"
#include "base/socketdir.h"
#include "inside/control/agent.h"
#include "inside/control/control_thread.h"
#include "inside/control/listen.h"
#include "inside/control/session_table.h"
#include "inside/control/wait.h"
#include "inside/detour/detour.h"
#include "inside/detour/hook.h"
#include "inside/marker/caller_modules.h"
#include "inside/marker/linkmap.h"
#include "inside/marker/marker.h"
#include "inside/patch/batch.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"
#include "inside/store/event_store.h"
#include "inside/unwind/unwind.h"
#include "inside/watch/watch.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <waymark/agent.h>

/*
 * Whether this thread runs under more filters than `reported`, the tool's own number of filters in
 * decimal. NULL: the tool reported none, and the result is 0. Makes only system calls that the
 * dynamic loader has just made, since any other may be fatal. A program's first thread.
 */
static int seccomp_inherited_is_more(const char *reported)
{
	static char status[TASKS_STATUS_BYTES];
	const char *line;

	if (!reported)
		return 0;
	/* without /proc there is nothing harmless to ask by */
	if (tasks_read_status(AT_FDCWD, "/proc/self", status))
		return kernel_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0) > 0;
	line = tasks_value(status, "\nSeccomp_filters:");
	if (!*line) /* before Linux 5.9: whether there are any */
		line = tasks_value(status, "\nSeccomp:");
	return tasks_last_number(line) > tasks_last_number(reported);
}
#define LOCK_MS 2000
#define LISTEN_WAIT_MS 5000

static int started; /* under the agent's lock */

/* The linker's: where this library begins, and where its code ends. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* Once in a process and its forked children. Under the agent's lock. */
static int start(void)
{
	void *volatile first;
	struct text text;
	int error;

	if (started)
		return 0;
	debug_trace_open();
	/*
	 * fork(2) runs our handler in the child before those that were registered later. A malloc
	 * of the program's own takes its locks in such a handler: let it register first. volatile:
	 * a compiler leaves out memory that no one uses.
	 */
	first = malloc(1);
	free(first);
	error = store_init();
	if (!error)
		error = text_open(&text);
	if (error)
		return error;
	error = linkmap_init(&text);
	text_release(&text);
	if (error)
		return error;
	caller_modules_init();
	detour_init();
	unwind_init();
	watch_init();
	watch_own_code((uintptr_t)__ehdr_start, (uintptr_t)etext);
	fork_register();
	started = 1;
	DEBUG_TRACE("agent/start", "started: text is written by way %d", text_way());
	return 0;
}

/*
 * Where there are threads already, registering may wait for seconds: a fork must not, so not
 * locked.
 */
static int start_agent(void)
{
	int error = lock_take(&agent_lock, LOCK_MS);

	if (error)
		return error;
	error = start();
	lock_release(&agent_lock);
	if (!error)
		batch_register();
	return error;
}

/*
 * Preloaded: WAYMARK_TOOL says who has launched us. Nothing at all happens without it, in a program
 * with other privileges than its caller's (AT_SECURE), under a filter that its tool isn't under, or
 * when a thread of a running program loads us.
 *
 * We come before every other constructor (-z initfirst), libc's own among them, which sets environ.
 * A malloc of the program's that reads its settings there may be called first by us: set it now.
 */
static __attribute__((constructor)) void preloaded(int argc, char **argv, char **envp)
{
	unsigned int flags = SESSION_LAUNCHED;
	int error = errno, why;
	const char *tool;

	(void)argc, (void)argv;
	if (!environ)
		environ = envp;
	tool = secure_getenv(CONTROL_TOOL_ENV);
	if (tool && tool[0] == '/' &&
	    !seccomp_inherited_is_more(secure_getenv(CONTROL_FILTERS_ENV)) &&
	    kernel_gettid() == kernel_getpid()) {
		if (secure_getenv(CONTROL_PREARM_ENV))
			flags |= CONTROL_PREARM;
		wait_tool(tool);
		why = start_agent();
		if (!why)
			why = control_add_tool(tool);
		if (!why)
			why = control_start(CONTROL_WANT_CONNECT, flags);
		DEBUG_TRACE("agent/start", "launched by %s: error %d", (long)tool, why);
		if (why)
			listen_refuse(tool, why);
		else
			why = control_wait_go(CONTROL_GO_WAIT_MS, CONTROL_WAIT_MAX_MS);
		DEBUG_TRACE("agent/start", "the program continues: error %d", why);
	}
	errno = error;
}

/* Have the control thread listen, and wait until it does. */
static int listen_by(uint32_t wants)
{
	uint64_t end_ns = lock_now_ns() + (uint64_t)LISTEN_WAIT_MS * 1000000;
	int error = control_start(wants, 0);

	while (!error) {
		/* `runs` first: the thread stores its error before it ends */
		int runs = control_runs(), listens = control_listens();

		if (listens)
			return listens < 0 ? listens : 0;
		if (lock_now_ns() >= end_ns)
			return -ETIMEDOUT;
		if (!runs)
			return -EAGAIN; /* it could not even start: no threads, no descriptors */
		kernel_sleep_ns(200000);
	}
	return error;
}

static int use_folder(const char *folder)
{
	char path[SOCKETDIR_BYTES];
	int error;

	if (folder && folder[0] == '/')
		return listen_set_folder(folder);
	error = socketdir_find(kernel_geteuid(), secure_getenv("XDG_RUNTIME_DIR"), path);
	if (error)
		error = socketdir_make_private(kernel_geteuid(), path);
	return error ? error : listen_set_folder(path);
}

__attribute__((visibility("default"))) int wm_agent_listen(void)
{
	int error = start_agent();

	if (error)
		return error;
	if (control_runs() && control_listens() == 1)
		return control_start(CONTROL_WANT_LISTEN, 0); /* from now on, permanently */
	error = use_folder(NULL);
	return error ? error : listen_by(CONTROL_WANT_LISTEN);
}

__attribute__((visibility("default"))) void *waymark_agent_loaded(const char *folder)
{
	int error = start_agent();

	if (!error && (!control_runs() || control_listens() != 1))
		error = use_folder(folder);
	if (!error)
		error = listen_by(CONTROL_WANT_GREET);
	DEBUG_TRACE("agent/start", "injected, listens: error %d", error);
	return (void *)(intptr_t)error;
}

int agent_enter(struct text *text)
{
	int error;

	error = lock_take(&agent_lock, LOCK_MS);
	if (!error) {
		error = start();
		if (!error)
			error = text_open(text);
		if (error)
			lock_release(&agent_lock);
	}
	if (error)
		return error;
	/* a control thread looks at modules alone, because it reports them to its sessions */
	if (!control_runs() && !hook_is_placed() && !registry_scan(text))
		registry_follow(text);
	return 0;
}

void agent_leave(struct text *text)
{
	if (!control_runs()) {
		if (registry_waits())
			hook_place(text, control_loader_changed);
		else
			hook_remove(text);
	}
	text_release(text);
	lock_release(&agent_lock);
}
