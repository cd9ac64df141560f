/* SPDX-License-Identifier: MIT */
/*
 * What the drivers of tortured programs share: a victim of their own, which they start and end, and
 * a watchdog that ends everything when nothing progresses. A driver has one of each.
 */
#ifndef TESTS_TORTURE_DRIVE_H
#define TESTS_TORTURE_DRIVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

extern pid_t drive_victim;	/* 0: it has ended */
extern int drive_failed;	/* set where something is wrong; the driver's exit status */
extern const char *drive_way;	/* how it is tortured now, for messages */
extern const char *drive_phase; /* the current phase, likewise */

double drive_now_s(void);

/*
 * Names the phase that begins. If none begins for a minute, the watchdog kills the victim by
 * SIGABRT and ends the driver.
 */
void drive_enter(const char *phase);

/*
 * Start argv[0] with the path of a new file of so many bytes and argv[1], and wait until it has set
 * *ready, which is `ready_at` bytes into the file. Returns the file, mapped; NULL where that fails.
 */
void *drive_start(char **argv, size_t bytes, size_t ready_at);

/* Whether it lives. If it does not, that is a failure, and reported. */
int drive_victim_is_alive(void);

/*
 * Say where each of its threads is, to find out why it hangs: by /proc, and by gdb where that is.
 */
void drive_show_threads(void);

/* It was asked to end, and must do so by itself, and well. */
void drive_end(void);

#endif
