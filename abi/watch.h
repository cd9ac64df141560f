/* SPDX-License-Identifier: MIT */
/*
 * Watches inside: each thread reports its own accesses to a variable.
 *
 * The outside opens a kernel breakpoint for each thread (perf_event_open(2): PERF_TYPE_BREAKPOINT,
 * sigtrap, remove_on_exec, inherit, inherit_thread, exclude_kernel) and owns it: when the tool dies
 * the kernel disarms. The thread that hits one gets SIGTRAP behind the instruction, with si_code
 * TRAP_PERF and the event's sig_data. The agent's handler makes an event of it, in the store that
 * markers and probes write to.
 *
 *	sig_data    magic (32) | number (16) | generation (8) | 0 (8), from the high bits down
 *
 * The magic is the session's own; a signal with another magic is the program's. The number
 * identifies the watch, and the generation counts how often that was changed in place. A thread
 * that has two events of one watch gets one signal for both, since the second finds the first
 * pending. So no hit is reported twice.
 *
 *	PLACE, COMMIT   (abi/detour.h) libc's guards, so that the program neither blocks SIGTRAP nor
 *	                takes it
 *	WATCH           one register's worth: the agent installs its handler, gives the event its id
 *	                (EVENT) and answers; before the first answer it sends WATCH_TABLE with the
 *	                memfd below
 *	                the outside opens its events, disabled; stops the threads; writes the
 *	                present value into the row's `value`, then `gate` =
 *	                WATCH_GATE(generation, WATCH_ON); enables the events
 *	                hits with the gate shut, or of another generation, are dropped and counted
 *	                to end it, the outside disables its events, waits a moment for pending
 *	                signals, shuts the gate (WATCH_OFF), closes the events
 *	UNWATCH         all of the session's that are numbered from..to; the handler is removed with
 *	                the last, once no thread can have a pending signal of theirs
 *	WATCH_LOST      from the agent: watches can't stay in the process any more (why: an error of
 *	                error.def); the outside closes its events at once, and sends UNWATCH
 *
 * Two sessions with events of their own on one word get one signal for both, too; so each session
 * that watches the word takes that signal, whichever session's it is.
 *
 * An object of more than 8 bytes, or that is not aligned, is several watches of one event: each has
 * its offset in the object.
 *
 * Exactness. The kernel's count of an event is the truth (read(2); it sums inherited threads). Of
 * it,
 *
 *	taken       came to the handler: recorded or filtered, or lost for want of room in the
 *	            store, where that is counted; or only counted, if that was asked
 *	            a store that hits several watches is one signal, since the second finds the
 *	            first pending: the handler finds by the instruction what else it wrote, and
 *	            takes that too
 *	dropped     came with the gate shut, or of another generation; or what was watched was gone:
 *	            its library was unloaded, its thread had ended
 *
 *	masked	    of those taken: a store whose mask excluded the watched bytes, so it wrote none
 *		    of them. Some processors' debug registers fire all the same
 *		    (arch/x86_64/stored.h)
 *
 * and the rest is missed: signals that were merged while a thread blocked SIGTRAP, or that no
 * handler got since the thread was on its way out.
 *
 * New and old value. The store has happened before the thread gets the signal, and another thread
 * may have stored in between. So the handler computes the new value from the instruction and the
 * registers where it can. Then it is the thread's own, regardless of later changes
 * (WATCH_NEW_EXACT). Else it is the value in memory. In exchanges the old value comes from the
 * instruction, too (WATCH_OLD_EXACT). Else it is the new value of the hit before, on any thread:
 * new and old values are a chain, in the order of the events' time. That is also the order of the
 * stores wherever these were serialised, by a lock or in one thread: the handler ends before the
 * next instruction.
 */
#ifndef ABI_WATCH_H
#define ABI_WATCH_H

#include "abi/follow.h"
#include "abi/frame.h"

#include <stdint.h>
#include <waymark/marker.h>

#define WATCH_ROWS_MAX 64 /* of all sessions in a process */
#define WATCH_BYTES_MAX 8

#define WATCH_COOKIE(magic, number, generation)                                                    \
	((uint64_t)(magic) << 32 | (uint64_t)((number)&0xffffu) << 16 |                            \
	 (uint64_t)((generation)&0xffu) << 8)
/*
 * In si_perf_flags, which the kernel does not use: the engine (abi/engine.h) met the watched bytes,
 * doing what the kernel does without it, as in writing a signal's frame. Nobody's instruction did.
 */
#define WATCH_BY_ENGINE 0x80000000u

#define WATCH_COOKIE_MAGIC(cookie) ((uint32_t)((cookie) >> 32))
#define WATCH_COOKIE_NUMBER(cookie) ((uint16_t)((cookie) >> 16))
#define WATCH_COOKIE_GENERATION(cookie) ((uint8_t)((cookie) >> 8))

enum watch_on { WATCH_ON_WRITE = 1, WATCH_ON_ACCESS = 2, WATCH_ON_EXECUTE = 3 };

/*
 * A condition on the value, the one before, or the thread, as the kernel names it inside of the
 * process' namespace (these last by == and != alone). With nothing but != does a NaN compare.
 */
enum watch_of { WATCH_OF_CHANGE = 1, WATCH_OF_NEW, WATCH_OF_OLD, WATCH_OF_TID };
enum watch_by {
	WATCH_BY_EQUAL = 1,
	WATCH_BY_UNEQUAL,
	WATCH_BY_LESS,
	WATCH_BY_LESS_EQUAL,
	WATCH_BY_GREATER,
	WATCH_BY_GREATER_EQUAL,
	WATCH_BY_BITS, /* some that the operand has */
};
enum watch_as { WATCH_AS_UNSIGNED = 1, WATCH_AS_SIGNED, WATCH_AS_F32, WATCH_AS_F64 };

struct watch_condition {
	uint64_t operand; /* widened to 64 bits; of floats their own bits */
	uint8_t of; /* enum watch_of; 0: no condition. WATCH_OF_CHANGE: that, and which bits */
	uint8_t by; /* enum watch_by */
	uint8_t as; /* enum watch_as */
	uint8_t bit,
		/*
		 * of a bit-field: the first, from the lowest, and how many; bits 0: all of the
		 * value
		 */
		bits;
	uint8_t reserved[3];
};

#define WATCH_COUNT_ONLY 1u  /* no event */
#define WATCH_WITH_OFFSET 2u /* part of a larger object */
#define WATCH_FRAME_ENTRY                                                                          \
	4u /* on execute, of a function's first instruction: no event, but frames (abi/frame.h) */
#define WATCH_OF_FRAME                                                                             \
	8u /* `address` is from a frame's CFA, as an int64_t; its low bits as those of an address */
/*
 * No watch, and with no other flag: a frame lives already, its CFA at `address`, of the thread that
 * `offset` is; `frame` of the entry `number` is to be its.
 */
#define WATCH_FRAME_LIVES 16u
/*
 * An expression that is followed (abi/follow.h): `group` is its chain, `frame` the step, whose
 * address the chain has; `address` is 0. A pointer on the way has WATCH_COUNT_ONLY too, the value
 * at the end has not.
 */
#define WATCH_LEADS 32u
#define WATCH_FOLLOWED 128u
#define WATCH_FOLLOWS (WATCH_LEADS | WATCH_FOLLOWED)
#define WATCH_MOVES (WATCH_OF_FRAME | WATCH_FOLLOWS) /* its place changes */
#define WATCH_KEEPS_TRAIL                                                                          \
	64u /* each that is wanted calls the function at control_watch_table.kept_at */
#define WATCH_CONDITIONS_MAX 4
#define WATCH_CALLERS_MAX 10

struct control_watch {
	uint32_t number;
	uint32_t magic;
	uint64_t address; /* a multiple of `bytes` */
	uint32_t offset;  /* in the object that is watched */
	/* the number of the watch whose event this one's hits are; its own: it has one itself */
	uint16_t event;
	uint8_t bytes; /* 1, 2, 4 or 8 */
	uint8_t type;  /* WM_TYPE_*, of that size: no string, no run; of a part: WM_TYPE_U64 */
	uint8_t on;    /* enum watch_on */
	uint8_t flags; /* WATCH_COUNT_ONLY ... WATCH_KEEPS_TRAIL */
	uint8_t generation;
	/* 0: none; else it is raised on the thread, and comes right behind the instruction */
	uint8_t signal;
	uint8_t callers; /* how many fields the event has for return addresses; 0 behind the last */
	/*
	 * of the session's event objects in the process, the one that it is in: generations are an
	 * object's
	 */
	uint8_t set;
	uint8_t group; /* WATCH_FRAME_ENTRY, WATCH_OF_FRAME: in the table's groups */
	uint8_t frame; /* WATCH_OF_FRAME: in the table's frames */
	/*
	 * Of a variable that each thread has one of: what is watched is the variable as long as
	 * these 4 bytes hold that number, as the C library's own word of who has the thread's
	 * memory does, which the kernel clears at the thread's end. Then what comes is dropped, and
	 * counted so: others have that memory. 0: for as long as it is watched.
	 */
	uint64_t owner;
	uint32_t owner_number;
	uint8_t bit,
		/* of a bit-field, as in a condition: the part of the watched bytes to report */
		bits;
	uint8_t reserved2[2];
	struct watch_condition conditions[WATCH_CONDITIONS_MAX]; /* all must hold */
								 /*
	 * The event's text follows (abi/site.h: "md\nwatch\nEXPR\nFILE\nLINE\nFIELDS"),
	 * NUL-terminated, if it has one itself. Fields are, in this order: ip; unless
	 * WATCH_ON_EXECUTE: old, new, how; offset, if it is a part's; the callers. FIELDS names as
	 * many.
	 */
};

/*
 * The types of the event's fields, as FIELDS names them, into types[] that is all 0. `callers` is
 * to have been checked.
 */
static inline void watch_field_types(const struct control_watch *about, uint8_t types[16])
{
	unsigned int at = 0;

	types[at++] = WM_TYPE_PTR;
	if (about->on != WATCH_ON_EXECUTE) {
		types[at++] = about->type;
		types[at++] = about->type;
		types[at++] = WM_TYPE_U16;
	}
	if (about->flags & WATCH_WITH_OFFSET)
		types[at++] = WM_TYPE_U32;
	for (unsigned int i = 0; i < about->callers; i++)
		types[at++] = WM_TYPE_PTR;
}

/*
 * What the fields `old` and `new` have of a value: a bit-field's bits alone, as its type has them.
 */
static inline uint64_t watch_field_value(const struct control_watch *about, uint64_t value)
{
	int is_signed = about->type == WM_TYPE_I8 || about->type == WM_TYPE_I16 ||
			about->type == WM_TYPE_I32 || about->type == WM_TYPE_I64 ||
			about->type == WM_TYPE_CHAR;
	unsigned int behind = 64u - about->bits;

	if (!about->bits)
		return value;
	value <<= behind - about->bit;
	return is_signed ? (uint64_t)((int64_t)value >> behind) : value >> behind;
}

/* The field `how`, a uint16. */
#define WATCH_NEW_EXACT 0x0001u
#define WATCH_OLD_EXACT 0x0002u
#define WATCH_NEW_UNKNOWN 0x0004u /* it could not be read; the event has 0 */
#define WATCH_OLD_UNKNOWN 0x0008u /* the value before is unknown */
#define WATCH_LATE                                                                                 \
	0x0010u /* SIGTRAP was blocked at the store: the instruction, too, is a later one */
#define WATCH_SHARED 0x0020u /* found by another watch's signal, for one instruction wrote both */
#define WATCH_READ 0x0040u   /* the instruction read it, and wrote nothing */
#define WATCH_IP_BEHIND                                                                            \
	0x0080u /* the instruction's start is unknown: ip is the byte before the next one */
#define WATCH_IP_UNKNOWN 0x0100u /* it led elsewhere, as a jump or a return that reads: ip is 0 */

#define WATCH_BY_KERNEL                                                                            \
	0x0200u /* the kernel's own access, in a system call of the thread's: ip is that */

#define WATCH_OLD_UNCERTAIN 0x0400u /* `old` is the hit's before, whose new value was not exact */

struct control_unwatch {
	uint32_t from, to; /* both included; 0 and UINT32_MAX: all */
};

struct control_watch_table {
	uint64_t bytes;
	/*
	 * The address of a function of the agent's that does nothing. A recorder of this thread's
	 * trail sees the thread come there behind the signal of a hit whose trail is to be kept. So
	 * it identifies that hit without a clock.
	 */
	uint64_t kept_at;
};

struct control_watch_lost {
	int32_t error;
	uint32_t reserved;
};

/*
 * The table: memory that one session shares with one process, a memfd of the agent's that is sealed
 * against shrinking and growing; a row for each number. Either side treats what the other writes as
 * hostile: the agent does by it nothing but to let an event be or not, and with what value.
 */
#define WATCH_OFF 0u
#define WATCH_ON 1u
#define WATCH_GATE(generation, state) ((uint32_t)((generation)&0xffu) << 8 | (state))
#define WATCH_GATE_STATE(gate) ((gate)&0xffu)
#define WATCH_GATE_TAKES(gate, generation)                                                         \
	(WATCH_GATE_STATE(gate) != WATCH_OFF && ((gate) >> 8 & 0xffu) == (generation))

#define WATCH_UNCERTAIN (UINT64_C(1) << 63) /* in `ticks`: the value is not exact */

struct watch_row {
	/* written outside */
	uint32_t gate;
	uint32_t reserved;
	/*
	 * Written inside: the signal of another watch reported a store whose mask excluded this
	 * one's bytes. The kernel may have counted a hit of this one.
	 */
	uint64_t beside;
	/*
	 * what the last hit said; by the outside before the gate opens. A pair, changed as one (16
	 * bytes, aligned)
	 */
	struct {
		uint64_t value;
		/*
		 * the store's clock at that hit, and WATCH_UNCERTAIN; 0: the outside wrote it;
		 * UINT64_MAX: unknown
		 */
		uint64_t ticks;
	} last __attribute__((aligned(16)));
	/* written inside, added to atomically */
	uint64_t taken;	   /* as above; of these: */
	uint64_t filtered; /* no event, as the filter says */
	uint64_t counted;  /* no event, as WATCH_COUNT_ONLY says */
	/*
	 * no event: the handler itself accessed memory below the stack that no one owns, or the
	 * engine did
	 */
	uint64_t own;
	uint64_t shared; /* reported by another watch's signal */
	uint64_t late;	 /* that had been blocked */
	uint64_t dropped;
	uint64_t inexact; /* of what was taken, those whose new value was read, or is not known */
	uint64_t signalled;
	/* of those inexact: the new value is unknown; counted only from outside */
	uint64_t unknown;
	uint64_t masked; /* written inside, of those taken: no event, a mask excluded the bytes */
	/* hits whose condition compared a value that is not exact; how many of them it left out */
	uint64_t uncertain, uncertain_filtered;
	uint64_t reserved2[7];
};

struct watch_table {
	struct watch_row rows[WATCH_ROWS_MAX];
	struct frame_table frames;
	struct follow_chain follows[FOLLOWS_MAX];
	uint8_t reserved[1376];
};

_Static_assert(sizeof(struct control_watch) == 112, "fixed");
_Static_assert(sizeof(struct watch_condition) == 16, "fixed");
_Static_assert(sizeof(struct control_unwatch) == 8, "fixed");
_Static_assert(sizeof(struct watch_row) == 192, "three cache lines");
_Static_assert(sizeof(struct watch_table) == 16384, "four pages");

#endif
