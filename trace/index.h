/* SPDX-License-Identifier: MIT */
/*
 * The list of a trace's packets, in its hidden file .index: by it a reader sees that packets or
 * whole streams are gone, were replaced or do not belong here, and what the recorder lost that no
 * packet could say.
 *
 *	struct index_head	from the start, so that a full disk has room for its last values
 *	struct index_packet	for each packet, appended behind it in time
 */
#ifndef TRACE_INDEX_H
#define TRACE_INDEX_H

#include "trace/reader.h"

#include <stdint.h>

#define INDEX_NAME ".index"

struct index_head {
	uint64_t magic;
	uint32_t version;
	uint32_t is_ended;	   /* the writer closed the trace */
	uint8_t uuid[16];	   /* as in the metadata */
	uint64_t packets;	   /* once it is ended */
	uint64_t discarded;	   /* events, as the recorder counted them at its end */
	uint64_t length_ns;	   /* of the recording; 0: not known */
	uint64_t cut;		   /* events of packets that a repair found missing */
	uint64_t unwritten_blocks; /* of trails, and threads that are not in it, */
	uint32_t unwritten_threads;
	uint32_t write_error; /* since this errno ended the writing; 0: it went well */
};

struct index_packet {
	uint32_t process;		  /* as wm_packet has stream_id */
	uint32_t pid, tid, depth, number; /* the name of its file */
	uint32_t events;
	uint64_t instance;
	uint64_t offset, bytes; /* in the file, when it is not compressed */
	uint64_t begin_ticks, end_ticks;
};

#define INDEX_WAITING 16

/*
 * Packets are added to the file several at a time. A reader misses nothing: of a trace that has not
 * ended it takes packets that its index lacks, too.
 */
struct index {
	int fd;			/* -1: none */
	struct index_head head; /* on disk as it was when it was last written */
	struct index_packet waiting[INDEX_WAITING];
	unsigned int waiting_count;
};

/* Make a trace's index, under this name. 0 or -errno; index_close() in any case. */
int index_make(struct index *index, int dir, const char *name, const uint8_t uuid[16]);

/* Append a packet, or fail and leave the index as it was. 0 or -errno. */
int index_add(struct index *index, const struct index_packet *packet);

/*
 * Write what waits, and the head: the trace has ended, or lacks room for that, which write_error is
 * then to say. 0 or -errno.
 */
int index_end(struct index *index);
int index_close(struct index *index);

/* A stream's file name is PID-TID[-DEPTH]-NUMBER; that of the facts, FACTS_FILE. */
#define INDEX_FILE_BYTES 64
void index_file(const struct index_packet *packet, char name[INDEX_FILE_BYTES]);

/*
 * Compare the streams that the reader found with the trace's index. A missing part is recorded as
 * damage, and its events are counted in reader->missing_events; a stream that does not belong here
 * is not read. 0 or -ENOMEM.
 */
int index_check(struct trace_reader *reader);

/*
 * Leave out of the index what index_check() found missing, and count it as cut. 0, -ENOMEM, -errno.
 */
int index_mend(struct trace_reader *reader);

#endif
