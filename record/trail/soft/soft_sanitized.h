/* SPDX-License-Identifier: MIT */
/* Programs that sanitizers' shadow memory is laid out in, at addresses of its own choice. */
#ifndef RECORD_TRAIL_SOFT_SOFT_SANITIZED_H
#define RECORD_TRAIL_SOFT_SOFT_SANITIZED_H

#include <sys/types.h>

/*
 * Whether the program that a process has executed imports a sanitizer's runtime; 0 also where its
 * file can't be read. Any thread.
 */
int soft_is_sanitized(pid_t pid);

#endif
