/* SPDX-License-Identifier: MIT */
/*
 * Regions of 256 KiB, put into gaps between mappings: below the code first, where the kernel itself
 * would put the next mapping. Above the code: only beyond the room into which the heap (brk), if
 * any, or the main stack may grow.
 */
#include "inside/detour/memory.h"

#include "abi/detour.h"
#include "base/kernel.h"
#include "inside/detour/gaps.h"
#include "inside/detour/landing.h"
#include "inside/detour/room.h"
#include "inside/store/thread_writer.h"

#include <waymark/error.h>

#include <errno.h>
#include <sys/mman.h>

#define REGION_BYTES ((size_t)DETOUR_REGION_BYTES)
#define REGIONS_MAX (DETOUR_MEMORY_MAX_BYTES / REGION_BYTES)
#define AWAY_MAX_BYTES ((uintptr_t)64 << 20)
#define PR_SET_VMA_NUMBER 0x53564d41

static struct region {
	uintptr_t start;
	size_t used;
} regions[REGIONS_MAX];
static unsigned int region_count;
static size_t limit_bytes = DETOUR_MEMORY_MAX_BYTES;

size_t memory_mapped(void)
{
	return region_count * REGION_BYTES;
}

ON_HIT_PATH int memory_holds(uintptr_t address)
{
	unsigned int count = __atomic_load_n(&region_count, __ATOMIC_ACQUIRE);

	for (unsigned int i = 0; i < count; i++) {
		if (address - regions[i].start < REGION_BYTES)
			return 1;
	}
	return 0;
}

void memory_limit(size_t bytes)
{
	limit_bytes = bytes < DETOUR_MEMORY_MAX_BYTES ? bytes : DETOUR_MEMORY_MAX_BYTES;
}

struct search {
	uintptr_t low, high, wish;
	uintptr_t best; /* 0: none */
};

static uintptr_t distance(uintptr_t a, uintptr_t b)
{
	return a < b ? b - a : a - b;
}

/* The nearest to `at` where no landing is about to be mapped; 0: none near by. */
static uintptr_t clear_of_landings(uintptr_t at, uintptr_t low, uintptr_t high)
{
	for (uintptr_t away = 0; away < AWAY_MAX_BYTES; away += REGION_BYTES) {
		if (at >= low + away && !landing_is_in(at - away, at - away + REGION_BYTES))
			return at - away;
		if (at + away <= high && !landing_is_in(at + away, at + away + REGION_BYTES))
			return at + away;
	}
	return 0;
}

static void consider_gap(const struct gap *gap, void *data)
{
	struct search *search = data;
	uintptr_t start = gap->start, end = gap->end;
	uintptr_t low, high, at;

	if (gap->after_heap)
		start += PUN_STACK_ROOM;
	if (gap->before_stack)
		end = end > PUN_STACK_ROOM ? end - PUN_STACK_ROOM : 0;
	if (end <= start || end - start < REGION_BYTES)
		return;
	/* the head is in front; with it, any address in the region will do, since it is empty */
	low = search->low > start ? search->low : start;
	high = search->high < sizeof(struct detour_head)
		       ? 0
		       : search->high - sizeof(struct detour_head);
	high = end - REGION_BYTES < high ? end - REGION_BYTES : high;
	low = (low + 4095) & ~(uintptr_t)4095;
	high &= ~(uintptr_t)4095;
	if (low > high)
		return;
	at = search->wish < low	   ? low
	     : search->wish > high ? high
				   : search->wish & ~(uintptr_t)4095;
	at = clear_of_landings(at, low, high);
	if (at &&
	    (!search->best || distance(at, search->wish) < distance(search->best, search->wish)))
		search->best = at;
}

static int add_region(struct search *search)
{
	int tries = 0, error;
	void *start;

	if (region_count == REGIONS_MAX || (region_count + 1) * REGION_BYTES > limit_bytes)
		return -WM_E_DETOUR_MEMORY;
	do {
		search->best = 0;
		error = gaps_find(consider_gap, search);
		if (error < 0 || !search->best)
			return error < 0 ? error : -WM_E_DETOUR_REACH;
		start = kernel_map((void *)search->best, REGION_BYTES, PROT_READ | PROT_EXEC,
				   MAP_FIXED_NOREPLACE | MAP_NORESERVE);
		/* EEXIST: another thread mapped there meanwhile */
	} while (start == MAP_FAILED && errno == EEXIST && ++tries < 10);
	if (start == MAP_FAILED)
		return errno == EACCES || errno == EPERM ? -WM_E_NO_TEXT_WRITE : -errno;
	if ((uintptr_t)start != search->best) {
		kernel_munmap(start, REGION_BYTES); /* before Linux 4.17 it was a mere hint */
		return -WM_E_DETOUR_REACH;
	}
	/* a name in /proc/PID/maps, where the kernel can (5.17) */
	syscall_raw6(SYS_prctl, PR_SET_VMA_NUMBER, 0, (long)start, REGION_BYTES, (long)DETOUR_NAME,
		     0);
	room_changed();
	regions[region_count] = (struct region){ .start = (uintptr_t)start };
	/* release: pairs with memory_holds() */
	__atomic_store_n(&region_count, region_count + 1, __ATOMIC_RELEASE);
	return 0;
}

static int take_from(struct region *region, uintptr_t low, uintptr_t high, size_t bytes,
		     uintptr_t *start)
{
	uintptr_t at = region->start + region->used + sizeof(struct detour_head);

	if (at < low || at > high || REGION_BYTES - region->used < bytes)
		return 0;
	*start = at;
	region->used += bytes;
	return 1;
}

/* With the head. */
static size_t taken_bytes(size_t bytes)
{
	return sizeof(struct detour_head) +
	       ((bytes + DETOUR_ALIGN - 1) & ~(size_t)(DETOUR_ALIGN - 1));
}

int memory_take(uintptr_t low, uintptr_t high, uintptr_t wish, size_t bytes, uintptr_t *start)
{
	struct search search = { .low = low, .high = high, .wish = wish };
	int error;

	bytes = taken_bytes(bytes);
	if (low > high || bytes > REGION_BYTES)
		return -WM_E_DETOUR_REACH;
	for (unsigned int i = region_count; i-- > 0;) {
		if (take_from(&regions[i], low, high, bytes, start))
			return 0;
	}
	/* room for more like it beside the first */
	error = add_region(&search);
	if (error)
		return error;
	return take_from(&regions[region_count - 1], low, high, bytes, start) ? 0
									      : -WM_E_DETOUR_REACH;
}

void memory_untake(uintptr_t start, size_t bytes)
{
	bytes = taken_bytes(bytes);
	start -= sizeof(struct detour_head);
	for (unsigned int i = 0; i < region_count; i++) {
		if (start + bytes == regions[i].start + regions[i].used)
			regions[i].used -= bytes;
	}
}
