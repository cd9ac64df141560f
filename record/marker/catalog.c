/* SPDX-License-Identifier: MIT */
#include "record/marker/catalog.h"
#include "abi/site.h"
#include "base/array.h"
#include "base/elf.h"
#include "base/maps.h"
#include "target/process/loaded.h"
#include "target/process/reach.h"
#include "target/process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define TEXT_PARTS 6

struct module {
	struct catalog *catalog;
	const struct elf *elf;
	const char *path;
	pid_t pid;
};

/* Order by process, module, name and kind. */
static int name_order(const void *a, const void *b)
{
	const struct catalog_marker *left = a, *right = b;
	int order = (left->pid > right->pid) - (left->pid < right->pid);

	if (!order)
		order = strcmp(left->module, right->module);
	if (!order)
		order = strcmp(left->name, right->name);
	return order ? order : left->kind - right->kind;
}

/* Markers with the same name but other fields are two: they make two kinds of event. */
static int marker_order(const void *a, const void *b)
{
	const struct catalog_marker *left = a, *right = b;
	int order = name_order(a, b);

	return order ? order : strcmp(left->fields, right->fields);
}

/* Of one marker, in the order in which they were added. */
static int row_order(const void *a, const void *b)
{
	const struct catalog_marker *left = a, *right = b;
	int order = marker_order(a, b);

	return order ? order : (left->site > right->site) - (left->site < right->site);
}

static int site_order(const void *a, const void *b)
{
	const struct catalog_site *left = a, *right = b;

	if (left->marker != right->marker)
		return left->marker < right->marker ? -1 : 1;
	return (left->address > right->address) - (left->address < right->address);
}

static char *text_keep(struct catalog *catalog, const char *text)
{
	char *copy;

	if (array_grow(&catalog->texts, &catalog->text_room, catalog->text_count + 1,
		       sizeof(*catalog->texts)))
		return NULL;
	copy = strdup(text);
	if (copy)
		catalog->texts[catalog->text_count++] = copy;
	return copy;
}

/* Split a site's text in place at its first five newlines. */
static int text_split(char *text, char *parts[TEXT_PARTS])
{
	for (int i = 0; i < TEXT_PARTS; i++) {
		char *end = i < TEXT_PARTS - 1 ? strchr(text, '\n') : NULL;

		if (!end && i < TEXT_PARTS - 1)
			return -WM_E_MODULE_DAMAGED;
		parts[i] = text;
		if (end) {
			*end = '\0';
			text = end + 1;
		}
	}
	return strlen(parts[0]) == 2 ? 0 : -WM_E_MODULE_DAMAGED;
}

static enum site_state site_state(const struct module *module, const struct elf_site *site,
				  char way)
{
	uint8_t opcode;
	uint32_t armed;

	if (!site->site)
		return SITE_IS_SILENT;
	if (way == 'p') {
		if (elf_read(module->elf, site->record + offsetof(struct wm_record, armed), &armed,
			     sizeof(armed)))
			return SITE_IS_CHANGED;
		return armed ? SITE_IS_ARMED : SITE_IS_DORMANT;
	}
	if (elf_read(module->elf, site->site, &opcode, 1))
		return SITE_IS_CHANGED;
	return opcode == SITE_ARMED	? SITE_IS_ARMED
	       : opcode == SITE_DORMANT ? SITE_IS_DORMANT
					: SITE_IS_CHANGED;
}

/* Add a marker with that one site; catalog_sort() puts together those that are one. */
static int site_take(const struct elf_site *site, void *data)
{
	const struct module *module = data;
	struct catalog *catalog = module->catalog;
	char *text = text_keep(catalog, site->text), *parts[TEXT_PARTS];
	struct catalog_marker *marker;

	if (!text ||
	    array_grow(&catalog->markers, &catalog->room, catalog->count + 1,
		       sizeof(*catalog->markers)) ||
	    array_grow(&catalog->sites, &catalog->site_room, catalog->count + 1,
		       sizeof(*catalog->sites)))
		return -ENOMEM;
	if (text_split(text, parts))
		return -WM_E_MODULE_DAMAGED;
	/* SUBSYSTEM and EVENT follow each other: replace the newline between them. */
	parts[2][-1] = ':';
	marker = &catalog->markers[catalog->count];
	*marker = (struct catalog_marker){ .name = parts[1],
					   .kind = parts[0][0],
					   .way = parts[0][1],
					   .pid = module->pid,
					   .module = module->path,
					   .fields = parts[5],
					   .hits = CATALOG_HITS_UNKNOWN,
					   .site = catalog->count };
	memcpy(marker->types, site->types, sizeof(marker->types));
	catalog->sites[catalog->count++] = (struct catalog_site){
		.address = site->site ? module->elf->base + site->site : 0,
		.state = site_state(module, site, marker->way),
		.file = parts[3],
		.line = (unsigned int)strtoul(parts[4], NULL, 10),
	};
	return 0;
}

static int module_add(struct catalog *catalog, const struct elf *elf, const char *path, pid_t pid)
{
	struct module module = { catalog, elf, text_keep(catalog, path), pid };

	return module.path ? elf_sites(elf, site_take, &module) : -ENOMEM;
}

int catalog_add_file(struct catalog *catalog, const char *path)
{
	struct elf elf;
	int err = elf_open(&elf, path);

	if (!err)
		err = module_add(catalog, &elf, path, 0);
	elf_release(&elf);
	return err;
}

/* Add a fault, unless the module was unloaded meanwhile. */
static int fault_add(struct catalog *catalog, const struct map *map, int mem, pid_t pid, int error)
{
	struct catalog_fault fault = { .pid = pid, .error = error };
	struct elf elf;
	int is_there = !elf_open_memory(&elf, mem, map->start);

	elf_release(&elf);
	if (!is_there)
		return 0;
	fault.module = text_keep(catalog, map->path);
	if (!fault.module || array_grow(&catalog->faults, &catalog->fault_room,
					catalog->fault_count + 1, sizeof(*catalog->faults)))
		return -ENOMEM;
	catalog->faults[catalog->fault_count++] = fault;
	return 0;
}

static int modules_add(struct catalog *catalog, const struct maps *maps, int mem, pid_t pid)
{
	for (size_t i = 0; i < maps->count; i++) {
		struct map map;
		struct elf elf;
		int err;

		if (!loaded_begins(maps, i, &map) || !map.inode)
			continue;
		err = elf_open_memory(&elf, mem, map.start);
		if (!err && loaded_runs(&elf, maps, &map)) {
			err = module_add(catalog, &elf, map.path, pid);
			if (err && err != -ENOMEM)
				err = fault_add(catalog, &map, mem, pid, err);
		}
		elf_release(&elf);
		if (err == -ENOMEM)
			return err;
	}
	return 0;
}

static int process_open(const struct target *target, struct detail detail)
{
	char path[64];
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", target->live_tid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem >= 0)
		return mem;
	if (errno == EACCES || errno == EPERM)
		return target_denied(target, detail);
	return detail_set(detail, errno == ENOENT ? -ESRCH : -errno, "process %d", target->pid);
}

/* Read the process through a thread that lives. */
static int add_by(struct catalog *catalog, const struct target *target, struct detail detail)
{
	struct maps maps = { 0 };
	struct elf exe;
	char path[64];
	int mem = process_open(target, detail), err;

	if (mem < 0)
		return mem;
	snprintf(path, sizeof(path), "/proc/%d/exe", target->live_tid);
	err = elf_open(&exe, path);
	elf_release(&exe);
	if (err == -WM_E_FOREIGN_ARCH)
		detail_set(detail, err, "process %d (%s)", target->pid, target->comm);
	else
		err = maps_read(&maps, target->live_tid);
	if (!err)
		err = modules_add(catalog, &maps, mem, target->pid);
	maps_release(&maps);
	close(mem);
	return err;
}

int catalog_add_process(struct catalog *catalog, pid_t pid, struct detail detail)
{
	char words[256] = "";
	const char *refusal = NULL;
	size_t before = catalog->count;
	struct target target;
	int err = target_read(&target, pid), tries = 0;

	if (err)
		return detail_set(detail, err, "process %d", pid);
	if (target_has_ended(&target))
		return detail_set(detail, -WM_E_GONE, "process %d (%s)", target.pid, target.comm);
	do
		err = add_by(catalog, &target, detail);
	while ((err == -ESRCH || err == -WM_E_GONE) && tries++ < TARGET_RENEWALS &&
	       target_renew(&target));
	if (!err && reach_limits(&target, (struct detail){ words, sizeof(words) })) {
		refusal = text_keep(catalog, words);
		err = refusal ? 0 : -ENOMEM;
	}
	for (; refusal && before < catalog->count; before++)
		catalog->markers[before].refusal = refusal;
	return err;
}

void catalog_sort(struct catalog *catalog)
{
	struct catalog_marker *all = catalog->markers;
	size_t rows = catalog->count, kept = 0, group = 0; /* group: the first with the name */

	if (!rows)
		return;
	qsort(all, rows, sizeof(*all), row_order);
	for (size_t i = 0; i < rows; i++) {
		struct catalog_site *site = &catalog->sites[all[i].site];
		struct catalog_marker *marker;

		if (!kept || marker_order(&all[kept - 1], &all[i]))
			all[kept++] = all[i];
		marker = &all[kept - 1];
		if (name_order(&all[group], marker))
			group = kept - 1;
		if (memcmp(all[group].types, all[i].types, sizeof(all->types)))
			marker->types_differ = all[group].types_differ = 1;
		marker->counts[site->state]++;
		marker->site_count++;
		site->marker = kept - 1;
	}
	catalog->count = kept;
	qsort(catalog->sites, rows, sizeof(*catalog->sites), site_order);
	for (size_t i = 0, first = 0; i < kept; first += all[i++].site_count)
		all[i].sites = &catalog->sites[first];
}

void catalog_release(struct catalog *catalog)
{
	for (size_t i = 0; i < catalog->text_count; i++)
		free(catalog->texts[i]);
	free(catalog->markers);
	free(catalog->sites);
	free(catalog->faults);
	free(catalog->texts);
	*catalog = (struct catalog){ 0 };
}

const char *catalog_kind(char kind)
{
	switch (kind) {
	case 'm':
		return "event";
	case 'i':
		return "inline";
	case 'b':
		return "begin";
	case 'e':
		return "end";
	default:
		return "?";
	}
}

const char *catalog_type(uint8_t type)
{
	static const char *const names[] = {
		[WM_TYPE_I8] = "int8",	  [WM_TYPE_U8] = "uint8",
		[WM_TYPE_I16] = "int16",  [WM_TYPE_U16] = "uint16",
		[WM_TYPE_I32] = "int32",  [WM_TYPE_U32] = "uint32",
		[WM_TYPE_I64] = "int64",  [WM_TYPE_U64] = "uint64",
		[WM_TYPE_BOOL] = "bool",  [WM_TYPE_F32] = "float",
		[WM_TYPE_F64] = "double", [WM_TYPE_PTR] = "pointer",
		[WM_TYPE_STR] = "string", [WM_TYPE_BYTES] = "bytes",
		[WM_TYPE_CHAR] = "char",  [WM_TYPE_ADDRESSES] = "addresses",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}
