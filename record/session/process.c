/* SPDX-License-Identifier: MIT */
#include "record/session/process.h"

#include "base/maps.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "trace/schema.h"
#include "trace/writer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define MODULES_MAX 4096
#define EXECUTE_NS UINT64_C(2000000000) /* to wait for the agent of the executed program */

int process_new(struct process **process, struct wm_session *session, struct link *link, pid_t pid)
{
	struct process *new = calloc(1, sizeof(*new));
	int err;

	if (!new) {
		link_release(link);
		return -ENOMEM;
	}
	*new = (struct process){
		.state = PROCESS_NEW, /* -> NEW */
		.link = *link,
		.pid = pid,
		.pidfd = -1,
		.trace = -1,
		.gathered = { -1, -1 },
	};
	*link = (struct link){ .fd = -1 };
	new->since_ns = ticks_monotonic_ns();
	new->number = ++session->process_number;
	new->events = event_list_new(NULL, 0);
	err = new->events ? trace_schema_new(&new->schema) : -ENOMEM;
	if (err) {
		process_free(new);
		return err;
	}
	new->schema->numbers = &session->numbers;
	new->pidfd = link_pidfd(&new->link, pid);
	new->next = session->processes;
	session->processes = new;
	*process = new;
	return 0;
}

void process_free(struct process *process)
{
	if (!process)
		return;
	link_release(&process->link);
	process_forget_requests(process);
	if (process->pidfd >= 0)
		close(process->pidfd);
	drain_free(process->drain);
	trace_schema_free(process->schema);
	event_list_drop(process->events);
	for (size_t i = 0; i < process->module_count; i++)
		free(process->modules[i].path);
	free(process->modules);
	probed_release(&process->probed);
	free(process->exe);
	free(process);
}

int process_is_dead(const struct process *process)
{
	struct pollfd poll_fd = { .fd = process->pidfd, .events = POLLIN };

	if (process->pidfd < 0)
		return process->pidfd == -ESRCH || process->state >= PROCESS_HUNG_UP;
	return process->dead || (poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLIN));
}

int process_has_number(const struct process *process)
{
	if (process->pidfd < 0)
		return process->pidfd != -ESRCH;
	return !syscall(SYS_pidfd_send_signal, process->pidfd, 0, NULL, 0) || errno != ESRCH;
}

int process_executes(const struct process *process)
{
	return process->state >= PROCESS_HUNG_UP && process->hello.launched && !process->error &&
	       ticks_monotonic_ns() - process->hung_up_ns < EXECUTE_NS && !process_is_dead(process);
}

int process_is_halted(const struct process *process)
{
	char state = target_thread_state(process->pid, process->pid);
	long tracer;

	if (state != 't')
		return state == 'T';
	tracer = target_status_number(process->pid, "TracerPid");
	return tracer > 0 && target_parent((pid_t)tracer) != process->pid;
}

/* Whether the process is in our PID namespace, so that it has the same pids for its children. */
static int is_in_our_namespace(pid_t pid)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return !stat("/proc/self/ns/pid", &own) && !stat(path, &its) && own.st_ino == its.st_ino &&
	       own.st_dev == its.st_dev;
}

uint32_t process_tool_pid(const struct wm_session *session, const struct process *process)
{
	if (session->options.follow == WM_FOLLOW_NONE || !is_in_our_namespace(process->pid))
		return 0;
	return (uint32_t)getpid();
}

/*
 * The path of a module as others find it: the loader keeps that of dlopen("./plugin.so") as it was
 * given. One that is closed is no longer mapped: it has the path that it was loaded
 * with. NULL: no memory.
 */
static char *module_path(const struct process *process, const struct control_module *about,
			 const char *path)
{
	const struct map *map;
	struct maps maps = { 0 };
	char *found = NULL;

	if (path[0] == '/' || path[0] == '[')
		return strdup(path);
	for (size_t i = process->module_count; about->gone && i-- && !found;)
		if (process->modules[i].about.base == about->base)
			found = strdup(process->modules[i].path);
	if (!about->gone && !maps_read(&maps, process->pid)) {
		map = maps_find(&maps, about->base);
		if (map && map->path[0] == '/')
			found = strdup(map->path);
	}
	maps_release(&maps);
	return found ? found : strdup(path);
}

/* Takes the path. */
static int keep_module(struct process *process, const struct control_module *about, char *path,
		       uint64_t ns)
{
	struct process_module *more;

	if (process->module_count >= MODULES_MAX) {
		free(path);
		return 0;
	}
	more = realloc(process->modules, (process->module_count + 1) * sizeof(*more));
	if (!more) {
		free(path);
		return -ENOMEM;
	}
	process->modules = more;
	more[process->module_count++] = (struct process_module){ *about, ns, path };
	return 0;
}

int process_module(struct wm_session *session, struct process *process,
		   const struct control_module *module, const char *path)
{
	uint64_t ns = session_wall_ns(session, ticks_monotonic_ns());
	char *own = module_path(process, module, path);
	int err = own ? 0 : -ENOMEM;

	if (!err && process->trace >= 0 && session->writer)
		err = trace_module_add(session->writer, process->trace, module, own, ns);
	if (!err)
		return keep_module(process, module, own, ns);
	free(own);
	return err;
}

void process_hang_up(struct process *process, int err)
{
	link_release(&process->link);
	if (process->state >= PROCESS_HUNG_UP)
		return;
	process->state = PROCESS_HUNG_UP; /* NEW ... OPENED -> HUNG_UP */
	process->hung_up_ns = process->since_ns = ticks_monotonic_ns();
	if (!process->error && err != -WM_E_GONE)
		process->error = err;
	process_forget_requests(process);
}
