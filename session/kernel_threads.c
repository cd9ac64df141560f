/* SPDX-License-Identifier: MIT */
/* The threads that kernel events are about: what they are called, who started them, their end. */
#include "process/target.h"
#include "process/ticks.h"
#include "session/kernel_own.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void name(struct kernel *kernel, uint32_t id, int cpu, uint64_t time_ns, pid_t pid,
		 pid_t tid, const char *comm)
{
	struct kernel_fields fields = { .count = 0 };

	kernel_put_thread(&fields, pid, tid);
	kernel_put_string(&fields, comm, strlen(comm));
	kernel_write(kernel, cpu, time_ns, id, &fields);
}

void kernel_task(struct kernel *kernel, const struct sampler_record *record)
{
	struct kernel_fields fields = { .count = 0 };
	int cpu = (int)record->cpu;

	switch (record->kind) {
	case SAMPLER_COMM:
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
		kernel_put_thread(&fields, record->pid, record->tid);
		kernel_write(kernel, cpu, record->time_ns, KERNEL_EXIT, &fields);
		break;
	default:
		break;
	}
}

/* Of all numbers that name an entry in a folder of /proc. */
static void each_number(const char *path, void (*take)(struct kernel *kernel, pid_t of, pid_t id),
			struct kernel *kernel, pid_t of)
{
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			take(kernel, of, (pid_t)atoi(entry->d_name));
	if (folder)
		closedir(folder);
}

static void write_name(struct kernel *kernel, pid_t pid, pid_t tid)
{
	char comm[16] = "";

	known_add(&kernel->known, tid, pid);
	target_comm(pid, tid, comm);
	if (comm[0])
		name(kernel, KERNEL_NAME, -1, ticks_monotonic_ns(), pid, tid, comm);
}

static void write_names(struct kernel *kernel, pid_t unused, pid_t pid)
{
	char path[64];

	(void)unused;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	each_number(path, write_name, kernel, pid);
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
	if (kernel->is_of_cpus)
		each_number("/proc", write_names, kernel, 0);
	for (size_t i = 0; i < kernel->pid_count; i++)
		write_names(kernel, 0, kernel->pids[i]);
}

static void write_wait(struct kernel *kernel, pid_t pid, pid_t tid)
{
	struct kernel_fields fields = { .count = 0 };
	unsigned long long ran_ns, waited_ns;
	char path[64];
	FILE *file;
	int count;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
	file = fopen(path, "re");
	if (!file)
		return; /* it has ended */
	count = fscanf(file, "%llu %llu", &ran_ns, &waited_ns);
	fclose(file);
	if (count != 2)
		return;
	kernel_put_thread(&fields, pid, tid);
	kernel_put_u64(&fields, waited_ns);
	kernel_write(kernel, -1, ticks_monotonic_ns(), KERNEL_RUNNABLE, &fields);
}

static void write_waits(struct kernel *kernel, pid_t unused, pid_t pid)
{
	char path[64];

	(void)unused;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	each_number(path, write_wait, kernel, pid);
}

void kernel_write_runnable(struct kernel *kernel)
{
	if (kernel->is_of_cpus)
		each_number("/proc", write_waits, kernel, 0);
	for (size_t i = 0; i < kernel->pid_count; i++)
		write_waits(kernel, 0, kernel->pids[i]);
}
