/* SPDX-License-Identifier: MIT */
/*
 * Strings of unprepared code: a register that is said to be a char * may hold anything. So
 * the kernel reads them, by process_vm_readv(2) on ourselves, and says when there is nothing.
 */
#ifndef INSIDE_MARKER_CAREFUL_H
#define INSIDE_MARKER_CAREFUL_H

#include <stddef.h>
#include <stdint.h>

/*
 * From here on, by this process's number; 0: not at all (a seccomp filter might kill the program
 * for it): then all strings are unreadable. Control side.
 */
void careful_allow(int32_t pid);

/* Whether anything may be read. */
int careful_is_allowed(void);

/*
 * As hit.c's put_string(): the field's state, bytes, NUL. NULL when it can't end before `limit` and
 * LANE_SLACK. Hit path.
 */
unsigned char *careful_string(unsigned char *to, const unsigned char *limit, const char *from,
			      uint32_t cap);

/* Read as many bytes as are mapped, up to `bytes`. 0 or less: none. Hit path. */
long careful_read_some(void *to, uintptr_t from, size_t bytes);

/*
 * Keep the start of a string, up to `bytes`, for later. Returns its own pointer, KEPT_NULL or
 * KEPT_UNREADABLE. Hit path.
 */
uint64_t careful_keep(unsigned char *to, uint32_t bytes, uint64_t from);

/* Read exactly `bytes`: 0; -1 if not all are mapped, or reading is off. Hit path. */
int careful_read(void *to, uintptr_t from, size_t bytes);

#endif
