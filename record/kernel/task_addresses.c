/* SPDX-License-Identifier: MIT */
#include "record/kernel/task_addresses.h"

#include <stdlib.h>

#define SLOTS_MIN 1024u

static size_t slot_of(const uint64_t *all, size_t slots, uint64_t address)
{
	size_t at = (size_t)(address * 0x9e3779b97f4a7c15ull >> 20) & (slots - 1);

	while (all[at] && all[at] != address)
		at = (at + 1) & (slots - 1);
	return at;
}

/* 0, or -1 without memory. */
static int grow(struct task_addresses *addresses)
{
	size_t slots = addresses->slots ? addresses->slots * 2 : SLOTS_MIN;
	uint64_t *all;

	if (addresses->count * 2 < addresses->slots)
		return 0;
	all = calloc(slots, sizeof(*all));
	if (!all)
		return -1;
	for (size_t i = 0; i < addresses->slots; i++)
		if (addresses->all[i])
			all[slot_of(all, slots, addresses->all[i])] = addresses->all[i];
	free(addresses->all);
	addresses->all = all;
	addresses->slots = slots;
	return 0;
}

void task_addresses_add(struct task_addresses *addresses, uint64_t address)
{
	size_t slot;

	if (addresses->slots) {
		slot = slot_of(addresses->all, addresses->slots, address);
		if (addresses->all[slot])
			return;
	}
	if (addresses->count == TASK_ADDRESSES_MAX || grow(addresses))
		return;
	addresses->all[slot_of(addresses->all, addresses->slots, address)] = address;
	addresses->count++;
}

size_t task_addresses_pack(struct task_addresses *addresses)
{
	size_t kept = 0;

	for (size_t i = 0; i < addresses->slots; i++)
		if (addresses->all[i])
			addresses->all[kept++] = addresses->all[i];
	return kept;
}

void task_addresses_release(struct task_addresses *addresses)
{
	free(addresses->all);
	*addresses = (struct task_addresses){ 0 };
}
