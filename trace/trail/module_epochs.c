/* SPDX-License-Identifier: MIT */
#include "trace/trail/module_epochs.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct module_epochs_module {
	struct control_module module; /* gone: not any more */
	char *path;
};

static int is_same(const struct module_epochs_module *one, const struct control_module *module,
		   const char *path)
{
	return one->module.base == module->base &&
	       one->module.build_id_bytes == module->build_id_bytes &&
	       !memcmp(one->module.build_id, module->build_id, module->build_id_bytes) &&
	       !strcmp(one->path, path);
}

static int add(struct module_epochs *stood, const struct control_module *module, const char *path)
{
	struct module_epochs_module *added;

	if (array_grow(&stood->all, &stood->room, stood->count + 1, sizeof(*stood->all)))
		return -ENOMEM;
	added = &stood->all[stood->count];
	added->module = *module;
	added->path = strdup(path);
	if (!added->path)
		return -ENOMEM;
	stood->count++;
	return 0;
}

/*
 * A module that goes is identified by its address: the reporter may not know its build id any more.
 */
static void go(struct module_epochs *stood, uint64_t base, const char *path)
{
	for (size_t i = 0; i < stood->count; i++)
		if (stood->all[i].module.base == base && !strcmp(stood->all[i].path, path))
			stood->all[i].module.gone = 1;
}

int module_epochs_take(struct module_epochs *stood, const struct control_module *module,
		       const char *path)
{
	int is_any_gone = 0, err;

	if (module->gone) {
		go(stood, module->base, path);
		return 0;
	}
	for (size_t i = 0; i < stood->count; i++) {
		if (is_same(&stood->all[i], module, path)) {
			stood->all[i].module.gone = 0;
			return 0;
		}
		is_any_gone |= stood->all[i].module.gone;
	}
	if (is_any_gone)
		module_epochs_begin(stood);
	err = add(stood, module, path);
	return err ? err : is_any_gone;
}

void module_epochs_begin(struct module_epochs *stood)
{
	size_t kept = 0;

	for (size_t i = 0; i < stood->count; i++) {
		if (stood->all[i].module.gone)
			free(stood->all[i].path);
		else
			stood->all[kept++] = stood->all[i];
	}
	stood->count = kept;
}

void module_epochs_release(struct module_epochs *stood)
{
	for (size_t i = 0; i < stood->count; i++)
		free(stood->all[i].path);
	free(stood->all);
	*stood = (struct module_epochs){ 0 };
}
