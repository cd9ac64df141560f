/* SPDX-License-Identifier: MIT */
/* What /proc reports about each thread of this process. Control thread only, but as said below. */
#ifndef INSIDE_RUNTIME_TASKS_H
#define INSIDE_RUNTIME_TASKS_H

#include <stdint.h>

#define TASKS_STATUS_BYTES 8192
#define TASKS_STAT_BYTES 1024

/*
 * A status file, NUL-terminated: NAME below the folder `dir`. 0, or -1 where the thread has ended.
 */
int tasks_read_status(int dir, const char *name, char text[TASKS_STATUS_BYTES]);

/*
 * Whether says() is true of any thread, given its status, those of the agent
 * included; 1 too where they can't be listed. One that ends meanwhile is passed over.
 */
int tasks_any(int (*says)(const char *status));

/* The text after "\nNAME:" in a status; "" if there is no such line. */
const char *tasks_value(const char *status, const char *name);

/*
 * Read a stat file; returns the text behind the name, which begins with the state: the name may
 * contain anything. "" if the file can't be read. Any thread.
 */
const char *tasks_stat(const char *path, char text[TASKS_STAT_BYTES]);

/*
 * Whether somebody traces the calling thread by ptrace(2); also true where that can't be found out.
 * Debuggers take all threads there are and all that come. A tool in strict mode takes all but ours.
 * Any thread.
 */
int tasks_is_traced(void);

/* The last number of the line that `at` is in; 0 if it has none. */
int32_t tasks_last_number(const char *at);

/* How many seccomp filters this thread is under; INT32_MAX if /proc cannot be read. */
int32_t tasks_own_filters(void);

#endif
