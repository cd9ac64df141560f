/* SPDX-License-Identifier: MIT */
/*
 * The memory that the engine, a translator inside a traced process (inside/engine/), shares with
 * the tool outside: the channel, a memfd of each process alone. The tool makes it, fills in its
 * request and, elsewhere, the process's state (struct engine_boot), maps the engine into the
 * process, and starts it at the engine's entry with the channel's address in rdi, and that of its
 * boot in rdx. From then on the program runs as translated code, which logs into the channel what
 * it ran:
 *
 *	struct engine_channel	the head, a page
 *	struct engine_control	a page: the tool's, where the process has no other (control_at)
 *	struct engine_slot[]	at slots_at; one for each thread that is recorded
 *	log			at log_at, log_bytes of it, circular: the meaning of ids, in
 *				their order
 *	rings			at rings_at: slot n has segments_per_slot segments, each
 *				segment_bytes, each with ENGINE_GUARD_BYTES behind it, which the
 *				engine has no access to: its end is a fault. Of the segments of high
 *				slots only the first some may be used
 *
 * A segment holds words of 32 bits, oldest first. A word below ENGINE_EVENT is an id: of a path,
 * blocks that ran one after the other, all to their ends. Else it is the head of an event, followed
 * by that many more words (struct engine_event). 0 is no word: a segment is all 0 before it is
 * filled, so the end of a dead writer's words is known without its help. `words` of a segment that
 * its writer has left is exact. The head of an event is 0 until all of the event is stored.
 * TRAIL_EXEC comes before execve(2), and is void if anything follows.
 *
 * The engine reuses a segment in this order: its number becomes 0, then its words and `words`, then
 * the new number is stored. The tool clears the segments that it takes, and all of a slot that it
 * makes FREE.
 *
 * No two processes share memory that one of them can write: they may have, or get, different
 * privileges. The channel is not copied by fork(2) (MADV_DONTFORK). A forked child makes a memfd,
 * maps it where its parent has the channel, and waits; its parent's engine reports the child's
 * number (struct engine_child). The tool finds the memfd by its name (ENGINE_CHANNEL_NAME), gives
 * it its size and fills in the head: the child's engine continues. Ids of the parent's log from
 * before the fork keep their meaning in the child's. Before a process executes another program its
 * engine asks for the tool (enum engine_ask), which then traces the thread, makes a new channel,
 * and enters the new program as it did the first. All processes have the page of the tool's
 * (struct engine_control), and can only read it.
 *
 * Each side trusts nothing in the channel that the other may write, and checks offsets against what
 * it knows by itself: the engine reads the head's layout once, when it begins, and no other process
 * can write it. All words of both are naturally aligned; what says "release" is stored so by its
 * only writer and read with acquire.
 */
#ifndef ABI_ENGINE_H
#define ABI_ENGINE_H

#include "abi/trail.h"

#include <stdint.h>

#define ENGINE_MAGIC 0x6d776e65u /* "enwm" */
#define ENGINE_VERSION 19

/*
 * The engine's file says so too, before anybody maps it: a note of this owner and type, with a
 * struct engine_version.
 */
#define ENGINE_NOTE_OWNER "Waymark"
#define ENGINE_NOTE_TYPE 2u
#define ENGINE_NOTE_SECTION ".note.waymark"

struct engine_version {
	uint32_t magic, version;
};

/* The whole note. */
struct engine_note {
	uint32_t owner_bytes, version_bytes, type;
	char owner[sizeof(ENGINE_NOTE_OWNER)];
	uint32_t magic, version;
};

#define ENGINE_NOTE_VALUES                                                                         \
	sizeof(ENGINE_NOTE_OWNER), sizeof(struct engine_version), ENGINE_NOTE_TYPE,                \
		ENGINE_NOTE_OWNER, ENGINE_MAGIC, ENGINE_VERSION

#define ENGINE_GUARD_BYTES 4096u
/* The channel's head and the tool's page: the engine's mappings contain the rest. */
#define ENGINE_HEAD_BYTES (2 * ENGINE_GUARD_BYTES)
#define ENGINE_SEGMENTS_MAX 64u
#define ENGINE_ADDRESS_BYTES (UINT64_C(35) << 30) /* that it maps beside the channel */

/*
 * Where the engine, its channel and its memory are, at random: programs and the kernel place next
 * to nothing there. Code that is translated needs addresses beside the program's own code; what is
 * here leaves them free.
 */
#define ENGINE_REGION_AT UINT64_C(0x360000000000)
#define ENGINE_REGION_STEPS 11u
/* Programs ask for memory at round addresses: the engine has none at a multiple of this. */
#define ENGINE_REGION_STEP (UINT64_C(1) << 41)
#define ENGINE_REGION_MARGIN (UINT64_C(1) << 30)
/*
 * The same of a program with a sanitizer: all of them take what is mapped there for the program's.
 */
#define ENGINE_FAR_AT UINT64_C(0x7e8100000000)
#define ENGINE_FAR_BYTES UINT64_C(0x6000000000)

/* A place in it, of a random number: half a step is free from there on. */
static inline uint64_t engine_place(uint64_t random, int is_far)
{
	uint64_t step = (random >> 48) % ENGINE_REGION_STEPS;

	if (is_far)
		return ENGINE_FAR_AT + random % ENGINE_FAR_BYTES;
	return ENGINE_REGION_AT + step * ENGINE_REGION_STEP + ENGINE_REGION_MARGIN +
	       random % (ENGINE_REGION_STEP / 2 - ENGINE_REGION_MARGIN);
}

/* Whether an engine may have an address: no program has any there by itself. */
static inline int engine_may_be_at(uint64_t address)
{
	return address - ENGINE_REGION_AT < ENGINE_REGION_STEPS * ENGINE_REGION_STEP ||
	       address - ENGINE_FAR_AT < ENGINE_FAR_BYTES;
}

#define ENGINE_EVENT 0x80000000u

/* The policy for a full segment while the tool has yet to take the next one. */
enum engine_policy {
	ENGINE_CYCLIC = 0,  /* overwrites the oldest; the tool takes nothing before the end */
	ENGINE_BLOCK = 1,   /* waits for the tool, as long as it lives */
	ENGINE_DISCARD = 2, /* writes over its own segment again: a TRAIL_LOST heads it */
};

/* The program's registers, in the order of their numbers. */
struct engine_regs {
	uint64_t gpr[16]; /* rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ... r15 */
	uint64_t rip, rflags;
};

/*
 * For the engine, by the tool, before it enters: in private memory of the process, its address in
 * rdx. The engine copies and clears it. Nothing that decides where it jumps or writes is in shared
 * memory.
 */
struct engine_boot {
	struct engine_regs regs; /* where the program continues */
	uint64_t bytes;		 /* of the channel */
	uint64_t control_at;	 /* of struct engine_control; 0: behind the channel's head */
	uint64_t taken_at;	 /* ENGINE_BOOT_TAKEN's */
	uint32_t taken_count, reserved;
	int32_t fd_close[2]; /* descriptors of the tool's that came along: closed first; -1: none */
	uint32_t policy;     /* enum engine_policy */
	uint32_t flags;	     /* ENGINE_BOOT_* */
};

#define ENGINE_BOOT_EVENTS 1u /* record system calls and signals as events, too */
#define ENGINE_BOOT_FAR                                                                            \
	2u /* leave addresses from 1.75 GiB on to the program: sanitizers have theirs there */

enum engine_state {
	ENGINE_WAITING = 0, /* the engine was not entered yet */
	ENGINE_RUNS = 1,
	ENGINE_REFUSED = 2, /* it runs natively, see `error` */
	ENGINE_LEFT = 3,    /* it ran, and has given all threads back to native code */
};

/* Why a process's threads leave the engine without being asked to. */
enum engine_native {
	ENGINE_NATIVE_NOT = 0,
	ENGINE_NATIVE_FILTER = 1,     /* its system calls are filtered from then on: seccomp(2) */
	ENGINE_NATIVE_DISPATCH = 2,   /* or come back to itself: PR_SET_SYSCALL_USER_DISPATCH */
	ENGINE_NATIVE_CLOCK = 3,      /* it may not read the time stamp counter: PR_SET_TSC */
	ENGINE_NATIVE_GS = 4,	      /* it wants the gs segment */
	ENGINE_NATIVE_MEMORY = 5,     /* it wants memory that the engine has */
	ENGINE_NATIVE_ROOM = 6,	      /* the engine finds no memory for translated code */
	ENGINE_NATIVE_CODE = 7,	      /* code that the engine does not translate, or can't read */
	ENGINE_NATIVE_REACH = 8,      /* no addresses are free in reach of the program's code */
	ENGINE_NATIVE_STUCK = 9,      /* a thread stays in translations that were given up */
	ENGINE_NATIVE_THREAD = 10,    /* no memory for a thread */
	ENGINE_NATIVE_TRACED = 11,    /* another recorded process is about to trace it: ptrace(2) */
	ENGINE_NATIVE_FORBIDDEN = 12, /* the kernel refuses new code: PR_SET_MDWE, SELinux */
	ENGINE_NATIVE_UNREAD = 13,    /* code that can be run and not read */
	ENGINE_NATIVE_LIMIT = 14,     /* it limits its memory: RLIMIT_AS, RLIMIT_DATA */
	ENGINE_NATIVE_LOCKED = 15,    /* it locks all its memory: mlockall(2) */
	ENGINE_NATIVES
};

/* Why a child is not recorded. The first are the engine's, which counts them in its head. */
enum engine_unfollowed {
	ENGINE_UNFOLLOWED_SHARES = 0,	   /* it shares memory or descriptors with its parent */
	ENGINE_UNFOLLOWED_NAMESPACE = 1,   /* it is in a namespace of pids of its own */
	ENGINE_UNFOLLOWED_ATTACHED = 2,	   /* its parent ran before the recording began */
	ENGINE_UNFOLLOWED_MANY = 3,	   /* there are too many */
	ENGINE_UNFOLLOWEDS_TOLD = 4,	   /* those in the head */
	ENGINE_UNFOLLOWED_ROOM = 4,	   /* its limit of memory has no room for the engine */
	ENGINE_UNFOLLOWED_DESCRIPTORS = 5, /* it can have no descriptor more */
	ENGINE_UNFOLLOWED_FILTER = 6,	   /* a seccomp filter of its own */
	ENGINE_UNFOLLOWED_CLOSED = 7,	   /* the tool may not trace it */
	ENGINE_UNFOLLOWED_VFORKED = 8,	   /* a child of vfork(2) made it */
	ENGINE_UNFOLLOWED_LATE = 9,	   /* it, or its parent, ended before the tool had it */
	ENGINE_UNFOLLOWEDS
};

/*
 * What an entry for a child is used for. FREE to TAKEN by the engine, all that leads to FREE by the
 * tool.
 */
enum engine_use {
	ENGINE_USE_FREE = 0,
	ENGINE_USE_TAKEN = 1, /* it is being filled in */
	/* `first_id` is set, and after a while `born`. Release */
	ENGINE_USE_MADE = 2,
	ENGINE_USE_NONE = 3, /* nothing came of it */
};

/* What a thread that is about to execute a program asks of the tool, and the answers. */
enum engine_ask {
	ENGINE_ASK_NOTHING = 0,
	ENGINE_ASK_EXEC = 1, /* trace it: by the engine, with what the call is given in `exec` */
	/* the same, for a child that borrows its parent's memory and runs natively until then */
	ENGINE_ASK_CHILD = 2,
	ENGINE_ASK_OVER = 3,	/* nothing came of it: trace it no more */
	ENGINE_ASK_TRACED = 4,	/* by the tool: continue */
	ENGINE_ASK_REFUSED = 5, /* by the tool: continue untraced */
};

/*
 * A thread is about to trace another (ptrace(2)), which may be recorded and must leave the engine
 * first.
 */
enum engine_trace_ask {
	ENGINE_TRACE_NOTHING = 0,
	ENGINE_TRACE_ASKED = 1,	  /* by the engine, with `trace_tid` */
	ENGINE_TRACE_ALLOWED = 2, /* by the tool: it runs natively, or is not recorded */
	ENGINE_TRACE_REFUSED = 3, /* by the tool: it does not leave the engine */
	ENGINE_TRACE_MADE = 4,	  /* by the engine: PTRACE_SEIZE returned; the tool answers 0 */
};

/*
 * A thread that has left the engine waits until another process has seized it. Values of `seize`,
 * beside 0 and the thread's tid. The tool stores the tid when the other process is about to seize
 * that thread.
 */
#define ENGINE_SEIZE_WAITS 0x80000000u /* by the thread's engine: it waits */
#define ENGINE_SEIZE_OVER 0x40000000u  /* by the tool: the other has; the thread then stores 0 */

struct engine_exec {
	uint64_t number, arguments[5];
};

#define ENGINE_BOOT_TAKEN                                                                          \
	4u /* the program runs already: only the threads of `taken` enter, once led in */

/*
 * A thread of a running program that the tool has stopped: its state, filled in by the tool. These
 * are an array in the program's memory.
 */
struct engine_taken {
	uint64_t thread; /* by the engine: its own of it */
	int32_t error;	 /* by the engine: why it can't be had */
	uint32_t rseq_bytes, rseq_signature;
	/* by the engine: it is, and has to be let go by `undo` if not by `commit` */
	uint32_t is_taken;
	uint64_t rseq_at; /* rseq(2), as it is registered; 0: it is not */
	/* behind the pending system call; 0: none is pending, or it restarts the call */
	uint64_t call_next;
	uint64_t mask; /* its blocked signals */
	struct engine_regs
		regs; /* where it continues: where the kernel would restart its system call */
};

/* A mapping of the engine's own. start 0: none. */
struct engine_mapping {
	uint64_t start, bytes;
};

/*
 * The tool leads stopped threads to these addresses, and finds them there. A thread enters one of
 * the first four on the named stack, all signals blocked. At the end it counts itself in the
 * channel's `parked`, and stays until `way` changes or the tool is gone. The tool stops it there,
 * and leads it elsewhere. A thread that is detached there continues by itself in the best way for
 * it; if the tool dies, all threads do. Several threads may be on their way and park at once.
 */
struct engine_places {
	/*
	 * rdi: its struct engine_taken; stack_of its thread. It is the engine's, all but where it
	 * runs
	 */
	uint64_t take;
	/*
	 * rdi: its thread; `stack`. From now on all that were taken run under the engine; once,
	 * while all are stopped
	 */
	uint64_t commit;
	uint64_t undo; /* rdi: its thread; stack_of. It was never taken */
	/*
	 * rdi: its thread, rsi: what the kernel says of its system call, 512 or so; stack_of. From
	 * call_done alone
	 */
	uint64_t leave;
	uint64_t stack;
	uint64_t call_done; /* behind the system call that is made for the program */
	uint64_t call_back; /* a word on the stack there, of a thread that was taken in its call */
	uint64_t start, bytes; /* of the engine's file */
	uint64_t mappings;     /* struct engine_mapping[] */
	/* that are never blocked in the kernel while the program runs under the engine */
	uint64_t own_signals;
	uint32_t mapping_count;
	uint32_t is_lasting; /* something of the program's may lead to the engine's file for ever */
};

/* In the engine's thread: what the tool looks at. */
#define ENGINE_THREAD_SELF 0x00
#define ENGINE_THREAD_STACK 0x30
#define ENGINE_THREAD_REGS                                                                         \
	0x40 /* struct engine_regs; valid once it left by `leave`, its call to be restarted */
#define ENGINE_THREAD_SPILL 0xd0 /* then: its blocked signals */

#define ENGINE_REFUSALS 509u

/*
 * A child, by its parent's number and the high half of `born`. No other has the same, whichever
 * numbers of processes are used again.
 */
#define ENGINE_OFFSPRING(parent, count) ((uint64_t)(uint32_t)(parent) << 32 | (uint32_t)(count))

/*
 * What the tool says to all processes. They map it without the right to write. `tool` is a robust
 * futex (get_robust_list(2)) that a thread of the tool holds as long as the tool drains:
 * FUTEX_OWNER_DIED or 0 mean that no tool does.
 */
struct engine_control {
	uint32_t tool;
	uint32_t asked;	      /* ENGINE_ASKED_* */
	uint32_t ready_count; /* a futex: engines wake it when the tool has something to take */
	uint32_t served; /* counts up with each forked child that was served, or refused; a futex */
	uint32_t tracer; /* the tool's pid, if it has to be allowed to trace us; 0: it need not */
	uint32_t reserved;
	/* [ENGINE_OFFSPRING() % ENGINE_REFUSALS]: the child that the tool refused last */
	uint64_t refused[ENGINE_REFUSALS];
};

/*
 * A child's memfd has the name ENGINE_CHANNEL_NAME-PARENT-COUNT: the number of the process that its
 * parent's channel is of, and the high half of `born`, both in decimal.
 */
#define ENGINE_CHANNEL_NAME "waymark-trail"
#define ENGINE_CHANNEL_NAME_BYTES 48u

/* A child: until the tool knows it, or, if it borrows our memory, until it has left that memory. */
struct engine_child {
	uint32_t use;	   /* enum engine_use; a futex, where it becomes FREE */
	uint32_t first_id; /* ids below mean what they mean here; 0: it borrows our memory */
	/*
	 * low half: its pid, once that is known; high: counts up with each child, from a number of
	 * each process's own. Release
	 */
	uint64_t born;
	uint32_t met;	    /* by the tool: it knows the process, and sees how it ends; a futex */
	uint32_t ask;	    /* ENGINE_ASK_CHILD; release; a futex */
	uint32_t has_stack; /* a child that borrows our memory has a stack of its own */
	uint32_t leaving;   /* it does not run natively yet */
};

#define ENGINE_CHILDREN 64u

/* A process's head. */
struct engine_channel {
	uint32_t magic, version;
	uint64_t bytes; /* of the memfd */
	uint64_t slots_at;
	uint32_t slot_count;
	uint32_t segments_per_slot;
	uint64_t segment_bytes;
	uint64_t rings_at;
	uint64_t log_at, log_bytes;
	uint64_t control_at; /* as in struct engine_boot: for a tool that finds the process later */
	uint32_t follows;    /* by the tool: children are recorded */
	uint32_t state;	     /* enum engine_state; release, by the engine; a futex */
	int32_t error;	     /* negative: why it refused, or runs natively from some moment on */
	uint64_t log_put;    /* bytes ever, by the engine; release */
	uint64_t log_taken;  /* bytes ever, by the tool; release; its low half is a futex */
	uint32_t ready_count;  /* counts up, by the engine: there is something to take */
	uint32_t lost_threads; /* that found no slot, and run unrecorded */
	uint64_t traces;       /* that were translated: for tests */
	uint64_t taken_at;     /* as in struct engine_boot */
	uint32_t taken_count;
	/*
	 * by the engine, release: so many are where they were to be led to. A futex that the engine
	 * wakes; 0 by the tool
	 */
	uint32_t parked;
	struct engine_places places; /* by the engine, once it has begun */
	/* by the tool: how much code there may be until all is given up; 0: as much as usual */
	uint64_t cache_bytes;
	/* enum engine_native, by the engine, or by the tool: the first */
	uint32_t native;
	uint32_t ask; /* enum engine_ask; release; a futex */
	uint32_t ask_tid;
	uint32_t is_ending;   /* by the engine: the process is about to end, */
	uint32_t exit_status; /* which is what it asked to end with */
	/* children of it that have no entry, by enum engine_unfollowed */
	uint32_t unfollowed[ENGINE_UNFOLLOWEDS_TOLD];
	/* by the tool, release: counts up when it leads threads elsewhere, or stops leading */
	uint32_t way;
	uint32_t trace; /* enum engine_trace_ask; release; a futex */
	uint32_t trace_tid;
	uint32_t trace_seizes; /* PTRACE_SEIZE: the thread waits until that is done */
	struct engine_exec exec;
	uint64_t native_ticks; /* when `native` was set */
	uint32_t seize;	       /* ENGINE_SEIZE_* */
	uint32_t is_led;  /* by the tool: it leads the stopped process out; no other can trace it */
	uint32_t tellers; /* by the tool: it is about to signal it to leave */
	uint32_t leaving; /* so many of its threads have left, but do not run natively yet */
	struct engine_child children[ENGINE_CHILDREN];
};

#define ENGINE_ASKED_STOP 1u /* give all threads back to native code */

enum engine_slot_state {
	ENGINE_SLOT_FREE = 0,
	ENGINE_SLOT_LIVE = 1,
	ENGINE_SLOT_BEGINS = 3, /* nothing of it holds yet */
	/* its thread has ended, or left; the tool makes it FREE once all is taken */
	ENGINE_SLOT_ENDED = 2,
};

struct engine_segment {
	/* counts the segments that the thread began, from 1; 0: not yet. Release, once all is 0 */
	uint64_t number;
	uint64_t began_ticks, ended_ticks; /* of the time stamp counter */
	/* that the thread had written before: the blocks of its ids' paths */
	uint64_t began_blocks;
	uint32_t words; /* once it was left: so many are there. Release; 0: it is being filled */
	/* the tool's: low half of the number of the segment that it took last; a futex */
	uint32_t taken;
};

/* A thread's. */
struct engine_slot {
	/*
	 * enum engine_slot_state; release; a futex, where it becomes FREE. The first that is FREE
	 * is taken
	 */
	uint32_t state;
	uint32_t tid; /* of its last owner; 0: it never had one, nor did any slot behind it */
	uint64_t began_ticks;
	char comm[16];
	struct engine_segment segments[ENGINE_SEGMENTS_MAX];
};

/* ---- events in a segment ---- */

/* The head: ENGINE_EVENT | enum trail_event << 16 | words that follow. */
#define ENGINE_EVENT_CLASS(word) ((word) >> 16 & 0x7fff)
#define ENGINE_EVENT_WORDS(word) ((word)&0xffff)

/* What follows. The fields are abi/trail.h's: what `values` are, depends on the event. */
struct engine_event {
	uint32_t ticks[2];
	uint32_t at[2];
	uint32_t left;
	uint32_t values[2][2];
};

/* ---- the log ---- */

enum engine_entry_kind {
	ENGINE_ENTRY_PAD = 0,	 /* nothing: the rest of the log's bytes up to its end */
	ENGINE_ENTRY_TRACE = 1,	 /* struct engine_trace */
	ENGINE_ENTRY_PREFIX = 2, /* struct engine_prefix */
	ENGINE_ENTRY_MODULE = 3, /* struct engine_module */
	ENGINE_ENTRY_GONE = 4,	 /* the same, without a path: it was unmapped, all or in part */
};

/* Each is 8-byte aligned and contiguous. */
struct engine_entry {
	uint32_t bytes; /* of all of it, a multiple of 8 */
	uint32_t kind;
};

/*
 * A translated trace: `blocks` blocks that follow each other, and `exits` ways out. The blocks
 * follow the head, each a struct trail_entry and its code, padded to 8; then a uint16_t for each
 * exit: the number of blocks that make the path of the id first_id + its index.
 */
struct engine_trace {
	struct engine_entry entry;
	uint32_t first_id;
	uint16_t exits, blocks;
};

/*
 * `id` is the path of the first `blocks` blocks of the trace that defined `of`, one of its exits.
 */
struct engine_prefix {
	struct engine_entry entry;
	uint32_t id, of;
	uint32_t blocks, reserved;
};

/*
 * Code mapped from a file. The path follows, NUL-terminated. The log has it before the first trace
 * of it, and a GONE of the same start before those of what is mapped there next.
 */
struct engine_module {
	struct engine_entry entry;
	uint64_t start, bytes, offset;
	uint64_t ticks;
	uint64_t inode;	    /* of the file that was mapped; 0: none */
	uint32_t device[2]; /* that has it: major, minor */
};

_Static_assert(sizeof(struct engine_event) == 36, "nine words");
_Static_assert(sizeof(struct engine_channel) <= ENGINE_GUARD_BYTES, "a page");
_Static_assert(sizeof(struct engine_control) <= ENGINE_GUARD_BYTES, "a page");
_Static_assert(sizeof(struct engine_note) == 28, "a note's owner is padded to 4");
_Static_assert(sizeof(struct engine_segment) == 40 && sizeof(struct engine_trace) == 16,
	       "no padding");

#endif
