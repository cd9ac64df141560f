/* SPDX-License-Identifier: MIT */
/*
 * Numbers and pointers as DWARF and the exception tables write them (LSB Core, 10.6; DWARF 5, 7.6),
 * read from bytes that may be hostile.
 */
#ifndef TARGET_CODE_POINTER_H
#define TARGET_CODE_POINTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POINTER_OMIT 0xff

/* The bytes to read. Past the end everything is 0, and is_over stays set. */
struct bytes {
	const uint8_t *at, *end;
	uint64_t address; /* of `at` */
	bool is_over;
};

uint64_t pointer_bytes_fixed(struct bytes *from, size_t bytes); /* 1, 2, 4, 8; little-endian */
uint64_t pointer_bytes_uleb(struct bytes *from);
int64_t pointer_bytes_sleb(struct bytes *from);
void pointer_bytes_skip(struct bytes *from, uint64_t bytes);

/*
 * A pointer in an encoding of DW_EH_PE_*, absolute or relative to itself; others, and indirect
 * ones, set is_over. A stored 0 is 0.
 */
uint64_t pointer_bytes_pointer(struct bytes *from, uint8_t encoding);

#endif
