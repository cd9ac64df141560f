/* SPDX-License-Identifier: MIT */
/*
 * What tortured programs share: threads that a driver can park, timers whose signals come to all of
 * them, children of fork. Driver and program talk by words in memory that both map.
 */
#ifndef TESTS_TORTURE_PARTY_H
#define TESTS_TORTURE_PARTY_H

#include <stddef.h>
#include <stdint.h>

/* Set while this thread is parked: handlers on it do nothing that counts. */
extern __thread volatile int party_is_parked;

/* The file that is shared with the driver; NULL where it can't be mapped. */
void *party_map(const char *path, size_t bytes);

/*
 * Threads are to park while *pause is set, counted in *parked; timers call `handler` a thousand
 * times a second each.
 */
void party_begin(uint32_t *pause, uint32_t *parked, void (*handler)(int));

/*
 * Run these threads, each with its number, and set *ready. Returns once all have ended: 0, or 2
 * where one can't be made.
 */
int party_run(void *(*const all[])(void *), unsigned int count, uint32_t *ready);

/* Between its passes each thread comes here; it stays while the driver wants quiet. */
void party_gate(void);

/* The timers' signals, for this thread: SIG_BLOCK, SIG_UNBLOCK. */
void party_signals(int how);

/*
 * Fork, with signals blocked, so that no handler counts before the child's books are its own;
 * child(turn) never returns. Wait for it; dies by SIGABRT unless it ends with 0.
 */
void party_fork(void (*child)(unsigned int turn), unsigned int turn);

#endif
