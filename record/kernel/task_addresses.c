/* SPDX-License-Identifier: MIT */
#include "record/kernel/task_addresses.h"

#include "base/array.h"

void task_addresses_add(struct task_addresses *addresses, uint64_t address)
{
	uint32_t hash = slots_hash(address), number;

	if (addresses->count == TASK_ADDRESSES_MAX || slots_fit(&addresses->slots))
		return;
	for (uint64_t at = hash; slots_next(&addresses->slots, hash, &at, &number);)
		if (addresses->all[number] == address)
			return;
	if (array_grow(&addresses->all, &addresses->room, addresses->count + 1,
		       sizeof(*addresses->all)))
		return;
	addresses->all[addresses->count] = address;
	slots_add(&addresses->slots, hash, (uint32_t)addresses->count++);
}

void task_addresses_release(struct task_addresses *addresses)
{
	free(addresses->all);
	free(addresses->slots.all);
	*addresses = (struct task_addresses){ 0 };
}
