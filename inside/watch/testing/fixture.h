/* SPDX-License-Identifier: MIT */
/*
 * Ground for tests of watches on this very process: kernel events are opened as a tool would,
 * events read as they lie.
 */
#ifndef INSIDE_WATCH_TESTING_FIXTURE_H
#define INSIDE_WATCH_TESTING_FIXTURE_H

#include "inside/detour/testing/fixture.h"
#include "inside/watch/watch.h"

#define SAMPLE_MAGIC 0x5eed0001u
#define SAMPLE_TOLD_MAX 8192

extern struct watch_table *sample_table;
extern int sample_events[WATCH_ROWS_MAX]; /* descriptors, by number */

/* Once in a test's process: trial_begin(), and both guards. */
void sample_begin(void);

/*
 * Arm one guard, DETOUR_GUARD_MASK or _ACTION, over a function that the test does not call: tests
 * call the guards themselves by name.
 */
void sample_guard(uint8_t flags);

/* Of an unsigned word, for who writes it. */
struct control_watch sample_about(uint32_t number, const void *address, unsigned int bytes);

/* watch_add() */
int sample_add(const struct control_watch *about);

/*
 * A disabled event on this thread and those that it starts; skips the test if the machine has no
 * events, or none that fires.
 */
int sample_open(const struct control_watch *about, uint8_t generation);

/* Added, opened, the gate opened with what the word holds, enabled. */
void sample_arm(const struct control_watch *about);

/* As the kernel counted. */
uint64_t sample_counted(uint32_t number);

/* Closed and removed. */
void sample_end(uint32_t number);

/* The recorded events, in order of time, with values of so many bytes. Returns how many. */
unsigned int sample_collect(unsigned int bytes);

extern struct sample_told {
	uint64_t ip, old, now, ticks;
	uint32_t tid, id;
	uint16_t how;
} sample_told[SAMPLE_TOLD_MAX];
extern unsigned int sample_told_count;

/* Whether an address is in the test's own code. */
int sample_is_here(uint64_t ip);

#endif
