/* SPDX-License-Identifier: MIT */
/*
 * Where a stream's bytes come from: its file, or the packed one in its place. For trace/reader.c.
 */
#ifndef TRACE_SOURCE_H
#define TRACE_SOURCE_H

#include "trace/packed.h"
#include "trace/reader.h"

struct source {
	int fd; /* -1: packed */
	struct packed packed;
};

/*
 * Open a stream's file; the other form of it where that has taken its place since it was listed.
 * file, is_packed and file_bytes of a stream that nothing was read of yet are set by what is found.
 * 0 or -errno; release in any case.
 */
int source_open(struct source *source, int dir, struct trace_stream *stream);
void source_release(struct source *source);

/* Whether a packed file has the plain one beside it, which is the one to read. */
int source_is_shadowed(int dir, const char *file);

/* Up to `bytes` of the stream from `offset` on, which doesn't go back. How many; -errno. */
ssize_t source_read(struct source *source, uint64_t offset, void *to, size_t bytes);

/*
 * Why not all of `bytes` that lie at `offset`, by the file's length, can be read; NULL: they can.
 */
const char *source_gap(struct source *source, uint64_t offset, uint64_t bytes);

/*
 * Why nothing can be read from `offset` on, which nothing was read behind; NULL: it can, or that is
 * the end.
 */
const char *source_fault(struct source *source, uint64_t offset);

/*
 * Read up to `bytes` of a file that is not packed, and close it: there may be more streams than
 * descriptors.
 */
ssize_t source_read_once(int dir, const char *file, uint64_t offset, void *to, size_t bytes);

/*
 * Have the stream's whole packets at stream->map. 0, -errno, -WM_E_TRACE_DAMAGED: it is shorter
 * than it was.
 */
int source_map(struct source *source, struct trace_stream *stream);

#endif
