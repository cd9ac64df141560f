/* SPDX-License-Identifier: MIT */
/* The names of locks, by their addresses in recorded processes; each is found once. One thread. */
#pragma once

#include "read/history/image.h"

#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. */
struct lock_names {
	struct lock_name *all;
	size_t count, room;
};

/*
 * "pool.mutex" or "orders[2].lock" where debug information has it, else "pool_lock+0x8",
 * "shop+0x4080", or the address. `bytes` is what the lock's type has, `ns` the wall clock when it
 * was there. Valid until the release. NULL: no memory.
 */
const char *lock_name(struct lock_names *names, struct images *images, uint32_t process,
		      uint64_t ns, uint64_t address, uint8_t bytes);
void lock_names_release(struct lock_names *names);
