/* SPDX-License-Identifier: MIT */
/*
 * Pages of code that was translated. A writable page is made read-only in place. A write faults,
 * the engine drops the page's translations, and the write continues.
 *
 * A page is not guarded if it is written repeatedly, by its own code, through another mapping, or
 * maybe by a system call that is being made (kernel_writes.h).
 * Its code is checked at each entry instead, by the engine (PAGE_CHECKED), or by the code itself
 * (PAGE_OPEN).
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_PAGES_H
#define INSIDE_ENGINE_PAGES_H

#include "inside/engine/trace.h"

#include <stdint.h>

enum page_state {
	PAGE_GUARDED,	    /* or never written */
	PAGE_CHECKED,	    /* its code may change at any time */
	PAGE_OPEN,	    /* the same, and no write to it will ever be seen */
	PAGE_WRITES_ITSELF, /* and by the code that runs there: between two instructions */
};

/* The page's code is about to be read. */
enum page_state pages_guard(uint64_t page);

/* The page is about to be read: its changes are noticed from now on. 0: too many pages are. */
int pages_know(uint64_t page);

/* A trace has code of that page. */
void pages_add(uint64_t page, const struct trace *trace);

/*
 * A write at `address` faulted, in code at `pc`. 1: it was the guard, which is gone, with all
 * traces of the page; 0: it is the program's own affair.
 */
int pages_written(uint64_t address, uint64_t pc);

/*
 * Remove guards and translations: the next writer to [start, start + bytes) lacks our handlers. It
 * counts as a write.
 */
void pages_open(uint64_t start, uint64_t bytes);

/* Whether there may be guards in [start, end). Any thread, without the lock. */
int pages_may_meet(uint64_t start, uint64_t end);

/* Others may write there at any time, and no guard or call shows it: never guard it again. */
void pages_expose(uint64_t start, uint64_t bytes);

/* Drop the translations there: the bytes have changed, and no guard noticed. */
void pages_kill(uint64_t start, uint64_t bytes);

/*
 * The program is about to change the mapping of [start, start + bytes). Drop the translations
 * there.
 */
void pages_forget(uint64_t start, uint64_t bytes);

/*
 * Code in [start, end), looked at whenever it is entered, was found as it was. 1: it has been so
 * for so long, or is no longer open to others, that it is guarded from now on.
 */
int pages_are_calm(uint64_t start, uint64_t end);

/*
 * A page is copied: of a file's private mapping, its translations are dropped if they are of other
 * bytes. It is looked at from now on.
 */
void pages_note(uint64_t number, const void *bytes);

/*
 * Copy all those again, as far as that is no wait, if it is time to look for breakpoints that came
 * or went: translations of changed code are dropped. Takes the engine's lock.
 */
void pages_look(uint64_t ticks);

int pages_is_guarded(uint64_t address);

/* No page has traces any more. */
void pages_clear(void);

/* More than can be kept: some traces are not known by their pages. */
int pages_are_many(void);

/*
 * Threads and processes that use the program's memory without our handlers: +1, -1. While there are
 * any, no page is guarded, and writable code is checked instead.
 */
void pages_share(int change);

/* In a copy of the process, which runs natively: the program may write all of them. */
void pages_unguard(void);

/*
 * How many are guarded; and let the program write all of them, what was translated of them being
 * given up.
 */
uint32_t pages_guarded(void);
void pages_release(void);

#endif
