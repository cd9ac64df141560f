/* SPDX-License-Identifier: MIT */
/* Whether a process or its children still have its store mapped. */
#include "record/session/process.h"

#include "base/maps.h"
#include "record/drain/drain.h"
#include "target/process/target.h"

#include <string.h>

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
