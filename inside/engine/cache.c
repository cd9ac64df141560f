/* SPDX-License-Identifier: MIT */
#include "inside/engine/assembler.h"
#include "inside/engine/cache.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/gate.h"
#include "inside/engine/ranges.h"
#include "inside/engine/sys.h"

#include <errno.h>
#include <sys/mman.h>

#define AREAS_MAX 256u
#define REACH_BYTES                                                                                \
	(UINT64_C(0x70000000)) /* less than 2 GiB by more than code and data usually are */
#define AREAS_NEAR_MAX 32u /* until code goes where there is room, if it asks for nothing near it */
#define BARREN_TRIES 4096u

/* Smaller ones where no more addresses are free: they are looked for at multiples of `stride`. */
static const struct {
	uint32_t bytes, stride;
} sizes[] = { { 64u << 20, 16u << 20 }, { 8u << 20, 8u << 20 }, { 1u << 20, 1u << 20 } };

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct cache_area areas[AREAS_MAX];
static uint32_t area_count; /* of them, some may be free */
static uint32_t generation;

/* Where nothing was free when it was looked for last, by GiB. */
static struct {
	uint64_t region;
	uint32_t left; /* so often it is not looked for again */
} barren[16];

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static size_t firsts_bytes(const struct cache_area *area)
{
	return area->bytes / CACHE_PIECE_BYTES * sizeof(uint32_t);
}

static int is_in(const struct cache_area *area, uint64_t address)
{
	uint64_t head = (uint64_t)__atomic_load_n(&area->head, __ATOMIC_ACQUIRE);

	return head && address - head < area->bytes;
}

static int is_now(const struct cache_area *area)
{
	return area->head && area->generation == generation;
}

int cache_is_near(const struct cache_area *area, uint64_t pc)
{
	return is_now(area) && distance((uint64_t)area->head, pc) < REACH_BYTES;
}

/* NULL: none is. */
static struct cache_area *area_free(void)
{
	for (uint32_t i = 0; i < AREAS_MAX; i++)
		if (!areas[i].head)
			return &areas[i];
	return NULL;
}

static struct cache_area *area_begin(uint8_t *at, uint32_t bytes)
{
	struct cache_area *area = area_free();
	struct cache_head *head = (struct cache_head *)at;
	uint8_t *jump = head->exit_jump;

	for (uint32_t blocks = 0; blocks <= TRACE_BLOCKS_MAX; blocks++) {
		head->steps[blocks][0] = 4;
		head->steps[blocks][1] = blocks;
	}
	head->gate_exit = (uint64_t)gate_exit;
	head->gate_miss = (uint64_t)gate_miss;
	head->gate_syscall = (uint64_t)gate_syscall;
	head->gate_refused = (uint64_t)gate_refused;
	head->gate_changed = (uint64_t)gate_changed;
	emit_jump_through(jump, &head->gate_exit);
	area->generation = generation;
	area->bytes = bytes;
	area->hot = at + ((sizeof(*head) + 63) & ~(size_t)63);
	area->hot_end = at + bytes / 2;
	area->cold = area->hot_end;
	area->cold_end = at + bytes;
	area->hot_ready = at;
	area->cold_ready = area->cold;
	area->firsts = memory_map_alone(0, firsts_bytes(area), PROT_READ | PROT_WRITE);
	if (!area->firsts) {
		memory_unmap(at, bytes);
		return NULL;
	}
	head->code = (struct engine_code_head){ .start = (uint64_t)at,
						.firsts_at = (uint64_t)area->firsts,
						.began_ticks = sys_ticks(),
						.bytes = bytes };
	traces_describe(&head->code);
	head->code.magic = ENGINE_CODE_MAGIC;
	__atomic_store_n(&area->head, head, __ATOMIC_RELEASE);
	if (area == &areas[area_count])
		area_count++;
	ranges_hide((uint64_t)at, bytes);
	return area;
}

/*
 * Free addresses are looked for from `from` on, stride by stride, while they are in reach of pc,
 * and of `to`.
 */
static struct cache_area *area_make(uint64_t pc, uint64_t to, uint64_t from, uint32_t size,
				    int is_down)
{
	uint32_t bytes = sizes[size].bytes;
	uint64_t stride = sizes[size].stride;

	for (uint64_t at = from & ~(stride - 1);
	     distance(at, pc) < REACH_BYTES - bytes && distance(at, to) < REACH_BYTES - bytes;
	     at = is_down ? at - stride : at + stride) {
		uint8_t *got;

		if (at < sizes[0].stride || at > UINT64_C(0x7ffffffff000) - bytes)
			return NULL;
		got = memory_map_alone(at, bytes, PROT_READ | PROT_WRITE | PROT_EXEC);
		if (got)
			return area_begin(got, bytes);
		if (memory_code_error()) /* no other address is better */
			return NULL;
	}
	return NULL;
}

static int has_room(const struct cache_area *area)
{
	return is_now(area) && area->hot_end - area->hot > CACHE_HOT_MAX &&
	       area->cold_end - area->cold > CACHE_COLD_MAX;
}

static int is_barren(uint64_t pc)
{
	unsigned int at = pc >> 30 & 15;

	if (barren[at].region != pc >> 30 || !barren[at].left)
		return 0;
	barren[at].left--;
	return 1;
}

static struct cache_area *area_near(uint64_t pc)
{
	if (!area_free() || is_barren(pc))
		return NULL;
	/*
	 * Try far addresses first: the program's heap and libraries will grow right beside its
	 * code.
	 */
	for (uint32_t size = 0; size < SIZES; size++) {
		struct cache_area *area = area_make(pc, pc, pc - UINT64_C(0x50000000), size, 0);

		if (!area)
			area = area_make(pc, pc, pc + UINT64_C(0x60000000), size, 1);
		if (area)
			return area;
	}
	barren[pc >> 30 & 15].region = pc >> 30;
	barren[pc >> 30 & 15].left = BARREN_TRIES;
	return NULL;
}

struct cache_area *cache_area_for(uint64_t pc)
{
	struct cache_area *area = NULL, *other = NULL;
	uint32_t count = 0;

	for (uint32_t i = area_count; i-- > 0;) {
		count += (uint32_t)is_now(&areas[i]);
		if (!has_room(&areas[i]))
			continue;
		if (cache_is_near(&areas[i], pc))
			return &areas[i];
		other = &areas[i];
	}
	if (!other || count < AREAS_NEAR_MAX)
		area = area_near(pc);
	return area ? area : other;
}

struct cache_area *cache_area_between(uint64_t pc, uint64_t to)
{
	uint64_t middle = pc / 2 + to / 2;
	struct cache_area *area = NULL;

	for (uint32_t i = area_count; i-- > 0;)
		if (cache_is_near(&areas[i], pc) && cache_is_near(&areas[i], to) &&
		    has_room(&areas[i]))
			return &areas[i];
	for (uint32_t size = 0; size < SIZES && !area && area_free(); size++) {
		area = area_make(pc, to, middle, size, 1);
		if (!area)
			area = area_make(pc, to, middle, size, 0);
	}
	return area;
}

const uint8_t *cache_exit_jump(const uint8_t *address)
{
	for (uint32_t i = 0; i < area_count; i++)
		if (is_in(&areas[i], (uint64_t)address))
			return areas[i].head->exit_jump;
	return NULL;
}

/*
 * A processor that fetches the jump meanwhile sees its old bytes or its new ones if they lie in one
 * cache line; across two, it may see some of each. Those are aligned by who emits them.
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
	for (uint32_t i = 0; i < area_count; i++)
		if (is_in(&areas[i], address))
			return &areas[i].firsts[(address - (uint64_t)areas[i].head) /
						CACHE_PIECE_BYTES];
	return NULL;
}

uint64_t cache_used(void)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < area_count; i++)
		if (is_now(&areas[i]))
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
		memory_unmap(head, areas[i].bytes);
		memory_unmap(areas[i].firsts, firsts_bytes(&areas[i]));
		memory_clear(barren, sizeof(barren));
	}
}

int cache_has(uint64_t address)
{
	for (uint32_t i = 0; i < area_count; i++)
		if (is_in(&areas[i], address))
			return 1;
	return 0;
}
