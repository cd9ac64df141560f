/* SPDX-License-Identifier: MIT */
/*
 * A trace made smaller, and back: each stream STREAM becomes STREAM.zst (trace/packed.h), which our
 * own readers read as they read STREAM. Metadata stay as they are.
 *
 * A stream is changed whole or not at all. The new file gets its name once it is whole and on disk,
 * and only then the old one goes: where both are there STREAM is the one to read, and the next call
 * removes the other.
 */
#ifndef TRACE_COMPRESS_H
#define TRACE_COMPRESS_H

#include <stdint.h>

struct trace_packing {
	uint64_t files;		/* streams that were changed */
	uint64_t before, after; /* their bytes */
	/* streams unpacked up to a damage; the rest of each is kept in .cut-STREAM.zst */
	uint64_t damaged;
};

/*
 * Returns how many streams were changed, none if all were already; -WM_E_NOT_A_TRACE,
 * -WM_E_TRACE_IN_USE while it is written or changed by somebody else, or -errno: then the streams
 * before that one are changed. `packing` may be NULL.
 */
int trace_compress(const char *dir, struct trace_packing *packing);
int trace_decompress(const char *dir, struct trace_packing *packing);

#endif
