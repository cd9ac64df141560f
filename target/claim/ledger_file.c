/* SPDX-License-Identifier: MIT */
#include "target/claim/ledger_file.h"

#include "base/lack.h"
#include "target/process/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define MAKE_TRIES 64 /* each time a sweep removed the new file */
#define READ_TRIES 50 /* of a row that is being written each time */
#define READ_PAUSE_NS 20000
#define FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY) /* a FIFO would have us wait */

void (*ledger_at)(enum ledger_step step);

static void at(enum ledger_step step)
{
	if (ledger_at)
		ledger_at(step);
}

uint64_t ledger_namespace(void)
{
	struct stat found;

	return stat("/proc/self/ns/pid", &found) ? 0 : found.st_ino;
}

/* FNV-1a, over all but the sum, which is the first member of heads and rows. */
static uint64_t sum_of(const void *row)
{
	const uint8_t *byte = row;
	uint64_t sum = UINT64_C(14695981039346656037);

	for (size_t i = sizeof(sum); i < LEDGER_ROW_BYTES; i++)
		sum = (sum ^ byte[i]) * UINT64_C(1099511628211);
	return sum ? sum : 1;
}

/*
 * A claimant locks its file's first byte as long as it lives. A sweep locks one byte more, for as
 * long as it removes a file, so that readers can distinguish the two.
 */
enum { LOCK_CLAIMANT = 1, LOCK_SWEEP = 2 }; /* bytes */

/* 0, -EAGAIN: another has it; -errno. Does not wait. */
static int lock(int fd, off_t bytes)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = bytes };

	if (!fcntl(fd, F_OFD_SETLK, &lock))
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

/* Only a writer's lock counts: any reader of the file could lock it for reading. */
static int is_live(int fd)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK && lock.l_len != LOCK_SWEEP;
}

/* Past a limit the kernel would send SIGXFSZ, which is deadly to who does not expect it. */
static int is_beyond_limit(off_t end)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && (rlim_t)end > limit.rlim_cur;
}

static int write_row(int fd, const void *row, size_t place)
{
	off_t offset = (off_t)place * LEDGER_ROW_BYTES;
	ssize_t done;

	if (is_beyond_limit(offset + LEDGER_ROW_BYTES))
		return -EFBIG;
	do
		done = pwrite(fd, row, LEDGER_ROW_BYTES, offset);
	while (done < 0 && errno == EINTR);
	if (done < 0)
		return -errno;
	return done == LEDGER_ROW_BYTES ? 0 : -ENOSPC;
}

static int is_ledger(const char *name)
{
	size_t length = strlen(name), suffix = strlen(LEDGER_SUFFIX);

	return length > suffix && !strcmp(name + length - suffix, LEDGER_SUFFIX);
}

/* A claimant's file in a folder; -WM_E_SOCKET_DIR: something else has its name. */
static int open_file(int dir, const char *name, uid_t uid, int flags)
{
	int fd = openat(dir, name, flags | FLAGS);
	struct stat found;

	if (fd < 0)
		return errno == ENOENT || error_is_lack(-errno) ? -errno : -WM_E_SOCKET_DIR;
	if (!fstat(fd, &found) && S_ISREG(found.st_mode) && found.st_uid == uid)
		return fd;
	close(fd);
	return -WM_E_SOCKET_DIR;
}

/* Remove the files of claimants that have ended. */
static void sweep(const char *path, uid_t uid)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int files = 0;

	while (dir && files < LEDGER_FILES_MAX && (entry = readdir(dir))) {
		int fd = is_ledger(entry->d_name)
				 ? open_file(dirfd(dir), entry->d_name, uid, O_RDWR)
				 : -1;

		if (fd < 0)
			continue;
		files++;
		if (!lock(fd, LOCK_SWEEP))
			unlinkat(dirfd(dir), entry->d_name, 0);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* Create, lock. -EAGAIN: a sweep came between. */
static int make_one(struct ledger_file *file, const char *dir)
{
	uint64_t number;
	int err;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	snprintf(file->path, sizeof(file->path), "%s/%016" PRIx64 LEDGER_SUFFIX, dir, number);
	at(LEDGER_OPENING);
	file->fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | FLAGS, 0600);
	if (file->fd < 0)
		return errno == EEXIST ? -EAGAIN : -errno;
	at(LEDGER_LOCKING);
	err = fchmod(file->fd, 0600) ? -errno : lock(file->fd, LOCK_CLAIMANT); /* an odd umask */
	if (!err && ledger_file_is_lost(file))
		err = -EAGAIN;
	if (err && err != -EAGAIN)
		unlink(file->path);
	if (err)
		ledger_file_leave(file);
	return err;
}

static int make(struct ledger_file *file, const char *dir, uid_t uid, struct ledger_head *head)
{
	int err = socketdir_make(dir, uid), tries = 0;

	if (err)
		return err;
	sweep(dir, uid);
	do
		err = make_one(file, dir);
	while (err == -EAGAIN && ++tries < MAKE_TRIES);
	if (err)
		return err;
	at(LEDGER_HEADING);
	head->magic = LEDGER_MAGIC;
	head->version = LEDGER_VERSION;
	head->sum = sum_of(head);
	err = write_row(file->fd, head, 0);
	if (err) {
		unlink(file->path);
		ledger_file_leave(file);
	}
	return err;
}

int ledger_file_make(struct ledger_file *file, const char *dir, uid_t uid, struct ledger_head *head)
{
	int err = owner_become(uid);

	*file = (struct ledger_file){ .fd = -1 };
	snprintf(file->path, sizeof(file->path), "%s", dir);
	if (err)
		return err;
	err = make(file, dir, uid, head);
	owner_leave();
	if (err)
		snprintf(file->path, sizeof(file->path), "%s", dir);
	return err;
}

int ledger_file_is_lost(const struct ledger_file *file)
{
	struct stat found;

	return fstat(file->fd, &found) || !found.st_nlink;
}

int ledger_file_write(const struct ledger_file *file, size_t slot, struct ledger_row *row)
{
	static const struct ledger_row nothing;

	if (slot >= LEDGER_ROWS_MAX)
		return -WM_E_LEDGER_FULL;
	if (row)
		row->sum = sum_of(row);
	at(row ? LEDGER_WRITING : LEDGER_CLEARING);
	return write_row(file->fd, row ? row : &nothing, 1 + slot);
}

void ledger_file_end(struct ledger_file *file, uid_t uid)
{
	if (file->fd < 0)
		return;
	at(LEDGER_REMOVING);
	if (!owner_become(uid)) {
		if (!ledger_file_is_lost(file))
			unlink(file->path);
		owner_leave();
	}
	at(LEDGER_CLOSING);
	ledger_file_leave(file);
}

void ledger_file_leave(struct ledger_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

/* 1: whole; 0: nothing there; -EAGAIN: neither, though it was read again and again. */
static int read_row(int fd, void *row, size_t place)
{
	static const struct ledger_row nothing;

	for (int tries = 0; tries < READ_TRIES; tries++) {
		ssize_t got = pread(fd, row, LEDGER_ROW_BYTES, (off_t)place * LEDGER_ROW_BYTES);
		uint64_t sum;

		if (!got || (got == LEDGER_ROW_BYTES && !memcmp(row, &nothing, sizeof(nothing))))
			return 0;
		memcpy(&sum, row, sizeof(sum));
		if (got == LEDGER_ROW_BYTES && sum == sum_of(row))
			return 1;
		nanosleep(&(struct timespec){ .tv_nsec = READ_PAUSE_NS }, NULL);
	}
	return -EAGAIN;
}

static size_t rows_of(int fd)
{
	struct stat found;
	uint64_t count;

	if (fstat(fd, &found) || found.st_size <= 0)
		return 0;
	count = (uint64_t)found.st_size / LEDGER_ROW_BYTES;
	return count > LEDGER_ROWS_MAX ? LEDGER_ROWS_MAX : (size_t)count;
}

/* A head or row that makes no sense is of no account where its owner has ended meanwhile. */
static int spoilt(int fd, size_t *damaged)
{
	*damaged += (size_t)is_live(fd);
	return 0;
}

/* `left`: how many rows may be read. */
static int read_file(int fd, size_t *left, size_t *damaged,
		     int (*take)(void *data, const struct ledger_head *head,
				 const struct ledger_row *row),
		     void *data)
{
	struct ledger_head head;
	struct ledger_row row;
	size_t count = rows_of(fd), most = *damaged + LEDGER_DAMAGED_MAX;
	int got = is_live(fd) ? read_row(fd, &head, 0) : 0, err = 0;

	if (got < 0 || (got && (head.magic != LEDGER_MAGIC || head.version != LEDGER_VERSION)))
		return spoilt(fd, damaged);
	for (size_t i = 1; got && i <= count && !err && *left && *damaged < most; i++) {
		int is_row = read_row(fd, &row, i);

		--*left;
		if (is_row < 0)
			err = spoilt(fd, damaged);
		else if (is_row)
			err = take(data, &head, &row);
	}
	return err;
}

int ledger_folder_read(DIR *dir, uid_t uid, size_t *damaged,
		       int (*take)(void *data, const struct ledger_head *head,
				   const struct ledger_row *row),
		       void *data)
{
	size_t left = LEDGER_READ_MAX, most = *damaged + LEDGER_DAMAGED_MAX;
	struct dirent *entry;
	int files = 0, err = 0;

	while (!err && files < LEDGER_FILES_MAX && *damaged < most && (entry = readdir(dir))) {
		int fd;

		if (!is_ledger(entry->d_name))
			continue;
		files++;
		fd = open_file(dirfd(dir), entry->d_name, uid, O_RDONLY);
		if (fd == -WM_E_SOCKET_DIR)
			++*damaged;
		if (fd < 0)
			continue;
		err = read_file(fd, &left, damaged, take, data);
		close(fd);
	}
	return err;
}
