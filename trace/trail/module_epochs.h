/* SPDX-License-Identifier: MIT */
/*
 * A process's modules as they come and go, divided into epochs: in each, one module at most is at
 * an address. An epoch ends where a module comes after another went, which may take its addresses.
 * Where all modules of an earlier epoch are there again, and no others, that epoch is resumed. So
 * an address and an epoch name one module. Writers and readers of trails share this rule.
 *
 * An epoch is known by the number of modules that had come and gone when it first began. One thread
 * at a time uses it.
 */
#ifndef TRACE_TRAIL_MODULE_EPOCHS_H
#define TRACE_TRAIL_MODULE_EPOCHS_H

#include "abi/control.h"

#include <stddef.h>
#include <stdint.h>

#define MODULE_EPOCHS_MAX                                                                          \
	4096u /* a program may load and unload without end; the last epoch remains */

/* The process continues in another epoch. */
struct module_moment {
	uint32_t at;   /* so many modules had come or gone, without the one that comes now */
	uint32_t from; /* the epoch's name */
};

struct module_epochs {
	struct module_epochs_module *all; /* each once, however often it comes */
	size_t count, room;
	struct module_epoch *epochs; /* by name */
	size_t epoch_count, epoch_room;
	struct module_moment *moments;
	size_t moment_count, moment_room;
	uint64_t hash;	 /* of the modules that are there */
	uint32_t events; /* that came and went */
	uint32_t now;	 /* the epoch's index */
	int is_resumed, is_any_gone;
};

/* A module comes or goes. 0 or -ENOMEM. */
int module_epochs_take(struct module_epochs *epochs, const struct control_module *module,
		       const char *path);

/* The index of an epoch, below MODULE_EPOCHS_MAX, by its name. */
uint32_t module_epochs_index(const struct module_epochs *epochs, uint32_t from);

/* The name of an epoch, by its index. */
uint32_t module_epochs_name(const struct module_epochs *epochs, uint32_t index);

/* The name of the epoch after so many moments. */
static inline uint32_t module_epochs_after(const struct module_epochs *epochs, uint32_t moments)
{
	return moments && moments <= epochs->moment_count ? epochs->moments[moments - 1].from : 0;
}

/*
 * When the process first continued in another epoch after `from` modules: by `at` of the moment; 0:
 * never.
 */
uint32_t module_epochs_end(const struct module_epochs *epochs, uint32_t from);
void module_epochs_release(struct module_epochs *epochs);

#endif
