/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/codes.h"

#include "base/array.h"
#include "base/maps.h"
#include "base/regular_file.h"
#include "record/trail/hardware/kernel_codes.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE CODES_PAGE_BYTES

static size_t read_memory(pid_t pid, uint64_t address, uint8_t *bytes, size_t most)
{
	size_t here = PAGE - address % PAGE, first = here < most ? here : most;
	struct iovec to = { bytes, most };
	struct iovec from[2] = { { (void *)(uintptr_t)address, first },
				 { (void *)(uintptr_t)(address + first), most - first } };
	ssize_t got = process_vm_readv(pid, &to, 1, from, most > first ? 2 : 1, 0);

	return got > 0 ? (size_t)got : 0;
}

static int covers(const struct codes_piece *piece, uint64_t address)
{
	return address >= piece->start && address < piece->end;
}

/* Whether they have the same bytes at one address. */
static int is_same_code(const struct codes_piece *a, const struct codes_piece *b)
{
	return a->inode == b->inode && a->device == b->device && a->inode &&
	       a->start - a->offset == b->start - b->offset;
}

/* The last of those at an address that had come by then; NULL: none. */
static const struct codes_piece *piece_by(const struct process_codes *codes, uint64_t address,
					  uint64_t ticks)
{
	const struct codes_piece *found = NULL;

	for (size_t i = 0; i < codes->count; i++) {
		const struct codes_piece *piece = &codes->pieces[i];

		if (covers(piece, address) && piece->since <= ticks &&
		    (!found || piece->since >= found->since))
			found = piece;
	}
	return found;
}

/* The first that came after; NULL: none. */
static const struct codes_piece *piece_after(const struct process_codes *codes, uint64_t address,
					     uint64_t ticks)
{
	const struct codes_piece *found = NULL;

	for (size_t i = 0; i < codes->count; i++) {
		const struct codes_piece *piece = &codes->pieces[i];

		if (covers(piece, address) && piece->since > ticks &&
		    (!found || piece->since < found->since))
			found = piece;
	}
	return found;
}

/* The mapping at an address, at the requested time. NULL: none, or unknown. */
static const struct codes_piece *piece_at(const struct process_codes *codes, uint64_t address)
{
	const struct codes_piece *at, *after;

	if (!codes->to)
		return piece_by(codes, address, UINT64_MAX);
	at = piece_by(codes, address, codes->from);
	after = piece_after(codes, address, codes->from);
	/* one that was found late may be all that there was */
	if (!at)
		return after && (after->is_late || after->since <= codes->to) ? after : NULL;
	return after && after->since <= codes->to && !is_same_code(at, after) ? NULL : at;
}

/* Without a file to read: the process's memory, while it is still mapped. */
static size_t read_living(const struct process_codes *codes, const struct codes_piece *piece,
			  uint64_t address, uint8_t *bytes, size_t most)
{
	if (piece_by(codes, address, UINT64_MAX) != piece)
		return 0;
	if (piece && most > piece->end - address)
		most = piece->end - address;
	return read_memory(codes->pid, address, bytes, most);
}

/*
 * A page of a mapped file, as the kernel copies it: a file that was cut short has less, and ends no
 * one by SIGBUS. NULL: it is gone.
 */
static const uint8_t *file_page(struct process_codes *codes, const uint8_t *page)
{
	if (codes->copied == page)
		return codes->copy;
	codes->copied = NULL;
	if (read_memory(getpid(), (uint64_t)(uintptr_t)page, codes->copy, PAGE) != PAGE)
		return NULL;
	codes->copied = page;
	return codes->copy;
}

static size_t process_read(struct codes *source, uint64_t address, uint8_t *bytes, size_t most)
{
	struct process_codes *codes = (struct process_codes *)source;
	size_t got = 0;

	if (address >= TRAIL_KERNEL && codes->kernel)
		return kernel_codes_read(codes->kernel, address, bytes, most);
	while (got < most) {
		const struct codes_piece *piece = piece_at(codes, address + got);
		const uint8_t *page;
		uint64_t at, count;

		if (!piece || !piece->bytes) {
			count = read_living(codes, piece, address + got, bytes + got, most - got);
			if (!count || !piece)
				return got + count;
			got += count;
			continue;
		}
		at = address + got - piece->start;
		page = at < piece->mapped ? file_page(codes, piece->bytes + at - at % PAGE) : NULL;
		if (!page)
			return got;
		count = PAGE - at % PAGE;
		if (count > piece->mapped - at)
			count = piece->mapped - at;
		if (count > most - got)
			count = most - got;
		memcpy(bytes + got, page + at % PAGE, count);
		got += count;
	}
	return got;
}

/* ---- time ---- */

static size_t come_by(const struct process_codes *codes, uint64_t ticks)
{
	size_t count = 0;

	for (size_t i = 0; i < codes->count; i++)
		count += codes->pieces[i].since <= ticks;
	return count;
}

static void process_time(struct codes *source, uint64_t from, uint64_t to)
{
	struct process_codes *codes = (struct process_codes *)source;
	size_t known_from = to ? come_by(codes, from) : codes->count,
	       known_to = to ? come_by(codes, to) : codes->count;

	codes->from = from < to ? from : to;
	codes->to = to;
	if (known_from == codes->known_from && known_to == codes->known_to)
		return;
	codes->known_from = known_from;
	codes->known_to = known_to;
	source->generation++;
}

/* The file's part, where its path still leads to the file that is mapped. */
static void piece_map(struct codes_piece *piece, const char *path)
{
	uint64_t bytes = piece->end - piece->start;
	struct stat about;
	int fd = regular_file_open(path, &about);
	void *mapped;

	if (fd < 0)
		return;
	if (about.st_ino == piece->inode && about.st_dev == piece->device &&
	    (uint64_t)about.st_size > piece->offset) {
		if (bytes > (uint64_t)about.st_size - piece->offset)
			bytes = (uint64_t)about.st_size - piece->offset;
		mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)piece->offset);
		if (mapped != MAP_FAILED) {
			piece->bytes = mapped;
			piece->mapped = bytes;
		}
	}
	close(fd);
}

static int is_same_place(const struct codes_piece *a, const struct codes_piece *b)
{
	return a->start == b->start && a->end == b->end && a->inode == b->inode &&
	       a->device == b->device && a->offset == b->offset;
}

/* The same piece, found later than it came, or continued by this one; NULL: it is another. */
static struct codes_piece *piece_like(struct process_codes *codes, const struct codes_piece *like,
				      uint64_t ticks)
{
	const struct codes_piece *there = piece_by(codes, like->start, ticks);

	for (size_t i = 0; i < codes->count; i++) {
		struct codes_piece *piece = &codes->pieces[i];

		if (is_same_place(piece, like) &&
		    (piece == there || (piece->is_late && piece->since > ticks)))
			return piece;
	}
	return NULL;
}

static int piece_add(struct process_codes *codes, const struct codes_piece *from, const char *path,
		     uint64_t ticks, int is_late)
{
	struct codes_piece *piece = piece_like(codes, from, ticks);

	if (piece && piece->since > ticks) {
		piece->since = ticks;
		piece->is_late = is_late;
		codes->codes.generation++;
	}
	if (piece)
		return 0;
	if (array_grow(&codes->pieces, &codes->room, codes->count + 1, sizeof(*codes->pieces)))
		return -ENOMEM;
	piece = &codes->pieces[codes->count++];
	*piece = *from;
	piece->since = ticks;
	piece->is_late = is_late;
	if (path)
		piece_map(piece, path);
	codes->codes.generation++;
	return 0;
}

int codes_of_process_mapped(struct process_codes *codes, const struct codes_piece *piece,
			    const char *path, uint64_t ticks)
{
	return piece_add(codes, piece, path, ticks, 0);
}

void codes_of_process_init(struct process_codes *codes, pid_t pid, struct kernel_codes *kernel)
{
	*codes = (struct process_codes){ .codes = { .read = process_read,
						    .time = process_time,
						    .has_kernel = kernel != NULL },
					 .kernel = kernel,
					 .pid = pid };
}

int codes_of_process_renew(struct process_codes *codes, uint64_t ticks)
{
	struct maps maps;
	int err = maps_read(&maps, codes->pid);

	for (size_t i = 0; !err && i < maps.count; i++) {
		const struct map *map = &maps.list[i];
		const struct codes_piece piece = { .start = map->start,
						   .end = map->end,
						   .offset = map->offset,
						   .inode = map->inode,
						   .device = map->device };
		/* a writable mapping may differ from the file */
		int is_file = map->path[0] == '/' && !map->deleted && !(map->prot & PROT_WRITE);

		if (map->prot & PROT_EXEC)
			err = piece_add(codes, &piece, is_file ? map->path : NULL, ticks, 1);
	}
	maps_release(&maps);
	return err;
}

void codes_of_process_release(struct process_codes *codes)
{
	for (size_t i = 0; i < codes->count; i++)
		if (codes->pieces[i].bytes)
			munmap(codes->pieces[i].bytes, codes->pieces[i].mapped);
	free(codes->pieces);
	*codes = (struct process_codes){ 0 };
}
