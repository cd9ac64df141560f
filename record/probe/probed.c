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

	return module && (module->is_done || !loaded->is_listed);
}

int probed_note(struct probed *probed, const struct loaded *loaded, int is_done)
{
	struct probed_module *module = find(probed, loaded);

	if (module) {
		module->is_done = is_done;
		module->set = probed->set + 1;
		return 0;
	}
	if (array_grow(&probed->modules, &probed->room, probed->count + 1,
		       sizeof(*probed->modules)))
		return -ENOMEM;
	probed->modules[probed->count++] = (struct probed_module){ loaded->id, loaded->base,
								   probed->set + 1, is_done };
	return 0;
}

int probed_has_base(const struct probed *probed, uint64_t base)
{
	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base == base)
			return 1;
	return 0;
}

void probed_forget(struct probed *probed, uint64_t base)
{
	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base == base)
			probed->modules[i--] = probed->modules[--probed->count];
}

int probed_loading_begin(struct probed *probed, uint64_t base, int is_wanted)
{
	if (array_grow(&probed->loading, &probed->loading_room, probed->loading_count + 1,
		       sizeof(*probed->loading)))
		return -ENOMEM;
	probed->loading[probed->loading_count++] = (struct probed_loading){ base, is_wanted };
	return 0;
}

void probed_loading_end(struct probed *probed)
{
	if (probed->loading_count)
		memmove(probed->loading, probed->loading + 1,
			--probed->loading_count * sizeof(*probed->loading));
}

void probed_release(struct probed *probed)
{
	free(probed->modules);
	free(probed->loading);
	*probed = (struct probed){ 0 };
}
