/* SPDX-License-Identifier: MIT */
/* A page that is a module's code, and a forged .eh_frame for it. */
#ifndef INSIDE_UNWIND_TESTING_FORGED_TABLE_H
#define INSIDE_UNWIND_TESTING_FORGED_TABLE_H

#include "inside/unwind/boundary.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096

static char *code;  /* a page */
static char *table; /* the page behind it; the next one is not mapped */

static void ground_new(void)
{
	char *all = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	cr_assert_neq(all, MAP_FAILED);
	munmap(all + 2 * PAGE_BYTES, PAGE_BYTES);
	code = all;
	table = all + PAGE_BYTES;
}

/* A module of that page, whose table is there. */
static void code_add(const char *at)
{
	boundary_add((uintptr_t)code, (uintptr_t)code + PAGE_BYTES, (uintptr_t)at);
}

struct __attribute__((packed)) forged {
	uint8_t head[4];
	int32_t frame_at;
	uint32_t entries;
	int32_t pair[2];
	/* CIE */
	uint32_t common_bytes, common_id;
	uint8_t common[24];
	/* FDE */
	uint32_t own_bytes, back;
	int32_t start;
	uint32_t bytes;
	uint8_t own[16];
};

/* For all of the page: the CFA is rsp + `depth`, and the return address below it. */
static struct forged *table_make(char *at, uint8_t depth)
{
	static const uint8_t head[4] = { 1, 0x1b, 3, 0x3b };
	const uint8_t cie[24] = { 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, depth, 0x90, 1 };
	struct forged *forged = (struct forged *)(void *)at;

	*forged = (struct forged){
		.entries = 1, .common_bytes = 4 + 24, .own_bytes = 12 + 16, .bytes = PAGE_BYTES
	};
	memcpy(forged->head, head, sizeof(head));
	memcpy(forged->common, cie, sizeof(cie));
	forged->pair[0] = (int32_t)(code - at);
	forged->pair[1] = (int32_t)offsetof(struct forged, own_bytes);
	forged->back = (uint32_t)(offsetof(struct forged, back) -
				  offsetof(struct forged, common_bytes));
	forged->start = (int32_t)(code - (at + offsetof(struct forged, start)));
	return forged;
}

#endif
