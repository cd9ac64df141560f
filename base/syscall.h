/* SPDX-License-Identifier: MIT */
/*
 * System calls without libc: no errno, no cancellation point, no vector register. Returns what the
 * kernel returns, -errno for failure.
 */
#ifndef BASE_SYSCALL_H
#define BASE_SYSCALL_H

#include <sys/syscall.h>

#ifdef __x86_64__
static inline long syscall_raw(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long syscall_raw6(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#endif

#endif
