/* SPDX-License-Identifier: MIT */
#include "claim/ledger.h"

#include "base/array.h"
#include "claim/claimant.h"
#include "claim/ledger_file.h"
#include "process/socket_owner.h"
#include "process/target.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

/* A block that we have in a user's ledger. */
struct own_block {
	uint32_t number;
	uint32_t used; /* a bit for each row */
	struct ledger_head head;
};

/* Our hand on one user's ledger. */
struct hand {
	uid_t uid;
	struct ledger_file file; /* fd -1: not to be had up to now */
	uint64_t looked_ns;
	struct own_block *blocks;
	size_t count, room;
};

#define LOOK_NS UINT64_C(100000000) /* between two checks that our blocks are intact */

struct entry {
	uint64_t id;
	uid_t uid; /* whose ledger */
	int is_written;
	uint32_t number, slot; /* where, if so */
	struct ledger_row row; /* state 0: removed */
};

struct ledger {
	pthread_mutex_t mutex;
	pid_t pid; /* a forked child has no part in it */
	struct claim_owner self;
	uint64_t last_id;
	struct hand *hands;
	size_t hand_count, hand_room;
	struct entry *entries;
	size_t count, room, gone; /* of count, those removed */
	int trouble, was_told;
	char where[SOCKETDIR_BYTES + sizeof(LEDGER_FILE)];
};

int ledger_new(struct ledger **ledger)
{
	struct ledger *new = calloc(1, sizeof(*new));

	*ledger = new;
	if (!new)
		return -ENOMEM;
	pthread_mutex_init(&new->mutex, NULL);
	new->pid = getpid();
	claim_owner_self(&new->self);
	return 0;
}

/* Whether another process asks: a child, which might find the mutex locked forever. */
static int is_child(const struct ledger *ledger)
{
	return getpid() != ledger->pid;
}

static uint64_t boottime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int trouble(struct ledger *ledger, const struct hand *hand, int err)
{
	if (err && !ledger->trouble) {
		ledger->trouble = err;
		snprintf(ledger->where, sizeof(ledger->where), "%s", hand->file.path);
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

static struct own_block *block_find(const struct hand *hand, uint32_t number)
{
	for (size_t i = 0; i < hand->count; i++)
		if (hand->blocks[i].number == number)
			return &hand->blocks[i];
	return NULL;
}

static int is_own(const void *data, uint32_t number)
{
	return block_find(data, number) != NULL;
}

static int open_place(struct hand *hand, pid_t pid)
{
	char dir[SOCKETDIR_BYTES] = "";
	int err = hand->uid == geteuid() ? place_own(dir) : place_of(pid, hand->uid, dir);

	snprintf(hand->file.path, sizeof(hand->file.path), "%s", dir);
	return err ? err : ledger_file_open(&hand->file, dir, hand->uid, 1);
}

static int block_take(struct ledger *ledger, struct hand *hand, struct own_block **block)
{
	struct own_block new = { .head = { .pid = ledger->self.pid,
					   .start_time = ledger->self.start_time,
					   .pid_namespace = ledger->self.pid_namespace,
					   .uid = ledger->self.uid } };
	int err;

	memcpy(new.head.comm, ledger->self.comm, sizeof(new.head.comm));
	err = array_grow(&hand->blocks, &hand->room, hand->count + 1, sizeof(*hand->blocks));
	if (!err)
		err = ledger_file_take(&hand->file, &new.head, is_own, hand, &new.number);
	if (err)
		return err;
	*block = &hand->blocks[hand->count++];
	**block = new;
	return 0;
}

/* Let go of a block in which nothing is left. */
static void block_give(struct hand *hand, struct own_block *block)
{
	ledger_file_give(&hand->file, block->number);
	*block = hand->blocks[--hand->count];
}

/* Find a place for an entry, and write it there. */
static int put(struct ledger *ledger, struct hand *hand, struct entry *entry)
{
	struct own_block *block = NULL;
	unsigned int slot = 0;
	int err = 0;

	for (size_t i = hand->count; i-- && !block;)
		if (hand->blocks[i].used != (1u << LEDGER_ROWS) - 1)
			block = &hand->blocks[i];
	if (!block)
		err = block_take(ledger, hand, &block);
	if (err)
		return err;
	while (block->used & 1u << slot)
		slot++;
	err = ledger_file_write(&hand->file, block->number, slot, &entry->row, block->head.tenancy);
	if (!err) {
		block->used |= 1u << slot;
		entry->is_written = 1;
		entry->number = block->number;
		entry->slot = slot;
	} else if (!block->used) {
		block_give(hand, block);
	}
	return err;
}

/* Those of a user's that are in no file; as many as can be had. */
static void put_missing(struct ledger *ledger, struct hand *hand)
{
	for (size_t i = 0; i < ledger->count; i++) {
		struct entry *entry = &ledger->entries[i];

		if (entry->uid == hand->uid && !entry->is_written && entry->row.state &&
		    trouble(ledger, hand, put(ledger, hand, entry)))
			return;
	}
}

/* The blocks that others have cut off or overwritten. */
static void restore(struct ledger *ledger, struct hand *hand)
{
	for (size_t b = 0; b < hand->count; b++) {
		struct own_block *own = &hand->blocks[b];
		struct ledger_block block = { .head = own->head };

		for (size_t i = 0; i < ledger->count; i++) {
			const struct entry *entry = &ledger->entries[i];

			if (entry->is_written && entry->uid == hand->uid &&
			    entry->number == own->number)
				block.rows[entry->slot] = entry->row;
		}
		trouble(ledger, hand, ledger_file_restore(&hand->file, own->number, &block));
	}
}

/*
 * The file is gone, with all that we had in it. The locks on what has no name any more go with its
 * descriptor.
 */
static void abandon(struct ledger *ledger, struct hand *hand)
{
	for (size_t i = 0; i < ledger->count; i++)
		if (ledger->entries[i].uid == hand->uid)
			ledger->entries[i].is_written = 0;
	hand->count = 0;
	ledger_file_release(&hand->file);
}

/*
 * Have a user's ledger open and as we left it, if that can be. `pid` is a process of that user's.
 */
static void mend(struct ledger *ledger, struct hand *hand, pid_t pid)
{
	uint64_t now_ns = boottime_ns();

	if (hand->file.fd >= 0 && ledger_file_is_lost(&hand->file))
		abandon(ledger, hand);
	if (hand->file.fd < 0) {
		if (trouble(ledger, hand, open_place(hand, pid)))
			return;
	} else if (now_ns - hand->looked_ns > LOOK_NS) {
		restore(ledger, hand);
		hand->looked_ns = now_ns;
	}
	put_missing(ledger, hand);
}

static struct hand *hand_of(struct ledger *ledger, uid_t uid)
{
	for (size_t i = 0; i < ledger->hand_count; i++)
		if (ledger->hands[i].uid == uid)
			return &ledger->hands[i];
	return NULL;
}

static int hand_add(struct ledger *ledger, uid_t uid)
{
	if (array_grow(&ledger->hands, &ledger->hand_room, ledger->hand_count + 1,
		       sizeof(*ledger->hands)))
		return -ENOMEM;
	ledger->hands[ledger->hand_count++] = (struct hand){ .uid = uid, .file = { .fd = -1 } };
	return 0;
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

static int add(struct ledger *ledger, const struct claim *claim, uid_t uid, uint64_t id)
{
	struct entry *entry;
	int err = array_grow(&ledger->entries, &ledger->room, ledger->count + 1,
			     sizeof(*ledger->entries));

	if (!err && !hand_of(ledger, uid))
		err = hand_add(ledger, uid);
	if (err)
		return err;
	entry = &ledger->entries[ledger->count++];
	*entry = (struct entry){ .id = id, .uid = uid };
	entry->row.state = CLAIM_WANTED;
	entry->row.since_ns = boottime_ns();
	fill(&entry->row, claim);
	return 0;
}

/* Write those from `first` on. */
static void put_new(struct ledger *ledger, size_t first)
{
	for (size_t h = 0; h < ledger->hand_count; h++) {
		struct hand *hand = &ledger->hands[h];

		for (size_t i = first; i < ledger->count; i++) {
			const struct ledger_row *row = &ledger->entries[i].row;

			if (ledger->entries[i].uid != hand->uid)
				continue;
			mend(ledger, hand, row->pid ? row->pid : row->target);
			break;
		}
	}
}

static int add_all(struct ledger *ledger, const struct claim *claims, size_t count,
		   const uint64_t *ids)
{
	size_t before = ledger->count;
	uid_t uid = geteuid();
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		const struct claim *claim = &claims[i], *last = i ? claim - 1 : NULL;

		if (!last || claim->scope != last->scope || claim->pid != last->pid ||
		    (!claim->pid && claim->target != last->target))
			uid = uid_of(claim);
		err = add(ledger, claim, uid, ids[i]);
	}
	if (err)
		ledger->count = before;
	else
		put_new(ledger, before);
	return err;
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
	pthread_mutex_unlock(&ledger->mutex);
	return err;
}

static struct entry *entry_find(struct ledger *ledger, uint64_t id)
{
	/* ids rise, and entries are in their order */
	size_t low = 0, high = ledger->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ledger->entries[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == ledger->count || ledger->entries[low].id != id)
		return NULL;
	return ledger->entries[low].row.state ? &ledger->entries[low] : NULL;
}

/* An entry's row has changed. */
static void write_again(struct ledger *ledger, struct entry *entry)
{
	struct hand *hand = hand_of(ledger, entry->uid);
	const struct own_block *block;

	if (!entry->is_written)
		return;
	block = block_find(hand, entry->number);
	trouble(ledger, hand,
		ledger_file_write(&hand->file, entry->number, entry->slot, &entry->row,
				  block->head.tenancy));
}

static void mend_all(struct ledger *ledger)
{
	for (size_t i = 0; i < ledger->hand_count; i++) {
		struct hand *hand = &ledger->hands[i];
		pid_t pid = 0;

		for (size_t e = 0; e < ledger->count && !pid; e++)
			if (ledger->entries[e].uid == hand->uid && ledger->entries[e].row.state)
				pid = ledger->entries[e].row.target;
		if (pid)
			mend(ledger, hand, pid);
	}
}

void ledger_confirm(struct ledger *ledger, const uint64_t *ids, size_t count)
{
	if (is_child(ledger))
		return;
	pthread_mutex_lock(&ledger->mutex);
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = entry_find(ledger, ids[i]);

		if (!entry)
			continue;
		entry->row.state = CLAIM_HELD;
		write_again(ledger, entry);
	}
	pthread_mutex_unlock(&ledger->mutex);
}

int ledger_change(struct ledger *ledger, uint64_t id, const struct claim *claim)
{
	struct entry *entry;

	if (is_child(ledger))
		return -ENOENT;
	pthread_mutex_lock(&ledger->mutex);
	entry = entry_find(ledger, id);
	if (entry) {
		mend_all(ledger);
		fill(&entry->row, claim);
		write_again(ledger, entry);
	}
	pthread_mutex_unlock(&ledger->mutex);
	return entry ? 0 : -ENOENT;
}

void ledger_mend(struct ledger *ledger)
{
	if (is_child(ledger))
		return;
	pthread_mutex_lock(&ledger->mutex);
	for (size_t i = 0; i < ledger->hand_count; i++)
		ledger->hands[i].looked_ns = 0; /* at once */
	mend_all(ledger);
	pthread_mutex_unlock(&ledger->mutex);
}

/*
 * A row could not be removed: release its block, as that needs no disk space, and rewrite the other
 * rows.
 */
static void leave_block(struct ledger *ledger, struct hand *hand, struct own_block *block)
{
	for (size_t i = 0; i < ledger->count; i++)
		if (ledger->entries[i].uid == hand->uid &&
		    ledger->entries[i].number == block->number)
			ledger->entries[i].is_written = 0;
	block_give(hand, block);
	put_missing(ledger, hand);
}

static void take_out(struct ledger *ledger, struct entry *entry)
{
	struct hand *hand = hand_of(ledger, entry->uid);
	struct own_block *block;
	int err = 0;

	entry->row.state = 0;
	if (!entry->is_written)
		return;
	entry->is_written = 0;
	block = block_find(hand, entry->number);
	block->used &= ~(1u << entry->slot);
	if (!block->used)
		block_give(hand, block);
	else
		err = ledger_file_write(&hand->file, entry->number, entry->slot, NULL, 0);
	if (err) {
		trouble(ledger, hand, err);
		leave_block(ledger, hand, block);
	}
}

/* Once most are gone, so that it costs little for each. */
static void compact(struct ledger *ledger)
{
	size_t kept = 0;

	if (ledger->gone * 2 <= ledger->count)
		return;
	for (size_t i = 0; i < ledger->count; i++)
		if (ledger->entries[i].row.state)
			ledger->entries[kept++] = ledger->entries[i];
	ledger->count = kept;
	ledger->gone = 0;
}

void ledger_remove(struct ledger *ledger, const uint64_t *ids, size_t count)
{
	if (is_child(ledger))
		return;
	pthread_mutex_lock(&ledger->mutex);
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = entry_find(ledger, ids[i]);

		if (!entry)
			continue;
		take_out(ledger, entry);
		ledger->gone++;
	}
	compact(ledger);
	pthread_mutex_unlock(&ledger->mutex);
}

void ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return;
	for (size_t i = 0; i < ledger->count && !is_child(ledger); i++)
		if (ledger->entries[i].row.state)
			take_out(ledger, &ledger->entries[i]);
	for (size_t i = 0; i < ledger->hand_count; i++) {
		if (ledger_at)
			ledger_at(LEDGER_CLOSING);
		ledger_file_release(&ledger->hands[i].file);
		free(ledger->hands[i].blocks);
	}
	free(ledger->hands);
	free(ledger->entries);
	pthread_mutex_destroy(&ledger->mutex);
	free(ledger);
}
