/* SPDX-License-Identifier: MIT */
#include "trace/compress.h"

#include "abi/page.h"
#include "trace/facts.h"
#include "trace/folder.h"
#include "trace/packed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>
#include <zstd.h>

#define LEVEL 3
#define NAME_BYTES 300 /* of a file, with what is put before and behind */

/* A change of all streams of a folder, one way or the other. */
struct change {
	int dir, is_back; /* is_back: unpack */
	ZSTD_CCtx *zstd;
	uint8_t *plain, *again, *packed; /* of a frame */
};

static int write_all(int fd, const uint8_t *bytes, size_t count)
{
	while (count) {
		ssize_t got = write(fd, bytes, count);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -ENOSPC;
		bytes += got;
		count -= (size_t)got;
	}
	return 0;
}

/* Each frame is unpacked again, and compared. */
static int write_frame(const struct change *change, int to, size_t bytes)
{
	size_t room = ZSTD_compressBound(PACKED_FRAME_BYTES);
	size_t packed = ZSTD_compress2(change->zstd, change->packed, room, change->plain, bytes);

	if (ZSTD_isError(packed))
		return -ENOMEM; /* all else is impossible */
	if (ZSTD_decompress(change->again, PACKED_FRAME_BYTES, change->packed, packed) != bytes ||
	    memcmp(change->again, change->plain, bytes))
		return -EIO;
	return write_all(to, change->packed, packed);
}

static int write_content(const struct change *change, struct packed *from, int to)
{
	uint64_t offset = 0;
	ssize_t got;
	int err = 0;

	do {
		if (change->is_back)
			got = packed_read(from, offset, change->plain, PACKED_FRAME_BYTES);
		else
			got = pread(from->fd, change->plain, PACKED_FRAME_BYTES, (off_t)offset);
		if (got < 0)
			err = change->is_back ? (int)got : -errno;
		else if (got)
			err = change->is_back ? write_all(to, change->plain, (size_t)got)
					      : write_frame(change, to, (size_t)got);
		offset += got > 0 ? (uint64_t)got : 0;
	} while (got > 0 && !err);
	return err;
}

/*
 * Write the content of `from` into a file that replaces `name`: whole and on disk before it has the
 * name, and that name is on disk before the old file goes.
 */
static int replace(const struct change *change, struct packed *from, const char *file,
		   const char *name, struct stat *about)
{
	char fresh[NAME_BYTES + 8], cut[NAME_BYTES + 8];
	int to, err;

	snprintf(fresh, sizeof(fresh), ".%s.new", name);
	snprintf(cut, sizeof(cut), ".cut-%s", file);
	unlinkat(change->dir, fresh, 0); /* what a killed one left behind */
	to = folder_create(change->dir, fresh, about->st_mode & 0777);
	if (to < 0)
		return to;
	err = write_content(change, from, to);
	if (!err && (fstat(to, about) || fsync(to)))
		err = -errno;
	if (close(to) && !err)
		err = -errno;
	if (!err && from->fault && unlinkat(change->dir, cut, 0) && errno != ENOENT)
		err = -errno;
	if (!err && from->fault && linkat(change->dir, file, change->dir, cut, 0))
		err = -errno;
	if (!err && (renameat(change->dir, fresh, change->dir, name) || fsync(change->dir)))
		err = -errno;
	if (err)
		unlinkat(change->dir, fresh, 0);
	return err;
}

/* 1, or 0 if it is no stream, or is there unpacked; or an error. */
static int change_one(const struct change *change, const char *file, struct trace_packing *packing)
{
	size_t suffix = sizeof(PACKED_SUFFIX) - 1;
	char name[NAME_BYTES];
	struct packed from;
	struct stat about;
	uint32_t magic;
	int err = packed_open(&from, change->dir, file);

	snprintf(name, sizeof(name), "%s" PACKED_SUFFIX, file);
	if (change->is_back)
		name[strlen(file) - suffix] = '\0';
	if (!err && fstat(from.fd, &about))
		err = -errno;
	if (err || !S_ISREG(about.st_mode))
		goto out;
	if (!change->is_back &&
	    (pread(from.fd, &magic, sizeof(magic), 0) != sizeof(magic) || magic != PACKET_MAGIC))
		goto out;
	if (!change->is_back || faccessat(change->dir, name, F_OK, AT_SYMLINK_NOFOLLOW)) {
		err = replace(change, &from, file, name, &about);
		if (!err) {
			packing->files++;
			packing->before += from.bytes;
			packing->after += (uint64_t)about.st_size;
			packing->damaged += from.fault != NULL;
		}
	}
	if (!err && unlinkat(change->dir, file, 0))
		err = -errno;
out:
	packed_release(&from);
	return err == -ELOOP ? 0 : err;
}

static int is_plain(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && !packed_is_name(entry->d_name) &&
	       strcmp(entry->d_name, FACTS_FILE) != 0;
}

static int is_packed(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && packed_is_name(entry->d_name);
}

static int change_open(struct change *change, const char *dir)
{
	int err;

	change->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (change->dir < 0)
		return errno == ENOTDIR ? -WM_E_NOT_A_TRACE : -errno;
	if (faccessat(change->dir, "metadata", F_OK, AT_SYMLINK_NOFOLLOW))
		return -WM_E_NOT_A_TRACE;
	err = folder_check(change->dir);
	if (err)
		return err;
	/* its writer holds it, and who repairs or changes it; readers share it */
	if (flock(change->dir, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -WM_E_TRACE_IN_USE : -errno;
	change->zstd = ZSTD_createCCtx();
	change->plain = malloc(PACKED_FRAME_BYTES);
	change->again = malloc(PACKED_FRAME_BYTES);
	change->packed = malloc(ZSTD_compressBound(PACKED_FRAME_BYTES));
	if (!change->zstd || !change->plain || !change->again || !change->packed)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(change->zstd, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(change->zstd, ZSTD_c_checksumFlag, 1);
	return 0;
}

static int change_all(const char *dir, int is_back, struct trace_packing *packing)
{
	struct change change = { .is_back = is_back };
	struct trace_packing none = { 0 };
	struct dirent **files = NULL;
	int err = change_open(&change, dir), count = 0;

	if (!err)
		count = scandirat(change.dir, ".", &files, is_back ? is_packed : is_plain, NULL);
	if (count < 0)
		err = -errno;
	for (int i = 0; i < count; i++) {
		if (!err)
			err = change_one(&change, files[i]->d_name, packing ? packing : &none);
		free(files[i]);
	}
	free(files);
	free(change.plain);
	free(change.again);
	free(change.packed);
	ZSTD_freeCCtx(change.zstd);
	if (change.dir >= 0)
		close(change.dir);
	return err ? err : (int)(packing ? packing->files : none.files);
}

int trace_compress(const char *dir, struct trace_packing *packing)
{
	return change_all(dir, 0, packing);
}

int trace_decompress(const char *dir, struct trace_packing *packing)
{
	return change_all(dir, 1, packing);
}
