/* SPDX-License-Identifier: MIT */
#ifndef TESTS_TORTURE_VICTIM_H
#define TESTS_TORTURE_VICTIM_H

#include <stdint.h>
#include <waymark/marker.h>

#include "shared.h"

/* Set while a hit may be under way in this thread, from its count to the statement's end. */
extern __thread volatile int hit_pending;

/* Counts a hit; evaluated only while the marker is armed. Async-signal-safe. */
uint32_t count_hit(void);

/* A marker whose fields the driver can check against each other. */
#define MARK(event, number)                                                                        \
	do {                                                                                       \
		WAYMARK(torture, event, WM_FIELD(number_is, (number)),                             \
			WM_FIELD(count, count_hit()),                                              \
			WM_FIELD(check, (uint64_t)(number)*CHECK_FACTOR));                         \
		hit_pending = 0;                                                                   \
	} while (0)

extern void (*const groups[10])(void);

#endif
