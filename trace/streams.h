/* SPDX-License-Identifier: MIT */
/*
 * The writer's stream files. There may be many thousands; STREAMS_OPEN_MAX at most are open, those
 * written to last.
 */
#ifndef TRACE_STREAMS_H
#define TRACE_STREAMS_H

#include "abi/page.h"

#include <stddef.h>
#include <stdint.h>

#define STREAMS_OPEN_MAX 64

struct stream_file {
	uint32_t stream_id;	  /* with instance: which stream */
	uint32_t pid, tid, depth; /* with number: its file's name, for good */
	uint32_t number;
	uint64_t instance;
	uint64_t bytes; /* whole packets in it */
	int is_made;	/* its file is there */
	int fd;		/* -1 while closed */
	uint64_t used;	/* when it was written to last, in writes */
};

struct streams {
	int dir;		    /* borrowed */
	struct stream_file **table; /* open addressing; a power of 2, half full at most */
	uint32_t room, count;
	struct stream_file *open[STREAMS_OPEN_MAX];
	uint32_t open_count;
	uint64_t writes;
	int close_error; /* the first that closing told */
};

void streams_init(struct streams *streams, int dir);

/* Append a packet, whole or not at all; head->stream_id and head->instance name the stream. */
int streams_write(struct streams *streams, const struct wm_packet *head, const void *content,
		  size_t bytes);

/* Close all; returns the first error that any close told. */
int streams_release(struct streams *streams);

#endif
