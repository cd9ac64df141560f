/* SPDX-License-Identifier: MIT */
/* The threads that kernel events are about: what they are called, who started them, their end. */
#include "record/kernel/kernel_own.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void name(struct kernel *kernel, uint32_t id, int cpu, uint64_t time_ns, pid_t pid,
		 pid_t tid, const char *comm)
{
	struct kernel_fields fields = { .count = 0 };

	kernel_put_thread(&fields, pid, tid);
	kernel_put_string(&fields, comm, strlen(comm));
	kernel_write(kernel, cpu, time_ns, id, &fields);
}

static void end(struct kernel *kernel, const struct sampler_record *record, pid_t tid)
{
	struct kernel_fields fields = { .count = 0 };

	kernel_put_thread(&fields, record->pid, tid);
	kernel_write(kernel, (int)record->cpu, record->time_ns, KERNEL_EXIT, &fields);
}

/*
 * A thread that executes a program gets the tid of the process's first, and the kernel reports no
 * end of its own. The ends of all others were reported by then.
 */
static void execute(struct kernel *kernel, const struct sampler_record *record)
{
	pid_t before = known_exec(&kernel->known, record->pid);
	struct kernel_fields fields = { .count = 0 };

	if (!before)
		return;
	end(kernel, record, before);
	known_add(&kernel->known, record->tid, record->pid);
	if (!kernel->has_switches)
		return;
	kernel_put_thread(&fields, record->pid, record->tid);
	kernel_write(kernel, (int)record->cpu, record->time_ns, KERNEL_ARRIVE, &fields);
}

void kernel_task(struct kernel *kernel, const struct sampler_record *record)
{
	struct kernel_fields fields = { .count = 0 };
	int cpu = (int)record->cpu;

	switch (record->kind) {
	case SAMPLER_COMM:
		if (record->is_exec)
			execute(kernel, record);
		name(kernel, KERNEL_NAME, cpu, record->time_ns, record->pid, record->tid,
		     record->text);
		break;
	case SAMPLER_FORK:
		kernel_put_thread(&fields, record->pid, record->tid);
		kernel_put_thread(&fields, record->ppid, record->ptid);
		known_add(&kernel->known, record->tid, record->pid);
		kernel_write(kernel, cpu, record->time_ns, KERNEL_FORK, &fields);
		break;
	case SAMPLER_EXIT:
		known_end(&kernel->known, record->tid);
		end(kernel, record, record->tid);
		break;
	default:
		break;
	}
}

static void each_of_process(struct kernel *kernel, pid_t pid,
			    void (*take)(struct kernel *kernel, pid_t pid, pid_t tid))
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids);

	for (int i = 0; i < count; i++)
		take(kernel, pid, tids[i]);
	free(tids);
}

/* Of a cgroup and of those below it. */
static void each_of_group(struct kernel *kernel, int group,
			  void (*take)(struct kernel *kernel, pid_t pid, pid_t tid))
{
	int list = openat(group, "cgroup.threads", O_RDONLY | O_CLOEXEC), below, tid;
	struct dirent *entry;
	FILE *threads;
	DIR *folder;

	if (list < 0)
		list = openat(group, "tasks", O_RDONLY | O_CLOEXEC); /* of version 1 */
	threads = list < 0 ? NULL : fdopen(list, "r");
	while (threads && fscanf(threads, "%d", &tid) == 1)
		take(kernel, (pid_t)target_status_number(tid, "Tgid"), tid);
	if (threads)
		fclose(threads);
	else if (list >= 0)
		close(list);
	below = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	folder = below < 0 ? NULL : fdopendir(below);
	while (folder && (entry = readdir(folder))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		below = openat(group, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below < 0)
			continue; /* removed meanwhile */
		each_of_group(kernel, below, take);
		close(below);
	}
	if (folder)
		closedir(folder);
	else if (below >= 0)
		close(below);
}

/* Of the threads that are recorded. */
static void each_thread(struct kernel *kernel,
			void (*take)(struct kernel *kernel, pid_t pid, pid_t tid))
{
	int is_of_all = kernel->is_of_cpus && kernel->cgroup_fd < 0;
	DIR *folder = is_of_all ? opendir("/proc") : NULL;
	struct dirent *entry;

	if (kernel->cgroup_fd >= 0)
		each_of_group(kernel, kernel->cgroup_fd, take);
	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			each_of_process(kernel, (pid_t)atoi(entry->d_name), take);
	if (folder)
		closedir(folder);
	for (size_t i = 0; i < kernel->pid_count; i++)
		each_of_process(kernel, kernel->pids[i], take);
}

static void write_name(struct kernel *kernel, pid_t pid, pid_t tid)
{
	char comm[16] = "";

	known_add(&kernel->known, tid, pid);
	target_comm(pid, tid, comm);
	if (comm[0])
		name(kernel, KERNEL_NAME, -1, ticks_monotonic_ns(), pid, tid, comm);
}

void kernel_name_waker(struct kernel *kernel, pid_t pid, pid_t tid)
{
	char comm[16] = "";

	if (tid <= 0 || known_pid(&kernel->known, tid) || known_pid(&kernel->named, tid))
		return;
	known_add(&kernel->named, tid, pid);
	target_comm(pid, tid, comm);
	if (comm[0])
		name(kernel, KERNEL_WAKER, -1, ticks_monotonic_ns(), pid, tid, comm);
}

void kernel_write_names(struct kernel *kernel)
{
	each_thread(kernel, write_name);
}

static void write_wait(struct kernel *kernel, pid_t pid, pid_t tid)
{
	struct kernel_fields fields = { .count = 0 };
	struct target_times times;

	if (target_thread_times(pid, tid, &times))
		return; /* it has ended */
	kernel_put_thread(&fields, pid, tid);
	kernel_put_u64(&fields, times.waited_ns);
	kernel_write(kernel, -1, ticks_monotonic_ns(), KERNEL_RUNNABLE, &fields);
}

void kernel_write_joined(struct kernel *kernel, pid_t pid)
{
	each_of_process(kernel, pid, write_name);
	if (kernel->has_switches)
		each_of_process(kernel, pid, write_wait);
}

void kernel_write_runnable(struct kernel *kernel)
{
	each_thread(kernel, write_wait);
}
