/* SPDX-License-Identifier: MIT */
#include "target/process/descendants.h"

#include "base/array.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTED_MAX 65536 /* a chain of processes that fork and end could have no end */

struct kin {
	pid_t pid, ppid;
};

struct kin_list {
	struct kin *all;
	size_t count, room;
};

/* All processes there are: a child may have a lower number than its parent. */
static int kin_read(struct kin_list *list)
{
	pid_t *pids;
	int count = target_processes(&pids), err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++) {
		pid_t ppid = target_parent(pids[i]);

		if (ppid <= 0)
			continue;
		err = array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all));
		if (!err)
			list->all[list->count++] = (struct kin){ pids[i], ppid };
	}
	free(pids);
	return err;
}

static int is_in(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return 1;
	return 0;
}

int descendants_read(const pid_t *roots, size_t root_count, pid_t **pids)
{
	struct kin_list list = { 0 };
	int err = kin_read(&list);
	size_t count = root_count, limit = root_count + list.count;

	*pids = err ? NULL : malloc((limit + 1) * sizeof(**pids));
	if (!err && !*pids)
		err = -ENOMEM;
	if (!err) {
		memcpy(*pids, roots, root_count * sizeof(*roots));
		for (size_t done = 0; done < count; done++)
			for (size_t i = 0; i < list.count; i++)
				if (list.all[i].ppid == (*pids)[done] && count < limit &&
				    !is_in(roots, root_count, list.all[i].pid))
					(*pids)[count++] = list.all[i].pid;
		count -= root_count;
		memmove(*pids, *pids + root_count, count * sizeof(**pids));
	}
	free(list.all);
	return err ? err : (int)count;
}

struct pid_list {
	pid_t *all;
	size_t count, room;
};

static int pid_add(struct pid_list *list, pid_t pid)
{
	int err = list->count < LISTED_MAX ? 0 : -E2BIG;

	if (!err)
		err = array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all));
	if (!err)
		list->all[list->count++] = pid;
	return err;
}

/* What each thread of a process has forked. A process that is gone has no children. */
static int children_add(struct pid_list *list, pid_t pid)
{
	pid_t *tids;
	int count = target_threads(pid, &tids), err = 0, child;

	for (int i = 0; i < count && !err; i++) {
		char path[64];
		FILE *children;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)tids[i]);
		children = fopen(path, "re");
		while (children && !err && fscanf(children, "%d", &child) == 1)
			err = is_in(list->all, list->count, child) ? 0 : pid_add(list, child);
		if (children)
			fclose(children);
	}
	free(tids);
	return err;
}

int descendants_glance(const pid_t *roots, size_t root_count, pid_t **pids)
{
	struct pid_list list = { 0 };
	int err = 0;

	*pids = NULL;
	/* CONFIG_PROC_CHILDREN */
	if (access("/proc/thread-self/children", R_OK))
		return descendants_read(roots, root_count, pids);
	for (size_t i = 0; i < root_count && !err; i++)
		err = pid_add(&list, roots[i]);
	for (size_t i = 0; i < list.count && !err; i++)
		err = children_add(&list, list.all[i]);
	if (err && err != -E2BIG) {
		free(list.all);
		return err;
	}
	list.count -= list.count < root_count ? list.count : root_count; /* more than LISTED_MAX */
	if (list.count)
		memmove(list.all, list.all + root_count, list.count * sizeof(*list.all));
	*pids = list.all;
	return (int)list.count;
}
