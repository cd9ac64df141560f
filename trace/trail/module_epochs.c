/* SPDX-License-Identifier: MIT */
#include "trace/trail/module_epochs.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct module_epochs_module {
	uint64_t base, hash; /* the hash: of path, place and build */
	char *path;
	int is_there;
};

struct module_epoch {
	uint64_t hash; /* of its modules */
	uint32_t from;
};

/* FNV-1a, mixed, so that sums of hashes differ. */
static uint64_t hash_of(const struct control_module *module, const char *path)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ module->base * 0x9e3779b97f4a7c15ull;

	for (size_t i = 0; i < module->build_id_bytes; i++)
		hash = (hash ^ module->build_id[i]) * 0x100000001b3ull;
	for (; *path; path++)
		hash = (hash ^ (uint8_t)*path) * 0x100000001b3ull;
	hash = (hash ^ hash >> 31) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/*
 * A module that goes is identified by its address: the reporter may not know its build id any more.
 */
static void go(struct module_epochs *epochs, uint64_t base, const char *path)
{
	for (size_t i = 0; i < epochs->count; i++) {
		struct module_epochs_module *module = &epochs->all[i];

		if (!module->is_there || module->base != base || strcmp(module->path, path) != 0)
			continue;
		module->is_there = 0;
		epochs->hash -= module->hash;
		epochs->is_any_gone = 1;
	}
}

static struct module_epochs_module *
module_get(struct module_epochs *epochs, const struct control_module *module, const char *path)
{
	uint64_t hash = hash_of(module, path);
	struct module_epochs_module *added;

	for (size_t i = 0; i < epochs->count; i++)
		if (epochs->all[i].hash == hash && !strcmp(epochs->all[i].path, path))
			return &epochs->all[i];
	if (array_grow(&epochs->all, &epochs->room, epochs->count + 1, sizeof(*epochs->all)))
		return NULL;
	added = &epochs->all[epochs->count];
	*added = (struct module_epochs_module){ module->base, hash, strdup(path), 0 };
	if (!added->path)
		return NULL;
	epochs->count++;
	return added;
}

static uint32_t epoch_find(const struct module_epochs *epochs)
{
	uint32_t i = 0;

	while (i < epochs->epoch_count && epochs->epochs[i].hash != epochs->hash)
		i++;
	return i;
}

static int epoch_add(struct module_epochs *epochs, uint32_t from)
{
	if (array_grow(&epochs->epochs, &epochs->epoch_room, epochs->epoch_count + 1,
		       sizeof(*epochs->epochs)))
		return -ENOMEM;
	epochs->epochs[epochs->epoch_count++] = (struct module_epoch){ epochs->hash, from };
	return 0;
}

/* The process continues in that epoch. */
static int turn(struct module_epochs *epochs, uint32_t to)
{
	if (to == epochs->now)
		return 0;
	if (array_grow(&epochs->moments, &epochs->moment_room, epochs->moment_count + 1,
		       sizeof(*epochs->moments)))
		return -ENOMEM;
	epochs->moments[epochs->moment_count++] = (struct module_moment){ epochs->events,
									  epochs->epochs[to].from };
	epochs->now = to;
	return 0;
}

/* There are other modules than before: the epoch of all that are there. */
static int settle(struct module_epochs *epochs)
{
	uint32_t known = epoch_find(epochs);
	int is_new = known == epochs->epoch_count;

	if (is_new && epochs->epoch_count && !epochs->is_resumed && !epochs->is_any_gone) {
		epochs->epochs[epochs->now].hash = epochs->hash;
		return 0;
	}
	if (is_new && epochs->epoch_count == MODULE_EPOCHS_MAX)
		return 0;
	if (is_new && epoch_add(epochs, epochs->epoch_count ? epochs->events : 0))
		return -ENOMEM;
	if (known != epochs->now)
		epochs->is_resumed = !is_new;
	epochs->is_any_gone = 0;
	return turn(epochs, known);
}

int module_epochs_take(struct module_epochs *epochs, const struct control_module *module,
		       const char *path)
{
	struct module_epochs_module *of = NULL;
	int err = 0;

	if (module->gone) {
		go(epochs, module->base, path);
	} else {
		of = module_get(epochs, module, path);
		err = of ? 0 : -ENOMEM;
	}
	if (of && !of->is_there) {
		of->is_there = 1;
		epochs->hash += of->hash;
		err = settle(epochs);
	}
	epochs->events++;
	return err;
}

uint32_t module_epochs_index(const struct module_epochs *epochs, uint32_t from)
{
	size_t low = 0, high = epochs->epoch_count;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (epochs->epochs[middle].from <= from)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

uint32_t module_epochs_name(const struct module_epochs *epochs, uint32_t index)
{
	return index < epochs->epoch_count ? epochs->epochs[index].from : 0;
}

uint32_t module_epochs_end(const struct module_epochs *epochs, uint32_t from)
{
	for (size_t i = 0; i < epochs->moment_count; i++)
		if (epochs->moments[i].at > from)
			return epochs->moments[i].at;
	return 0;
}

void module_epochs_release(struct module_epochs *epochs)
{
	for (size_t i = 0; i < epochs->count; i++)
		free(epochs->all[i].path);
	free(epochs->all);
	free(epochs->epochs);
	free(epochs->moments);
	*epochs = (struct module_epochs){ 0 };
}
