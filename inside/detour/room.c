/* SPDX-License-Identifier: MIT */
#include "inside/detour/room.h"

#include "base/kernel.h"
#include "base/sorted.h"
#include "inside/detour/gaps.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define OLD_NS UINT64_C(1000000000)
#define MAPS_USUAL 65530u /* vm.max_map_count where it can't be read */
#define SHARE 4

struct range {
	uintptr_t start, end;
};

static struct range *ranges; /* in order */
static size_t range_count, range_room, limit;
static uintptr_t heap_end;
static uint64_t looked_ns;
static int error_seen;

static void add(uintptr_t start, uintptr_t end)
{
	struct range *more;

	start = (start + ROOM_PAGE_BYTES - 1) & ~(uintptr_t)(ROOM_PAGE_BYTES - 1);
	if (end < start + ROOM_PAGE_BYTES)
		return;
	if (range_count == range_room) {
		more = heap_alloc((range_room * 2 + 256) * sizeof *ranges);
		if (!more) {
			error_seen = -ENOMEM;
			return;
		}
		if (ranges)
			memcpy(more, ranges, range_count * sizeof *ranges);
		heap_free(ranges, range_room * sizeof *ranges);
		ranges = more;
		range_room = range_room * 2 + 256;
	}
	ranges[range_count++] = (struct range){ start, end & ~(uintptr_t)(ROOM_PAGE_BYTES - 1) };
}

static void take_gap(const struct gap *gap, void *unused)
{
	uintptr_t start = gap->start, end = gap->end;
	uintptr_t room = gap->before_stack ? PUN_STACK_ROOM : gap->before_data ? PUN_DATA_ROOM : 0;
	uintptr_t beyond = heap_end + PUN_STACK_ROOM;

	(void)unused;
	end = end - start > room ? end - room : start;
	/* below the heap's end, then above what it may grow into */
	if (start < heap_end)
		add(start, end < heap_end ? end : heap_end);
	add(start > beyond ? start : beyond, end);
}

static size_t maps_allowed(void)
{
	char text[16];
	int32_t number;

	kernel_read_text(AT_FDCWD, "/proc/sys/vm/max_map_count", text, sizeof text);
	number = tasks_last_number(text);
	return number > 0 ? (size_t)number : MAPS_USUAL;
}

int room_look(size_t own)
{
	uint64_t now_ns = lock_now_ns();
	size_t allowed, others;
	int count;

	if (looked_ns && now_ns - looked_ns < OLD_NS)
		return 0;
	range_count = 0;
	error_seen = 0;
	heap_end = (uintptr_t)syscall_raw(SYS_brk, 0, 0, 0, 0);
	count = gaps_find(take_gap, NULL);
	if (count < 0 || error_seen)
		return count < 0 ? count : error_seen;
	allowed = maps_allowed();
	others = (size_t)count > own ? (size_t)count - own : 0;
	limit = allowed > others ? (allowed - others) / SHARE : 0;
	looked_ns = now_ns;
	return 0;
}

void room_changed(void)
{
	looked_ns = 0;
}

size_t room_limit(void)
{
	return limit;
}

/* The first range that ends behind an address. */
static size_t range_from(uintptr_t address)
{
	return sorted_at_most(ranges, range_count, sizeof *ranges, offsetof(struct range, end),
			      address);
}

int room_is_free(uintptr_t page)
{
	size_t at = range_from(page);

	return at < range_count && ranges[at].start <= page;
}

uintptr_t room_next(uintptr_t from)
{
	size_t at;

	from = (from + ROOM_PAGE_BYTES - 1) & ~(uintptr_t)(ROOM_PAGE_BYTES - 1);
	at = range_from(from);
	if (at == range_count)
		return 0;
	return ranges[at].start > from ? ranges[at].start : from;
}
