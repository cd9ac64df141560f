/* SPDX-License-Identifier: MIT */
/*
 * A watch's hit, in the signal's handler (abi/watch.h): which watch, what was written, whether that
 * is wanted, and the event. This code never waits, takes a lock or touches errno; it is compiled as
 * the hit path is, and reads memory that may be unmapped through the kernel.
 *
 * Threads look entries up in their signal handlers at any time: an entry that is no longer live is
 * reused only when no thread is inside.
 */
#ifndef AGENT_WATCH_TAKE_H
#define AGENT_WATCH_TAKE_H

#include "abi/watch.h"
#include "agent/marker/marker.h"

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#define TAKE_TRAP_PERF 6      /* si_code (asm-generic/siginfo.h, Linux 5.13) */
#define TAKE_PERF_ASYNC 1u    /* TRAP_PERF_FLAG_ASYNC (5.18) */
#define TAKE_PERF_DATA_AT 24u /* in siginfo_t, for libc's headers may be older */
#define TAKE_PERF_FLAGS_AT 36u

struct watch_entry {
	uint32_t lane;
	uint32_t clock; /* the lane's */
	/* WATCH_OF_FRAME: its address is the present frame's (frame.h) */
	struct control_watch about;
	int64_t from_cfa;
	struct watch_row *row;
	const struct marker *event;
	/*
	 * the entry whose signals are this one's too, also when that one has gone; 0: none
	 * (watch.c)
	 */
	uint32_t fed_magic, fed_number;
	uint32_t is_gone; /* the library that it lay in was unloaded */
	uint64_t adding;  /* the sum that threads in the handler have added and not yet linked in */
	/* watch.c's */
	uint32_t is_fed; /* it has no event of its own */
	uint32_t is_used;
	struct variant own; /* its event, if it has one itself */
	struct site site;
	char *text;
	size_t text_bytes;
};

extern struct watch_entry watch_entries[WATCH_ROWS_MAX];

/* Which of them are live, a bit each, to avoid a search of all: set after an entry is complete. */
extern uint64_t watch_live;

_Static_assert(WATCH_ROWS_MAX == 64, "a bit each");

/* How many threads are in take_signal() just now. */
extern uint32_t watch_inside;

/* The last entries that ended, whose signals may still come. 0: none. */
#define TAKE_PAST_MAX 32
extern uint32_t watch_past[TAKE_PAST_MAX];

/* The agent's own code, from..to: what it restores, as errno, is no event. Both 0: unknown. */
extern uintptr_t watch_own_start, watch_own_end;

/*
 * A SIGTRAP came, to a handler at stack pointer `sp`. Returns whether it was one of our watches',
 * live or past; then it is done. Else it is the program's. The caller may have changed to another
 * stack since (spare.h).
 */
int take_signal(const siginfo_t *info, ucontext_t *context, uintptr_t sp);

/* control_watch_table.kept_at */
void take_keep(void);

#endif
