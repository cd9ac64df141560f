/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/detour/pun.h"

#include "agent/detour/detour.h"
#include "agent/detour/gaps.h"
#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u
#define LANDING_BYTES DETOUR_JUMP_BYTES
#define PREFIX 0x26 /* %es: nothing in 64-bit mode (AMD64 manual 2, 4.5.3) */
#define PR_SET_VMA_NUMBER 0x53564d41

static struct page {
	uintptr_t start;
	uint64_t used[PAGE_BYTES / 64]; /* a bit each byte */
} pages[PUN_PAGES_MAX];
static unsigned int page_count;

size_t pun_mapped(void)
{
	return (size_t)page_count * PAGE_BYTES;
}

/* ---- pages ---- */

static struct page *page_at(uintptr_t address)
{
	for (unsigned int i = 0; i < page_count; i++) {
		if (address - pages[i].start < PAGE_BYTES)
			return &pages[i];
	}
	return NULL;
}

static int is_used(const struct page *page, uintptr_t address)
{
	uintptr_t at = address - page->start;

	return page->used[at / 64] >> at % 64 & 1;
}

static void set_used(uintptr_t landing, int used)
{
	for (uintptr_t at = landing; at < landing + LANDING_BYTES; at++) {
		struct page *page = page_at(at);
		uint64_t bit = UINT64_C(1) << (at - page->start) % 64;

		if (used)
			page->used[(at - page->start) / 64] |= bit;
		else
			page->used[(at - page->start) / 64] &= ~bit;
	}
}

/* Whether all of a landing there is ours and nobody's yet. */
static int is_free(uintptr_t landing)
{
	const struct page *page = page_at(landing);

	for (uintptr_t at = landing; page && at < landing + LANDING_BYTES; at++) {
		if (at - page->start == PAGE_BYTES)
			page = page_at(at);
		if (!page || is_used(page, at))
			return 0;
	}
	return page != NULL;
}

static int add_pages(uintptr_t start, unsigned int count)
{
	size_t bytes = (size_t)count * PAGE_BYTES;
	void *got;

	if (page_count + count > PUN_PAGES_MAX)
		return -WM_E_DETOUR_MEMORY;
	got = kernel_map((void *)start, bytes, PROT_READ | PROT_EXEC, MAP_FIXED_NOREPLACE);
	if (got == MAP_FAILED)
		return errno == EEXIST			   ? -WM_E_PUN_TAKEN
		       : errno == EPERM || errno == EINVAL ? -WM_E_PUN_OUTSIDE
		       : errno == EACCES		   ? -WM_E_NO_TEXT_WRITE
							   : -errno;
	if ((uintptr_t)got != start) {
		kernel_munmap(got, bytes); /* before Linux 4.17 it was a mere hint */
		return -WM_E_PUN_TAKEN;
	}
	/* a name in /proc/PID/maps, where the kernel can (5.17) */
	syscall_raw6(SYS_prctl, PR_SET_VMA_NUMBER, 0, (long)start, (long)bytes,
		     (long)"waymark-detours", 0);
	for (unsigned int i = 0; i < count; i++)
		pages[page_count++] = (struct page){ .start = start + i * PAGE_BYTES };
	return 0;
}

/* ---- where a jump may lead ---- */

struct window {
	unsigned int prefixes, free_bytes;
	int64_t low, high; /* of the landing's start */
};

/* With so many prefixes. 0: there are not so many bytes that stay. */
static int window_of(const struct control_detour *record, unsigned int prefixes,
		     struct window *window)
{
	unsigned int free_bytes = record->span_bytes - 1u - prefixes;
	unsigned int fixed = DETOUR_PUN_MAX - free_bytes;
	uint32_t high = 0;

	if (fixed > record->pun)
		return 0;
	memcpy(&high, record->original + record->span_bytes, fixed);
	*window = (struct window){ .prefixes = prefixes, .free_bytes = free_bytes };
	window->low = (int64_t)record->address + prefixes + DETOUR_JUMP_BYTES +
		      (int32_t)(high << 8 * free_bytes);
	window->high = window->low + ((INT64_C(1) << 8 * free_bytes) - 1);
	return 1;
}

static int is_shared(const struct window *window, uintptr_t *landing)
{
	for (unsigned int i = 0; i < page_count; i++) {
		int64_t start = (int64_t)pages[i].start;
		int64_t low = window->low > start ? window->low : start;
		int64_t high = start + PAGE_BYTES - 1;

		high = window->high < high ? window->high : high;
		for (; low <= high; low++) {
			*landing = (uintptr_t)low;
			if (is_free(*landing))
				return 1;
		}
	}
	return 0;
}

struct search {
	const struct window *window;
	uintptr_t heap_end;
	uintptr_t landing; /* 0: none yet */
	int is_growth;	   /* there is room, but something may grow into it */
};

/* Free from `start` to `end`: whether a landing of the window can lie in it, and where. */
static uintptr_t landing_in(const struct window *window, uintptr_t start, uintptr_t end)
{
	int64_t low = window->low, high = window->high;

	if (start >= end || end - start < PAGE_BYTES)
		return 0;
	low = low > (int64_t)start ? low : (int64_t)start;
	high = high < (int64_t)end - LANDING_BYTES ? high : (int64_t)end - LANDING_BYTES;
	if (low > high)
		return 0;
	/* in one page, if there is the choice */
	if (low % PAGE_BYTES > PAGE_BYTES - LANDING_BYTES && (low | (PAGE_BYTES - 1)) + 1 <= high)
		low = (low | (PAGE_BYTES - 1)) + 1;
	return (uintptr_t)low;
}

static void consider(const struct gap *gap, void *data)
{
	struct search *search = data;
	uintptr_t start = gap->start, end = gap->end;
	uintptr_t room = gap->before_stack ? GAPS_STACK_ROOM : gap->before_data ? PUN_DATA_ROOM : 0;
	uintptr_t heap = search->heap_end, beyond = heap + GAPS_STACK_ROOM;

	if (search->landing || !landing_in(search->window, start, end))
		return;
	search->is_growth = 1;
	end = end - start > room ? end - room : start;
	/* below the heap's end, then above what it may grow into */
	if (start < heap)
		search->landing = landing_in(search->window, start, end < heap ? end : heap);
	if (!search->landing)
		search->landing = landing_in(search->window, start > beyond ? start : beyond, end);
}

static int find_room(struct window *window, uintptr_t *landing)
{
	struct search search = { .window = window };
	int error;

	if (window->high < (int64_t)GAPS_LOWEST ||
	    window->low >= (int64_t)GAPS_HIGHEST - PAGE_BYTES)
		return -WM_E_PUN_OUTSIDE;
	search.heap_end = (uintptr_t)syscall_raw(SYS_brk, 0, 0, 0, 0);
	search.heap_end = (search.heap_end + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
	error = gaps_find(consider, &search);
	if (error)
		return error;
	if (!search.landing)
		return search.is_growth ? -WM_E_PUN_GROWTH : -WM_E_PUN_TAKEN;
	*landing = search.landing;
	return 0;
}

static int map_landing(struct window *window, uintptr_t *landing)
{
	int error = find_room(window, landing);
	uintptr_t first, last;

	if (error)
		return error;
	first = *landing & ~(uintptr_t)(PAGE_BYTES - 1);
	last = (*landing + LANDING_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
	return add_pages(first, first == last ? 1 : 2);
}

/* The jump's bytes up to the span's end. */
static void write_jump(const struct control_detour *record, const struct window *window,
		       uintptr_t landing, uint8_t *jump)
{
	int32_t distance = (int32_t)(landing - record->address - window->prefixes -
				     DETOUR_JUMP_BYTES);

	memset(jump, PREFIX, window->prefixes);
	jump[window->prefixes] = 0xe9;
	memcpy(jump + window->prefixes + 1, &distance, window->free_bytes);
}

int pun_take(const struct control_detour *record, uint8_t *jump, uintptr_t *landing)
{
	struct window window;
	int error = -WM_E_PUN_OUTSIDE, one;

	for (unsigned int i = 0; i < record->span_bytes; i++) {
		if (window_of(record, i, &window) && is_shared(&window, landing))
			goto taken;
	}
	for (unsigned int i = 0; i < record->span_bytes; i++) {
		if (!window_of(record, i, &window))
			continue;
		one = map_landing(&window, landing);
		if (!one)
			goto taken;
		/* what could help is worth more than that there is nothing */
		if (error == -WM_E_PUN_OUTSIDE)
			error = one;
	}
	return error;
taken:
	set_used(*landing, 1);
	write_jump(record, &window, *landing, jump);
	return 0;
}

void pun_untake(uintptr_t landing)
{
	set_used(landing, 0);
}
