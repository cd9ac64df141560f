/* SPDX-License-Identifier: MIT */
/* Which CPUs the machine has. */
#ifndef RECORD_PERF_CPUS_H
#define RECORD_PERF_CPUS_H

#include <stddef.h>

/*
 * CPUs as "0-3,8"; those that are online; those that are, or may be at any time; free() *cpus. 0,
 * or -errno with *cpus NULL and *count 0.
 */
int cpus_parse(const char *text, unsigned int **cpus, size_t *count);
int cpus_online(unsigned int **cpus, size_t *count);
int cpus_present(unsigned int **cpus, size_t *count);

int cpus_has(const unsigned int *cpus, size_t count, unsigned int cpu);

#endif
