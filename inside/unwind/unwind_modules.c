/* SPDX-License-Identifier: MIT */
/* The code and the tables of the modules that come and go. */
#include "inside/marker/hit.h"
#include "inside/marker/marker.h"
#include "inside/unwind/boundary.h"
#include "inside/unwind/caller_walk.h"
#include "inside/unwind/unwind.h"

#include <sys/mman.h>

static void module_came(const struct module *module)
{
	for (unsigned int i = 0; i < module->segment_count; i++) {
		const struct segment *segment = &module->segments[i];

		if (segment->prot & PROT_EXEC)
			boundary_add(segment->start, segment->end, module->frames);
	}
}

static void module_gone(const struct module *module)
{
	for (unsigned int i = 0; i < module->segment_count; i++) {
		if (module->segments[i].prot & PROT_EXEC)
			boundary_remove(module->segments[i].start);
	}
}

void unwind_init(void)
{
	static struct registry_observer observer = { .came = module_came, .gone = module_gone };

	registry_observe(&observer);
	hit_callers_find = caller_walk;
}
