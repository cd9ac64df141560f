/* SPDX-License-Identifier: MIT */
/*
 * Reading the traces that trace/writer.h writes, fast, and however they were cut short.
 *
 * Opening reads the facts and the packets' heads; events are read by merge.h (in order of time)
 * and summary.h (all at once, fields jumped over). Unreadable parts are left out and recorded as
 * damage; they lose nothing that is before them in their stream.
 *
 * A trace that is still being written can be opened: it then ends with the packets that were whole
 * at that moment. One thread at a time uses a reader.
 */
#ifndef TRACE_READER_H
#define TRACE_READER_H

#include "abi/page.h"
#include "trace/facts.h"
#include "trace/packet_walk.h"

#include <stddef.h>
#include <stdint.h>

/* Something that could not be read. */
struct trace_damage {
	char *file;
	uint64_t offset; /* in the file */
	uint64_t bytes;	 /* left out */
	const char *what;
};

#define DAMAGES_MAX 1000 /* put down; all are counted */

struct trace_stream {
	char *file;
	uint32_t process;	  /* which of metadata's */
	uint32_t pid, tid, depth; /* in the kernel's process, 0, the packet's number, 0 */
	int is_of_cpu;		  /* not of a thread: of the kernel's process */
	int is_facts;		  /* of no process: FACTS_FILE */
	int32_t cpu;		  /* of such a stream; -1: of several, or no such stream */
	uint64_t instance;
	char comm[17];	     /* as the last packet has it */
	uint64_t file_bytes; /* when the trace was opened */
	uint64_t bytes;	     /* of whole packets */
	uint64_t packets;
	uint64_t begin_ticks, end_ticks; /* of its packets */
	uint64_t discarded;		 /* events that were lost, by the last packet */
	uint64_t missing_packets;	 /* gaps in their sequence */
	const uint8_t *map; /* in memory: between reader_stream_map() and reader_stream_unmap() */
	uint8_t *window;    /* what reader_stream_packet() has read ahead; NULL: nothing */
	uint64_t window_at; /* in the file */
	size_t window_bytes, window_room;
	int is_packed;	  /* file is a STREAM.zst; all sizes are of what is in it */
	int is_foreign;	  /* not of this trace: it is not read */
	uint64_t *mapped; /* while it is mapped: the reader's sum */
};

struct trace_reader {
	int dir;
	int live; /* being written */
	struct facts meta;
	/* the wall clock at tick 0; wraps where that is before 1970 */
	uint64_t base_ns[TRACE_CLOCKS];
	/* sorted by process, tid, depth, instance; behind them the facts', of file_count */
	struct trace_stream *streams;
	uint32_t stream_count, file_count;
	uint64_t bytes;	       /* of all files */
	uint64_t mapped_bytes; /* of streams, in memory */
	uint64_t mapped_max;
	/* by the trace's index, where it has one */
	/* is_ended: the writer closed the trace, and had room for the index's last entries */
	int is_indexed, is_ended;
	uint64_t discarded;	 /* events, in all, as the recorder counted */
	uint64_t length_ns;	 /* of the recording; 0: not known */
	uint64_t missing_events; /* of packets that are not here any more */
	/* of trails, because the recorder could not write: blocks, and threads without any trail */
	uint64_t unwritten_blocks;
	uint32_t unwritten_threads;
	int write_error; /* the errno that ended its writing; 0: none */
	struct trace_damage *damages;
	uint32_t damage_count; /* of damages[] */
	uint64_t damages_ever;
	int is_noted; /* all was read once: what another pass finds was counted */
	/*
	 * called now and then while trails are read: so many bytes of packets were gone through;
	 * NULL: not
	 */
	void (*pulse)(const struct trace_reader *reader, uint64_t done);
};

/* A packet whose events are about to be read. */
struct trace_packet {
	struct wm_packet head;
	uint64_t offset;      /* in the file */
	const uint8_t *bytes; /* the packet, in memory until the stream's next one is asked for */
	struct walk walk;     /* is at the first event */
};

/*
 * Open a trace folder. Returns 0, also when it is damaged (see reader->damages); -WM_E_NOT_A_TRACE
 * when it has no facts of this format; -WM_E_TRACE_IN_USE when its repair or compression lasts more
 * than a minute, which is waited for; -errno. Closed with trace_reader_close(), which allows
 * NULL.
 */
int trace_reader_open(struct trace_reader **reader, const char *dir);
void trace_reader_close(struct trace_reader *reader);

/* Events that were lost, of missing packets too where the index has them; and missing packets. */
void reader_losses(const struct trace_reader *reader, uint64_t *events, uint64_t *packets);

/*
 * We read streams with pread(2): if another program cut a mapped file, SIGBUS would end us.
 *
 * Read a stream's whole packets into memory, to walk them any way. 0, -errno,
 * -WM_E_TRACE_UNPACKED_SIZE where they are too many for that; an empty one has nothing to map and
 * is fine.
 */
int reader_stream_map(struct trace_reader *reader, struct trace_stream *stream);
void reader_stream_unmap(struct trace_stream *stream);

/*
 * Go through a stream's packets once. Only a packed file is read into memory whole.
 * reader_stream_unmap() ends it.
 */
int reader_stream_open(struct trace_reader *reader, struct trace_stream *stream);

/*
 * Read the packet at *offset, and move *offset past it. 1; 0 after the last, or after noting
 * damage.
 */
int reader_stream_packet(struct trace_reader *reader, struct trace_stream *stream, uint64_t *offset,
			 struct trace_packet *packet);

/*
 * Step over the packet's next event: its class, where its fields are, and walk.ticks its time.
 * NULL, or why it can't be read; then the walk is somewhere in it.
 */
const char *reader_packet_event(struct trace_packet *packet, const struct trace_schema *schema,
				const struct trace_class **class, const uint8_t **fields);

/* The wall clock when the first packet of all began; UINT64_MAX without packets. */
uint64_t reader_begin_ns(const struct trace_reader *reader);

/* Why a trace's end may be missing, beside its damages; NULL: all of it is there. Static. */
const char *reader_end_words(const struct trace_reader *reader);

/* Put damage down. `what` is static. */
void reader_damage(struct trace_reader *reader, const char *file, uint64_t offset, uint64_t bytes,
		   const char *what);

static inline const struct trace_schema *stream_schema(const struct trace_reader *reader,
						       const struct trace_stream *stream)
{
	return stream->is_facts ? reader->meta.schema
				: reader->meta.processes[stream->process].schema;
}

static inline uint32_t stream_clock(const struct trace_reader *reader,
				    const struct trace_stream *stream)
{
	return reader->meta.processes[stream->process].clock;
}

/*
 * The wall clock at `ticks`. Computed as babeltrace2 does, in double precision, so that both give
 * the same nanosecond; differences of times are exact only when taken between ticks.
 */
static inline uint64_t reader_ns(const struct trace_reader *reader, uint32_t clock, uint64_t ticks)
{
	uint64_t hz = reader->meta.clocks[clock].ticks_hz;

	if (hz != 1000000000) {
		double ns = 1e9 * (double)ticks / (double)hz;

		ticks = ns < 0x1p64 ? (uint64_t)ns : UINT64_MAX;
	}
	return reader->base_ns[clock] + ticks;
}

#endif
