/* SPDX-License-Identifier: MIT */
#include "session/trail/codes.h"

#include "base/array.h"
#include "base/maps.h"
#include "session/trail/kernel_codes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096u

static size_t read_memory(pid_t pid, uint64_t address, uint8_t *bytes, size_t most)
{
	size_t here = PAGE - address % PAGE, first = here < most ? here : most;
	struct iovec to = { bytes, most };
	struct iovec from[2] = { { (void *)(uintptr_t)address, first },
				 { (void *)(uintptr_t)(address + first), most - first } };
	ssize_t got = process_vm_readv(pid, &to, 1, from, most > first ? 2 : 1, 0);

	return got > 0 ? (size_t)got : 0;
}

/* The mapping that was the latest at an address. */
static const struct codes_piece *piece_at(const struct process_codes *codes, uint64_t address)
{
	for (size_t i = codes->count; i-- > 0;)
		if (address >= codes->pieces[i].start && address < codes->pieces[i].end)
			return &codes->pieces[i];
	return NULL;
}

static size_t process_read(struct codes *source, uint64_t address, uint8_t *bytes, size_t most)
{
	struct process_codes *codes = (struct process_codes *)source;
	size_t got = 0;

	if (address >= TRAIL_KERNEL && codes->kernel)
		return kernel_codes_read(codes->kernel, address, bytes, most);
	while (got < most) {
		const struct codes_piece *piece = piece_at(codes, address + got);
		uint64_t at, count;

		if (!piece || !piece->bytes)
			return got +
			       read_memory(codes->pid, address + got, bytes + got, most - got);
		at = address + got - piece->start;
		if (at >= piece->mapped)
			return got;
		count = piece->mapped - at;
		if (count > most - got)
			count = most - got;
		memcpy(bytes + got, piece->bytes + at, count);
		got += count;
	}
	return got;
}

/* The file's part, where its path still leads to the file that is mapped. */
static void piece_map(struct codes_piece *piece, const char *path)
{
	uint64_t bytes = piece->end - piece->start;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat about;
	void *mapped;

	if (fd < 0)
		return;
	if (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_ino == piece->inode &&
	    about.st_dev == piece->device && (uint64_t)about.st_size > piece->offset) {
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

static int piece_add(struct process_codes *codes, const struct map *map)
{
	const struct codes_piece *there = piece_at(codes, map->start);
	struct codes_piece *piece;

	if (there && there->start == map->start && there->end == map->end &&
	    there->inode == map->inode && there->offset == map->offset)
		return 0;
	if (array_grow(&codes->pieces, &codes->room, codes->count + 1, sizeof(*codes->pieces)))
		return -ENOMEM;
	piece = &codes->pieces[codes->count++];
	*piece = (struct codes_piece){ .start = map->start,
				       .end = map->end,
				       .offset = map->offset,
				       .inode = map->inode,
				       .device = map->device };
	/* what can be written may not be what stands in the file */
	if (map->path[0] == '/' && !map->deleted && !(map->prot & PROT_WRITE))
		piece_map(piece, map->path);
	codes->codes.generation++;
	return 0;
}

void process_codes_init(struct process_codes *codes, pid_t pid, struct kernel_codes *kernel)
{
	*codes = (struct process_codes){ .codes = { .read = process_read,
						    .has_kernel = kernel != NULL },
					 .kernel = kernel,
					 .pid = pid };
}

int process_codes_renew(struct process_codes *codes)
{
	struct maps maps;
	int err = maps_read(&maps, codes->pid);

	for (size_t i = 0; !err && i < maps.count; i++)
		if (maps.list[i].prot & PROT_EXEC)
			err = piece_add(codes, &maps.list[i]);
	maps_release(&maps);
	return err;
}

void process_codes_release(struct process_codes *codes)
{
	for (size_t i = 0; i < codes->count; i++)
		if (codes->pieces[i].bytes)
			munmap(codes->pieces[i].bytes, codes->pieces[i].mapped);
	free(codes->pieces);
	*codes = (struct process_codes){ 0 };
}
