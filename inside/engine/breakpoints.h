/* SPDX-License-Identifier: MIT */
/*
 * Breakpoints of other tools in the program's code: a uprobe replaces an instruction's first byte
 * by int3, or, where it is a nop of 5 bytes, the instruction by a call (Linux 6.18); a debugger
 * stores int3. The engine's copies of code (code_read.h) have the file's bytes there, and the
 * program's thread runs the instruction natively, where the kernel counts the uprobe's hit.
 *
 * A breakpoint that comes later than a translation is noticed by a look at the pages of code, about
 * ten times a second. Where one was, the instruction runs natively for another second or two, so
 * that uprobes that come and go there are hit.
 *
 * The caller holds the engine's lock, except for breakpoints_look_begin() and _end().
 */
#ifndef INSIDE_ENGINE_BREAKPOINTS_H
#define INSIDE_ENGINE_BREAKPOINTS_H

#include <stdint.h>

enum breakpoint_kind {
	BREAKPOINT_NONE,    /* none is known */
	BREAKPOINT_HERE,    /* the instruction runs natively */
	BREAKPOINT_TRACED,  /* a debugger's: nothing else is to raise SIGTRAP here */
	BREAKPOINT_NEW,	    /* of breakpoints_find(): the page's copy is to be made again */
	BREAKPOINT_UNKNOWN, /* of breakpoints_find(): maybe one, and what was there is unknown */
};

/* The kind of the breakpoint that is known at pc. */
enum breakpoint_kind breakpoints_at(uint64_t pc);

/*
 * The instruction at pc may be a breakpoint, and none is known there: `now` are the page's bytes.
 * The program's own is BREAKPOINT_NONE.
 */
enum breakpoint_kind breakpoints_find(uint64_t pc, const uint8_t *now);

/* Whether a BREAKPOINT_TRACED was found at pc, and no call has said so. */
int breakpoints_news(uint64_t pc);

/* `bytes` is a copy of that page: make it the file's. */
void breakpoints_undo(uint8_t *bytes, uint64_t page);

/* The page was looked at. */
void breakpoints_seen(const uint8_t *bytes, uint64_t page, uint64_t ticks);

/* Another mapping is about to be there. */
void breakpoints_forget(uint64_t start, uint64_t bytes);

/*
 * A look at all pages (pages_look()): begin() says whether it is time for one, and takes it for the
 * calling thread; end() sets the next time. Without the lock.
 */
int breakpoints_look_begin(uint64_t ticks);
void breakpoints_look_end(uint64_t ticks);

/* Drop one that is gone for so long that nothing comes in its place: its pc, or 0. */
uint64_t breakpoints_drop_old(uint64_t ticks);

#endif
