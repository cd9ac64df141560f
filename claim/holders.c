/* SPDX-License-Identifier: MIT */
#include "claim/ledger.h"

#include "base/array.h"
#include "claim/claimant.h"
#include "claim/ledger_file.h"
#include "process/socket_owner.h"
#include "process/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

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

/* 1: read already; 0: not up to now; -ENOMEM */
static int was_seen(struct claim_list *list, const struct ledger_file *file)
{
	for (size_t i = 0; i < list->seen_count; i++)
		if (list->seen[i].device == file->device && list->seen[i].inode == file->inode)
			return 1;
	if (array_grow(&list->seen, &list->seen_room, list->seen_count + 1, sizeof(*list->seen)))
		return -ENOMEM;
	list->seen[list->seen_count++] = (struct claim_seen){ file->device, file->inode };
	return 0;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* A user can write anything: check each number and text before it is used. */
static int makes_sense(const struct ledger_row *row)
{
	return row->resource && row->resource < CLAIM_RESOURCE_END && row->scope &&
	       row->scope < CLAIM_SCOPE_END &&
	       (row->state == CLAIM_WANTED || row->state == CLAIM_HELD) &&
	       memchr(row->what, 0, sizeof(row->what));
}

static int row_add(struct claim_list *list, const struct ledger_row *row,
		   const struct claim_row *of)
{
	struct claim_row *new;

	if (!makes_sense(row)) {
		list->damaged++;
		return 0;
	}
	if (array_grow(&list->rows, &list->room, list->count + 1, sizeof(*list->rows)))
		return -ENOMEM;
	new = &list->rows[list->count++];
	*new = *of;
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
	new->since_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) + row->since_ns;
	return 0;
}

static int block_add(struct claim_list *list, const struct ledger_block *block)
{
	const struct ledger_head *head = &block->head;
	struct claim_row of = { .owner = { .pid = head->pid,
					   .start_time = head->start_time,
					   .pid_namespace = head->pid_namespace,
					   .uid = head->uid } };
	int err = 0;

	memcpy(of.owner.comm, head->comm, sizeof(of.owner.comm) - 1);
	of.is_foreign = head->pid_namespace != claimant_namespace();
	of.is_left = !of.is_foreign && (head->pid <= 0 || !claimant_lives(&of.owner));
	for (unsigned int i = 0; i < LEDGER_ROWS && !err; i++)
		if (block->rows[i].sum)
			err = row_add(list, &block->rows[i], &of);
	return err;
}

static int file_add(struct claim_list *list, const struct ledger_file *file)
{
	uint32_t count = ledger_file_blocks(file);
	int err = was_seen(list, file);

	if (err)
		return err < 0 ? err : 0;
	for (uint32_t i = 0; i < count && err >= 0; i++) {
		struct ledger_block block;

		err = ledger_file_read(file, i, &block, &list->damaged);
		if (err > 0)
			err = block_add(list, &block);
	}
	return err < 0 ? err : 0;
}

static int folder_add(struct claim_list *list, const char *dir, uid_t uid)
{
	struct ledger_file file;
	int err;

	/* another user has made the folder: this user's is elsewhere (base/socketdir.h) */
	if (socketdir_check(dir, uid) == -WM_E_SOCKET_DIR)
		return 0;
	err = ledger_file_open(&file, dir, uid, 0);
	if (!err)
		err = file_add(list, &file);
	ledger_file_release(&file);
	return err == -ENOENT ? 0 : err;
}

int claim_list_read(struct claim_list *list, uid_t uid, pid_t pid)
{
	char dir[SOCKETDIR_BYTES];
	int first = 0;

	for (unsigned int which = 0; !place_candidate(pid, uid, which, dir); which++) {
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
	return claimant_start_ns(row->claim.target) <= row->since_boot_ns;
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
