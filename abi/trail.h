/* SPDX-License-Identifier: MIT */
/*
 * A trail in a trace: which blocks of code a thread ran, one after the other, and the events
 * between them.
 *
 * All of it is ordinary events (abi/page.h), so every CTF reader sees them. They are declared for a
 * process like any other, under names that only trails have:
 *
 *	trail:begin   space, origin, flags  a trail begins
 *	trail:blocks  space, ids            what ran, oldest first; a run of uint32
 *	trail:define  space, first, blocks  the ids from `first` on; a run of struct trail_entry
 *	trail:space   space, modules        so many modules had come or gone when its epoch began
 *	trail:thread  tid, over, blocks     the thread has a trail; at its end again: over 1, and
 *	                                    the number of its blocks
 *
 * and one for each enum trail_event. A block is code that runs from its first instruction to its
 * last: only the last may lead elsewhere. An id's meaning never changes: changed or newly mapped
 * code has new ids. Ids count from 0 in a space of their own: that of a process, or of a thread
 * whose translator numbers its own.
 *
 * Definitions are in a stream of their own, of the thread TRAIL_TABLE_TID, so that overwriting the
 * oldest blocks never destroys the meaning of others. They may come after the blocks that use them;
 * a reader gathers them first.
 *
 * A trail may continue in another space at any trail:blocks. So a writer need not keep a table for
 * ever, and if a module takes the addresses of another one, as after an exec, the space keeps
 * their blocks apart. A trail:space with `modules` means that the space's code ran in the epoch
 * that began behind the first `modules` of the process's modules (in the metadata, each that came
 * and each that went): trace/trail/module_epochs.h says when an epoch ends, and that it may be
 * resumed. Without a trail:space this is unknown.
 *
 * The same stream lists the threads that have a trail, so that a reader notices a lost stream. Not
 * all origins list them; without a list no stream counts as lost.
 *
 * An id may also mean a path, several blocks that ran one after the other. Its entry is of kind
 * TRAIL_PATH, with the blocks' ids, a run of uint32, in place of the code. All of them are blocks
 * of the same space, defined before it, none a path itself, and each leads to the next; so a path
 * is checked once, where it is defined. A reader that meets the id in a trail:blocks walks the
 * blocks in their order. All of them have that event's time, and all but the last ran to their
 * ends.
 *
 * The first block's last instruction determines which blocks may follow it (enum trail_kind).
 * Another block may follow only behind one of enum trail_event, or the trail is damaged. An event
 * has the address at which the thread continues (`at`), and the number of instructions of the block
 * before that did not run (`left`): with any left, `at` is the first of them.
 *
 * The time of a trail:blocks is that of its writing: nothing in it is later. Events have their own.
 */
#ifndef ABI_TRAIL_H
#define ABI_TRAIL_H

#include <stdint.h>

#define TRAIL_TABLE_TID 0u /* no thread has it */

#define TRAIL_KERNEL (UINT64_C(1) << 63) /* addresses from here on are the kernel's */

enum trail_origin {
	TRAIL_STEP = 0,
	TRAIL_PT = 1,
	TRAIL_BTS = 2,
	TRAIL_SOFT = 4, /* 3 was of last branches */
};

/* What a block's last instruction does. The numbers are ABI. */
enum trail_kind {
	TRAIL_FALL = 0,	  /* nothing: the block was cut for its length, or something leads here */
	TRAIL_JUMP = 1,	  /* to target */
	TRAIL_BRANCH = 2, /* to target, or on: conditional jumps, loop, xbegin */
	TRAIL_CALL = 3,	  /* to target */
	TRAIL_JUMP_INDIRECT = 4, /* anywhere */
	TRAIL_CALL_INDIRECT = 5, /* anywhere */
	TRAIL_RETURN = 6,	 /* anywhere */
	TRAIL_SYSCALL = 7,	 /* on, into the kernel, or where a TRAIL_SYSCALLED says */
	TRAIL_STOP = 8,		 /* nowhere by itself: ud2, int3, hlt */
	TRAIL_FAR = 9,		 /* anywhere: far jumps, iret */
	TRAIL_KINDS = 10,
};

/*
 * An entry's kind that is no block's: it is a path. Has TRAIL_HAS_CODE; start, target and last are
 * 0.
 */
#define TRAIL_PATH 10u

/*
 * The events between blocks. The numbers are ABI. All have the fields at and left, and those that
 * are named; the next block begins at `at`, or anywhere if that is 0.
 */
enum trail_event {
	TRAIL_DEPART = 0, /* the thread lost the processor; TRAIL_ARRIVE follows */
	TRAIL_ARRIVE = 1, /* it has it again */
	/*
	 * number, handler: the thread continues there; `at` is the interrupted address. With number
	 * 0 it is no signal, but an interrupt or a fault, where the kernel is recorded too.
	 */
	TRAIL_SIGNAL = 2,
	/* number, result: it came back from the system call that the block before ends with */
	TRAIL_SYSCALLED = 3,
	TRAIL_LOST = 4, /* blocks: the number that is missing; 0: unknown */
	TRAIL_GAP = 5,	/* reason: it ran unrecorded; enum trail_gap */
	TRAIL_FORK = 6, /* child: a process or a thread, which has a trail of its own, if any */
	TRAIL_EXEC = 7, /* another program in its place */
	TRAIL_END = 8,	/* reason, number: the last; enum trail_ending */
	/*
	 * number, value: one value that the thread had when a signal killed it; enum
	 * trail_value. Many of them come right before the TRAIL_END. `at` and `left` are 0. The
	 * rules above do not apply to it.
	 */
	TRAIL_VALUE = 9,
	TRAIL_EVENTS = 10,
};

/* The numbers are ABI. */
enum trail_value {
	TRAIL_VALUE_REGISTERS = 0, /* rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15 */
	TRAIL_VALUE_RIP = 16,
	TRAIL_VALUE_RFLAGS = 17,
	TRAIL_VALUE_CODE = 18,	  /* the signal's si_code, an int */
	TRAIL_VALUE_ADDRESS = 19, /* si_addr of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP */
	TRAIL_VALUE_ERROR = 20,	  /* of a page fault: the processor's error code */
	TRAIL_VALUE_SENDER = 21,  /* the process that sent the signal */
	TRAIL_VALUE_STACK = 32,	  /* from here on: stack words, from rsp - TRAIL_RED_ZONE on */
	TRAIL_VALUES = TRAIL_VALUE_STACK + 272,
};

#define TRAIL_RED_ZONE 128u

enum trail_gap {
	TRAIL_GAP_NATIVE = 0,
	TRAIL_GAP_KERNEL = 1,
	TRAIL_GAP_SUSPENDED = 2,
	/* in modules that were not chosen; calls and returns lead there and back */
	TRAIL_GAP_ELSEWHERE = 3,
	/* none: another tool's breakpoint is at `at`, which runs natively and is recorded */
	TRAIL_GAP_BREAKPOINT = 4,
};

enum trail_ending {
	TRAIL_EXITED = 0,     /* number: the thread's or the process's exit status */
	TRAIL_KILLED = 1,     /* number: the signal */
	TRAIL_DETACHED = 2,   /* the recording was over; the thread continues */
	TRAIL_ENDED_WITH = 3, /* number: the signal; it killed another thread, and so the process */
};

/*
 * A block. With TRAIL_HAS_CODE its `bytes` of code follow; else they could not be read. A path: its
 * ids follow.
 */
struct trail_entry {
	uint64_t start;	       /* the first instruction's address */
	uint64_t target;       /* where TRAIL_JUMP, TRAIL_BRANCH, TRAIL_CALL lead; else 0 */
	uint16_t bytes;	       /* to behind the last instruction; of a path: of its ids */
	uint16_t last;	       /* the last instruction's offset */
	uint16_t instructions; /* of a path: its blocks */
	uint8_t kind;	       /* enum trail_kind, or TRAIL_PATH */
	uint8_t flags;	       /* TRAIL_HAS_CODE */
};

#define TRAIL_HAS_CODE 1u

#define TRAIL_BLOCK_INSTRUCTIONS_MAX 64u
#define TRAIL_BLOCK_BYTES_MAX (TRAIL_BLOCK_INSTRUCTIONS_MAX * 15u)
#define TRAIL_PATH_BLOCKS_MAX (TRAIL_BLOCK_BYTES_MAX / 4u)

_Static_assert(sizeof(struct trail_entry) == 24, "no padding: files contain them");

#endif
