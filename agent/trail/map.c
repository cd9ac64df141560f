/* SPDX-License-Identifier: MIT */
#include "agent/trail/map.h"
#include "agent/trail/gate.h"
#include "agent/trail/memory.h"
#include "agent/trail/sys.h"

#include <errno.h>
#include <sys/mman.h>

#define PAGE_ENTRIES (4096 / 8)

static uint64_t *const map = (uint64_t *)MAP_AT;

int map_open(void)
{
	return memory_map_alone(MAP_AT, MAP_BYTES, PROT_READ | PROT_WRITE) ? 0 : -ENOMEM;
}

void map_set(uint64_t pc, uint64_t landing)
{
	uint64_t *entry = &map[(uint32_t)pc];
	uint64_t *page = (uint64_t *)((uint64_t)entry & ~UINT64_C(4095));

	/* An entry that another thread reads meanwhile is 0, gate_miss, or right: all do. */
	if (!__atomic_load_n(entry, __ATOMIC_RELAXED))
		for (uint32_t i = 0; i < PAGE_ENTRIES; i++)
			if (!page[i])
				__atomic_store_n(&page[i], (uint64_t)gate_miss, __ATOMIC_RELAXED);
	__atomic_store_n(entry, landing ? landing : (uint64_t)gate_miss, __ATOMIC_RELEASE);
}

void map_known(uint64_t pc)
{
	if (!__atomic_load_n(&map[(uint32_t)pc], __ATOMIC_RELAXED))
		map_set(pc, 0);
}

void map_clear(uint64_t start, uint64_t end)
{
	for (uint64_t pc = start; pc < end;) {
		uint64_t *entry = &map[(uint32_t)pc];
		uint64_t next = (pc | (PAGE_ENTRIES - 1)) + 1;

		if (pc % PAGE_ENTRIES == 0 && next <= end) {
			sys_call3(SYS_madvise, (long)entry, 4096, MADV_DONTNEED);
			pc = next;
			continue;
		}
		for (; pc < end && pc < next; pc++, entry++)
			if (*entry)
				__atomic_store_n(entry, (uint64_t)gate_miss, __ATOMIC_RELEASE);
	}
}
