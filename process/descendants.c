/* SPDX-License-Identifier: MIT */
#include "process/descendants.h"

#include "base/array.h"
#include "process/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		pid_t ppid = pid ? target_parent(pid) : 0;

		if (ppid <= 0)
			continue;
		err = array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all));
		if (!err)
			list->all[list->count++] = (struct kin){ pid, ppid };
	}
	closedir(dir);
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
