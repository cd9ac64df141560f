/* SPDX-License-Identifier: MIT */
/*
 * Pieces of 16 bytes to 32 KiB are cut from blocks and kept in free lists. Their sizes are powers
 * of two and, from 48 on, the values halfway between two. Larger pieces are mappings of their own.
 * Blocks are never given back: what a program's markers need, they need again.
 */
#include "inside/runtime/heap.h"

#include "base/kernel.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define CLASS_COUNT 22 /* 16, 32, 48, 64, 96, 128 ... 32 KiB */
#define CLASS_BYTES(class)                                                                         \
	((class) ? (size_t)((class) % 2 ? 32 : 48) << ((class) - 1) / 2 : (size_t)16)
#define BLOCK_BYTES ((size_t)256 * 1024)

struct piece {
	struct piece *next;
};

static struct piece *pieces[CLASS_COUNT];
static unsigned char *block_at;
static size_t block_left;

static void *map_new(size_t bytes)
{
	void *start = kernel_map(NULL, bytes, PROT_READ | PROT_WRITE, 0);

	return start == MAP_FAILED ? NULL : start;
}

static size_t round_to_pages(size_t bytes)
{
	return (bytes + 4095) & ~(size_t)4095;
}

static unsigned int class_of(size_t bytes)
{
	unsigned int class = 0;

	while (class < CLASS_COUNT && CLASS_BYTES(class) < bytes)
		class ++;
	return class;
}

static void *cut(size_t bytes)
{
	size_t skip = bytes < HEAP_LINE_BYTES ? 0 : -(uintptr_t)block_at % HEAP_LINE_BYTES;
	void *start;

	if (block_left >= skip) {
		block_at += skip;
		block_left -= skip;
	}
	if (block_left < bytes) {
		/* what is left of the old block is lost: under 32 KiB in 256 */
		block_at = map_new(BLOCK_BYTES);
		block_left = block_at ? BLOCK_BYTES : 0;
		if (!block_at)
			return NULL;
	}
	start = block_at;
	block_at += bytes;
	block_left -= bytes;
	return start;
}

void *heap_alloc(size_t bytes)
{
	unsigned int class = class_of(bytes);
	struct piece *piece;

	if (bytes > (size_t)1 << 40)
		return NULL;
	if (class == CLASS_COUNT)
		return map_new(round_to_pages(bytes));
	piece = pieces[class];
	if (!piece)
		return cut(CLASS_BYTES(class)); /* fresh from the kernel: zero */
	pieces[class] = piece->next;
	memset(piece, 0, CLASS_BYTES(class));
	return piece;
}

void heap_free(void *start, size_t bytes)
{
	unsigned int class = class_of(bytes);
	struct piece *piece = start;

	if (!start)
		return;
	if (class == CLASS_COUNT) {
		kernel_munmap(start, round_to_pages(bytes));
		return;
	}
	piece->next = pieces[class];
	pieces[class] = piece;
}

void *heap_copy(const void *from, size_t bytes)
{
	void *to = heap_alloc(bytes);

	return to ? memcpy(to, from, bytes) : NULL;
}
