/* SPDX-License-Identifier: MIT */
/* The messages in the socket, which both ends of a wire share. */
#ifndef RECORD_TRAIL_SOFT_WIRE_OWN_H
#define RECORD_TRAIL_SOFT_WIRE_OWN_H

#include "record/trail/soft/wire.h"

#define WIRE_BUFFER_BYTES (64u << 10)
#define WIRE_RUN_MAX 1024u
#define WIRE_TEXT_MAX 4096u /* of a module's path, of a thread's name */

enum wire_kind {
	WIRE_BEGIN,	   /* thread: the pid */
	WIRE_MODULE,	   /* struct control_module, path */
	WIRE_THREAD_BEGIN, /* struct wire_thread, comm */
	WIRE_BLOCK,	   /* struct trail_entry, code if it has some */
	WIRE_EVENT,	   /* struct trail_between */
	WIRE_THREAD_END,
	WIRE_NOTE,
	WIRE_CHILD,	  /* process: its own number; struct wire_child, exe */
	WIRE_PROCESS_END, /* struct sink_ending */
	WIRE_THREAD_NAME, /* comm */
	WIRE_DEFINE,	  /* thread: a block's number; struct trail_entry, code if it has some */
	WIRE_PATH,	  /* thread: a path's number; numbers of blocks */
	WIRE_RUN,	  /* numbers of paths */
	WIRE_SINCE,	  /* an epoch's name */
};

/* Before each message's own bytes. */
struct wire_head {
	uint32_t bytes; /* behind this */
	uint16_t kind;
	uint16_t has_code;
	uint32_t thread;  /* its number, given by the end that puts in */
	uint32_t process; /* likewise; unused for a thread that has begun */
	uint64_t ticks;
};

struct wire_child {
	int32_t pid, ppid;
	uint64_t start_time;
};

struct wire_thread {
	int32_t tid;
	uint32_t origin;
};

#endif
