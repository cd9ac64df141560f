/* SPDX-License-Identifier: MIT */
#include "history/stacks.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 4096u

static const void *key_of(const struct stacks_one *stack)
{
	return stack->function ? (const void *)stack->function : stack->name;
}

static size_t slot_of(const struct stacks *stacks, uint32_t outer, const void *key)
{
	uint64_t value = ((uintptr_t)key >> 3) * 0x9e3779b97f4a7c15ull + outer;
	size_t at = (size_t)(value * 0xff51afd7ed558ccdull >> 20) & (stacks->slot_count - 1);

	for (; stacks->slots[at]; at = (at + 1) & (stacks->slot_count - 1)) {
		const struct stacks_one *stack = &stacks->all[stacks->slots[at]];

		if (stack->outer == outer && key_of(stack) == key)
			break;
	}
	return at;
}

static int slots_grow(struct stacks *stacks)
{
	size_t count = stacks->slot_count ? stacks->slot_count * 2 : SLOTS_MIN;
	uint32_t *slots;

	if (stacks->count * 2 < stacks->slot_count)
		return 0;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(stacks->slots);
	stacks->slots = slots;
	stacks->slot_count = count;
	for (size_t i = 1; i < stacks->count; i++)
		slots[slot_of(stacks, stacks->all[i].outer, key_of(&stacks->all[i]))] = (uint32_t)i;
	return 0;
}

int stacks_init(struct stacks *stacks)
{
	*stacks = (struct stacks){ 0 };
	if (array_grow(&stacks->all, &stacks->room, 1, sizeof(*stacks->all)))
		return -ENOMEM;
	stacks->all[stacks->count++] = (struct stacks_one){ 0 };
	return 0;
}

void stacks_release(struct stacks *stacks)
{
	texts_release(&stacks->names);
	free(stacks->all);
	free(stacks->slots);
	*stacks = (struct stacks){ 0 };
}

const char *stacks_name(struct stacks *stacks, const char *name)
{
	return texts_keep(&stacks->names, name, strlen(name));
}

int stacks_of(struct stacks *stacks, uint32_t outer, const struct function *function,
	      uint32_t process, const char *name, uint32_t *number)
{
	size_t slot;

	if (slots_grow(stacks) || stacks->count == UINT32_MAX ||
	    array_grow(&stacks->all, &stacks->room, stacks->count + 1, sizeof(*stacks->all)))
		return -ENOMEM;
	slot = slot_of(stacks, outer, function ? (const void *)function : name);
	if (!stacks->slots[slot]) {
		stacks->all[stacks->count] = (struct stacks_one){
			.function = function,
			.name = function ? NULL : name,
			.outer = outer,
			.process = process,
			.depth = stacks->all[outer].depth + 1,
		};
		if (stacks->depth < stacks->all[stacks->count].depth)
			stacks->depth = stacks->all[stacks->count].depth;
		stacks->slots[slot] = (uint32_t)stacks->count++;
	}
	*number = stacks->slots[slot];
	return 0;
}
