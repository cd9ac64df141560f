/* SPDX-License-Identifier: MIT */
#include "claim/ledger_file.h"

#include "process/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define TAKEN 0
#define LIVE 1

#define READ_TRIES 50 /* of a block that is being written each time */
#define READ_PAUSE_NS 20000

void (*ledger_at)(enum ledger_step step);

static void at(enum ledger_step step)
{
	if (ledger_at)
		ledger_at(step);
}

/* FNV-1a */
static uint64_t sum_of(const void *all, size_t bytes, uint64_t tenancy)
{
	const uint8_t *byte = all;
	uint64_t sum = UINT64_C(14695981039346656037) ^ tenancy;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ byte[i]) * UINT64_C(1099511628211);
	return sum ? sum : 1;
}

static uint64_t head_sum(const struct ledger_head *head)
{
	struct ledger_head copy = *head;

	copy.sum = 0;
	return sum_of(&copy, sizeof(copy), 0);
}

static uint64_t row_sum(const struct ledger_row *row, uint64_t tenancy)
{
	struct ledger_row copy = *row;

	copy.sum = 0;
	return sum_of(&copy, sizeof(copy), tenancy);
}

static int is_nothing(const struct ledger_row *row)
{
	static const struct ledger_row nothing;

	return !memcmp(row, &nothing, sizeof(nothing));
}

static off_t place_of_block(uint32_t number)
{
	return (off_t)number * LEDGER_BLOCK_BYTES;
}

/* Does not wait. 0, -EAGAIN: another has it; -errno. */
static int lock(int fd, short type, uint32_t number, int byte, int bytes)
{
	struct flock lock = { .l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = place_of_block(number) + byte,
			      .l_len = bytes };

	if (!fcntl(fd, F_OFD_SETLK, &lock))
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

static void unlock(int fd, uint32_t number)
{
	lock(fd, F_UNLCK, number, TAKEN, 2);
}

/* 1, 0, -errno. Only a writer's locks count: any reader of the file could lock it for reading. */
static int is_live(int fd, uint32_t number)
{
	struct flock lock = { .l_type = F_RDLCK,
			      .l_whence = SEEK_SET,
			      .l_start = place_of_block(number) + LIVE,
			      .l_len = 1 };

	if (fcntl(fd, F_OFD_GETLK, &lock))
		return -errno;
	return lock.l_type != F_UNLCK;
}

/* Past a limit the kernel would send SIGXFSZ, which is deadly to who does not expect it. */
static int is_beyond_limit(off_t end)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && (rlim_t)end > limit.rlim_cur;
}

static int write_whole(int fd, const void *data, size_t bytes, off_t offset)
{
	ssize_t done;

	if (is_beyond_limit(offset + (off_t)bytes))
		return -EFBIG;
	do
		done = pwrite(fd, data, bytes, offset);
	while (done < 0 && errno == EINTR);
	if (done < 0)
		return -errno;
	return (size_t)done == bytes ? 0 : -ENOSPC;
}

static int check(struct ledger_file *file, uid_t uid, int is_writer)
{
	struct stat found;

	if (fstat(file->fd, &found))
		return -errno;
	if (!S_ISREG(found.st_mode) || found.st_uid != uid)
		return -WM_E_SOCKET_DIR;
	/* an odd umask, or someone who opened it to others */
	if (is_writer && (found.st_mode & 07777) != 0600 && fchmod(file->fd, 0600))
		return -errno;
	file->device = found.st_dev;
	file->inode = found.st_ino;
	return 0;
}

int ledger_file_open(struct ledger_file *file, const char *dir, uid_t uid, int is_writer)
{
	int other = uid != geteuid(), err;

	*file = (struct ledger_file){ .fd = -1 };
	snprintf(file->path, sizeof(file->path), "%s/" LEDGER_FILE, dir);
	if (other) {
		err = owner_become(uid);
		if (err)
			return err;
	}
	at(LEDGER_OPENING);
	err = is_writer ? socketdir_make(dir, uid) : socketdir_check(dir, uid);
	if (!err) {
		/* a FIFO there would have us wait */
		file->fd = open(file->path,
				O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
					(is_writer ? O_RDWR | O_CREAT : O_RDONLY),
				0600);
		err = file->fd < 0 ? -errno : check(file, uid, is_writer);
	}
	if (other)
		owner_leave();
	if (err)
		ledger_file_release(file);
	return err == -ELOOP ? -WM_E_SOCKET_DIR : err;
}

void ledger_file_release(struct ledger_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

int ledger_file_is_lost(const struct ledger_file *file)
{
	struct stat found;

	return stat(file->path, &found) || found.st_dev != file->device ||
	       found.st_ino != file->inode;
}

/* TAKEN is ours -> LIVE is. Wipes the previous owner's rows first. */
static int begin(const struct ledger_file *file, struct ledger_head *head, uint32_t number)
{
	struct ledger_block block = { 0 };
	int err;

	head->magic = LEDGER_MAGIC;
	head->version = LEDGER_VERSION;
	if (getrandom(&head->tenancy, sizeof(head->tenancy), 0) != sizeof(head->tenancy))
		return -EIO;
	head->sum = head_sum(head);
	block.head = *head;
	at(LEDGER_WIPING);
	err = write_whole(file->fd, &block, sizeof(block), place_of_block(number));
	at(LEDGER_STANDING_FOR);
	return err ? err : lock(file->fd, F_WRLCK, number, LIVE, 1);
}

int ledger_file_take(const struct ledger_file *file, struct ledger_head *head,
		     int (*is_own)(const void *data, uint32_t number), const void *data,
		     uint32_t *number)
{
	for (uint32_t i = 0; i < LEDGER_BLOCKS_MAX; i++) {
		int err;

		if (is_own(data, i))
			continue;
		at(LEDGER_TAKING);
		err = lock(file->fd, F_WRLCK, i, TAKEN, 1);
		if (!err) {
			err = begin(file, head, i);
			if (err)
				unlock(file->fd, i);
		}
		if (!err)
			*number = i;
		if (err != -EAGAIN)
			return err;
	}
	return -WM_E_LEDGER_FULL;
}

int ledger_file_write(const struct ledger_file *file, uint32_t number, unsigned int slot,
		      struct ledger_row *row, uint64_t tenancy)
{
	static const struct ledger_row nothing;
	off_t offset = place_of_block(number) + (off_t)(1 + slot) * LEDGER_ROW_BYTES;

	if (row)
		row->sum = row_sum(row, tenancy);
	at(row ? LEDGER_WRITING : LEDGER_CLEARING);
	return write_whole(file->fd, row ? row : &nothing, LEDGER_ROW_BYTES, offset);
}

static void wipe(const struct ledger_file *file, uint32_t number)
{
	static const struct ledger_block nothing;

	/* if even that fails, the remains do not count, as no owner has LIVE locked */
	(void)!write_whole(file->fd, &nothing, sizeof(nothing), place_of_block(number));
}

void ledger_file_give(const struct ledger_file *file, uint32_t number)
{
	/* not the other way round: a block that counts has a head */
	at(LEDGER_GIVING);
	lock(file->fd, F_UNLCK, number, LIVE, 1);
	wipe(file, number);
	at(LEDGER_UNLOCKING);
	unlock(file->fd, number);
}

uint32_t ledger_file_blocks(const struct ledger_file *file)
{
	struct stat found;
	uint64_t count;

	if (fstat(file->fd, &found) || found.st_size <= 0)
		return 0;
	count = ((uint64_t)found.st_size + LEDGER_BLOCK_BYTES - 1) / LEDGER_BLOCK_BYTES;
	return count < LEDGER_BLOCKS_MAX ? (uint32_t)count : LEDGER_BLOCKS_MAX;
}

/* Read the block; the part beyond the file's end is 0. */
static int fetch(int fd, uint32_t number, struct ledger_block *block)
{
	ssize_t got;

	memset(block, 0, sizeof(*block));
	do
		got = pread(fd, block, sizeof(*block), place_of_block(number));
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : 0;
}

int ledger_file_restore(const struct ledger_file *file, uint32_t number,
			const struct ledger_block *block)
{
	struct ledger_block found;

	if (!fetch(file->fd, number, &found) && !memcmp(&found, block, sizeof(found)))
		return 0;
	return write_whole(file->fd, block, sizeof(*block), place_of_block(number));
}

static int is_head(const struct ledger_head *head)
{
	return head->magic == LEDGER_MAGIC && head->version == LEDGER_VERSION &&
	       head->sum == head_sum(head);
}

/* Rows that are half written, or not of the head's tenancy: how many, and gone. */
static size_t drop_broken(struct ledger_block *block)
{
	size_t count = 0;

	for (unsigned int i = 0; i < LEDGER_ROWS; i++) {
		struct ledger_row *row = &block->rows[i];

		if (is_nothing(row) || row->sum == row_sum(row, block->head.tenancy))
			continue;
		memset(row, 0, sizeof(*row));
		count++;
	}
	return count;
}

int ledger_file_read(const struct ledger_file *file, uint32_t number, struct ledger_block *block,
		     size_t *damaged)
{
	size_t broken = 0;
	int made_sense = 0;

	for (int tries = 0; tries < READ_TRIES; tries++) {
		int live = is_live(file->fd, number), err;

		if (live <= 0)
			return live;
		err = fetch(file->fd, number, block);
		if (err)
			return err;
		/* asked again: who was there may have ended, and what we have be the rest of him */
		live = is_live(file->fd, number);
		if (live <= 0)
			return live;
		made_sense = is_head(&block->head);
		broken = made_sense ? drop_broken(block) : 1;
		if (!broken)
			return 1;
		nanosleep(&(struct timespec){ .tv_nsec = READ_PAUSE_NS }, NULL);
	}
	*damaged += broken;
	return made_sense;
}
