/* SPDX-License-Identifier: MIT */
/*
 * A file of a trace that was made smaller, read: STREAM.zst has what STREAM had, as zstd frames of
 * at most PACKED_FRAME_MAX, each with its size and a checksum. We go from frame to frame, so that a
 * file that was cut is read up to there.
 *
 * Nothing in the file is believed. One thread at a time uses one.
 */
#ifndef TRACE_PACKED_H
#define TRACE_PACKED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PACKED_FRAME_BYTES (1u << 20) /* as we write them */
#define PACKED_FRAME_MAX (1u << 24)   /* as we read them */
#define PACKED_SUFFIX ".zst"

struct packed {
	int fd;		    /* -1: none */
	uint64_t bytes, at; /* of the file; where the next frame begins */
	uint8_t *in;	    /* of the file, what was read last */
	uint64_t in_at;
	size_t in_bytes, in_room;
	uint8_t *frame;	     /* what was unpacked last */
	uint64_t begin, end; /* which bytes of the content that is */
	void *context;	     /* zstd's */
	const char *fault;   /* why nothing more can be read; NULL: it can, or all was */
};

/* Whether a file of that name is one. */
int packed_is_name(const char *file);

/* 0, -errno. Release also after an error. */
int packed_open(struct packed *packed, int dir, const char *file);
void packed_release(struct packed *packed);

/* The length of what is in its whole frames, by their heads. For a file just opened. */
uint64_t packed_length(struct packed *packed);

/*
 * Read up to `bytes` of the content from `offset` on, which never goes back behind an earlier read.
 * Returns how many; fewer at the end, or before an unreadable part, which `fault` names. -ENOMEM.
 */
ssize_t packed_read(struct packed *packed, uint64_t offset, void *to, size_t bytes);

#endif
