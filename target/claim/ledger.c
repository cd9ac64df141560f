/* SPDX-License-Identifier: MIT */
#include "target/claim/ledger.h"

#include "base/array.h"
#include "target/claim/ledger_file.h"
#include "target/process/socket_owner.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

/* A claim; its index is its row's in the file. */
struct entry {
	uint64_t id; /* 0: the row is free */
	int is_written;
	struct ledger_row row;
};

/* Our part of one user's ledger. */
struct part {
	uid_t uid;
	struct ledger_file file; /* fd -1: not to be had up to now */
	struct entry *entries;
	size_t count, room;
};

struct ledger {
	pthread_mutex_t mutex;
	pid_t pid; /* a forked child has no part in it */
	struct ledger_head self;
	uint64_t last_id;
	struct part *parts;
	size_t count, room;
	int trouble, was_told;
	char where[sizeof(((struct ledger_file *)0)->path)];
};

int ledger_new(struct ledger **ledger)
{
	struct ledger *new = calloc(1, sizeof(*new));

	*ledger = new;
	if (!new)
		return -ENOMEM;
	pthread_mutex_init(&new->mutex, NULL);
	new->pid = getpid();
	new->self = (struct ledger_head){ .pid = new->pid,
					  .start_time = target_start_time(new->pid),
					  .pid_namespace = ledger_namespace(),
					  .uid = geteuid() };
	target_comm(new->pid, new->pid, new->self.comm);
	return 0;
}

/* Whether another process asks: a child, which might find the mutex locked forever. */
static int is_child(const struct ledger *ledger)
{
	return getpid() != ledger->pid;
}

static int trouble(struct ledger *ledger, const struct part *part, int err)
{
	if (err && !ledger->trouble) {
		ledger->trouble = err;
		snprintf(ledger->where, sizeof(ledger->where), "%s", part->file.path);
	}
	return err;
}

int ledger_trouble(struct ledger *ledger, char *path, size_t bytes)
{
	int err = 0;

	if (is_child(ledger))
		return 0;
	pthread_mutex_lock(&ledger->mutex);
	if (!ledger->was_told && ledger->trouble) {
		err = ledger->trouble;
		ledger->was_told = 1;
		snprintf(path, bytes, "%s", ledger->where);
	}
	pthread_mutex_unlock(&ledger->mutex);
	return err;
}

static int file_make(struct ledger *ledger, struct part *part, pid_t pid)
{
	char dir[SOCKETDIR_BYTES] = "";
	int err = part->uid == geteuid() ? socket_place_own(dir)
					 : socket_place_of(pid, part->uid, dir);

	snprintf(part->file.path, sizeof(part->file.path), "%s", dir);
	return err ? err : ledger_file_make(&part->file, dir, part->uid, &ledger->self);
}

/* The file is gone, with all that was in it. */
static void abandon(struct part *part)
{
	for (size_t i = 0; i < part->count; i++)
		part->entries[i].is_written = 0;
	ledger_file_end(&part->file, part->uid);
}

/*
 * Have our part of a user's ledger in a file, if that can be: as many claims as there is room for.
 * `pid` is a process of that user's.
 */
static void mend(struct ledger *ledger, struct part *part, pid_t pid)
{
	int err = 0;

	if (part->file.fd >= 0 && ledger_file_is_lost(&part->file))
		abandon(part);
	if (part->file.fd < 0)
		err = file_make(ledger, part, pid);
	for (size_t i = 0; i < part->count && !err; i++) {
		struct entry *entry = &part->entries[i];

		if (!entry->id || entry->is_written)
			continue;
		err = ledger_file_write(&part->file, i, &entry->row);
		entry->is_written = !err;
	}
	trouble(ledger, part, err);
}

static struct part *part_of(struct ledger *ledger, uid_t uid)
{
	for (size_t i = 0; i < ledger->count; i++)
		if (ledger->parts[i].uid == uid)
			return &ledger->parts[i];
	if (array_grow(&ledger->parts, &ledger->room, ledger->count + 1, sizeof(*ledger->parts)))
		return NULL;
	ledger->parts[ledger->count] = (struct part){ .uid = uid, .file = { .fd = -1 } };
	return &ledger->parts[ledger->count++];
}

/* Whose ledger a claim belongs into; ours where we could not write another's. */
static uid_t uid_of(const struct claim *claim)
{
	pid_t pid = claim->pid ? claim->pid : claim->target;
	long uid;

	if (geteuid() || (claim->scope != CLAIM_OF_THREAD && claim->scope != CLAIM_OF_PROCESS))
		return geteuid();
	uid = target_status_number(pid, "Uid");
	return uid < 0 ? geteuid() : (uid_t)uid;
}

static void fill(struct ledger_row *row, const struct claim *claim)
{
	static const char cut[] = "...";
	size_t length = strnlen(claim->what, sizeof(claim->what));

	row->resource = claim->resource;
	row->scope = claim->scope;
	row->target = claim->target;
	row->pid = claim->pid;
	row->count = claim->count;
	row->address = claim->address;
	row->bytes = claim->bytes;
	memset(row->what, 0, sizeof(row->what));
	if (length == sizeof(row->what)) {
		length = sizeof(row->what) - sizeof(cut);
		memcpy(row->what + length, cut, sizeof(cut));
	}
	memcpy(row->what, claim->what, length);
}

static struct entry *entry_find(struct ledger *ledger, uint64_t id, struct part **part)
{
	for (size_t p = 0; p < ledger->count && id; p++) {
		*part = &ledger->parts[p];
		for (size_t i = 0; i < (*part)->count; i++)
			if ((*part)->entries[i].id == id)
				return &(*part)->entries[i];
	}
	return NULL;
}

static int add(struct ledger *ledger, const struct claim *claim, uid_t uid, uint64_t id)
{
	struct part *part = part_of(ledger, uid);
	struct entry *entry;
	size_t slot = 0;

	while (part && slot < part->count && part->entries[slot].id)
		slot++;
	if (!part || array_grow(&part->entries, &part->room, slot + 1, sizeof(*part->entries)))
		return -ENOMEM;
	part->count = slot < part->count ? part->count : slot + 1;
	entry = &part->entries[slot];
	*entry = (struct entry){ .id = id };
	entry->row.state = CLAIM_WANTED;
	entry->row.since_ns = ticks_clock_ns(CLOCK_BOOTTIME);
	fill(&entry->row, claim);
	return 0;
}

static void take_out(struct ledger *ledger, uint64_t id)
{
	struct part *part;
	struct entry *entry = entry_find(ledger, id, &part);
	int err;

	if (!entry)
		return;
	entry->id = 0;
	if (!entry->is_written)
		return;
	entry->is_written = 0;
	err = ledger_file_write(&part->file, (size_t)(entry - part->entries), NULL);
	if (!trouble(ledger, part, err))
		return;
	/* without room even to clear a row: a new file gets the others, now or later */
	abandon(part);
	mend(ledger, part, getpid());
}

static int add_all(struct ledger *ledger, const struct claim *claims, size_t count,
		   const uint64_t *ids)
{
	uid_t uid = geteuid();
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		const struct claim *claim = &claims[i], *last = i ? claim - 1 : NULL;

		if (!last || claim->scope != last->scope || claim->pid != last->pid ||
		    (!claim->pid && claim->target != last->target))
			uid = uid_of(claim);
		err = add(ledger, claim, uid, ids[i]);
	}
	for (size_t i = 0; i < count && err; i++)
		take_out(ledger, ids[i]);
	return err;
}

/* All parts that have claims. */
static void mend_all(struct ledger *ledger)
{
	for (size_t i = 0; i < ledger->count; i++) {
		struct part *part = &ledger->parts[i];
		size_t first = 0;

		while (first < part->count && !part->entries[first].id)
			first++;
		if (first < part->count) {
			const struct ledger_row *row = &part->entries[first].row;

			mend(ledger, part, row->pid ? row->pid : row->target);
		}
	}
}

int ledger_claim(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids)
{
	int err;

	if (is_child(ledger)) {
		for (size_t i = 0; i < count; i++)
			ids[i] = UINT64_MAX;
		return 0;
	}
	pthread_mutex_lock(&ledger->mutex);
	for (size_t i = 0; i < count; i++)
		ids[i] = ++ledger->last_id;
	err = add_all(ledger, claims, count, ids);
	if (!err)
		mend_all(ledger);
	pthread_mutex_unlock(&ledger->mutex);
	return err;
}

/* An entry's row has changed. */
static void write_again(struct ledger *ledger, struct part *part, struct entry *entry)
{
	if (entry->is_written)
		trouble(ledger, part,
			ledger_file_write(&part->file, (size_t)(entry - part->entries),
					  &entry->row));
}

void ledger_confirm(struct ledger *ledger, const uint64_t *ids, size_t count)
{
	if (is_child(ledger))
		return;
	pthread_mutex_lock(&ledger->mutex);
	for (size_t i = 0; i < count; i++) {
		struct part *part;
		struct entry *entry = entry_find(ledger, ids[i], &part);

		if (!entry)
			continue;
		entry->row.state = CLAIM_HELD;
		write_again(ledger, part, entry);
	}
	pthread_mutex_unlock(&ledger->mutex);
}

int ledger_change(struct ledger *ledger, uint64_t id, const struct claim *claim)
{
	struct part *part;
	struct entry *entry;

	if (is_child(ledger))
		return -ENOENT;
	pthread_mutex_lock(&ledger->mutex);
	entry = entry_find(ledger, id, &part);
	if (entry) {
		fill(&entry->row, claim);
		write_again(ledger, part, entry);
	}
	pthread_mutex_unlock(&ledger->mutex);
	return entry ? 0 : -ENOENT;
}

int ledger_has(struct ledger *ledger, uint64_t id)
{
	struct part *part;
	struct entry *entry;
	int has;

	if (is_child(ledger))
		return 0;
	pthread_mutex_lock(&ledger->mutex);
	entry = entry_find(ledger, id, &part);
	has = entry && entry->is_written;
	pthread_mutex_unlock(&ledger->mutex);
	return has;
}

void ledger_mend(struct ledger *ledger)
{
	if (is_child(ledger))
		return;
	pthread_mutex_lock(&ledger->mutex);
	mend_all(ledger);
	pthread_mutex_unlock(&ledger->mutex);
}

void ledger_remove(struct ledger *ledger, const uint64_t *ids, size_t count)
{
	if (is_child(ledger))
		return;
	pthread_mutex_lock(&ledger->mutex);
	for (size_t i = 0; i < count; i++)
		take_out(ledger, ids[i]);
	pthread_mutex_unlock(&ledger->mutex);
}

void ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return;
	for (size_t i = 0; i < ledger->count; i++) {
		if (is_child(ledger))
			ledger_file_leave(&ledger->parts[i].file);
		else
			ledger_file_end(&ledger->parts[i].file, ledger->parts[i].uid);
		free(ledger->parts[i].entries);
	}
	free(ledger->parts);
	pthread_mutex_destroy(&ledger->mutex);
	free(ledger);
}
