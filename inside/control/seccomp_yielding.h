/* SPDX-License-Identifier: MIT */
/*
 * Doing what a thread waits for that is about to put a filter in place
 * (inside/runtime/seccomp_yield.h).
 */
#ifndef INSIDE_CONTROL_SECCOMP_YIELDING_H
#define INSIDE_CONTROL_SECCOMP_YIELDING_H

#include "inside/patch/text.h"

/* Do what was asked; to be called in each round. Control thread. */
void seccomp_yielding_serve(const struct text *text);

/* The child of a fork: nothing is asked. */
void seccomp_yielding_forked(void);

#endif
