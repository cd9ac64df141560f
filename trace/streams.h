/* SPDX-License-Identifier: MIT */
/* The writer's stream files. There may be many thousands; STREAMS_OPEN_MAX at most are open. */
#ifndef TRACE_STREAMS_H
#define TRACE_STREAMS_H

#include "base/slots.h"
#include "trace/index.h"

#include <stddef.h>
#include <stdint.h>

#define STREAMS_OPEN_MAX 256

struct stream_file {
	struct index_packet next; /* its offset is the next packet's; the file keeps its name */
	int is_made;		  /* its file is there */
	int fd;			  /* -1 while closed */
};

struct streams {
	int dir;		  /* borrowed */
	struct index *index;	  /* likewise */
	struct stream_file **all; /* by number */
	size_t room;
	uint32_t count;
	struct slots slots; /* of all, by stream and instance */
	struct stream_file *open[STREAMS_OPEN_MAX];
	uint32_t open_count;
	uint64_t closed; /* files, so far */
	int close_error; /* the first error of any close */
};

void streams_init(struct streams *streams, int dir, struct index *index);

/*
 * Append a packet, whole or not at all, to its stream (head->stream_id and head->instance) and to
 * the index.
 */
int streams_write(struct streams *streams, const struct wm_packet *head, const void *content,
		  size_t bytes, uint32_t events);

/* Close all; returns the first error of any close. */
int streams_release(struct streams *streams);

#endif
