/* SPDX-License-Identifier: MIT */
/* What the test programs share: each part runs once dormant and once armed. */
#ifndef TESTS_MARKER_CHECK_H
#define TESTS_MARKER_CHECK_H

#include "arm.h"
#include <waymark/marker.h>

#define KEEP __attribute__((noinline, unused))

#ifdef __cplusplus
extern "C" {
#endif

extern int armed;	       /* whether the sites are live now */
extern unsigned int evaluated; /* how many arguments made by once() were computed */

/* An argument that counts its evaluations. */
int once(int value);

/* The parts; inline_b is in a second translation unit that shares inline.h. */
void fields_run(void);
void shapes_run(void);
void cxx_run(void);
void classes_run(void);
int inline_a(int value);
int inline_b(int value);
int library_run(int value);

#ifdef __cplusplus
}
#endif

/* The marker was passed `times` times since the last arm_reset(), and counted if armed. */
#define CHECK_HITS(kind, subsys, event, times)                                                     \
	CHECK(arm_seen(kind, #subsys, #event)->hits == (armed ? (unsigned int)(times) : 0U))

#endif
