/* SPDX-License-Identifier: MIT */
/*
 * A sink (sink.h) whose other end is in another process: what is put in at one comes out at the
 * other, over a stream socket, in order. So who steps through a program need not be who writes, nor
 * die with it.
 *
 * One thread at a time uses an end. The outer end takes what it reads for what any stranger might
 * have sent.
 */
#ifndef RECORD_TRAIL_SOFT_WIRE_H
#define RECORD_TRAIL_SOFT_WIRE_H

#include "record/trail/sink.h"
#include "trace/trail/addressed.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_NOTE_MAX 1024
#define WIRE_SOUGHT_MAX 8u
#define WIRE_PATH_BLOCKS_MAX 1024u

/*
 * The numbers of blocks and paths that go over a wire. An origin's numbers
 * (trace/trail/addressed.h) may be sparse: on the wire both have its own numbers, from 0 on in
 * order of appearance.
 */

/* Where they are put in. Zeroed: none was yet. */
struct wire_told {
	uint32_t *list; /* by the origin's number: the wire's, and one; 0: it has none */
	size_t room;
	uint32_t count;
};

struct wire_path {
	const struct trail_source_block *blocks;
	uint32_t count;
	uint64_t instructions;
};

/* The receiving end. Zeroed: no number is known. */
struct wire_numbers {
	struct trail_source_block *blocks; /* by number */
	size_t block_count, block_room;
	struct wire_path *paths; /* likewise */
	size_t path_count, path_room;
	struct wire_chunk *chunks;
};

struct wire_in;

/* A process that is put in: the first, or a child of one. */
struct wire_source {
	struct trail_sink sink;
	struct wire_in *in;
	uint32_t number;			  /* 0: the first */
	struct wire_told told_blocks, told_paths; /* whose meaning was put in */
};

/* Where it is put in. `fd` and `owner` are the caller's. Must not be moved. */
struct wire_in {
	struct wire_source first;
	int fd;
	/*
	 * a pidfd of the process at the other end, whose end ends the wire; -1: none, the socket
	 * shows it
	 */
	int owner;
	uint8_t *buffer;
	size_t bytes;
	uint32_t threads;   /* that have begun, ever */
	uint32_t processes; /* likewise, without the first */
	size_t run_end; /* bytes of the last item if it is a run, which may grow; 0: it is no run */
	size_t run_at;	/* then: where that is */
	int is_unwanted; /* nothing but notes is put in any more */
};

int wire_in_init(struct wire_in *in, int fd);
void wire_in_release(struct wire_in *in);

/*
 * Children are put in as well (sink.h). Before anything else; the other end has to have on_child.
 */
void wire_in_follow(struct wire_in *in);

/* Send what has gathered; waits for room. 0, -EPIPE where the other end is gone, -errno. */
int wire_in_flush(struct wire_in *in);

/* Drop what has gathered; from now on all but notes is refused with -ECANCELED. */
void wire_in_unwanted(struct wire_in *in);

/*
 * Whether the owner has ended. Waits for that, or for one of `events` (poll(2)) of the socket; with
 * none not at all.
 */
int wire_in_is_deserted(const struct wire_in *in, short events);

/* A note to the other end, at most WIRE_NOTE_MAX bytes; sent at once. */
int wire_in_note(struct wire_in *in, const void *note, size_t bytes);

struct wire_thread_out {
	struct sink_thread *thread; /* the sink's, NULL too */
	uint32_t process;
	pid_t tid;
	int is_begun; /* and not over */
	/* instructions of its last block, until an event: so many an event may leave */
	uint16_t left_max;
};

struct wire_process_out {
	struct trail_sink *to; /* NULL: it is over, or could not be begun */
	pid_t pid;
	uint32_t live; /* threads that have begun and are not over */
	struct wire_numbers numbers;
};

/* Where it comes out. */
struct wire_out {
	int fd;
	struct trail_sink *to;
	void (*on_note)(void *data, const void *note, size_t bytes);
	/* Of each event, once it was put in; may be NULL. */
	void (*on_event)(void *data, pid_t pid, pid_t tid, const struct trail_between *between);
	/*
	 * A child: *sink is where it comes out, until on_end() of it. NULL: no children. 0 or an
	 * error, as the sink's.
	 */
	int (*on_child)(void *data, const struct sink_process *process, struct trail_sink **sink);
	/* A process is over, and its threads are; also the first one. May be NULL. */
	void (*on_end)(void *data, struct trail_sink *sink, const struct sink_ending *ending);
	void *data;
	pid_t pid; /* of the process whose module is put in, or whose thread begins */
	/*
	 * A thread has come to a block that begins where wire_out_seek() said, which was put in.
	 * Only where `to` has no path().
	 */
	void (*on_sought)(void *data, pid_t pid, pid_t tid);
	uint64_t sought[WIRE_SOUGHT_MAX];
	uint32_t sought_count; /* ever */
	int is_frozen;	       /* any thread may set it: then read what comes, and put it nowhere */
	uint8_t *buffer;
	size_t bytes, room;
	struct wire_thread_out *threads; /* by number */
	size_t thread_count, thread_room;
	struct wire_process_out *processes; /* by number */
	size_t process_count, process_room;
	uint64_t run_done; /* of the message that comes next, a run: so many of its blocks */
	uint64_t last_ticks;
	uint64_t blocks, instructions; /* that came out, also after an error of the sink */
	uint32_t threads_ever;
	int takes_all; /* also where `to` is full */
	int error;     /* of `to`, the first; what comes after it is read, and put nowhere */
};

/* `fd` and `to` are the caller's. Release after a failure too. */
void wire_out_init(struct wire_out *out, int fd, struct trail_sink *to);

/*
 * Report blocks that begin there from now on, beside those sought before; the first of these is
 * dropped if there is no room.
 */
void wire_out_seek(struct wire_out *out, uint64_t at);

/*
 * Take what is there, a few buffers at most; wait for something for up to timeout_ms. Returns 1; 0
 * if the other end was closed; or -EPROTO, -ENOMEM. out->error has the errors of `to`.
 */
int wire_out_take(struct wire_out *out, int timeout_ms);

/*
 * Ends the threads that the other end did not: as detached where it is frozen, else what they did
 * from then on is lost.
 */
void wire_out_release(struct wire_out *out);

#endif
