/* SPDX-License-Identifier: MIT */
/* What system calls are called. Any thread. */
#ifndef BASE_SYSCALL_NAME_H
#define BASE_SYSCALL_NAME_H

#include <stdint.h>

/*
 * The name of a system call of x86-64, as in its manual page; NULL: none has that number, or a
 * newer kernel's.
 */
const char *syscall_name(uint64_t number);

#endif
