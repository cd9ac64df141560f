/* SPDX-License-Identifier: MIT */
#include "record/session/process.h"

#include "base/maps.h"
#include "record/handler/handler_file.h"
#include "record/probe/probes.h"
#include "record/session/life.h"
#include "record/session/triggers.h"
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
#define PLACES_MAX 2			/* CONTROL_PLACE in flight, of up to 64 KiB each */

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

struct process *process_find(const struct wm_session *session, pid_t pid)
{
	for (struct process *p = session->processes; p; p = p->next)
		if (p->pid == pid && p->state < PROCESS_HUNG_UP)
			return p;
	return NULL;
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
static char *module_path(const struct wm_session *session, const struct process *process,
			 const struct control_module *about, const char *path)
{
	const struct map *map;
	struct maps maps = { 0 };
	char *found = NULL;

	/* an object of handlers, which the agent loads by a descriptor */
	if (!strncmp(path, "/proc/self/task/", strlen("/proc/self/task/"))) {
		const char *file = handlers_path(session, about->build_id, about->build_id_bytes);

		found = file ? realpath(file, NULL) : NULL;
		return found ? found : strdup(path);
	}
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
	char *own = module_path(session, process, module, path);
	int err = own ? 0 : -ENOMEM;

	if (!err && process->trace >= 0 && session->writer)
		err = trace_module_add(session->writer, process->trace, module, own, ns);
	if (!err)
		return keep_module(process, module, own, ns);
	free(own);
	return err;
}

/* Whether it is the last that is known at that place. */
static int is_known(const struct process *process, const struct loaded *loaded)
{
	int is = 0;

	for (size_t i = 0; i < process->module_count; i++) {
		const struct control_module *about = &process->modules[i].about;

		if (about->base == loaded->base)
			is = !about->gone && about->build_id_bytes == loaded->id.build_id_bytes &&
			     !memcmp(about->build_id, loaded->id.build_id, about->build_id_bytes);
	}
	return is;
}

int process_modules_note(struct wm_session *session, struct process *process,
			 const struct loaded_list *list)
{
	int err = 0;

	for (size_t i = 0; i < list->count && !err; i++) {
		const struct loaded *loaded = &list->all[i];
		struct control_module module = {
			.base = loaded->base, .build_id_bytes = (uint8_t)loaded->id.build_id_bytes
		};

		memcpy(module.build_id, loaded->id.build_id, sizeof(module.build_id));
		if (!is_known(process, loaded))
			err = process_module(session, process, &module, loaded->path);
	}
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

/* ---- its store: whether it or its children still have it mapped ---- */

static int maps_store(const struct process *process, pid_t pid, int otherwise)
{
	struct target target;
	struct maps maps = { 0 };
	int found = 0;

	if (target_read(&target, pid))
		return 0;
	if (maps_read(&maps, target.live_tid))
		found = otherwise;
	for (size_t i = 0; i < maps.count && !found; i++)
		found = maps.list[i].inode == process->store_inode && maps.list[i].shared &&
			strstr(maps.list[i].path, "/memfd:");
	maps_release(&maps);
	return found;
}

int process_has_store(const struct process *process)
{
	return maps_store(process, process->pid, 0);
}

/*
 * If a child's maps may not be read, assume that it has the store: else its events could be lost.
 */
static int child_has_store(pid_t pid, void *data)
{
	return maps_store(data, pid, 1);
}

int process_is_shared(struct process *process)
{
	return process->drain && drain_is_shared(process->drain, child_has_store, process);
}

/* ---- requests ---- */

/*
 * Requests are sent in order, a few at a time. The agent reads one after it has answered the one
 * before. If both sides filled the socket at the same time, neither could continue.
 */
struct process_queued {
	struct process_queued *next;
	size_t bytes;
	uint16_t type;
	unsigned char body[];
};

/* A free element of `requests` for a request that may be sent now; -1: none. */
static int free_place(const struct process *process, uint16_t type)
{
	int place = -1, places = 0;

	for (int i = 0; i < REQUESTS_MAX; i++) {
		if (!process->requests[i].serial)
			place = i;
		else
			places += process->requests[i].type == CONTROL_PLACE;
	}
	return type == CONTROL_PLACE && places >= PLACES_MAX ? -1 : place;
}

static int send_at(struct process *process, int place, uint16_t type, const struct iovec *parts,
		   int count)
{
	int serial = link_send(&process->link, type, parts, count);

	if (serial < 0)
		return serial;
	process->requests[place].serial = (uint32_t)serial;
	process->requests[place].type = type;
	return 0;
}

static int enqueue(struct process *process, uint16_t type, const struct iovec *parts, int count)
{
	struct process_queued *queued;
	size_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	queued = malloc(sizeof(*queued) + bytes);
	if (!queued)
		return -ENOMEM;
	*queued = (struct process_queued){ .type = type };
	for (int i = 0; i < count; i++) {
		memcpy(queued->body + queued->bytes, parts[i].iov_base, parts[i].iov_len);
		queued->bytes += parts[i].iov_len;
	}
	if (!process->queue)
		process->queue_end = &process->queue;
	*process->queue_end = queued;
	process->queue_end = &queued->next;
	return 0;
}

int process_request(struct process *process, uint16_t type, const struct iovec *parts, int count)
{
	int place = process->queue ? -1 : free_place(process, type);

	if (process->link.fd < 0)
		return -WM_E_GONE;
	return place < 0 ? enqueue(process, type, parts, count)
			 : send_at(process, place, type, parts, count);
}

unsigned int process_pending(const struct process *process)
{
	unsigned int pending = 0;

	for (int i = 0; i < REQUESTS_MAX; i++)
		pending += process->requests[i].serial != 0;
	for (const struct process_queued *q = process->queue; q; q = q->next)
		pending++;
	return pending;
}

static void send_queued(struct process *process)
{
	while (process->queue) {
		struct process_queued *first = process->queue;
		struct iovec part = { first->body, first->bytes };
		int place = free_place(process, first->type), err;

		if (place < 0)
			return;
		err = send_at(process, place, first->type, &part, 1);
		if (err && !process->error)
			process->error = err;
		process->queue = first->next;
		free(first);
	}
}

uint16_t process_answered(struct process *process, uint32_t serial)
{
	uint16_t type = 0;

	for (int i = 0; serial && i < REQUESTS_MAX; i++) {
		if (process->requests[i].serial != serial)
			continue;
		type = process->requests[i].type;
		process->requests[i].serial = 0;
	}
	send_queued(process);
	return type;
}

void process_drop_places(struct process *process)
{
	struct process_queued **at = &process->queue;

	while (*at) {
		struct process_queued *queued = *at;

		if (queued->type == CONTROL_PLACE || queued->type == CONTROL_COMMIT) {
			*at = queued->next;
			free(queued);
		} else {
			at = &queued->next;
		}
	}
	process->queue_end = at;
}

void process_forget_requests(struct process *process)
{
	memset(process->requests, 0, sizeof(process->requests));
	while (process->queue) {
		struct process_queued *next = process->queue->next;

		free(process->queue);
		process->queue = next;
	}
}

/* ---- in the trace ---- */

static int trace_event(struct wm_session *session, const struct process *process,
		       const struct event *event)
{
	const struct enumeration *names[CODE_FIELDS_MAX];
	int err;

	if (process->trace < 0 || !session->writer)
		return 0;
	enumerated_find(session->probes->plans, event->text, names);
	err = trace_event_add_named(session->writer, process->trace, event->id, event->types,
				    event->text, names);
	if (!err)
		trace_triggers_set(session->writer, process->trace, event->id,
				   triggers_of(session, event->text));
	return err;
}

int process_declare(struct wm_session *session, struct process *process, uint32_t id,
		    const uint8_t types[16], const char *text)
{
	struct event_list *events = process->events;
	int err = event_list_add(events, id, types, text);

	if (!err)
		err = trace_schema_add(process->schema, id, types, text);
	return err ? err : trace_event(session, process, &events->all[events->count - 1]);
}

int process_trace(struct wm_session *session, struct process *process)
{
	struct trace_process about = {
		.pid = (uint32_t)process->pid,
		.ppid = process->hello.ppid,
		.start_time = process->hello.start_time,
		.exe = process->exe,
		.build_id_bytes = process->build_id_bytes,
	};
	char host[256] = "";
	int err = 0;

	life_begin(session, process);
	about.way = process->life.way;
	about.begin_ns = process->life.begin_ns;
	if (!session->writer || process->trace >= 0 || !process->drain)
		return 0;
	/* after the return above, which each packet takes */
	about.uid = process->is_kernel ? 0 : (uid_t)target_status_number(process->pid, "Uid");
	gethostname(host, sizeof(host) - 1);
	about.hostname = host;
	about.clock = drain_clock(process->drain);
	about.ticks_hz = session_hz(session, about.clock);
	memcpy(about.build_id, process->build_id, sizeof(about.build_id));
	process->trace = trace_process_add(session->writer, &about);
	if (process->trace < 0)
		return process->trace;
	for (size_t i = 0; i < process->module_count && !err; i++)
		err = trace_module_add(session->writer, process->trace, &process->modules[i].about,
				       process->modules[i].path, process->modules[i].ns);
	for (size_t i = 0; i < process->events->count && !err; i++)
		err = trace_event(session, process, &process->events->all[i]);
	return err;
}
