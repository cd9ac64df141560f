/* SPDX-License-Identifier: MIT */
/*
 * A trace's folder while it is written: its stream files, its facts, its metadata and its index.
 * The writer (trace/writer.c) knows the processes, and notes them again in each new folder.
 *
 * One thread at a time uses a destination. Functions return 0, or a negative error.
 */
#ifndef TRACE_DESTINATION_H
#define TRACE_DESTINATION_H

#include "abi/page.h"
#include "base/text_buffer.h"
#include "trace/facts.h"
#include "trace/index.h"
#include "trace/metadata.h"
#include "trace/streams.h"

#include <stddef.h>
#include <stdint.h>

struct destination {
	int dir;
	uint8_t uuid[16];
	struct index index;
	struct metadata metadata;
	int is_behind;		      /* the metadata on disk */
	int is_head_behind;	      /* in its clocks, so that it has to be replaced */
	struct text facts, own_facts; /* not written yet; the latter are for our reader alone */
	struct wm_packet fact_head;   /* of their next packet */
	uint64_t fact_ns;	      /* the wall clock when the last one was noted */
	uint32_t watches;
	struct streams streams;
	uint64_t lost;	 /* events, as its packets say */
	uint64_t unsaid; /* and those that no packet says */
};

/*
 * Make a trace in `path`; *folder is released with destination_close(). It has its first fact.
 * -WM_E_TRACE_DIR when the folder is not empty, -WM_E_OUTPUT_OWNER when another user can change it.
 */
int destination_open(struct destination **folder, const char *path);

/* Note a fact. If it can't be written, destination_facts_write() says so. */
void destination_note(struct destination *folder, enum fact fact, const union fact_value *values);

/* Facts were added to one of the two texts: write them when they are many. */
void destination_settle(struct destination *folder, struct text *facts);

/* The wall clock, which facts do not see go back. */
uint64_t destination_now(struct destination *folder);

/* Write the facts that wait. */
int destination_facts_write(struct destination *folder);

/* How a packet follows the one before it in its stream. */
struct packet_step {
	uint64_t missed; /* packets, by their numbers */
	uint64_t lost;	 /* events */
};

/*
 * Append a packet to its stream, whole or not at all, and to the index. All of its head is set but
 * the uuid, and the numbers that it has in this folder: seq and discarded.
 */
int destination_packet(struct destination *folder, const struct wm_packet *head,
		       const struct packet_step *step, const void *content, size_t bytes,
		       uint32_t events);

/* Every failure to write for want of room is one cause to the user: -WM_E_TRACE_FULL. */
int destination_cause(int err);

/* Keep the first error of writing for the index. Returns it as the user's cause. */
int destination_failed(struct destination *folder, int err);

/* Write what waits, unlock the folder, and release everything. NULL is allowed. */
int destination_close(struct destination *folder);

/* The same; and what destination_open() has made in the folder goes. */
void destination_undo(struct destination *folder);

#endif
