/* SPDX-License-Identifier: MIT */
#ifndef TESTS_TORTURE_PROBES_VICTIM_H
#define TESTS_TORTURE_PROBES_VICTIM_H

#include <stdint.h>

#include "shared.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Say what is wrong and die by SIGABRT: a probed program came to another result than it would
 * alone.
 */
__attribute__((noreturn)) void victim_fail(const char *what);

void count_entry(void);
void count_return(void);
void count_site(void);

/* work.c: each does something whose result it knows, and checks it. */
void work_points(uint32_t number);
void work_strings(uint32_t number);
void work_memory(uint32_t number);
void work_sorting(uint32_t number);
void work_leaving(uint32_t number);
void work_backtrace(uint32_t number);
void work_zlib(uint32_t number);
void work_prepare(void);

/* Whether the USDT probe's semaphore is raised. */
int work_is_watched(void);

/* In a signal handler: a point, and nothing that isn't async-signal-safe. */
void work_in_handler(uint32_t number);

/* throws.cc: an exception through so many probed functions, caught below them. Returns depth. */
int throws_pass(int depth);

#ifdef __cplusplus
}
#endif
#endif
