/* SPDX-License-Identifier: MIT */
#include "inside/detour/gaps.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096u

/* A page with nothing on either side. */
static uintptr_t lone_page(void)
{
	void *all = mmap(NULL, 3 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t page = (uintptr_t)all + PAGE_BYTES;

	cr_assert_neq(all, MAP_FAILED);
	cr_assert_eq(munmap(all, PAGE_BYTES), 0);
	cr_assert_eq(munmap((void *)(page + PAGE_BYTES), PAGE_BYTES), 0);
	return page;
}

static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

struct around {
	uintptr_t page;
	int before, after, order;
	uintptr_t last_end;
};

static void take_around(const struct gap *gap, void *data)
{
	struct around *around = data;

	around->before += gap->end == around->page;
	around->after += gap->start == around->page + PAGE_BYTES;
	around->order += gap->start >= gap->end || gap->start < around->last_end;
	around->last_end = gap->end;
}

Test(gaps, each_is_told_of_once_from_the_lowest_on)
{
	struct around around = { .page = lone_page(), .last_end = PUN_LOWEST };

	cr_assert_gt(gaps_find(take_around, &around), 2, "how many mappings there are");
	cr_assert_eq(around.before, 1);
	cr_assert_eq(around.after, 1);
	cr_assert_eq(around.order, 0);
}

Test(gaps, no_descriptor_stays_open)
{
	struct around around = { 0 };
	int before = lowest_free();

	cr_assert_gt(gaps_find(take_around, &around), 0);
	cr_assert_eq(lowest_free(), before);
}
