/* SPDX-License-Identifier: MIT */
/* The stream files of a folder that is written. There may be many thousands; few are open. */
#ifndef TRACE_STREAMS_H
#define TRACE_STREAMS_H

#include "abi/page.h"
#include "base/slots.h"
#include "trace/index.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Files that are open at once: an eighth of the descriptors that the process may have, between
 * these bounds.
 */
#define STREAMS_OPEN_MIN 16
#define STREAMS_OPEN_MAX 256

/* Of a folder a stream's file; of the writer how far its packets have come. */
struct stream {
	struct index_packet next; /* its offset is the next packet's; the file keeps its name */
	int is_made;		  /* its file is there */
	int fd;			  /* -1 while closed */
	uint64_t seq;		  /* of the next packet */
	uint64_t discarded;	  /* events, up to here */
};

/* Zeroed is empty. */
struct streams {
	struct stream **all; /* by number */
	size_t room;
	uint32_t count;
	struct slots slots; /* of all, by process and instance */
	struct stream *open[STREAMS_OPEN_MAX];
	uint32_t open_count, open_max;
	uint64_t closed; /* files, so far */
	int close_error; /* the first error of any close */
};

/* With the number of files that it may open. */
void streams_init(struct streams *streams);

/* Find the stream of (head->stream_id, head->instance), or make it. 0 or -ENOMEM. */
int streams_find(struct streams *streams, const struct wm_packet *head, struct stream **found);

/* Append a packet, whole or not at all, to its stream and to the index. 0 or -errno. */
int streams_write(struct streams *streams, int dir, struct index *index, struct stream *stream,
		  struct wm_packet *head, const void *content, size_t bytes, uint32_t events);

/* Close and free all. Returns the first error of any close. */
int streams_release(struct streams *streams);

#endif
