/* SPDX-License-Identifier: MIT */
/* Different addresses, as many as there is room for. */
#ifndef RECORD_KERNEL_TASK_ADDRESSES_H
#define RECORD_KERNEL_TASK_ADDRESSES_H

#include "base/slots.h"

#include <stddef.h>
#include <stdint.h>

#define TASK_ADDRESSES_MAX (1u << 20)

/* Zeroed: empty. */
struct task_addresses {
	uint64_t *all; /* as they came */
	size_t count, room;
	struct slots slots;
};

/* Add one, once; without memory or room it is left out. */
void task_addresses_add(struct task_addresses *addresses, uint64_t address);

void task_addresses_release(struct task_addresses *addresses);

#endif
