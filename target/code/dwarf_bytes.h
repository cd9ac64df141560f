/* SPDX-License-Identifier: MIT */
/*
 * Numbers as DWARF and the exception tables write them (DWARF 5, 7.6), from bytes that may be
 * hostile.
 */
#ifndef TARGET_CODE_DWARF_BYTES_H
#define TARGET_CODE_DWARF_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The bytes to read. Past the end everything is 0, and is_over stays set. */
struct dwarf_bytes {
	const uint8_t *at, *end;
	uint64_t address; /* of `at` */
	bool is_over;
};

/* 1, 2, 4, 8 bytes; little-endian */
static inline uint64_t dwarf_bytes_fixed(struct dwarf_bytes *from, size_t bytes)
{
	uint64_t value = 0;

	if (from->is_over || (size_t)(from->end - from->at) < bytes) {
		from->is_over = true;
		return 0;
	}
	memcpy(&value, from->at, bytes);
	from->at += bytes;
	from->address += bytes;
	return value;
}

static inline uint64_t dwarf_bytes_uleb(struct dwarf_bytes *from)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; !from->is_over; shift += 7) {
		uint64_t byte = dwarf_bytes_fixed(from, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	return 0;
}

static inline int64_t dwarf_bytes_sleb(struct dwarf_bytes *from)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; !from->is_over;) {
		uint64_t byte = dwarf_bytes_fixed(from, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (shift < 64 && (byte & 0x40))
			value |= UINT64_MAX << shift;
		return (int64_t)value;
	}
	return 0;
}

static inline void dwarf_bytes_skip(struct dwarf_bytes *from, uint64_t bytes)
{
	if (from->is_over || (uint64_t)(from->end - from->at) < bytes) {
		from->is_over = true;
		return;
	}
	from->at += bytes;
	from->address += bytes;
}

#endif
