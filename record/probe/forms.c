/* SPDX-License-Identifier: MIT */
#include "record/probe/forms.h"

#include "base/maps.h"
#include "base/pun.h"
#include "base/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u
#define OUR_PAGES "waymark-detours"

struct forms_room {
	struct maps maps;
	uint64_t heap_end;
};

static int is_heap(const struct map *map)
{
	return !strcmp(map->path, "[heap]");
}

static int is_data(const struct map *map)
{
	return !map->inode && !map->shared && map->prot & PROT_WRITE;
}

int forms_room_read(struct forms_room **room, pid_t pid)
{
	int err;

	*room = calloc(1, sizeof(**room));
	if (!*room)
		return -ENOMEM;
	err = maps_read(&(*room)->maps, pid);
	for (size_t i = 0; !err && i < (*room)->maps.count; i++)
		if (is_heap(&(*room)->maps.list[i]))
			(*room)->heap_end = (*room)->maps.list[i].end;
	if (err) {
		forms_room_free(*room);
		*room = NULL;
	}
	return err;
}

void forms_room_free(struct forms_room *room)
{
	if (!room)
		return;
	maps_release(&room->maps);
	free(room);
}

/* Whether the agent has mapped this page, or may: it is free, and nothing can grow into it. */
static int is_free(const struct forms_room *room, uint64_t page)
{
	const struct maps *maps = &room->maps;
	size_t at = sorted_at_most(maps->list, maps->count, sizeof(*maps->list),
				   offsetof(struct map, end), page);
	const struct map *next = at < maps->count ? &maps->list[at] : NULL;
	uint64_t keep;

	if (page < PUN_LOWEST || page >= PUN_HIGHEST)
		return 0;
	if (next && next->start <= page)
		return strstr(next->path, OUR_PAGES) != NULL;
	if (page >= room->heap_end && page < room->heap_end + PUN_STACK_ROOM)
		return 0;
	keep = !next				? 0
	       : !strcmp(next->path, "[stack]") ? PUN_STACK_ROOM
	       : is_data(next)			? PUN_DATA_ROOM
						: 0;
	return !next || page + PAGE_BYTES + keep <= next->start;
}

static int are_free(const struct forms_room *room, const struct pun_window *window, uint64_t base,
		    int64_t x)
{
	for (unsigned int i = 0; i < window->count; i++) {
		int64_t landing = (int64_t)base + window->low + x + window->deltas[i];

		if (landing < 0 || landing % PAGE_BYTES > PAGE_BYTES - DETOUR_JUMP_BYTES ||
		    !is_free(room, (uint64_t)landing & ~(uint64_t)(PAGE_BYTES - 1)))
			return 0;
	}
	return 1;
}

static int has_room(const struct forms_room *room, const struct pun_window *window, uint64_t base)
{
	int64_t size = INT64_C(1) << 8 * window->free_bytes;

	if (!window->count)
		return 1;
	for (int64_t x = 0; x<size; x += size> PAGE_BYTES ? PAGE_BYTES : DETOUR_JUMP_BYTES)
		if (are_free(room, window, base, x))
			return 1;
	return 0;
}

unsigned int forms_of(const struct control_detour *choice, const struct forms_room *room,
		      uint64_t base)
{
	struct pun_window window;
	unsigned int forms = 0;

	for (int form = FORM_BYTE; form <= FORM_FIRST; form++) {
		unsigned int number = 0;

		if (form == FORM_FIRST && choice->flags & DETOUR_SAFE)
			continue;
		while (!(forms >> form & 1) &&
		       pun_next(choice, (enum detour_form)form, &number, &window))
			forms |= (unsigned int)(!room || has_room(room, &window, base)) << form;
	}
	return forms;
}

enum detour_form forms_best(unsigned int forms)
{
	int form = FORM_BYTE;

	while (form <= FORM_FIRST && !(forms >> form & 1))
		form++;
	return form <= FORM_FIRST ? (enum detour_form)form : 0;
}

const char *forms_word(enum detour_form form)
{
	return form == FORM_BYTE ? "byte" : form == FORM_BEHIND ? "behind" : "first";
}
