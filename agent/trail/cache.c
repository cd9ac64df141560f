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

#define FIRSTS_BYTES (CACHE_AREA_BYTES / CACHE_PIECE_BYTES * sizeof(uint32_t))

static struct cache_area areas[AREAS_MAX];
static uint32_t area_count; /* of them, some may be free */
static uint32_t generation;

static int reaches(const struct cache_area *area, uint64_t pc)
{
	uint64_t at = (uint64_t)area->head;

	return at && area->generation == generation && (at > pc ? at - pc : pc - at) < REACH_BYTES;
}

/* NULL: none is. */
static struct cache_area *area_free(void)
{
	for (uint32_t i = 0; i < AREAS_MAX; i++)
		if (!areas[i].head)
			return &areas[i];
	return NULL;
}

static struct cache_area *area_begin(uint8_t *at)
{
	struct cache_area *area = area_free();
	struct cache_head *head = (struct cache_head *)at;
	uint8_t *jump = head->exit_jump;

	head->step[0] = 4;
	head->gate_exit = (uint64_t)gate_exit;
	head->gate_miss = (uint64_t)gate_miss;
	head->gate_syscall = (uint64_t)gate_syscall;
	head->gate_refused = (uint64_t)gate_refused;
	emit_relative(emit_bytes(jump, "\xff\x25", 2), &head->gate_exit);
	area->generation = generation;
	area->hot = at + ((sizeof(*head) + 63) & ~(size_t)63);
	area->hot_end = at + CACHE_AREA_BYTES / 2;
	area->cold = area->hot_end;
	area->cold_end = at + CACHE_AREA_BYTES;
	area->hot_ready = at;
	area->cold_ready = area->cold;
	area->firsts = memory_map_alone(0, FIRSTS_BYTES, PROT_READ | PROT_WRITE);
	if (!area->firsts) {
		memory_unmap(at, CACHE_AREA_BYTES);
		return NULL;
	}
	__atomic_store_n(&area->head, head, __ATOMIC_RELEASE);
	if (area == &areas[area_count])
		area_count++;
	ranges_hide((uint64_t)at, CACHE_AREA_BYTES);
	return area;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Free addresses are looked for from `from` on, `stride` by `stride`, while they are in reach of pc, and of `to`. */
static struct cache_area *area_make(uint64_t pc, uint64_t to, uint64_t from, int64_t stride)
{
	for (uint64_t at = from; distance(at, pc) < REACH_BYTES - CACHE_AREA_BYTES &&
				 distance(at, to) < REACH_BYTES - CACHE_AREA_BYTES;
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
	if (!area_free())
		return NULL;
	/* Far off first: what lies right beside code is where the program's heap and libraries will grow. */
	area = area_make(pc, pc, page - (UINT64_C(0x50000000)), (int64_t)STRIDE_BYTES);
	if (!area)
		area = area_make(pc, pc, page + (UINT64_C(0x60000000)), -(int64_t)STRIDE_BYTES);
	return area;
}

struct cache_area *cache_area_between(uint64_t pc, uint64_t to)
{
	uint64_t middle = (pc / 2 + to / 2) & ~(STRIDE_BYTES - 1);
	struct cache_area *area;

	for (uint32_t i = area_count; i-- > 0;)
		if (reaches(&areas[i], pc) && reaches(&areas[i], to) && has_room(&areas[i]))
			return &areas[i];
	if (!area_free())
		return NULL;
	area = area_make(pc, to, middle, -(int64_t)STRIDE_BYTES);
	return area ? area : area_make(pc, to, middle, (int64_t)STRIDE_BYTES);
}

const uint8_t *cache_exit_jump(const uint8_t *address)
{
	for (uint32_t i = 0; i < area_count; i++)
		if (areas[i].head &&
		    (uint64_t)(address - (uint8_t *)areas[i].head) < CACHE_AREA_BYTES)
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

uint32_t *cache_first(uint64_t address)
{
	for (uint32_t i = 0; i < area_count; i++) {
		uint64_t head = (uint64_t)__atomic_load_n(&areas[i].head, __ATOMIC_ACQUIRE);

		if (head && address - head < CACHE_AREA_BYTES)
			return &areas[i].firsts[(address - head) / CACHE_PIECE_BYTES];
	}
	return NULL;
}

uint64_t cache_used(void)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < area_count; i++)
		if (areas[i].head && areas[i].generation == generation)
			bytes += (uint64_t)(areas[i].hot - (uint8_t *)areas[i].head) +
				 (uint64_t)(areas[i].cold - areas[i].hot_end);
	return bytes;
}

uint32_t cache_turn(void)
{
	return generation++;
}

void cache_drop(uint32_t which)
{
	for (uint32_t i = 0; i < area_count; i++) {
		struct cache_head *head = areas[i].head;

		if (!head || areas[i].generation != which)
			continue;
		__atomic_store_n(&areas[i].head, NULL, __ATOMIC_RELEASE);
		ranges_show((uint64_t)head);
		memory_unmap(head, CACHE_AREA_BYTES);
		memory_unmap(areas[i].firsts, FIRSTS_BYTES);
	}
}

int cache_has(uint64_t address)
{
	for (uint32_t i = 0; i < area_count; i++) {
		uint64_t head = (uint64_t)__atomic_load_n(&areas[i].head, __ATOMIC_ACQUIRE);

		if (head && address - head < CACHE_AREA_BYTES)
			return 1;
	}
	return 0;
}
