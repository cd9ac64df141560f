/* SPDX-License-Identifier: MIT */
/*
 * The store: the memory that one session shares with one traced process.
 *
 * The agent makes it, a memfd sealed against shrinking and growing, and sends the descriptor over
 * the control socket. Only what is touched takes memory.
 *
 *	+--------------------+ 0
 *	| struct wm_store    |  what it is, written once; three lines that change
 *	+--------------------+ slots_offset
 *	| struct wm_slot []  |  one for each stream: a thread, or one depth of nesting in a thread
 *	+--------------------+ taken_offset
 *	| uint32_t []        |  one for each page: 1 when it is taken, else 0
 *	+--------------------+ pages_offset
 *	| struct wm_page []  |  one for each page: what is in it
 *	+--------------------+ data_offset
 *	| pages of 16 KiB    |
 *	+--------------------+ bytes
 *
 * `taken` is apart from the pages' own states so that a search touches little memory. To take a
 * page: compare-exchange. Whoever takes its state to FREE gives it back then.
 *
 * A page begins with PAGE_HEAD_BYTES left for the packet's header (struct wm_packet), which the
 * outside fills in as it copies; whole CTF events follow, up to `commit`. The writer stores the
 * event's bytes, then end_ticks, then {commit, events} as one word, with release order: a reader
 * that loads it with acquire order finds everything before it complete, also after a kill -9.
 *
 * Page states, and who makes the step:
 *
 *	FREE -> OPEN    writer, having taken the page
 *	OPEN -> FULL    writer, at its last event; `commit`, `events`, `end_ticks` no longer change
 *	FULL -> TAKEN   outside (to copy it) by compare-exchange
 *	OPEN -> TAKEN   outside, only when the writer is dead or the agent said that it is quiet
 *	OPEN -> FULL    outside, cyclic policy, when the writer is dead: as the writer does it
 *	FULL -> OPEN    inside, cyclic policy: the oldest page taken for a new one, by
 *	                compare-exchange; then its `word` is emptied, its `slot` set to
 *	                PAGE_NO_SLOT
 *	TAKEN -> FREE   outside, then it gives the page back
 *
 * The cyclic policy does not count the events that it overwrites, because its writer can be killed,
 * or leave by longjmp, between any two of its steps. Instead absolute numbers show the loss: each
 * page has the number of its stream's events `before` it, each slot the number `written` in all the
 * pages that were closed. The events between those numbers and the ones that were read are lost.
 *
 * A child of fork has the mapping of its parent's store, unless its parent has privileges, which
 * the child may give up (store_is_alone()). It writes to that store, in slots that name it, until
 * it has a store of its own. A slot of depth SLOT_SHARES says that a child may do so: the child
 * claims it in its fork handler, before its first event, and ends it when it leaves. Where the
 * child dies, or executes another program, the outside ends its slots. The tool allows this by
 * `tool_pid`, where the process is in the tool's own PID namespace, and ends it by `closed`. It
 * sets `closed` and then looks for such slots; a child claims its slot and then reads `closed`.
 *
 * Slot states:
 *
 *	FREE -> LIVE    inside, compare-exchange by way of CLAIMED
 *	LIVE -> ENDED   inside at thread exit, or outside when the process is dead
 *	ENDED -> FREE   outside, once all its pages are taken and its losses are written down
 *
 * Each side treats the other's memory as hostile: every index and length read from here is checked
 * against the values that were read once, at mapping, and validated.
 */
#ifndef ABI_PAGE_H
#define ABI_PAGE_H

#include <stdint.h>

#define STORE_MAGIC 0x3145524f54534d57ULL /* "WMSTORE1", little endian */
#define STORE_VERSION 3

/*
 * A thread has a page from its first event to its end, so 1,000 quiet ones take 16 MiB of a buffer,
 * half of the default; they touch 4 KiB each.
 */
#define STORE_PAGE_BYTES 16384u

enum store_policy {
	STORE_DISCARD = 0, /* full: the newest events are lost and counted */
	STORE_CYCLIC = 1,  /* full: the oldest page is overwritten, its events counted discarded */
	STORE_BLOCK = 2,   /* full: the writer waits, for block_ns at most, then as discard */
	STORE_NOTIFY = 3,  /* as discard; the session notifies its owner at the watermark */
};

enum store_clock {
	STORE_CLOCK_TSC = 0,
	STORE_CLOCK_MONOTONIC = 1, /* nanoseconds */
	STORE_CLOCK_ORDERED = 2,   /* the TSC, read when all earlier instructions are complete */
};

#define PAGE_NO_SLOT UINT32_MAX

#define SLOT_SHARES UINT32_MAX

enum slot_state { SLOT_FREE = 0, SLOT_CLAIMED = 1, SLOT_LIVE = 2, SLOT_ENDED = 3 };
enum page_state { PAGE_FREE = 0, PAGE_OPEN = 1, PAGE_FULL = 2, PAGE_TAKEN = 3 };

struct wm_store {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;
	uint32_t policy;
	uint32_t clock;
	uint32_t slot_count;
	uint32_t page_count;
	uint64_t slots_offset;
	uint64_t taken_offset;
	uint64_t pages_offset;
	uint64_t data_offset;
	uint64_t bytes;
	uint64_t block_ns;
	/* children of fork may write here while this process lives; 0: they may not */
	uint32_t tool_pid;
	uint32_t reserved;

	/* Written inside. */
	/*
	 * events of threads that have no slot, and of children of a fork that aren't recorded yet
	 */
	uint64_t discarded __attribute__((aligned(64)));
	uint64_t next_instance; /* gives each stream its number */
	uint64_t overwritten;	/* events, by the cyclic policy; nearly, for who looks on */
	uint64_t crowded_out;	/* of all that were discarded, those that found no page */
	uint64_t forks, forked; /* fork(2) was called; it has returned in the child */
	/*
	 * children that neither write here nor have reached the tool, and why the last one didn't
	 */
	uint32_t unreached;
	int32_t unreached_error;
	/* hits left out: a string that their predicates ask for can't be read (abi/predicate.h) */
	uint64_t unreadable;
	uint64_t rejected; /* hits whose predicates do not hold, of threads that have no slot */

	/* Written outside. */
	uint64_t drained_ns
		__attribute__((aligned(64))); /* CLOCK_MONOTONIC of the last pass, or 0 */
	uint32_t freed;			      /* grows by 1 for each page given back */
	uint32_t closed;		      /* children of fork may write here no more */
} __attribute__((aligned(4096)));

struct wm_slot {
	uint32_t state;
	uint32_t tid;
	uint32_t depth;	    /* 0, or how many signal handlers deep its events were written */
	uint32_t pages;	    /* pages that bear this slot's number: OPEN, FULL or TAKEN */
	uint64_t instance;  /* number of the stream, never used twice in a store */
	uint64_t discarded; /* events that found no page, ever; atomic */
	uint64_t next_seq;  /* sequence number of its next page */
	char comm[16];	    /* the thread's name, NUL-terminated */
	uint64_t written;   /* events in its pages that are FULL or were, ever */
	uint32_t pid;	    /* a child of fork; 0: the process whose store it is */
	uint32_t handler;   /* of the session, that its thread runs (abi/handler.h); 0: none */
	uint64_t rejected;  /* hits whose predicates do not hold, ever; its thread alone adds */
	uint64_t reserved[6];
};

struct wm_page {
	uint32_t state;
	uint32_t slot;
	uint32_t use; /* PAGE_ROWS, or 0 */
	uint32_t reserved;
	/* Both are stored as one word, so that the count fits the bytes even if a writer dies. */
	union {
		struct {
			/* offset after the last whole event; PAGE_HEAD_BYTES when none */
			uint32_t commit;
			uint32_t events;
		};
		uint64_t word; /* PAGE_WORD(commit, events) */
	};
	uint64_t end_ticks;   /* time of the last event, at least; begin_ticks when none */
	uint64_t begin_ticks; /* the clock when the page was opened; not after its first event */
	uint64_t seq;
	uint64_t discarded;    /* the slot's count when the page was opened */
	uint64_t monotonic_ns; /* the other clocks at begin_ticks */
	uint64_t monotonic_raw_ns;
	uint64_t realtime_ns;
	uint64_t before; /* events of the slot's pages before this one */
	uint64_t reserved2[5];
};

/*
 * Its events are rows (abi/sum.h), which change until it is FULL: no part of it is read before,
 * unless its writer is dead.
 */
#define PAGE_ROWS 1

#define PAGE_WORD(commit, events) ((uint64_t)(commit) | (uint64_t)(events) << 32)

/*
 * A packet's header and context as CTF has them; trace/ declares the same in TSDL.
 *
 * The kernel's events have packets of CPUs instead of threads: pid is 0, tid is the number of the
 * CPU, or PACKET_NO_CPU for what is counted over several, and depth is 0. Each of their events
 * begins with two fields of type WM_TYPE_I32, pid and tid: the thread that it is about. A CPU's
 * wakes have packets of their own; their comm is "cpu3 wakes".
 */
#define PACKET_NO_CPU UINT32_MAX
#define PACKET_WAKES " wakes"

struct wm_packet {
	uint32_t magic; /* PACKET_MAGIC */
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t instance;
	uint64_t begin_ticks, end_ticks;
	uint64_t content_bits, packet_bits;
	uint64_t seq;
	uint64_t discarded; /* cumulative in the stream */
	uint32_t pid, tid, depth;
	uint64_t monotonic_ns, monotonic_raw_ns, realtime_ns;
	char comm[16];
} __attribute__((packed));

#define PACKET_MAGIC 0xC1FC1FC1u
#define PAGE_HEAD_BYTES 132u

/*
 * An event in a page: a header, then the fields without gaps.
 *
 *	compact   uint32: id in bits 0-4 (0 to 30), the clock's low 27 bits above;
 *	          only within 2^27 ticks of the event or packet begin before
 *	extended  uint8 31, uint32 id, uint64 ticks
 *
 * A string is a uint8 state and the bytes with their NUL; a run is a uint8 state, a uint32 length
 * and the bytes. An array (WM_TYPE_ARRAY) is a uint8 state, a uint32 count of its elements, and
 * these, without alignment; so are addresses (WM_TYPE_ADDRESSES). A CTF sequence counts elements.
 */
#define EVENT_EXTENDED 31u
#define EVENT_COMPACT_BYTES 4u
#define EVENT_EXTENDED_BYTES 13u
#define EVENT_TICK_BITS 27

/*
 * UNREADABLE: the pointer led nowhere, or might not be followed there; with it goes an empty
 * string. Of a callchain, whose first address is the hit's place and whose others are where its
 * callers continue: the stack can't be read behind the last one. Two more are of callchains alone.
 */
enum field_state {
	FIELD_WHOLE = 0,
	FIELD_NULL = 1,
	FIELD_CUT = 2,
	FIELD_UNREADABLE = 3,
	FIELD_NO_RULE = 4, /* no rule says where the caller of the last one is */
	FIELD_ASTRAY = 5,  /* it is in no module's code, or its caller would be below it */
};
#define FIELD_CALLCHAIN "callchain"
#define FIELD_CALLERS_MAX 64  /* of a callchain, besides the hit's place */
#define FIELD_BYTES_MAX 4096u /* WM_RUN_BYTES_MAX: a string without its NUL, a run, an array */

_Static_assert(sizeof(struct wm_packet) == PAGE_HEAD_BYTES, "the packet's header is packed");
_Static_assert(sizeof(struct wm_slot) == 128, "two cache lines");
_Static_assert(sizeof(struct wm_page) == 128, "two cache lines, so that no two writers share one");
_Static_assert(sizeof(struct wm_store) == 4096, "one page");

#endif
