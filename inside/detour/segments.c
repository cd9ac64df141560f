/* SPDX-License-Identifier: MIT */
#include "inside/detour/segments.h"

#include <stddef.h>

/*
 * The agent's own code, where it is linked into the program (inside/meson.build). In its shared
 * library, all code is the agent's.
 */
extern __attribute__((weak, visibility("hidden"))) const char __start_waymark_agent_text[],
	__stop_waymark_agent_text[];

extern __attribute__((visibility("hidden"))) const char __start_waymark_return_text[],
	__stop_waymark_return_text[];

const struct segment *segments_find(uintptr_t start, uintptr_t end)
{
	for (const struct module *m = registry_modules(); m; m = m->next) {
		for (unsigned int i = 0; i < m->segment_count; i++) {
			if (start >= m->segments[i].start && end <= m->segments[i].end)
				return &m->segments[i];
		}
	}
	return NULL;
}

/*
 * The range of the agent's own code: 1 and [*start, *end); 0 in a test, which links the agent's
 * parts separately.
 */
static int find_agent(uintptr_t *start, uintptr_t *end)
{
	uintptr_t mine = (uintptr_t)find_agent;
	const struct segment *segment = segments_find(mine, mine + 1);
	const struct module *program = registry_modules();

	if (__start_waymark_agent_text) {
		*start = (uintptr_t)__start_waymark_agent_text;
		*end = (uintptr_t)__stop_waymark_agent_text;
		return 1;
	}
	while (program && program->next)
		program = program->next; /* the last: it was found first */
	if (!segment || !program ||
	    (segment >= program->segments && segment < program->segments + program->segment_count))
		return 0;
	*start = segment->start;
	*end = segment->end;
	return 1;
}

int segments_is_agents(uintptr_t start, uintptr_t end)
{
	uintptr_t first, last;

	if (end > (uintptr_t)__start_waymark_return_text &&
	    start < (uintptr_t)__stop_waymark_return_text)
		return 1;
	return find_agent(&first, &last) && end > first && start < last;
}
