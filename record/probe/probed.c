/* SPDX-License-Identifier: MIT */
#include "record/probe/probed.h"

#include "base/array.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct probed_module *find(const struct probed *probed, const struct loaded *loaded)
{
	for (size_t i = 0; i < probed->count; i++)
		if (loaded_id_is(&probed->modules[i].id, &loaded->id))
			return &probed->modules[i];
	return NULL;
}

int probed_has(const struct probed *probed, const struct loaded *loaded)
{
	const struct probed_module *module = find(probed, loaded);

	return module && !module->is_due && (module->is_done || !loaded->is_listed);
}

struct probed_module *probed_note(struct probed *probed, const struct loaded *loaded, int is_done)
{
	struct probed_module *module = find(probed, loaded);

	if (!module) {
		if (array_grow(&probed->modules, &probed->room, probed->count + 1,
			       sizeof(*probed->modules)))
			return NULL;
		module = &probed->modules[probed->count++];
		module->came_ns = 0;
	}
	*module = (struct probed_module){ .id = loaded->id,
					  .base = loaded->base,
					  .set = probed->set + 1,
					  .came_ns = module->came_ns,
					  .is_done = is_done };
	return module;
}

struct probed_module *probed_at(const struct probed *probed, uint64_t base)
{
	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base == base)
			return &probed->modules[i];
	return NULL;
}

void probed_forget(struct probed *probed, uint64_t base)
{
	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base == base)
			probed->modules[i--] = probed->modules[--probed->count];
}

int probed_gap_add(struct probed *probed, const struct probed_gap *gap)
{
	char *path = strdup(gap->path);

	if (!path || array_grow(&probed->gaps, &probed->gap_room, probed->gap_count + 1,
				sizeof(*probed->gaps))) {
		free(path);
		return -ENOMEM;
	}
	probed->gaps[probed->gap_count] = *gap;
	probed->gaps[probed->gap_count++].path = path;
	return 0;
}

void probed_gap_remove(struct probed *probed, size_t index)
{
	free(probed->gaps[index].path);
	probed->gaps[index] = probed->gaps[--probed->gap_count];
}

void probed_release(struct probed *probed)
{
	free(probed->modules);
	while (probed->gap_count)
		probed_gap_remove(probed, 0);
	free(probed->gaps);
	*probed = (struct probed){ 0 };
}
