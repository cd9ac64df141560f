/* SPDX-License-Identifier: MIT */
/*
 * Ground for tests of the translator: code at known addresses, and the engine's own parts that
 * translate it. No code runs: the gates are addresses alone. The program's mappings are those that
 * the test adds, and the processor is the one that it names.
 */
#ifndef INSIDE_ENGINE_TESTING_FIXTURE_CODE_H
#define INSIDE_ENGINE_TESTING_FIXTURE_CODE_H

#include "inside/engine/trace.h"
#include "inside/engine/vector.h"

#include <stddef.h>
#include <stdint.h>

/* Where a test's code is: an address there is an immediate of push, or is not. */
#define FIXTURE_LOW UINT64_C(0x10000000)
#define FIXTURE_HIGH UINT64_C(0x200030000000)

/* Of the processor: a test may change them before it translates. */
extern enum vector_width fixture_width;
extern int fixture_is_amd;

/* The program's only thread, if it has one. */
extern struct thread *fixture_thread;

/* Once in a test's process, which has the engine's memory from then on. */
void fixture_open(void);
void fixture_open_near(void); /* the map needs no base; skips the test where it does */
void fixture_open_far(void);  /* it does */

/* [start, start + bytes) is the program's, full of 06, which is no instruction. RANGE_*. */
void fixture_map(uint64_t start, size_t bytes, uint32_t flags);

/* Store bytes there, whatever protection the page has. */
void fixture_store(uint64_t at, const void *bytes, size_t count);

/*
 * Load bytes from there: nothing else can, for code that is not writable can't be read here. 0, or
 * 1: there is no memory.
 */
int fixture_load(void *to, uint64_t at, size_t count);

/* Whether these bytes are there, 65,535 at most. */
int fixture_has(uint64_t at, const void *bytes, size_t count);

/* Whether the program can write there now. */
int fixture_is_writable(uint64_t at);

/*
 * A page of the program's, whose last bytes are these, and no code behind them. Returns where they
 * begin. Each call has a page of its own, `near` FIXTURE_LOW or FIXTURE_HIGH.
 */
uint64_t fixture_put(uint64_t near, uint32_t flags, const void *bytes, size_t count);

/* The translation of the code at pc, which has one. */
struct trace *fixture_translate(uint64_t pc);

#endif
