/* SPDX-License-Identifier: MIT */
#include "cli/top_symbols.h"

#include "abi/trail.h"
#include "base/array.h"
#include "base/kernel_image.h"
#include "base/texts.h"
#include "read/history/image.h"
#include "target/process/loaded.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PROCESSES_MAX 256u
#define ASKED_MAX (1u << 20) /* addresses; an image keeps each that it was asked for */

/* The kernel has pid 0. */
struct viewed {
	pid_t pid;
	uint64_t start_time;
	dev_t exe_device;
	ino_t exe_inode;
	unsigned int checked; /* the interval in which it was last compared */
	unsigned int read;    /* and in which its map was read */
	size_t asked;
	uint64_t map_sum; /* of the code that it had mapped; it may load a library where one was */
	char root[32];	  /* of its mount namespace, where that is not ours; "" */
	struct fact_process process;
	struct image *image; /* NULL: there is no map to be had */
};

struct top_symbols {
	struct image_files *files; /* of our own mount namespace */
	struct viewed **all;
	size_t count, room;
	struct viewed *last;
	unsigned int interval;
	struct top_function *functions;
	size_t function_room;
	struct texts texts; /* of functions[] */
};

int top_symbols_open(struct top_symbols **symbols)
{
	*symbols = calloc(1, sizeof(**symbols));
	if (*symbols && !image_files_open(&(*symbols)->files, ""))
		return 0;
	free(*symbols);
	*symbols = NULL;
	return -ENOMEM;
}

static void map_free(struct viewed *viewed)
{
	image_close(viewed->image);
	fact_modules_release(&viewed->process);
	viewed->image = NULL;
	viewed->process = (struct fact_process){ 0 };
	viewed->asked = 0;
}

static void viewed_free_all(struct top_symbols *symbols)
{
	for (size_t i = 0; i < symbols->count; i++) {
		map_free(symbols->all[i]);
		free(symbols->all[i]);
	}
	symbols->count = 0;
	symbols->last = NULL;
}

void top_symbols_close(struct top_symbols *symbols)
{
	if (!symbols)
		return;
	viewed_free_all(symbols);
	image_files_close(symbols->files);
	texts_release(&symbols->texts);
	free(symbols->functions);
	free(symbols->all);
	free(symbols);
}

/* ---- maps ---- */

static int kernel_module_add(const char *name, uint64_t address, void *data)
{
	char path[KERNEL_NAME_BYTES + 3];

	snprintf(path, sizeof(path), "[%.*s]", KERNEL_NAME_BYTES, name);
	return fact_module_add(data, &(struct fact_module){ .base = address }, path, NULL, 0);
}

static void kernel_modules_read(struct fact_process *process)
{
	uint64_t start = kernel_image_start("");

	if (start &&
	    !fact_module_add(process, &(struct fact_module){ .base = start }, KERNEL_PATH, NULL, 0))
		kernel_image_modules("", kernel_module_add, process);
}

/* With build ids: another file may have taken the place of the one that runs. */
static void modules_read(struct fact_process *process, pid_t pid)
{
	struct loaded_list list = { .mem = -1 };

	if (!loaded_read(&list, pid))
		for (size_t i = 0; i < list.count; i++)
			(void)fact_module_add(process,
					      &(struct fact_module){ .base = list.all[i].base },
					      list.all[i].path, list.all[i].id.build_id,
					      (size_t)list.all[i].id.build_id_bytes);
	loaded_release(&list);
}

/* Paths are those of the process's mount namespace. */
static void root_find(struct viewed *viewed)
{
	struct stat own, its;
	char path[32];

	viewed->root[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)viewed->pid);
	if (viewed->pid && !stat("/proc/self/ns/mnt", &own) && !stat(path, &its) &&
	    own.st_ino != its.st_ino)
		snprintf(viewed->root, sizeof(viewed->root), "/proc/%d/root", (int)viewed->pid);
}

/* One that has ended keeps its last map. */
static void map_read(struct top_symbols *symbols, struct viewed *viewed)
{
	struct fact_process fresh = { 0 };
	struct image_options options = { 0 };

	viewed->read = symbols->interval;
	if (viewed->pid)
		modules_read(&fresh, viewed->pid);
	else
		kernel_modules_read(&fresh);
	if (!fresh.module_count)
		return;
	map_free(viewed);
	viewed->process = fresh;
	root_find(viewed);
	if (viewed->root[0])
		options.root = viewed->root;
	else
		options.files = symbols->files;
	(void)image_open(&viewed->image, &viewed->process, &options);
}

static uint64_t map_sum(pid_t pid)
{
	uint64_t sum = 0;
	struct maps maps;

	if (!maps_read(&maps, pid))
		for (size_t i = 0; i < maps.count; i++) {
			const struct map *map = &maps.list[i];

			if (map->prot & PROT_EXEC && map->inode)
				sum = (sum + map->start + map->inode) * 0x9e3779b97f4a7c15ull;
		}
	maps_release(&maps);
	return sum;
}

/* Another process may have its number, or it may have executed another program, or other code. */
static int has_changed(struct viewed *viewed)
{
	uint64_t sum = map_sum(viewed->pid);
	uint64_t start_time = target_start_time(viewed->pid);
	struct stat exe = { 0 };
	char path[32];
	int changed;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)viewed->pid);
	if (!start_time || stat(path, &exe))
		return 0; /* it has ended: its last map is what there is */
	changed = start_time != viewed->start_time || exe.st_ino != viewed->exe_inode ||
		  exe.st_dev != viewed->exe_device || sum != viewed->map_sum;
	viewed->map_sum = sum;
	viewed->start_time = start_time;
	viewed->exe_device = exe.st_dev;
	viewed->exe_inode = exe.st_ino;
	return changed;
}

/* Processes, and files that they had: those that run are soon seen again. 0 or -ENOMEM. */
static int forget_all(struct top_symbols *symbols)
{
	viewed_free_all(symbols);
	image_files_close(symbols->files);
	symbols->files = NULL;
	return image_files_open(&symbols->files, "");
}

/* NULL: no memory. */
static struct viewed *viewed_get(struct top_symbols *symbols, pid_t pid)
{
	struct viewed *viewed = symbols->last && symbols->last->pid == pid ? symbols->last : NULL;

	for (size_t i = 0; i < symbols->count && !viewed; i++)
		if (symbols->all[i]->pid == pid)
			viewed = symbols->all[i];
	if (!viewed) {
		if (symbols->count == PROCESSES_MAX && forget_all(symbols))
			return NULL;
		if (array_grow(&symbols->all, &symbols->room, symbols->count + 1,
			       sizeof(struct viewed *)))
			return NULL;
		viewed = calloc(1, sizeof(*viewed));
		if (!viewed)
			return NULL;
		symbols->all[symbols->count++] = viewed;
		viewed->pid = pid;
		viewed->checked = symbols->interval;
		has_changed(viewed);
		map_read(symbols, viewed);
	} else if (viewed->checked != symbols->interval) {
		viewed->checked = symbols->interval;
		if (pid && has_changed(viewed))
			map_read(symbols, viewed);
	}
	symbols->last = viewed;
	return viewed;
}

void top_symbols_see(struct top_symbols *symbols, pid_t pid)
{
	if (pid > 0 && !(symbols->last && symbols->last->pid == pid &&
			 symbols->last->checked == symbols->interval))
		(void)viewed_get(symbols, pid);
}

/* ---- functions ---- */

static const struct image_place *place_find(struct top_symbols *symbols, pid_t pid, uint64_t ip)
{
	struct viewed *viewed = viewed_get(symbols, ip >= TRAIL_KERNEL ? 0 : pid);
	const struct image_place *place = viewed && viewed->image ? image_place(viewed->image, ip)
								  : NULL;

	if (viewed && (!place || !place->module || viewed->asked++ > ASKED_MAX) && viewed->pid &&
	    viewed->read != symbols->interval) {
		map_read(symbols, viewed);
		place = viewed->image ? image_place(viewed->image, ip) : NULL;
	}
	return place;
}

const char *top_symbols_name(struct top_symbols *symbols, pid_t pid, uint64_t ip)
{
	const struct image_place *place = place_find(symbols, pid, ip);

	return place && place->function ? place->function : "?";
}

static const char *text_keep(struct top_symbols *symbols, const char *text)
{
	return texts_keep(&symbols->texts, text, strlen(text));
}

static int by_name(const void *one, const void *other)
{
	const struct top_function *a = one, *b = other;
	int names = strcmp(a->name, b->name);

	return names ? names : strcmp(a->module, b->module);
}

static int by_samples(const void *one, const void *other)
{
	const struct top_function *a = one, *b = other;

	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	return by_name(one, other);
}

static int function_add(struct top_symbols *symbols, size_t at, const struct top_address *address)
{
	const struct image_place *place = place_find(symbols, (pid_t)address->pid, address->ip);
	struct top_function *function = &symbols->functions[at];

	function->samples = address->samples;
	function->name = text_keep(symbols, place && place->function ? place->function : "?");
	function->module = text_keep(symbols, place && place->module	    ? place->module->name
					      : address->ip >= TRAIL_KERNEL ? KERNEL_PATH
									    : "?");
	return function->name && function->module ? 0 : -ENOMEM;
}

int top_symbols_functions(struct top_symbols *symbols, const struct top_count *count,
			  const struct top_function **functions)
{
	size_t all = 0, kept = 0;
	int err = 0;

	texts_release(&symbols->texts);
	if (array_grow(&symbols->functions, &symbols->function_room, count->address_count + 1,
		       sizeof(*symbols->functions)))
		return -ENOMEM;
	for (size_t i = 0; i < TOP_ADDRESS_ROOM && count->address_count && !err; i++)
		if (count->addresses[i].samples)
			err = function_add(symbols, all++, &count->addresses[i]);
	symbols->interval++;
	if (err)
		return err;
	qsort(symbols->functions, all, sizeof(*symbols->functions), by_name);
	for (size_t i = 0; i < all; i++) {
		if (kept && !by_name(&symbols->functions[kept - 1], &symbols->functions[i]))
			symbols->functions[kept - 1].samples += symbols->functions[i].samples;
		else
			symbols->functions[kept++] = symbols->functions[i];
	}
	qsort(symbols->functions, kept, sizeof(*symbols->functions), by_samples);
	*functions = symbols->functions;
	return (int)kept;
}
