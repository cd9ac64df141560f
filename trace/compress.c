/* SPDX-License-Identifier: MIT */
#include "trace/compress.h"

#include "abi/page.h"
#include "base/array.h"
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
	int dir;
	char **files;
	size_t count, room;
	uint64_t all, done; /* bytes */
	struct trace_packing *packing;
};

/* A file that is to take another's place. */
struct fresh {
	int fd;
	char name[NAME_BYTES]; /* while it is not whole */
	uint64_t bytes;
};

/* ---- files ---- */

static int fresh_open(struct fresh *fresh, int dir, const char *file, mode_t mode)
{
	*fresh = (struct fresh){ 0 };
	snprintf(fresh->name, sizeof(fresh->name), ".%s.new", file);
	/* what a killed one left behind */
	unlinkat(dir, fresh->name, 0);
	fresh->fd = folder_create(dir, fresh->name, mode & 0777);
	return fresh->fd < 0 ? fresh->fd : 0;
}

static int fresh_write(struct fresh *fresh, const void *bytes, size_t count)
{
	size_t done = 0;

	while (done < count) {
		ssize_t got = write(fresh->fd, (const char *)bytes + done, count - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -ENOSPC;
		done += (size_t)got;
	}
	fresh->bytes += count;
	return 0;
}

/* Whole: give it its name. Else take it away. */
static int fresh_close(struct fresh *fresh, int dir, const char *file, int err)
{
	if (fresh->fd < 0)
		return err;
	if (!err && fsync(fresh->fd))
		err = -errno;
	if (close(fresh->fd) && !err)
		err = -errno;
	if (!err && renameat(dir, fresh->name, dir, file))
		err = -errno;
	/* the new name is on disk before the old file goes */
	if (!err && fsync(dir))
		err = -errno;
	if (err)
		unlinkat(dir, fresh->name, 0);
	return err;
}

static void progress(struct change *change, uint64_t bytes)
{
	struct trace_packing *packing = change->packing;

	change->done += bytes;
	if (packing->progress)
		packing->progress(packing->context, change->done, change->all);
}

static ssize_t read_fully(int fd, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = read(fd, (char *)to + done, bytes - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* ---- compressing ---- */

struct packer {
	ZSTD_CCtx *in;
	ZSTD_DCtx *out; /* each frame is unpacked again, and compared */
	uint8_t *plain, *packed, *again;
	size_t room;
	uint32_t *index; /* bytes of each frame, and of its content */
	size_t index_count, index_room;
};

static int packer_init(struct packer *packer)
{
	*packer = (struct packer){ .in = ZSTD_createCCtx(), .out = ZSTD_createDCtx() };
	packer->room = ZSTD_compressBound(PACKED_FRAME_BYTES);
	packer->plain = malloc(PACKED_FRAME_BYTES);
	packer->again = malloc(PACKED_FRAME_BYTES);
	packer->packed = malloc(packer->room);
	if (!packer->in || !packer->out || !packer->plain || !packer->again || !packer->packed)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(packer->in, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(packer->in, ZSTD_c_checksumFlag, 1);
	return 0;
}

static void packer_release(struct packer *packer)
{
	ZSTD_freeCCtx(packer->in);
	ZSTD_freeDCtx(packer->out);
	free(packer->plain);
	free(packer->again);
	free(packer->packed);
	free(packer->index);
}

static int put_frame(struct packer *packer, struct fresh *to, size_t bytes)
{
	size_t packed = ZSTD_compress2(packer->in, packer->packed, packer->room, packer->plain,
				       bytes);
	size_t again = ZSTD_isError(packed)
			       ? packed
			       : ZSTD_decompressDCtx(packer->out, packer->again, PACKED_FRAME_BYTES,
						     packer->packed, packed);

	if (ZSTD_isError(again))
		return -ENOMEM; /* all else is impossible */
	if (again != bytes || memcmp(packer->again, packer->plain, bytes))
		return -EIO;
	if (array_grow(&packer->index, &packer->index_room, packer->index_count + 2,
		       sizeof(*packer->index)))
		return -ENOMEM;
	packer->index[packer->index_count++] = (uint32_t)packed;
	packer->index[packer->index_count++] = (uint32_t)bytes;
	return fresh_write(to, packer->packed, packed);
}

static int put_index(struct packer *packer, struct fresh *to)
{
	uint32_t bytes = (uint32_t)(packer->index_count * sizeof(*packer->index)) + 9;
	uint32_t head[2] = { PACKED_INDEX_MAGIC, bytes };
	uint32_t frames = (uint32_t)packer->index_count / 2, magic = PACKED_INDEX_END;
	uint8_t end[9] = { 0 }; /* the byte between: no checksums in the index */
	int err = fresh_write(to, head, sizeof(head));

	memcpy(end, &frames, sizeof(frames));
	memcpy(end + 5, &magic, sizeof(magic));
	if (!err)
		err = fresh_write(to, packer->index, bytes - sizeof(end));
	return err ? err : fresh_write(to, end, sizeof(end));
}

/* All of a stream into frames. */
static int pack(struct change *change, struct packer *packer, int from, struct fresh *to)
{
	int err = 0;

	packer->index_count = 0;
	while (!err) {
		ssize_t got = read_fully(from, packer->plain, PACKED_FRAME_BYTES);

		if (got <= 0) {
			err = (int)got;
			break;
		}
		err = put_frame(packer, to, (size_t)got);
		progress(change, (uint64_t)got);
	}
	return err ? err : put_index(packer, to);
}

/* 1, or 0 if it is no stream; or an error. */
static int compress_one(struct change *change, struct packer *packer, const char *file)
{
	int from = openat(change->dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	char name[NAME_BYTES];
	struct fresh to = { .fd = -1 };
	struct stat about;
	uint32_t magic;
	int err = 0;

	if (from < 0 || fstat(from, &about)) {
		err = -errno;
		goto out;
	}
	if (pread(from, &magic, sizeof(magic), 0) != sizeof(magic) || magic != PACKET_MAGIC)
		goto out;
	snprintf(name, sizeof(name), "%s" PACKED_SUFFIX, file);
	err = fresh_open(&to, change->dir, name, about.st_mode);
	if (!err)
		err = pack(change, packer, from, &to);
	err = fresh_close(&to, change->dir, name, err);
	if (!err && unlinkat(change->dir, file, 0))
		err = -errno;
	if (!err) {
		change->packing->plain_bytes += (uint64_t)about.st_size;
		change->packing->packed_bytes += to.bytes;
		err = 1;
	}
out:
	if (from >= 0)
		close(from);
	return err;
}

/* ---- unpacking ---- */

static int unpack(struct change *change, struct packed *from, struct fresh *to, void *room)
{
	uint64_t at = 0;
	ssize_t got;
	int err = 0;

	while (!err && (got = packed_read(from, to->bytes, room, PACKED_FRAME_BYTES)) != 0) {
		err = got < 0 ? (int)got : fresh_write(to, room, (size_t)got);
		progress(change, from->at - at);
		at = from->at;
	}
	return err;
}

static int decompress_one(struct change *change, const char *file)
{
	char name[NAME_BYTES] = "", cut[NAME_BYTES];
	struct fresh to = { .fd = -1 };
	uint8_t *room = malloc(PACKED_FRAME_BYTES);
	struct packed from;
	struct stat about;
	int err = packed_open(&from, change->dir, file);

	memcpy(name, file, strlen(file) - (sizeof(PACKED_SUFFIX) - 1));
	if (!err && !room)
		err = -ENOMEM;
	if (!err && fstatat(change->dir, file, &about, AT_SYMLINK_NOFOLLOW))
		err = -errno;
	if (!err)
		err = fresh_open(&to, change->dir, name, about.st_mode);
	if (!err)
		err = unpack(change, &from, &to, room);
	snprintf(cut, sizeof(cut), ".cut-%s", file);
	if (!err && from.fault && unlinkat(change->dir, cut, 0) && errno != ENOENT)
		err = -errno;
	if (!err && from.fault && linkat(change->dir, file, change->dir, cut, 0))
		err = -errno;
	err = fresh_close(&to, change->dir, name, err);
	if (!err && unlinkat(change->dir, file, 0))
		err = -errno;
	if (!err) {
		change->packing->damaged += from.fault != NULL;
		change->packing->plain_bytes += to.bytes;
		change->packing->packed_bytes += from.bytes;
		err = 1;
	}
	packed_release(&from);
	free(room);
	return err;
}

/* ---- folders ---- */

static int has(int dir, const char *file)
{
	return !faccessat(dir, file, F_OK, AT_SYMLINK_NOFOLLOW);
}

/*
 * Beside the plain file, the packed one is what a killed call did not come to remove, or had not
 * yet.
 */
static int is_left_over(int dir, const char *file)
{
	char name[NAME_BYTES] = "";

	if (!packed_is_name(file))
		return 0;
	memcpy(name, file, strlen(file) - (sizeof(PACKED_SUFFIX) - 1));
	return has(dir, name);
}

static int is_fresh(const char *name)
{
	size_t bytes = strlen(name);

	return name[0] == '.' && bytes > 4 && !strcmp(name + bytes - 4, ".new") && name[1] >= '0' &&
	       name[1] <= '9';
}

/* Note which files there are, and take away what a killed call left. */
static int folder_list(struct change *change, int packed)
{
	int copy = openat(change->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;
	struct stat about;

	if (!list)
		return -errno;
	while (!err && (entry = readdir(list))) {
		const char *name = entry->d_name;

		if (is_fresh(name) || is_left_over(change->dir, name)) {
			unlinkat(change->dir, name, 0);
			continue;
		}
		if (name[0] == '.' || !strcmp(name, "metadata") || packed_is_name(name) != packed ||
		    strlen(name) > 255 - 16 ||
		    fstatat(change->dir, name, &about, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(about.st_mode))
			continue;
		err = array_grow(&change->files, &change->room, change->count + 1,
				 sizeof(*change->files));
		if (!err && !(change->files[change->count++] = strdup(name)))
			err = -ENOMEM;
		change->all += (uint64_t)about.st_size;
	}
	closedir(list);
	return err;
}

static int change_open(struct change *change, const char *dir, int packed)
{
	int err;

	change->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (change->dir < 0)
		return errno == ENOTDIR ? -WM_E_NOT_A_TRACE : -errno;
	if (!has(change->dir, "metadata"))
		return -WM_E_NOT_A_TRACE;
	err = folder_check(change->dir);
	if (err)
		return err;
	/* its writer holds it, and who repairs or changes it; readers share it */
	if (flock(change->dir, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -WM_E_TRACE_IN_USE : -errno;
	return folder_list(change, packed);
}

static void change_release(struct change *change)
{
	for (size_t i = 0; i < change->count; i++)
		free(change->files[i]);
	free(change->files);
	if (change->dir >= 0)
		close(change->dir);
}

int trace_compress(const char *dir, struct trace_packing *packing)
{
	struct trace_packing none = { 0 };
	struct change change = { .packing = packing ? packing : &none };
	struct packer packer;
	int err = change_open(&change, dir, 0), count = 0;

	if (!err)
		err = packer_init(&packer);
	else
		packer = (struct packer){ 0 };
	for (size_t i = 0; i < change.count && err >= 0; i++) {
		err = compress_one(&change, &packer, change.files[i]);
		count += err > 0;
	}
	change.packing->files = (uint64_t)count;
	packer_release(&packer);
	change_release(&change);
	return err < 0 ? err : count;
}

int trace_decompress(const char *dir, struct trace_packing *packing)
{
	struct trace_packing none = { 0 };
	struct change change = { .packing = packing ? packing : &none };
	int err = change_open(&change, dir, 1), count = 0;

	for (size_t i = 0; i < change.count && err >= 0; i++) {
		err = decompress_one(&change, change.files[i]);
		count += err > 0;
	}
	change.packing->files = (uint64_t)count;
	change_release(&change);
	return err < 0 ? err : count;
}
