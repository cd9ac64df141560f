/* SPDX-License-Identifier: MIT */
#include "agent/trail/cache.h"
#include "agent/trail/emit.h"
#include "agent/trail/gate.h"
#include "agent/trail/memory.h"
#include "agent/trail/ranges.h"
#include "agent/trail/translate.h"

#include <errno.h>
#include <sys/mman.h>

#define AREAS_MAX 256u
#define REACH_BYTES                                                                                \
	(UINT64_C(0x70000000)) /* less than 2 GiB by more than code and data usually are */
#define STRIDE_BYTES (UINT64_C(16) << 20)

static struct cache_area areas[AREAS_MAX];
static uint32_t area_count;

static int reaches(const struct cache_area *area, uint64_t pc)
{
	uint64_t at = (uint64_t)area->head;

	return (at > pc ? at - pc : pc - at) < REACH_BYTES;
}

static struct cache_area *area_begin(uint8_t *at)
{
	struct cache_area *area = &areas[area_count];
	struct cache_head *head = (struct cache_head *)at;
	uint8_t *jump = head->exit_jump;

	head->step[0] = 4;
	head->gate_exit = (uint64_t)gate_exit;
	head->gate_miss = (uint64_t)gate_miss;
	head->gate_syscall = (uint64_t)gate_syscall;
	head->gate_refused = (uint64_t)gate_refused;
	emit_relative(emit_bytes(jump, "\xff\x25", 2), &head->gate_exit);
	area->head = head;
	area->hot = at + ((sizeof(*head) + 63) & ~(size_t)63);
	area->hot_end = at + CACHE_AREA_BYTES / 2;
	area->cold = area->hot_end;
	area->cold_end = at + CACHE_AREA_BYTES;
	area->hot_ready = at;
	area->cold_ready = area->cold;
	area_count++;
	ranges_hide((uint64_t)at, CACHE_AREA_BYTES);
	return area;
}

/* Free addresses are looked for from `from` on, `stride` by `stride`, while they are in reach of pc. */
static struct cache_area *area_make(uint64_t pc, uint64_t from, int64_t stride)
{
	for (uint64_t at = from; (at > pc ? at - pc : pc - at) < REACH_BYTES - CACHE_AREA_BYTES;
	     at += (uint64_t)stride) {
		uint8_t *got;

		if (at < STRIDE_BYTES || at > UINT64_C(0x7ffffffff000) - CACHE_AREA_BYTES)
			return NULL;
		got = memory_map_alone(at, CACHE_AREA_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
		if (got)
			return area_begin(got);
	}
	return NULL;
}

static int has_room(const struct cache_area *area)
{
	return area->hot_end - area->hot > TRANSLATE_HOT_MAX &&
	       area->cold_end - area->cold > TRANSLATE_COLD_MAX;
}

struct cache_area *cache_area_for(uint64_t pc)
{
	struct cache_area *area;
	uint64_t page = pc & ~(STRIDE_BYTES - 1);

	for (uint32_t i = area_count; i-- > 0;)
		if (reaches(&areas[i], pc) && has_room(&areas[i]))
			return &areas[i];
	if (area_count == AREAS_MAX)
		return NULL;
	/* Far off first: what lies right beside code is where the program's heap and libraries will grow. */
	area = area_make(pc, page - (UINT64_C(0x50000000)), (int64_t)STRIDE_BYTES);
	if (!area)
		area = area_make(pc, page + (UINT64_C(0x60000000)), -(int64_t)STRIDE_BYTES);
	return area;
}

const uint8_t *cache_exit_jump(const uint8_t *address)
{
	for (uint32_t i = 0; i < area_count; i++)
		if ((uint64_t)(address - (uint8_t *)areas[i].head) < CACHE_AREA_BYTES)
			return areas[i].head->exit_jump;
	return NULL;
}

/*
 * A processor that fetches the jump meanwhile sees its old bytes or its new ones if they lie in one cache line; across two, it may see
 * some of each. Those are aligned by who emits them.
 */
int cache_jump_set(uint8_t *jump, const uint8_t *to)
{
	int64_t distance = to - jump - 4;

	if (distance != (int32_t)distance)
		return -ERANGE;
	__atomic_store_n((int32_t *)jump, (int32_t)distance, __ATOMIC_RELEASE);
	return 0;
}

int cache_has(uint64_t address)
{
	for (uint32_t i = 0; i < area_count; i++)
		if (address - (uint64_t)areas[i].head < CACHE_AREA_BYTES)
			return 1;
	return 0;
}
