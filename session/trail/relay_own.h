/* SPDX-License-Identifier: MIT */
/* What the two ends of a relay have in common: the messages, as they stand in the socket. */
#ifndef SESSION_TRAIL_RELAY_OWN_H
#define SESSION_TRAIL_RELAY_OWN_H

#include "session/trail/relay.h"

#define RELAY_BUFFER_BYTES (64u << 10)
#define RELAY_RUN_MAX 1024u
#define RELAY_TEXT_MAX 4096u /* of a module's path, of a thread's name */

enum relay_kind {
	RELAY_BEGIN,	    /* thread: the pid */
	RELAY_MODULE,	    /* struct control_module, path */
	RELAY_THREAD_BEGIN, /* struct relay_thread, comm */
	RELAY_BLOCK,	    /* struct trail_entry, code if it has some */
	RELAY_EVENT,	    /* struct trail_between */
	RELAY_THREAD_END,
	RELAY_NOTE,
	RELAY_CHILD,	   /* process: its own number; struct relay_child, exe */
	RELAY_PROCESS_END, /* struct sink_ending */
	RELAY_THREAD_NAME, /* comm */
	RELAY_DEFINE,	   /* thread: a block's number; struct trail_entry, code if it has some */
	RELAY_PATH,	   /* thread: a path's number; numbers of blocks */
	RELAY_RUN,	   /* numbers of paths */
};

/* Before each message's own bytes. */
struct relay_head {
	uint32_t bytes; /* behind this */
	uint16_t kind;
	uint16_t has_code;
	uint32_t thread;  /* its number, given by the end that puts in */
	uint32_t process; /* likewise; of a thread that has begun, nobody looks at it */
	uint64_t ticks;
};

struct relay_child {
	int32_t pid, ppid;
	uint64_t start_time;
};

struct relay_thread {
	int32_t tid;
	uint32_t origin;
};

#endif
