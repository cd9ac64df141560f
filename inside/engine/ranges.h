/* SPDX-License-Identifier: MIT */
/*
 * The program's code: its executable mappings, from /proc/self/maps and from its own system calls.
 *
 * All under the engine's lock.
 */
#ifndef INSIDE_ENGINE_RANGES_H
#define INSIDE_ENGINE_RANGES_H

#include <stdint.h>

/*
 * How many bytes of code can be read from `pc` on; 0: none. Reads the mappings again if it knows
 * none.
 */
uint64_t ranges_left(uint64_t pc);

/*
 * After that was 0: whether code is there that can't be read, as with PROT_EXEC alone, or in the
 * vsyscall page.
 */
int ranges_are_unreadable(void);

/*
 * Read all mappings again, and log those of files that the log does not have. 0; or -errno: they
 * are unchanged.
 */
int ranges_read(void);

#define RANGE_WRITABLE 1u
#define RANGE_SHARED 2u /* or of a file that is written in another way */
#define RANGE_FILE 4u	/* not known of all at once */

/*
 * The file of that inode is written from now on: its private code, too, where the program has not
 * written it itself.
 */
void ranges_file_written(uint64_t inode);

/* Whether there was private code of that file when the mappings were read last. No lock. */
int ranges_have_file(uint64_t inode);

/* RANGE_* of where pc is; 0 also where no code is. */
uint32_t ranges_flags(uint64_t pc);

/* Private code that the program may write was there once. Any thread, without the lock. */
int ranges_are_writable(void);

/* Some of [start, start + bytes) is such code. */
int ranges_meet_writable(uint64_t start, uint64_t bytes);

/* Whether all of [start, start + bytes) is code, and private: the program alone writes it. */
int ranges_are_private(uint64_t start, uint64_t bytes);

/* In [start, start + bytes) is no code any more; 1: there was. */
int ranges_drop(uint64_t start, uint64_t bytes);

/* Code is there now, and RANGE_*. */
void ranges_add(uint64_t start, uint64_t bytes, uint32_t flags);

/* A mapping of the engine's own, which is not the program's code. */
void ranges_hide(uint64_t start, uint64_t bytes);

/* It is gone. */
void ranges_show(uint64_t start);

#endif
