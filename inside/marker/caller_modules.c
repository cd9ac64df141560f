/* SPDX-License-Identifier: MIT */
#include "inside/marker/caller_modules.h"

#include "base/predicate.h"
#include "inside/marker/marker.h"
#include "inside/runtime/heap.h"

#include <string.h>
#include <sys/mman.h>

static struct caller_modules *all;
static uint32_t count;

static uint64_t range_of(const struct segment *segment)
{
	uint64_t first = segment->start >> CALLER_PAGE_BITS;
	uint64_t pages = ((segment->end - 1) >> CALLER_PAGE_BITS) - first + 1;

	return first << CALLER_COUNT_BITS | pages;
}

static void range_replace(struct caller_modules *modules, uint64_t from, uint64_t to)
{
	uint32_t at = 0;

	while (at < modules->used && modules->ranges[at] != from)
		at++;
	if (at == modules->used && (from || at == CALLER_RANGES_MAX))
		return;
	__atomic_store_n(&modules->ranges[at], to, __ATOMIC_RELAXED);
	if (at == modules->used) /* pairs with caller_modules_have() */
		__atomic_store_n(&modules->used, at + 1, __ATOMIC_RELEASE);
}

static void module_note(struct caller_modules *modules, const struct module *module, int is_there)
{
	if (!module->path || !predicate_names_module(modules->glob, module->path))
		return;
	for (unsigned int i = 0; i < module->segment_count; i++) {
		const struct segment *segment = &module->segments[i];

		if (!(segment->prot & PROT_EXEC) || segment->end <= segment->start)
			continue;
		if (is_there)
			range_replace(modules, 0, range_of(segment));
		else
			range_replace(modules, range_of(segment), 0);
	}
}

static void module_came(const struct module *module)
{
	for (struct caller_modules *modules = all; module && modules; modules = modules->next)
		module_note(modules, module, 1);
}

static void module_gone(const struct module *module)
{
	for (struct caller_modules *modules = all; modules; modules = modules->next)
		module_note(modules, module, 0);
}

void caller_modules_init(void)
{
	static struct registry_observer observer = { .came = module_came, .gone = module_gone };

	registry_observe(&observer);
}

const struct caller_modules *caller_modules_find(const char *glob)
{
	struct caller_modules *modules = all;

	while (modules && strcmp(modules->glob, glob) != 0)
		modules = modules->next;
	if (modules || count == CALLER_GLOBS_MAX)
		return modules;
	modules = heap_alloc(sizeof *modules);
	if (!modules)
		return NULL;
	strcpy(modules->glob, glob);
	for (const struct module *module = registry_modules(); module; module = module->next)
		module_note(modules, module, 1);
	modules->next = all;
	all = modules;
	count++;
	return modules;
}
