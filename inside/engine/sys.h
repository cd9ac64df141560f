/* SPDX-License-Identifier: MIT */
/*
 * System calls of the engine's own. It may not call libc, whose code it may be translating, and
 * whose errno is the program's. They return as the kernel does: -errno for an error.
 */
#ifndef INSIDE_ENGINE_SYS_H
#define INSIDE_ENGINE_SYS_H

#include "base/syscall.h"

#include <stdint.h>

static inline long sys_call(long number, long a, long b, long c, long d, long e, long f)
{
	return syscall_raw6(number, a, b, c, d, e, f);
}

static inline long sys_call3(long number, long a, long b, long c)
{
	return sys_call(number, a, b, c, 0, 0, 0);
}

static inline int sys_failed(long result)
{
	return (unsigned long)result > -4096UL;
}

static inline uint64_t sys_ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

#endif
