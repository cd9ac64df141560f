/* SPDX-License-Identifier: MIT */
/* Different addresses, as many as there is room for. */
#ifndef RECORD_KERNEL_TASK_ADDRESSES_H
#define RECORD_KERNEL_TASK_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>

#define TASK_ADDRESSES_MAX (1u << 20)

/* Zeroed: empty. */
struct task_addresses {
	uint64_t *all; /* open addressing; 0: free */
	size_t count, slots;
};

/* Add one that is not 0; without memory or room it is left out. */
void task_addresses_add(struct task_addresses *addresses, uint64_t address);

/* Move all to the front of all[], after which none may be added. Returns how many there are. */
size_t task_addresses_pack(struct task_addresses *addresses);

void task_addresses_release(struct task_addresses *addresses);

#endif
