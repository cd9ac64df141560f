/* SPDX-License-Identifier: MIT */
#include "read/history/stacks.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const void *key_of(const struct stacks_one *stack)
{
	return stack->function ? (const void *)stack->function : stack->name;
}

static uint32_t hash_of(uint32_t outer, const void *key)
{
	uint64_t value = ((uintptr_t)key >> 3) * 0x9e3779b97f4a7c15ull + outer;

	return (uint32_t)(value * 0xff51afd7ed558ccdull >> 20);
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
	free(stacks->slots.all);
	*stacks = (struct stacks){ 0 };
}

const char *stacks_name(struct stacks *stacks, const char *name)
{
	return texts_keep(&stacks->names, name, strlen(name));
}

int stacks_of(struct stacks *stacks, uint32_t outer, const struct function *function,
	      uint32_t process, const char *name, uint32_t *number)
{
	const void *key = function ? (const void *)function : name;
	uint32_t hash = hash_of(outer, key);

	if (slots_fit(&stacks->slots) || stacks->count == UINT32_MAX ||
	    array_grow(&stacks->all, &stacks->room, stacks->count + 1, sizeof(*stacks->all)))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&stacks->slots, hash, &at, number);)
		if (stacks->all[*number].outer == outer && key_of(&stacks->all[*number]) == key)
			return 0;
	*number = (uint32_t)stacks->count++;
	stacks->all[*number] = (struct stacks_one){
		.function = function,
		.name = function ? NULL : name,
		.outer = outer,
		.process = process,
		.depth = stacks->all[outer].depth + 1,
	};
	if (stacks->depth < stacks->all[*number].depth)
		stacks->depth = stacks->all[*number].depth;
	slots_add(&stacks->slots, hash, *number);
	return 0;
}
