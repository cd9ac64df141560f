/* SPDX-License-Identifier: MIT */
#include "record/kernel/kernel_tasks.h"

#include "abi/engine.h"
#include "base/array.h"
#include "base/maps.h"
#include "base/slots.h"
#include "base/texts.h"
#include "record/kernel/task_engine.h"
#include "record/kernel/task_files.h"
#include "record/kernel/task_moved.h"
#include "record/perf/sampler.h"
#include "record/session/process.h"
#include "record/trail/live.h"
#include "target/code/callstack.h"
#include "target/process/target.h"
#include "trace/process_records.h"
#include "trace/writer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHAINS 1024u		 /* of processes, by pid */
#define ALIVE_MAX 65536u	 /* processes that are known of at one time */
#define MAPS_MAX 16384u		 /* of a process */
#define UNWINDS_MAX 32u		 /* processes whose files are open at one time */
#define PATHS_MAX 262144u	 /* different ones */
#define ADDRESSES_MAX (1u << 20) /* of the kernel, that are named */

struct task_map {
	uint64_t start, end, offset;
	const char *path;
	uint64_t ns;	  /* when it came, by the wall clock; 0: before we looked */
	uint64_t gone_ns; /* when another took its place; 0: it is there */
	int written_for;  /* the trace has that it is gone, of the process of this number, + 1 */
	int is_known;	  /* `module` has more than the build id, which the kernel may report */
	struct control_module module;
};

struct task {
	struct task *next;
	pid_t pid;
	int is_followed; /* from its start or its exec on: all its mappings were seen */
	int is_bare;	 /* it has executed a program, and mapped nothing so far */
	int is_met;	 /* an address of it was recorded */
	int number;	 /* in the trace; -1: not in it */
	int is_own;	 /* we put it there */
	char way;	 /* enum life_kind */
	uint64_t begin_ns;
	const char *exe; /* NULL: not known */
	struct task_map *maps;
	size_t count, room;
	size_t added;		  /* of maps, to the trace */
	struct callstack *unwind; /* NULL: not asked for */
	size_t unwound;		  /* of maps, that it has */
	int has_agent;
	struct task_moved moved;
	struct task_engine engine;
};

/* Different ones of the kernel, to be named at the end. Zeroed: empty. */
struct addresses {
	uint64_t *all; /* as they came */
	size_t count, room;
	struct slots slots;
};

struct kernel_tasks {
	struct wm_session *session;
	struct task *chains[CHAINS];
	size_t alive, in_trace;
	uint64_t refused;
	struct texts paths;
	struct task_files *files;
	struct addresses addresses;
	int attended;	/* numbers in the trace that were looked at */
	size_t unwinds; /* that there are */
};

/* Add one, once; without memory or room it is left out. */
static void addresses_add(struct addresses *addresses, uint64_t address)
{
	uint32_t hash = slots_hash(address), number;

	if (addresses->count == ADDRESSES_MAX || slots_fit(&addresses->slots))
		return;
	for (uint64_t at = hash; slots_next(&addresses->slots, hash, &at, &number);)
		if (addresses->all[number] == address)
			return;
	if (array_grow(&addresses->all, &addresses->room, addresses->count + 1,
		       sizeof(*addresses->all)))
		return;
	addresses->all[addresses->count] = address;
	slots_add(&addresses->slots, hash, (uint32_t)addresses->count++);
}

static void addresses_release(struct addresses *addresses)
{
	free(addresses->all);
	free(addresses->slots.all);
	*addresses = (struct addresses){ 0 };
}

int kernel_tasks_new(struct kernel_tasks **out, struct wm_session *session)
{
	struct kernel_tasks *tasks;

	*out = NULL;
	tasks = calloc(1, sizeof(*tasks));
	if (!tasks)
		return -ENOMEM;
	tasks->session = session;
	tasks->paths.most = PATHS_MAX;
	tasks->files = task_files_new();
	*out = tasks;
	return tasks->files ? 0 : -ENOMEM;
}

static void unwind_forget(struct kernel_tasks *tasks, struct task *task)
{
	tasks->unwinds -= task->unwind != NULL;
	callstack_free(task->unwind);
	task->unwind = NULL;
	task->unwound = 0;
}

static void task_free(struct kernel_tasks *tasks, struct task *task)
{
	unwind_forget(tasks, task);
	task_moved_release(&task->moved);
	task_engine_release(&task->engine);
	free(task->maps);
	free(task);
}

void kernel_tasks_free(struct kernel_tasks *tasks)
{
	if (!tasks)
		return;
	for (size_t i = 0; i < CHAINS; i++)
		for (struct task *task = tasks->chains[i], *next; task; task = next) {
			next = task->next;
			task_free(tasks, task);
		}
	texts_release(&tasks->paths);
	addresses_release(&tasks->addresses);
	task_files_free(tasks->files);
	free(tasks);
}

uint64_t kernel_tasks_refused(const struct kernel_tasks *tasks)
{
	return tasks ? tasks->refused : 0;
}

static void trouble(struct kernel_tasks *tasks, int err)
{
	if (err < 0 && !tasks->session->trace_error)
		tasks->session->trace_error = err;
}

/* NULL: no memory, or too many. */
static const char *path_keep(struct kernel_tasks *tasks, const char *text)
{
	return texts_keep(&tasks->paths, text, strnlen(text, PATH_MAX));
}

/* ---- processes ---- */

static struct task *task_find(const struct kernel_tasks *tasks, pid_t pid)
{
	struct task *task = tasks->chains[(unsigned int)pid % CHAINS];

	while (task && task->pid != pid)
		task = task->next;
	return task;
}

/* NULL: no memory, or too many. */
static struct task *task_get(struct kernel_tasks *tasks, pid_t pid)
{
	struct task *task = task_find(tasks, pid);

	if (task || tasks->alive == ALIVE_MAX)
		return task;
	task = calloc(1, sizeof(*task));
	if (!task)
		return NULL;
	task->pid = pid;
	task->number = -1;
	task->way = LIFE_START;
	task->next = tasks->chains[(unsigned int)pid % CHAINS];
	tasks->chains[(unsigned int)pid % CHAINS] = task;
	tasks->alive++;
	return task;
}

/* Landings of detours are in a file of memory. */
static int is_landings(const char *path)
{
	return !strncmp(path, "/memfd:" DETOUR_NAME, sizeof("/memfd:" DETOUR_NAME) - 1);
}

/* What a map took the place of went at the latest then: the kernel has no record of its end. */
static void replace(struct kernel_tasks *tasks, struct task *task, const struct task_map *map)
{
	for (size_t i = 0; i < task->count; i++) {
		struct task_map *old = &task->maps[i];

		/* the kernel may report parts of a file again; from its start on it has changed */
		if (old->gone_ns || (old->path == map->path && old->start != map->start) ||
		    old->start >= map->end || map->start >= old->end)
			continue;
		old->gone_ns = map->ns ? map->ns : 1;
		unwind_forget(tasks, task);
	}
}

/* Make room: what is gone, and in the trace, is not needed any more. */
static void maps_forget(struct task *task)
{
	size_t kept = 0, added = task->added, unwound = task->unwound;

	for (size_t i = 0; i < task->count; i++) {
		if (i < added && task->maps[i].gone_ns) {
			task->added--;
			task->unwound -= i < unwound;
			continue;
		}
		task->maps[kept++] = task->maps[i];
	}
	task->count = kept;
}

/* Whether a map comes again, of a file that was not written over since. */
static int is_again(const struct task_map *known, const struct task_map *map)
{
	const struct control_module *was = &known->module, *is = &map->module;

	return !known->gone_ns && known->start == map->start && known->path == map->path &&
	       (!was->build_id_bytes || !is->build_id_bytes ||
		!memcmp(was->build_id, is->build_id, sizeof(is->build_id)));
}

static void map_add(struct kernel_tasks *tasks, struct task *task, const struct task_map *map)
{
	for (size_t i = task->count; i--;)
		if (is_again(&task->maps[i], map))
			return;
	if (task->count == MAPS_MAX)
		maps_forget(task);
	if (task->count == MAPS_MAX || !map->path ||
	    (map->path[0] != '/' && strcmp(map->path, "[vdso]") != 0) || is_landings(map->path) ||
	    array_grow(&task->maps, &task->room, task->count + 1, sizeof(*task->maps)))
		return;
	replace(tasks, task, map);
	task->maps[task->count++] = *map;
	task->has_agent |= strstr(map->path, "/libwaymark-agent.so") != NULL;
}

/* What the kernel shows of it now. */
static void maps_take(struct kernel_tasks *tasks, struct task *task)
{
	struct target target;
	struct maps maps;
	char comm[20];

	if (!target_read(&target, task->pid)) {
		snprintf(comm, sizeof(comm), "[%.16s]", target.comm);
		task->exe = path_keep(tasks, target.exe[0] ? target.exe : comm);
	}
	if (!maps_read(&maps, task->pid))
		for (size_t i = 0; i < maps.count; i++) {
			const struct map *map = &maps.list[i];

			if (map->prot & PROT_EXEC)
				map_add(tasks, task,
					&(struct task_map){ .start = map->start,
							    .end = map->end,
							    .offset = map->offset,
							    .path = path_keep(tasks, map->path) });
		}
	maps_release(&maps);
	task->is_followed = 1;
}

/* ---- the trace ---- */

/* One that began before we saw the process begin is of another program. */
static int is_its_program(const struct process *process, const struct task *task)
{
	/* life.c rounds the time of a fork down to a clock tick */
	uint64_t late_ns = task->way == LIFE_FORK ? 2000000000u / (uint64_t)sysconf(_SC_CLK_TCK)
						  : 0;

	return task->way == LIFE_START || process->life.begin_ns + late_ns >= task->begin_ns;
}

/* Its last entry in the session that is in the trace; NULL: none. */
static const struct process *process_of(const struct kernel_tasks *tasks, const struct task *task)
{
	const struct process *found = NULL;

	for (const struct process *p = tasks->session->processes; p; p = p->next)
		if (p->pid == task->pid && !p->is_kernel && p->trace >= 0 &&
		    is_its_program(p, task) && (!found || p->trace > found->trace))
			found = p;
	return found;
}

/* An agent reports the program, and modules that have markers. */
static int is_reported(const struct process *process, const struct control_module *module)
{
	for (size_t i = 0; process && i < process->module_count; i++) {
		const struct control_module *about = &process->modules[i].about;

		if (about->base == module->base &&
		    (!about->build_id_bytes || !module->build_id_bytes ||
		     !memcmp(about->build_id, module->build_id, sizeof(about->build_id))))
			return 1;
	}
	return 0;
}

/* Those whose places were taken; `added`: so many are in the trace. */
static void gone_add(struct kernel_tasks *tasks, struct task *task, size_t added)
{
	for (size_t i = 0; i < added; i++) {
		struct task_map *map = &task->maps[i];

		if (!map->gone_ns || !map->is_known || map->written_for == task->number + 1)
			continue;
		map->written_for = task->number + 1;
		map->module.gone = 1;
		trouble(tasks, trace_module_add(tasks->session->writer, task->number, &map->module,
						map->path, map->gone_ns));
	}
}

static void modules_add(struct kernel_tasks *tasks, struct task *task)
{
	const struct process *process = task->is_own ? NULL : process_of(tasks, task);

	for (; task->added < task->count; task->added++) {
		struct task_map *map = &task->maps[task->added];
		struct control_module mapped = map->module;

		map->is_known = !task_files_module(tasks->files, task->pid, map->path, map->start,
						   map->offset, &map->module);
		if (mapped.build_id_bytes) { /* the file may be another one by now */
			mapped.base = map->module.base;
			map->module = mapped;
		}
		if (!map->is_known || is_reported(process, &map->module))
			continue;
		gone_add(tasks, task, task->added);
		trouble(tasks, trace_module_add(tasks->session->writer, task->number, &map->module,
						map->path, map->ns));
	}
}

static int number_new(struct kernel_tasks *tasks, const struct task *task)
{
	long uid = target_status_number(task->pid, "Uid");
	char host[256] = "";
	struct trace_process about = {
		.pid = (uint32_t)task->pid,
		.ppid = (uint32_t)target_parent(task->pid),
		.start_time = target_start_time(task->pid),
		.uid = uid < 0 ? UINT32_MAX : (uint32_t)uid,
		.exe = task->exe ? task->exe : "",
		.hostname = host,
		.clock = STORE_CLOCK_TSC,
		.ticks_hz = tasks->session->tsc_hz,
		.way = task->way,
		.begin_ns = task->begin_ns,
	};

	gethostname(host, sizeof(host) - 1);
	return trace_process_add(tasks->session->writer, &about);
}

static void task_enter(struct kernel_tasks *tasks, struct task *task)
{
	const struct process *process = process_of(tasks, task);

	if (!tasks->session->writer)
		return;
	if (process) {
		task->number = process->trace;
	} else if (tasks->in_trace == KERNEL_TASKS_MAX) {
		tasks->refused++;
		return;
	} else {
		task->number = number_new(tasks, task);
		trouble(tasks, task->number);
		task->is_own = task->number >= 0;
		tasks->in_trace += (size_t)task->is_own;
	}
	if (task->number >= 0)
		modules_add(tasks, task);
}

void kernel_tasks_follow(struct kernel_tasks *tasks, pid_t pid)
{
	struct task *task = tasks ? task_get(tasks, pid) : NULL;

	if (task && !task->is_followed)
		maps_take(tasks, task);
}

void kernel_tasks_meet(struct kernel_tasks *tasks, pid_t pid, uint64_t time_ns, uint64_t address)
{
	struct task *task;

	if (!tasks)
		return;
	if (address >> 63) {
		if (tasks->session->writer)
			addresses_add(&tasks->addresses, address);
		return;
	}
	task = pid > 0 ? task_get(tasks, pid) : NULL;
	if (!task || task->is_met)
		return;
	task->is_met = 1;
	if (!task->begin_ns)
		task->begin_ns = session_wall_ns(tasks->session, time_ns);
	if (!task->is_followed)
		maps_take(tasks, task);
	task_enter(tasks, task);
}

/* ---- the engine ---- */

static int is_translated(const struct kernel_tasks *tasks, pid_t pid)
{
	const struct live *live = tasks->session->live;

	return live->has_origin && live->origin == ORIGIN_SOFT && live_find(live, pid);
}

static int is_of_file(const struct task *task, uint64_t address)
{
	for (size_t i = task->count; i--;)
		if (address >= task->maps[i].start && address < task->maps[i].end)
			return 1;
	return 0;
}

/*
 * The engine's translations are beside the program's files, in memory of no file. A translated
 * program runs none of its own code there. `task` may be NULL.
 */
static int is_engine(const struct kernel_tasks *tasks, const struct task *task, uint64_t ip)
{
	return engine_may_be_at(ip) ||
	       (task && task->is_met && is_translated(tasks, task->pid) && !is_of_file(task, ip));
}

/* ---- stacks ---- */

/* Descriptors are few: forget those of all others. */
static void unwinds_forget(struct kernel_tasks *tasks)
{
	for (size_t i = 0; i < CHAINS; i++)
		for (struct task *task = tasks->chains[i]; task; task = task->next)
			unwind_forget(tasks, task);
}

static void unwind_update(struct kernel_tasks *tasks, struct task *task)
{
	for (; task->unwound < task->count; task->unwound++) {
		const struct task_map *map = &task->maps[task->unwound];
		struct control_module module;
		char path[PATH_MAX + 64];

		if (map->gone_ns || map->path[0] != '/' ||
		    task_files_module(tasks->files, task->pid, map->path, map->start, map->offset,
				      &module))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/root%s", (int)task->pid, map->path);
		if (callstack_module_add(task->unwind, path, module.base))
			callstack_module_add(task->unwind, map->path, module.base);
	}
}

size_t kernel_tasks_unwind(struct kernel_tasks *tasks, pid_t pid, uint64_t time_ns,
			   const struct callstack_thread *thread, uint64_t *frames, size_t most,
			   int *is_cut)
{
	struct task *task = tasks ? task_find(tasks, pid) : NULL;
	struct callstack_thread moved = *thread;
	uint64_t rip = thread->registers[CALLSTACK_RIP], offset;
	const struct detour_head *head;

	if (!task || !task->is_met)
		return 0;
	/* elsewhere in a trampoline the stack is not as the program's unwind tables have it */
	head = task_moved_find(&task->moved, rip, &offset);
	if (head && (!offset || offset == head->moved_at))
		moved.registers[CALLSTACK_RIP] = head->address;
	/* a translation has the program's stack pointer, and every register that is alive */
	if (!head && is_engine(tasks, task, rip))
		moved.registers[CALLSTACK_RIP] = task_engine_place(&task->engine, pid, rip,
								   time_ns);
	if (!moved.registers[CALLSTACK_RIP])
		return 0;
	if (!task->unwind) {
		if (tasks->unwinds == UNWINDS_MAX)
			unwinds_forget(tasks);
		task->unwind = callstack_new();
		if (!task->unwind)
			return 0;
		tasks->unwinds++;
	}
	unwind_update(tasks, task);
	return callstack_frames(task->unwind, &moved, frames, most, is_cut);
}

/* ---- what was moved ---- */

void kernel_tasks_moved(struct kernel_tasks *tasks, pid_t pid)
{
	struct task *task = tasks ? task_get(tasks, pid) : NULL;

	if (!task)
		return;
	task->moved.looked_ns = 0;
	task_moved_look(&task->moved, pid);
}

uint64_t kernel_tasks_place(struct kernel_tasks *tasks, pid_t pid, uint64_t time_ns,
			    uint64_t address, int is_caller)
{
	struct task *task = tasks && !(address >> 63) ? task_find(tasks, pid) : NULL;
	uint64_t at = address - (is_caller != 0), offset;
	const struct detour_head *head = task ? task_moved_find(&task->moved, at, &offset) : NULL;

	if (!head && is_engine(tasks, task, address))
		return task ? task_engine_place(&task->engine, pid, address, time_ns) : 0;
	if (!head && task && task->has_agent && !is_of_file(task, at)) {
		task_moved_look(&task->moved, pid);
		head = task_moved_find(&task->moved, at, &offset);
	}
	return !head ? address : head->address + (is_caller ? head->insn_bytes : 0);
}

/* ---- records of the kernel ---- */

/* Another program begins there: its entry in the trace, if it has one, is of the old one. */
static void task_renew(struct kernel_tasks *tasks, struct task *task, char way, uint64_t time_ns)
{
	unwind_forget(tasks, task);
	task->count = task->added = 0;
	task->is_met = task->is_own = task->has_agent = task->is_bare = 0;
	task->number = -1;
	task->is_followed = 1;
	task->way = way;
	task->begin_ns = session_wall_ns(tasks->session, time_ns);
}

static void executes(struct kernel_tasks *tasks, const struct sampler_record *record)
{
	struct task *task = task_get(tasks, record->pid);

	if (!task)
		return;
	task_renew(tasks, task, LIFE_EXEC, record->time_ns);
	task->is_bare = 1;
	task_moved_forget(&task->moved, record->time_ns);
	task->exe = NULL;
}

static void maps_file(struct kernel_tasks *tasks, const struct sampler_record *record)
{
	struct task *task = task_get(tasks, record->pid);
	struct task_map map = { .start = record->start,
				.end = record->start + record->bytes,
				.offset = record->offset,
				.ns = session_wall_ns(tasks->session, record->time_ns),
				.module.build_id_bytes = record->build_id_bytes };

	if (record->build_id)
		memcpy(map.module.build_id, record->build_id, record->build_id_bytes);

	if (task)
		task->is_bare = 0;
	if (!task || !record->text || !strncmp(record->text, "//anon", 6))
		return;
	map.path = path_keep(tasks, record->text);
	/* a program's own file is the first that execve(2) maps */
	if (task->is_followed && task->way == LIFE_EXEC && !task->exe)
		task->exe = map.path;
	map_add(tasks, task, &map);
	if (task->number >= 0)
		modules_add(tasks, task);
}

/* A new process has its parent's mappings. */
static void forks(struct kernel_tasks *tasks, const struct sampler_record *record)
{
	struct task *parent, *task;

	if (record->pid == record->ppid || record->ppid <= 0)
		return; /* a thread */
	parent = task_get(tasks, record->ppid);
	if (parent && !parent->is_followed)
		maps_take(tasks, parent);
	task = parent ? task_get(tasks, record->pid) : NULL;
	if (!task)
		return;
	task_renew(tasks, task, LIFE_FORK, record->time_ns);
	for (size_t i = 0; i < parent->count; i++)
		if (!parent->maps[i].gone_ns)
			map_add(tasks, task, &parent->maps[i]);
	task_moved_inherit(&task->moved, &parent->moved);
	task->exe = parent->exe;
}

/*
 * When execve(2) gives more privileges than the caller had, or its file may not be read, the kernel
 * ends the thread's events and reports an exit (begin_new_exec()). No mapping is there by then.
 */
int kernel_tasks_is_privileged(const struct kernel_tasks *tasks,
			       const struct sampler_record *record)
{
	const struct task *task = tasks ? task_find(tasks, record->pid) : NULL;

	return task && record->pid == record->tid && task->is_bare;
}

static void exits(struct kernel_tasks *tasks, const struct sampler_record *record)
{
	struct task **at = &tasks->chains[(unsigned int)record->pid % CHAINS], *task;
	struct target target;

	while (*at && (*at)->pid != record->pid)
		at = &(*at)->next;
	task = *at;
	/* other threads may run when the first has ended */
	if (!task || record->pid != record->tid ||
	    (!target_read(&target, record->pid) && !target_has_ended(&target)))
		return;
	if (task->is_own)
		trouble(tasks, trace_process_end(tasks->session->writer, task->number,
						 session_wall_ns(tasks->session, record->time_ns)));
	*at = task->next;
	task_free(tasks, task);
	tasks->alive--;
}

void kernel_tasks_take(struct kernel_tasks *tasks, const struct sampler_record *record)
{
	if (!tasks)
		return;
	if (record->kind == SAMPLER_COMM && record->is_exec)
		executes(tasks, record);
	else if (record->kind == SAMPLER_MMAP)
		maps_file(tasks, record);
	else if (record->kind == SAMPLER_FORK)
		forks(tasks, record);
	else if (record->kind == SAMPLER_EXIT)
		exits(tasks, record);
}

void kernel_tasks_attend(struct kernel_tasks *tasks)
{
	int last = tasks ? tasks->attended : 0;

	if (!tasks)
		return;
	for (const struct process *p = tasks->session->processes; p; p = p->next) {
		struct task *task;

		if (p->is_kernel || p->trace < tasks->attended)
			continue;
		last = p->trace >= last ? p->trace + 1 : last;
		task = task_find(tasks, p->pid);
		if (!task || !task->is_met || task->number == p->trace)
			continue;
		task->number = p->trace;
		task->is_own = 0;
		task->added = 0;
		modules_add(tasks, task);
	}
	tasks->attended = last;
}

void kernel_tasks_continue(struct kernel_tasks *tasks, struct kernel_tasks *before)
{
	if (!tasks || !before)
		return;
	tasks->addresses = before->addresses;
	before->addresses = (struct addresses){ 0 };
}

void kernel_tasks_end(struct kernel_tasks *tasks)
{
	int err;

	if (!tasks || !tasks->session->writer || !tasks->addresses.count)
		return;
	err = trace_kernel_names_add(tasks->session->writer, tasks->addresses.all,
				     tasks->addresses.count);
	if (err != -EEXIST) /* a session that was started twice */
		trouble(tasks, err);
}
