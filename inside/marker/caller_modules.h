/* SPDX-License-Identifier: MIT */
/*
 * The modules that a condition on `caller` names, as ranges of addresses. A hit compares a return
 * address with these and reads no name. Modules that the loader adds or removes later change the
 * ranges in place, so no plan is made again for them.
 */
#ifndef INSIDE_MARKER_CALLER_MODULES_H
#define INSIDE_MARKER_CALLER_MODULES_H

#include "abi/predicate.h"

#include <stdint.h>

#define CALLER_RANGES_MAX 4096 /* segments with code; the code of others is no module's */
#define CALLER_GLOBS_MAX 256   /* ever */
#define CALLER_PAGE_BITS 12
#define CALLER_COUNT_BITS 28

/* Never freed, since a hit may be reading it. */
struct caller_modules {
	struct caller_modules *next;
	char glob[PREDICATE_TEXT_BYTES];
	uint32_t used; /* of ranges[]; never decreases */
	/* the number of the first page, then of pages, in one word; 0: none */
	uint64_t ranges[CALLER_RANGES_MAX];
};

/* Follow the loader. Before the first registry_scan(). */
void caller_modules_init(void);

/*
 * Those whose file's name, or path if it has a slash, matches a glob; libz.so.1 is also libz.so and
 * libz. NULL: no memory, or too many globs. Under the agent's lock.
 */
const struct caller_modules *caller_modules_find(const char *glob);

/* Whether an address is in their code. Hit path. */
static inline int caller_modules_have(const struct caller_modules *modules, uintptr_t address)
{
	uint64_t page = address >> CALLER_PAGE_BITS;
	uint32_t used = __atomic_load_n(&modules->used, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < used; i++) {
		uint64_t range = __atomic_load_n(&modules->ranges[i], __ATOMIC_RELAXED);
		uint64_t count = range & ((UINT64_C(1) << CALLER_COUNT_BITS) - 1);

		if (page - (range >> CALLER_COUNT_BITS) < count)
			return 1;
	}
	return 0;
}

#endif
