/* SPDX-License-Identifier: MIT */
/*
 * What drivers of tortured programs have in common: a victim of their own, started and ended, and a
 * watch that ends all when nothing goes on. One of each in a driver.
 */
#ifndef TESTS_TORTURE_DRIVE_H
#define TESTS_TORTURE_DRIVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

extern pid_t drive_victim;	/* 0: it has ended */
extern int drive_failed;	/* set by whoever finds something wrong; the driver's exit status */
extern const char *drive_way;	/* how it is tortured now, for messages */
extern const char *drive_phase; /* what goes on, likewise */

double drive_now_s(void);

/*
 * Something goes on: this. If nothing else does for a minute, the victim is killed by SIGABRT and
 * the driver ends.
 */
void drive_enter(const char *phase);

/*
 * Start argv[0] with the path of a new file of so many bytes and argv[1], and wait until it has set
 * *ready, which lies `ready_at` into the file. Returns the file, mapped; NULL where that fails.
 */
void *drive_start(char **argv, size_t bytes, size_t ready_at);

/* Whether it lives; that it doesn't is a failure, and told. */
int drive_victim_is_alive(void);

/*
 * Say where each of its threads is, to find out why it hangs: by /proc, and by gdb where that is.
 */
void drive_show_threads(void);

/* It was asked to end, and must do so by itself, and well. */
void drive_end(void);

#endif
