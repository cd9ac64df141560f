/* SPDX-License-Identifier: MIT */
/* A system call of programs without a library. */
#ifndef TESTS_TARGETS_CALL_H
#define TESTS_TARGETS_CALL_H

static inline __attribute__((always_inline)) long call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

#endif
