/* SPDX-License-Identifier: MIT */
#include "agent/trail/map.h"
#include "agent/trail/gate.h"
#include "agent/trail/memory.h"
#include "agent/trail/sys.h"

#include <errno.h>
#include <sys/mman.h>

#define PAGE_ENTRIES (4096 / 8)
#define GROUP_ENTRIES 4096u /* are made ready together: those of a page of code */
#define POPULATE_WRITE 23   /* MADV_POPULATE_WRITE, of Linux 5.14; without it each page is a fault */

static uint64_t *const map = (uint64_t *)MAP_AT;
static uint8_t ready[(UINT64_C(1) << 32) / GROUP_ENTRIES / 8]; /* a bit a group */

int map_open(void)
{
	return memory_map_alone(MAP_AT, MAP_BYTES, PROT_READ | PROT_WRITE) ? 0 : -ENOMEM;
}

/* An entry that another thread reads meanwhile is 0, gate_miss, or right: all do. */
static void group_ready(uint64_t pc)
{
	uint32_t group = (uint32_t)pc / GROUP_ENTRIES;
	uint64_t *entries = &map[(uint64_t)group * GROUP_ENTRIES];

	if (ready[group / 8] >> group % 8 & 1)
		return;
	ready[group / 8] |= (uint8_t)(1u << group % 8);
	sys_call3(SYS_madvise, (long)entries, GROUP_ENTRIES * 8, POPULATE_WRITE);
	for (uint32_t i = 0; i < GROUP_ENTRIES; i++)
		if (!entries[i])
			__atomic_store_n(&entries[i], (uint64_t)gate_miss, __ATOMIC_RELAXED);
}

void map_set(uint64_t pc, uint64_t landing)
{
	group_ready(pc);
	__atomic_store_n(&map[(uint32_t)pc], landing ? landing : (uint64_t)gate_miss,
			 __ATOMIC_RELEASE);
}

void map_known(uint64_t pc)
{
	group_ready(pc);
}

void map_clear(uint64_t start, uint64_t end)
{
	for (uint64_t pc = start; pc < end;) {
		uint64_t *entry = &map[(uint32_t)pc];
		uint64_t next = (pc | (PAGE_ENTRIES - 1)) + 1;

		if (pc % PAGE_ENTRIES == 0 && next <= end) {
			sys_call3(SYS_madvise, (long)entry, 4096, MADV_DONTNEED);
			ready[(uint32_t)pc / GROUP_ENTRIES / 8] &=
				(uint8_t) ~(1u << (uint32_t)pc / GROUP_ENTRIES % 8);
			pc = next;
			continue;
		}
		for (; pc < end && pc < next; pc++, entry++)
			if (*entry)
				__atomic_store_n(entry, (uint64_t)gate_miss, __ATOMIC_RELEASE);
	}
}
