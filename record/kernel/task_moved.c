/* SPDX-License-Identifier: MIT */
/* The process may write anything to its memory: that misleads about its own addresses alone. */
#include "record/kernel/task_moved.h"

#include "base/array.h"
#include "base/maps.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <string.h>
#include <sys/mman.h>

#define REGIONS_MAX (DETOUR_MEMORY_MAX_BYTES / DETOUR_REGION_BYTES)
#define LOOK_NS 20000000u /* between two looks at a map */

struct task_moved_region {
	uint64_t start, read_ns; /* read_ns: when it was read first */
	uint32_t used;		 /* bytes, that were read */
	uint32_t last_bytes;	 /* of these, the last one's */
};

/* A trampoline, or a landing. */
struct task_moved_code {
	uint64_t start, read_ns;
	uint32_t bytes;
	uint32_t is_landing;
	struct detour_head head;
};

/* The last that begins at or before the address. */
static struct task_moved_code *find(const struct task_moved *moved, uint64_t address)
{
	size_t low = 0, high = moved->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (moved->all[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &moved->all[low - 1] : NULL;
}

static void keep(struct task_moved *moved, const struct task_moved_code *code)
{
	struct task_moved_code *at = find(moved, code->start);
	size_t index;

	if (at && at->start == code->start) {
		*at = *code;
		return;
	}
	index = at ? (size_t)(at - moved->all) + 1 : 0;
	if (array_grow(&moved->all, &moved->room, moved->count + 1, sizeof(*moved->all)))
		return;
	memmove(&moved->all[index + 1], &moved->all[index],
		(moved->count - index) * sizeof(*moved->all));
	moved->all[index] = *code;
	moved->count++;
}

static uint32_t bytes_of(const struct detour_head *head)
{
	return (uint32_t)sizeof(*head) +
	       ((head->code_bytes + DETOUR_ALIGN - 1) & ~(DETOUR_ALIGN - 1));
}

/* 0: there is none. */
static int head_read(pid_t pid, uint64_t start, uint32_t at, struct detour_head *head)
{
	return at + sizeof(*head) <= DETOUR_REGION_BYTES &&
	       !target_memory(pid, start + at, head, sizeof(*head)) &&
	       head->magic == DETOUR_HEAD_MAGIC && head->code_bytes &&
	       head->code_bytes <= DETOUR_CODE_MAX && bytes_of(head) <= DETOUR_REGION_BYTES - at;
}

/* The last that was read may not have been used after all, and be another now. */
static void region_read(struct task_moved *moved, pid_t pid, struct task_moved_region *region)
{
	struct detour_head head;

	region->used -= region->last_bytes;
	region->last_bytes = 0;
	while (head_read(pid, region->start, region->used, &head)) {
		keep(moved, &(struct task_moved_code){ .start = region->start + region->used +
								sizeof(head),
						       .read_ns = region->read_ns,
						       .bytes = head.code_bytes,
						       .head = head });
		if (head.landing)
			keep(moved, &(struct task_moved_code){ .start = head.landing,
							       .read_ns = region->read_ns,
							       .bytes = DETOUR_JUMP_BYTES,
							       .is_landing = 1,
							       .head = head });
		region->last_bytes = bytes_of(&head);
		region->used += region->last_bytes;
	}
}

/* Read what is new in regions that are known. Regions that are new are found by the map. */
static void task_moved_read(struct task_moved *moved, pid_t pid)
{
	for (size_t i = 0; i < moved->region_count; i++)
		region_read(moved, pid, &moved->regions[i]);
}

static int is_known(const struct task_moved *moved, uint64_t start)
{
	for (size_t i = 0; i < moved->region_count; i++)
		if (moved->regions[i].start == start)
			return 1;
	return 0;
}

/* Regions that lie side by side are one mapping. */
static void map_look(struct task_moved *moved, pid_t pid, const struct map *map)
{
	struct detour_head head;

	for (uint64_t at = map->start;
	     map->end - at >= DETOUR_REGION_BYTES && moved->region_count < REGIONS_MAX;
	     at += DETOUR_REGION_BYTES) {
		if (is_known(moved, at))
			continue;
		if (!head_read(pid, at, 0, &head) ||
		    array_grow(&moved->regions, &moved->region_room, moved->region_count + 1,
			       sizeof(*moved->regions)))
			return;
		moved->regions[moved->region_count++] = (struct task_moved_region){
			.start = at, .read_ns = ticks_monotonic_ns()
		};
	}
}

void task_moved_look(struct task_moved *moved, pid_t pid)
{
	uint64_t now_ns = ticks_monotonic_ns();
	struct task_moved fresh = { .looked_ns = now_ns };
	struct task_moved *to = moved->is_inherited ? &fresh : moved;
	struct maps maps;

	if (moved->looked_ns && now_ns - moved->looked_ns < LOOK_NS)
		return;
	moved->looked_ns = now_ns;
	if (!maps_read(&maps, pid))
		for (size_t i = 0; i < maps.count; i++)
			if (maps.list[i].prot == (PROT_READ | PROT_EXEC) && !maps.list[i].inode)
				map_look(to, pid, &maps.list[i]);
	maps_release(&maps);
	task_moved_read(to, pid);
	if (to == &fresh && fresh.count) {
		task_moved_release(moved);
		*moved = fresh;
	} else if (to == &fresh) {
		task_moved_release(&fresh);
	}
}

const struct detour_head *task_moved_find(const struct task_moved *moved, uint64_t address,
					  uint64_t *offset)
{
	const struct task_moved_code *found = find(moved, address);

	if (!found || address - found->start >= found->bytes)
		return NULL;
	*offset = found->is_landing ? 0 : address - found->start;
	return &found->head;
}

void task_moved_forget(struct task_moved *moved, uint64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < moved->count; i++)
		if (moved->all[i].read_ns >= before_ns)
			moved->all[kept++] = moved->all[i];
	moved->count = kept;
	kept = 0;
	for (size_t i = 0; i < moved->region_count; i++)
		if (moved->regions[i].read_ns >= before_ns)
			moved->regions[kept++] = moved->regions[i];
	moved->region_count = kept;
	moved->is_inherited = 0;
}

void task_moved_inherit(struct task_moved *moved, const struct task_moved *parent)
{
	if (moved->count)
		return;
	task_moved_release(moved);
	moved->is_inherited = 1;
	if (!parent->count ||
	    array_grow(&moved->all, &moved->room, parent->count, sizeof(*moved->all)))
		return;
	memcpy(moved->all, parent->all, parent->count * sizeof(*moved->all));
	moved->count = parent->count;
}

void task_moved_release(struct task_moved *moved)
{
	free(moved->regions);
	free(moved->all);
	*moved = (struct task_moved){ 0 };
}
