/* SPDX-License-Identifier: MIT */
/*
 * The debug trace of what runs inside a program: the agent and the engine, each with a copy of its
 * own of this file. WAYMARK_DEBUG=FILE in the program's environment turns it on. A message is one
 * line, written by one write(2) with O_APPEND:
 *
 *	SECONDS.NANOSECONDS PID TID PART: MESSAGE
 *
 * For slow paths alone: never on the hit path, for a block or for a word of a trail. Without the
 * variable a message costs a load and a branch.
 *
 * No descriptor stays open: a message opens the file, writes and closes it. A descriptor that stays
 * could be closed by the program, and its number reused, so that lines went into another file.
 *
 * All of this makes system calls alone, without libc: no lock, no allocation, no errno, no vector
 * register. Any thread, also in a signal handler.
 */
#ifndef BASE_DEBUG_TRACE_H
#define BASE_DEBUG_TRACE_H

#include <stddef.h>

/*
 * DEBUG_TRACE("agent/session", "lane %d: request %d", lane, type): PART is the side and its room or
 * file. FORMAT has %d (decimal), %x (hexadecimal, for addresses and flags) and %s (a string, cast
 * to long). There is at least one number.
 */
#define DEBUG_TRACE(part, format, ...)                                                             \
	do {                                                                                       \
		if (__builtin_expect(debug_trace_is_on, 0))                                        \
			debug_trace_write(part, format, (const long[]){ __VA_ARGS__ },             \
					  sizeof((const long[]){ __VA_ARGS__ }) / sizeof(long));   \
	} while (0)

extern int debug_trace_is_on __attribute__((visibility("hidden")));

/*
 * Look for the variable in the environment that the program was started with, and make the file.
 * The trace stays off where the program has gained privileges (AT_SECURE), or where FILE is no
 * absolute path of at most 255 bytes or no regular file. Once, as a side starts.
 */
void debug_trace_open(void);

/* No message from here on: the program is about to forbid system calls. */
void debug_trace_close(void);

/*
 * Writes nothing where the kernel might punish the program for it: under a seccomp filter that has
 * come since debug_trace_open(), or with a limit on the size of files (SIGXFSZ).
 */
void debug_trace_write(const char *part, const char *format, const long *values, size_t count);

#endif
