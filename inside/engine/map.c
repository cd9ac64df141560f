/* SPDX-License-Identifier: MIT */
#include "inside/engine/assembler.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_thread.h"
#include "inside/engine/gate.h"
#include "inside/engine/map.h"
#include "inside/engine/sys.h"

#include <errno.h>
#include <sys/mman.h>

#define MAP_BYTES (UINT64_C(8) << 32)
#define GROUP_ENTRIES 4096u /* are made ready together: those of a page of code */
#define GROUPS ((uint32_t)((UINT64_C(1) << 32) / GROUP_ENTRIES))
#define GROUP_BYTES (GROUP_ENTRIES * 8ul)
#define READY_MAX 32768u  /* groups, a GiB of entries */
#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE, of Linux 5.14; without it each page is a fault */

/*
 * Made accessible at once. Each may add two mappings, and a process has 65,530 (vm.max_map_count).
 */
#define PIECE_BYTES (UINT64_C(1) << 20)
#define PIECES_MAX 4096u
#define TRIES_MAX 16

/* Of a group: whose code is there, by the high half and one; none; or that of several. */
#define OWNER_MANY UINT32_MAX

static uint64_t *map;
static uint64_t *map_before; /* map_move() */
static uint32_t *owners;
static uint8_t ready[GROUPS / 8]; /* a bit a group */
static uint32_t ready_count;
static uint32_t piece_count;
static uint8_t writable[MAP_BYTES / PIECE_BYTES];

int map_open(int is_far)
{
	owners = memory_map_alone(0, GROUPS * sizeof(*owners), PROT_READ | PROT_WRITE);
	for (int i = 0; i < TRIES_MAX && !map && !is_far; i++)
		map = memory_map_alone(MAP_AT + memory_random() % MAP_AT_BYTES / 4096 * 4096,
				       MAP_BYTES, PROT_NONE);
	if (!map)
		map = memory_map_alone(0, MAP_BYTES, PROT_NONE);
	return map && owners ? 0 : -EADDRNOTAVAIL;
}

static int is_near(const uint64_t *at)
{
	return (uint64_t)at <= INT32_MAX;
}

int map_move(void)
{
	uint64_t *to = map_before || !is_near(map) ? map
						   : memory_map_alone(0, MAP_BYTES, PROT_NONE);

	if (!to)
		return -ENOMEM;
	if (to == map)
		return 0;
	if (memory_renew(map, MAP_BYTES)) {
		memory_unmap(to, MAP_BYTES);
		return -ENOMEM;
	}
	map_before = map;
	map = to;
	ready_count = piece_count = 0;
	memory_clear(ready, sizeof(ready));
	memory_clear(writable, sizeof(writable));
	return 0;
}

void map_moved(void)
{
	if (map_before)
		memory_unmap(map_before, MAP_BYTES);
	map_before = NULL;
}

static uint32_t group_of(uint64_t pc)
{
	return (uint32_t)pc / GROUP_ENTRIES;
}

static int is_ready(uint32_t group)
{
	return ready[group / 8] >> group % 8 & 1;
}

static uint32_t claim_of(uint64_t pc)
{
	return (uint32_t)(pc >> 32) + 1;
}

static int is_writable(const uint64_t *entries)
{
	uint64_t piece = (uint64_t)((const uint8_t *)entries - (uint8_t *)map) / PIECE_BYTES;

	if (writable[piece])
		return 1;
	if (memory_write((uint8_t *)map + piece * PIECE_BYTES, PIECE_BYTES))
		return 0;
	piece_count++;
	return writable[piece] = 1;
}

/* An entry that another thread reads meanwhile is 0, gate_miss, or right: all do. */
static int group_ready(uint64_t pc)
{
	uint32_t group = group_of(pc);
	uint64_t *entries = &map[(uint64_t)group * GROUP_ENTRIES];

	if (is_ready(group))
		return 1;
	if (!is_writable(entries))
		return 0;
	ready[group / 8] |= (uint8_t)(1u << group % 8);
	ready_count++;
	sys_call3(SYS_madvise, (long)entries, GROUP_BYTES, POPULATE_WRITE);
	for (uint32_t i = 0; i < GROUP_ENTRIES; i++)
		if (!entries[i])
			__atomic_store_n(&entries[i], (uint64_t)gate_miss, __ATOMIC_RELAXED);
	return 1;
}

uint64_t map_claim(uint64_t pc)
{
	uint32_t *owner = &owners[group_of(pc)], was = *owner;

	if (was == claim_of(pc) || was == OWNER_MANY)
		return 0;
	*owner = was ? OWNER_MANY : claim_of(pc);
	return was ? (uint64_t)(was - 1) << 32 | (uint32_t)(pc & ~UINT64_C(4095)) : 0;
}

int map_is_shared(uint64_t pc)
{
	return owners[group_of(pc)] == OWNER_MANY;
}

void map_disclaim(uint64_t start, uint64_t bytes)
{
	for (uint64_t pc = start & ~UINT64_C(4095); pc < start + bytes; pc += 4096)
		if (owners[group_of(pc)] == claim_of(pc))
			owners[group_of(pc)] = 0;
}

void map_set(uint64_t pc, uint64_t landing)
{
	if (owners[group_of(pc)] != claim_of(pc))
		landing = 0;
	if (group_ready(pc))
		__atomic_store_n(&map[(uint32_t)pc], landing ? landing : (uint64_t)gate_miss,
				 __ATOMIC_RELEASE);
}

void map_known(uint64_t pc)
{
	group_ready(pc);
}

int map_is_large(void)
{
	return ready_count > READY_MAX || piece_count > PIECES_MAX;
}

void map_clear(void)
{
	memory_clear(ready, sizeof(ready));
	if (!memory_renew(map, MAP_BYTES))
		memory_clear(writable, sizeof(writable));
	ready_count = piece_count = 0;
}

uint8_t *map_emit_jump(uint8_t *at)
{
	if (is_near(map)) /* jmp *map(,%rcx,8) */
		return emit_32(emit_bytes(at, "\xff\x24\xcd", 3), (uint32_t)(uint64_t)map);
	at = emit_save(at, RAX, THREAD_SPILL);
	at = emit_64(emit_bytes(at, "\x48\xb8", 2), (uint64_t)map); /* movabs $map, %rax */
	at = emit_bytes(at, "\x48\x8d\x0c\xc8", 4);		    /* lea (%rax,%rcx,8), %rcx */
	at = emit_load(at, RAX, THREAD_SPILL);
	return emit_bytes(at, "\xff\x21", 2); /* jmp *(%rcx) */
}

static int is_of(const uint64_t *at, uint64_t entry)
{
	return at && entry - (uint64_t)at < MAP_BYTES;
}

int map_is_jump(const uint8_t *at, uint64_t rcx, uint64_t *entry)
{
	uint32_t base;

	if (at[0] != 0xff)
		return 0;
	memory_copy(&base, at + 3, sizeof(base));
	*entry = rcx;
	if (at[1] == 0x24 && at[2] == 0xcd)
		*entry = base + rcx * 8;
	else if (at[1] != 0x21)
		return 0;
	return is_of(map, *entry) || is_of(map_before, *entry);
}

uint64_t map_landing(uint64_t entry)
{
	uint64_t landing;

	if (gate_copy(&landing, (const void *)entry, sizeof(landing)) || !landing)
		return (uint64_t)gate_miss;
	return landing;
}
