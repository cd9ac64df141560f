/* SPDX-License-Identifier: MIT */
/* What a test program finds wrong: each thing is a line of standard output, and is counted. */
#ifndef FAILURES_H
#define FAILURES_H

#include <stdint.h>

extern int failures;

void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void equal(const char *what, uint64_t got, uint64_t wanted);

#endif
