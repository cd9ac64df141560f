/* SPDX-License-Identifier: MIT */
#include "target/claim/ledger.h"

#include "base/array.h"
#include "target/claim/ledger_file.h"
#include "target/process/socket_owner.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

static const char *const resources[CLAIM_RESOURCE_END] = {
	"?",
	[CLAIM_DEBUG_REGISTER] = "debug-register",
	[CLAIM_BRANCH_UNIT] = "branch-unit",
	[CLAIM_LOCKED_MEMORY] = "locked-memory",
	[CLAIM_DESCRIPTORS] = "descriptors",
	[CLAIM_SIGTRAP] = "sigtrap",
	[CLAIM_COUNTER] = "counter",
};

static const char *const scopes[CLAIM_SCOPE_END] = {
	"?",
	[CLAIM_OF_THREAD] = "thread",
	[CLAIM_OF_PROCESS] = "process",
	[CLAIM_OF_CPU] = "cpu",
	[CLAIM_OF_USER] = "user",
	[CLAIM_OF_SYSTEM] = "system",
};

const char *claim_resource_name(enum claim_resource resource)
{
	return resources[resource < CLAIM_RESOURCE_END ? resource : 0];
}

const char *claim_scope_name(enum claim_scope scope)
{
	return scopes[scope < CLAIM_SCOPE_END ? scope : 0];
}

struct claim_seen {
	dev_t device;
	ino_t inode;
};

void claim_list_release(struct claim_list *list)
{
	if (!list)
		return;
	free(list->rows);
	free(list->seen);
	*list = (struct claim_list){ 0 };
}

/* 1: read already; 0: not up to now; -errno */
static int was_seen(struct claim_list *list, int fd)
{
	struct stat found;

	if (fstat(fd, &found))
		return -errno;
	for (size_t i = 0; i < list->seen_count; i++)
		if (list->seen[i].device == found.st_dev && list->seen[i].inode == found.st_ino)
			return 1;
	if (array_grow(&list->seen, &list->seen_room, list->seen_count + 1, sizeof(*list->seen)))
		return -ENOMEM;
	list->seen[list->seen_count++] = (struct claim_seen){ found.st_dev, found.st_ino };
	return 0;
}

/* A user can write anything: check each number and text before it is used. */
static int makes_sense(const struct ledger_row *row)
{
	return row->resource && row->resource < CLAIM_RESOURCE_END && row->scope &&
	       row->scope < CLAIM_SCOPE_END &&
	       (row->state == CLAIM_WANTED || row->state == CLAIM_HELD) &&
	       memchr(row->what, 0, sizeof(row->what));
}

/*
 * Look whether a process with that number and that start lives: 1, and its uid and name as the
 * kernel has them, not as the ledger; 0 where it has ended. 1 also where we may not look; then they
 * stay as they are.
 */
static int claimant_lives(struct claim_owner *owner)
{
	uint64_t start_time = target_start_time(owner->pid);
	long uid;

	/* /proc may be mounted so that it hides other users' (hidepid=) */
	if (!start_time)
		return !kill(owner->pid, 0) || errno == EPERM;
	if (start_time != owner->start_time)
		return 0;
	uid = target_status_number(owner->pid, "Uid");
	if (uid >= 0)
		owner->uid = (uid_t)uid;
	target_comm(owner->pid, owner->pid, owner->comm);
	return 1;
}

#define ROWS_MAX 65536 /* of a list: what a hostile user has root read */

/* A folder's rows, added to a list; the owner of the last one, which has most likely the next. */
struct adding {
	struct claim_list *list;
	struct ledger_head head;
	struct claim_row of;
};

static void owner_take(struct adding *adding, const struct ledger_head *head)
{
	struct claim_row *of = &adding->of;

	if (adding->head.sum == head->sum)
		return;
	adding->head = *head;
	*of = (struct claim_row){ .owner = { .pid = head->pid,
					     .start_time = head->start_time,
					     .pid_namespace = head->pid_namespace,
					     .uid = head->uid } };
	memcpy(of->owner.comm, head->comm, sizeof(of->owner.comm) - 1);
	of->is_foreign = head->pid_namespace != ledger_namespace();
	of->is_left = !of->is_foreign && (head->pid <= 0 || !claimant_lives(&of->owner));
}

static int row_add(void *data, const struct ledger_head *head, const struct ledger_row *row)
{
	struct adding *adding = data;
	struct claim_list *list = adding->list;
	struct claim_row *new;

	if (!makes_sense(row) || list->count >= ROWS_MAX) {
		list->damaged++;
		return 0;
	}
	if (array_grow(&list->rows, &list->room, list->count + 1, sizeof(*list->rows)))
		return -ENOMEM;
	owner_take(adding, head);
	new = &list->rows[list->count++];
	*new = adding->of;
	new->claim = (struct claim){ .resource = row->resource,
				     .scope = row->scope,
				     .target = row->target,
				     .pid = row->pid,
				     .count = row->count,
				     .address = row->address,
				     .bytes = row->bytes };
	memcpy(new->claim.what, row->what, sizeof(new->claim.what));
	new->state = row->state;
	new->since_boot_ns = row->since_ns;
	new->since_ns = ticks_clock_ns(CLOCK_REALTIME) - ticks_clock_ns(CLOCK_BOOTTIME) +
			row->since_ns;
	return 0;
}

static int folder_add(struct claim_list *list, const char *path, uid_t uid)
{
	struct adding adding = { .list = list };
	int fd = socket_place_open(path, uid), err;
	DIR *dir = NULL;

	/* another user has made the folder: this user's is elsewhere (base/socketdir.h) */
	if (fd == -WM_E_SOCKET_DIR || fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	err = was_seen(list, fd);
	if (!err) {
		int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		dir = again < 0 ? NULL : fdopendir(again);
		err = dir ? 0 : -errno;
		if (!dir && again >= 0)
			close(again);
	}
	if (dir) {
		err = ledger_folder_read(dir, uid, &list->damaged, row_add, &adding);
		closedir(dir);
	}
	close(fd);
	return err < 0 ? err : 0;
}

int claim_list_read(struct claim_list *list, uid_t uid, pid_t pid)
{
	char dir[SOCKETDIR_BYTES];
	int first = 0;

	for (unsigned int which = 0; !socket_place_candidate(pid, uid, which, dir); which++) {
		int err = folder_add(list, dir, uid);

		first = first ? first : err;
	}
	return first;
}

/* Of all users who have a folder called PREFIXuid in `parent`. */
static int users_add(struct claim_list *list, const char *parent, const char *prefix)
{
	size_t bytes = strlen(prefix);
	struct dirent *entry;
	int first = 0;
	DIR *dir = opendir(parent);

	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		const char *number = entry->d_name + bytes;
		unsigned long uid;
		char *end;

		if (strncmp(entry->d_name, prefix, bytes) || !isdigit((unsigned char)*number))
			continue;
		uid = strtoul(number, &end, 10);
		if (!*end && uid < (uid_t)-1) {
			int err = claim_list_read(list, (uid_t)uid, 0);

			first = first ? first : err;
		}
	}
	closedir(dir);
	return first;
}

int claim_list_read_all(struct claim_list *list)
{
	int err = claim_list_read(list, geteuid(), 0), more;

	if (geteuid())
		return err;
	more = users_add(list, "/run/user", "");
	err = err ? err : more;
	more = users_add(list, "/tmp", "waymark-");
	return err ? err : more;
}

/* Whether a row's thread or process is the one that has its number now. */
static int is_same_task(const struct claim_row *row)
{
	uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);

	/* 0: it is gone, or unknown */
	return target_start_time(row->claim.target) * tick_ns <= row->since_boot_ns;
}

static int is_of_task(const struct claim_row *row, pid_t pid, pid_t tid)
{
	const struct claim *claim = &row->claim;

	if (claim->scope == CLAIM_OF_THREAD)
		return claim->target == tid && is_same_task(row);
	return claim->scope == CLAIM_OF_PROCESS && claim->target == pid && is_same_task(row);
}

/*
 * A thread's event needs room beside those of the CPUs where it may run; a CPU's beside those of
 * the threads that may run there (kernel/events/hw_breakpoint.c).
 */
static int weighs_beside(const struct claim_row *row, pid_t pid, pid_t tid, int cpu)
{
	const struct claim *claim = &row->claim;

	if (claim->scope == CLAIM_OF_SYSTEM)
		return 1;
	if (claim->scope == CLAIM_OF_CPU)
		return tid || cpu < 0 || claim->target == cpu;
	return tid ? is_of_task(row, pid, tid) : 1;
}

int claim_row_weighs(const struct claim_row *row, enum claim_resource resource, pid_t pid,
		     pid_t tid, int cpu)
{
	const struct claim *claim = &row->claim;

	if (claim->resource != resource || row->is_foreign)
		return 0;
	switch (resource) {
	case CLAIM_DEBUG_REGISTER:
	case CLAIM_COUNTER:
		return weighs_beside(row, pid, tid, cpu);
	case CLAIM_DESCRIPTORS:
	case CLAIM_SIGTRAP:
		return is_of_task(row, pid, tid);
	case CLAIM_LOCKED_MEMORY:
		return claim->scope != CLAIM_OF_USER || claim->target == (int32_t)geteuid();
	default:
		return 1;
	}
}
