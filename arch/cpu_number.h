/* SPDX-License-Identifier: MIT */
#ifndef ARCH_CPU_NUMBER_H
#define ARCH_CPU_NUMBER_H

#include <stdint.h>

/* The CPU that the calling thread is on, without a system call. Hit path. */
uint32_t cpu_number(void);

#endif
