/* SPDX-License-Identifier: MIT */
#include "inside/detour/landing.h"

#include "base/kernel.h"
#include "inside/detour/room.h"
#include "inside/patch/sort.h"
#include "inside/runtime/heap.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES ROOM_PAGE_BYTES
#define LANDING_BYTES DETOUR_JUMP_BYTES
#define PAGES_TRIED 64	/* that are free for a window, but whose other landings are not */
#define SHEETS_OPEN 64u /* of the file, in which room is looked for */

/* A hash of addresses, half empty. 0 marks an empty cell. */
struct cell {
	uintptr_t address;
	/* of a landing: the trampoline; 0: it is not used. Of a page: how many are used in it */
	uintptr_t code;
	int state; /* of a page: PAGE_*, or why it can't be had */
};

struct set {
	struct cell *cells;
	size_t count, room; /* a power of two */
};

enum { PAGE_NEW = 1, PAGE_MAPPED = 2 };

static struct set landings, pages;
static size_t mapped_count,
	used_count; /* of pages; those that are mapped, and those that are to be */

size_t landing_pages(void)
{
	return mapped_count;
}

static struct cell *cell_of(const struct set *set, uintptr_t address)
{
	size_t at = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & (set->room - 1);

	while (set->cells[at].address && set->cells[at].address != address)
		at = (at + 1) & (set->room - 1);
	return &set->cells[at];
}

static struct cell *find(const struct set *set, uintptr_t address)
{
	struct cell *cell = set->room ? cell_of(set, address) : NULL;

	return cell && cell->address ? cell : NULL;
}

static int grow(struct set *set)
{
	struct set more = { .count = set->count, .room = set->room ? set->room * 2 : 1024 };

	more.cells = heap_alloc(more.room * sizeof *more.cells);
	if (!more.cells)
		return -ENOMEM;
	for (size_t i = 0; i < set->room; i++) {
		if (set->cells[i].address)
			*cell_of(&more, set->cells[i].address) = set->cells[i];
	}
	heap_free(set->cells, set->room * sizeof *set->cells);
	*set = more;
	return 0;
}

/* NULL: no memory. */
static struct cell *find_or_add(struct set *set, uintptr_t address)
{
	struct cell *cell = find(set, address);

	if (cell)
		return cell;
	if (set->count * 2 >= set->room && grow(set))
		return NULL;
	cell = cell_of(set, address);
	cell->address = address;
	set->count++;
	return cell;
}

static uintptr_t page_of(uintptr_t address)
{
	return address & ~(uintptr_t)(PAGE_BYTES - 1);
}

int landing_is_in(uintptr_t start, uintptr_t end)
{
	uintptr_t page = page_of(start);

	while (page < end && !find(&pages, page))
		page += PAGE_BYTES;
	return page < end;
}

/* ---- choosing ---- */

static int is_crowded(uintptr_t landing)
{
	for (uintptr_t at = landing - LANDING_BYTES + 1; at < landing + LANDING_BYTES; at++) {
		const struct cell *cell = find(&landings, at);

		if (cell && cell->code)
			return 1;
	}
	return 0;
}

/* 0 or an error. */
static int check(int64_t landing)
{
	uintptr_t at = (uintptr_t)landing, page = page_of(at);
	const struct cell *own;

	/* none crosses into the next page */
	if (landing < 0 || at >= PUN_HIGHEST || at - page > PAGE_BYTES - LANDING_BYTES)
		return -WM_E_PUN_TAKEN;
	own = find(&pages, page);
	if (own)
		return own->state < 0 ? own->state : is_crowded(at) ? -WM_E_PUN_TAKEN : 0;
	if (!room_is_free(page))
		return -WM_E_PUN_TAKEN;
	return used_count < room_limit() ? 0 : -WM_E_DETOUR_MEMORY;
}

static int check_all(const struct pun_window *window, int64_t x)
{
	int error = 0;

	for (unsigned int i = 0; i < window->count && !error; i++)
		error = check(window->low + x + window->deltas[i]);
	return error;
}

/* In one page: the first place where all is free. */
static int search_page(const struct pun_window *window, int64_t size, uintptr_t page, int64_t *x)
{
	int64_t from = (int64_t)page - window->low, to = from + PAGE_BYTES - LANDING_BYTES;
	int error = -WM_E_PUN_TAKEN;

	from = from > 0 ? from : 0;
	to = to < size ? to : size - 1;
	for (*x = from; *x <= to && error == -WM_E_PUN_TAKEN; ++*x)
		error = check_all(window, *x);
	--*x;
	return error;
}

/* A page that is there already is taken first. */
static int search(const struct pun_window *window, int64_t *x)
{
	int64_t size = INT64_C(1) << 8 * window->free_bytes;
	uintptr_t low = window->low < 0 ? 0 : (uintptr_t)window->low, page;
	int64_t end = window->low + size;
	int error = -WM_E_PUN_TAKEN;

	/*
	 * each of its landings has a range: without one of them there is no need to look at all
	 * pages
	 */
	for (unsigned int i = 0; i < window->count; i++) {
		if (end + window->deltas[i] < (int64_t)PUN_LOWEST ||
		    window->low + window->deltas[i] >= (int64_t)PUN_HIGHEST)
			return error;
	}
	for (page = page_of(low); (int64_t)page < end; page += PAGE_BYTES) {
		if (find(&pages, page) && !search_page(window, size, page, x))
			return 0;
	}
	page = page_of(low);
	for (unsigned int i = 0; i < PAGES_TRIED && error == -WM_E_PUN_TAKEN; i++) {
		page = room_next(page);
		if (!page || (int64_t)page >= end)
			break;
		if (!find(&pages, page))
			error = search_page(window, size, page, x);
		page += PAGE_BYTES;
	}
	return error;
}

static void page_use(struct cell *page, int count)
{
	if (!page->state)
		page->state = PAGE_NEW;
	if (page->state == PAGE_NEW && !page->code)
		used_count++;
	page->code += (uintptr_t)(intptr_t)count;
	if (page->state == PAGE_NEW && !page->code)
		used_count--;
}

static void set_code(const struct jump *jump, uintptr_t code)
{
	for (unsigned int i = 0; i < jump->count; i++)
		find(&landings, jump->landings[i])->code = code;
}

static int reserve(struct jump *jump)
{
	for (unsigned int i = 0; i < jump->count; i++) {
		struct cell *landing = find_or_add(&landings, jump->landings[i]);
		struct cell *page = find_or_add(&pages, page_of(jump->landings[i]));

		if (!landing || !page) {
			jump->count = (uint8_t)i;
			landing_untake(jump);
			return -ENOMEM;
		}
		landing->code = 1; /* reserved */
		page_use(page, 1);
	}
	return 0;
}

/* Whether two of its own landings overlap. */
static int is_tangled(const struct jump *jump)
{
	for (unsigned int i = 0; i < jump->count; i++) {
		for (unsigned int j = 0; j < i; j++) {
			if (jump->landings[i] - jump->landings[j] + LANDING_BYTES - 1 <
			    2 * LANDING_BYTES - 1)
				return 1;
		}
	}
	return 0;
}

int landing_take(const struct control_detour *record, const struct pun_window *window,
		 struct jump *jump)
{
	int64_t x = 0;
	int error;

	*jump = (struct jump){ .form = window->form };
	if (window->opcode_at + DETOUR_JUMP_BYTES > record->insn_bytes)
		jump->kept = (uint8_t)(window->opcode_at + DETOUR_JUMP_BYTES - record->insn_bytes);
	if (window->free_bytes == PUN_WHOLE)
		return 0;
	error = room_look(mapped_count);
	if (!error)
		error = window->free_bytes ? search(window, &x) : check_all(window, 0);
	if (error)
		return error;
	jump->count = window->count;
	for (unsigned int i = 0; i < window->count; i++)
		jump->landings[i] = (uintptr_t)(window->low + x + window->deltas[i]);
	if (is_tangled(jump)) {
		jump->count = 0;
		return -WM_E_PUN_TAKEN;
	}
	pun_write(record, window, jump->landings[0], &jump->bytes);
	return reserve(jump);
}

void landing_untake(const struct jump *jump)
{
	set_code(jump, 0);
	for (unsigned int i = 0; i < jump->count; i++)
		page_use(find(&pages, page_of(jump->landings[i])), -1);
}

/* ---- leading to the trampoline ---- */

static int make_jump(uintptr_t from, uintptr_t to, uint8_t jump[LANDING_BYTES])
{
	int64_t far = (int64_t)(to - from - LANDING_BYTES);
	int32_t near = (int32_t)far;

	jump[0] = 0xe9;
	memcpy(jump + 1, &near, sizeof near);
	return near == far ? 0 : -WM_E_DETOUR_REACH;
}

void landing_bytes(uintptr_t landing, uint8_t bytes[LANDING_BYTES])
{
	make_jump(landing, find(&landings, landing)->code, bytes);
}

void landing_lose(uintptr_t landing)
{
	find(&pages, page_of(landing))->state = -WM_E_PUN_TAKEN;
}

int landing_aim(const struct text *text, const struct control_detour *record,
		const struct pun_window *window, struct jump *jump, uintptr_t code)
{
	uint8_t bytes[LANDING_BYTES];
	int error = 0;

	if (!jump->count) {
		error = make_jump(record->address + window->opcode_at, code, bytes);
		pun_write(record, window, code, &jump->bytes);
		return error;
	}
	for (unsigned int i = 0; i < jump->count && !error; i++) {
		error = make_jump(jump->landings[i], code, bytes);
		/* no thread comes there yet; the page becomes one of our own */
		if (!error && find(&pages, page_of(jump->landings[i]))->state == PAGE_MAPPED)
			error = text_write_code(text, jump->landings[i], bytes, sizeof bytes,
						PROT_READ | PROT_EXEC);
	}
	if (!error)
		set_code(jump, code);
	return error;
}

/* ---- mapping ---- */

/* A landing in a new page. */
struct fresh {
	uintptr_t address, code;
};

/* The contents of the file: its pages, and which of their bytes are used. */
struct sheets {
	uint8_t (*bytes)[PAGE_BYTES];
	uint64_t (*used)[PAGE_BYTES / 64];
	size_t count;
};

static int is_used(const struct sheets *sheets, size_t sheet, uintptr_t landing)
{
	for (size_t at = landing % PAGE_BYTES; at < landing % PAGE_BYTES + LANDING_BYTES; at++) {
		if (sheets->used[sheet][at / 64] >> at % 64 & 1)
			return 1;
	}
	return 0;
}

static int fits(const struct sheets *sheets, size_t sheet, const struct fresh *of, size_t count)
{
	size_t i = 0;

	while (i < count && !is_used(sheets, sheet, of[i].address))
		i++;
	return i == count;
}

/* The sheet that has this page's landings from now on. */
static size_t put_page(struct sheets *sheets, const struct fresh *of, size_t count)
{
	size_t sheet = sheets->count > SHEETS_OPEN ? sheets->count - SHEETS_OPEN : 0;

	while (sheet < sheets->count && !fits(sheets, sheet, of, count))
		sheet++;
	if (sheet == sheets->count)
		sheets->count++;
	for (size_t i = 0; i < count; i++) {
		size_t at = of[i].address % PAGE_BYTES;

		make_jump(of[i].address, of[i].code, &sheets->bytes[sheet][at]);
		for (size_t byte = at; byte < at + LANDING_BYTES; byte++)
			sheets->used[sheet][byte / 64] |= UINT64_C(1) << byte % 64;
	}
	return sheet;
}

static size_t page_end(const struct fresh *all, size_t start, size_t count)
{
	size_t end = start + 1;

	while (end < count && page_of(all[end].address) == page_of(all[start].address))
		end++;
	return end;
}

static int map_page(int fd, uintptr_t page, size_t sheet)
{
	long got = syscall_raw6(SYS_mmap, (long)page, PAGE_BYTES, PROT_READ | PROT_EXEC,
				MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, (long)(sheet * PAGE_BYTES));

	if (got == (long)page) {
		mapped_count++;
		return PAGE_MAPPED;
	}
	if (got > 0) {
		kernel_munmap((void *)got, PAGE_BYTES); /* before Linux 4.17 it was a mere hint */
		return -WM_E_PUN_TAKEN;
	}
	return got == -EEXIST			 ? -WM_E_PUN_TAKEN
	       : got == -ENOMEM			 ? -WM_E_DETOUR_MEMORY
	       : got == -EACCES || got == -EPERM ? -WM_E_NO_TEXT_WRITE
						 : (int)got;
}

static void map_sheets(struct sheets *sheets, const struct fresh *all, size_t count)
{
	size_t *which = heap_alloc(count * sizeof *which);
	int fd = -1;

	for (size_t at = 0, end; at < count && which; at = end) {
		end = page_end(all, at, count);
		which[at] = put_page(sheets, all + at, end - at);
	}
	if (which)
		fd = kernel_memfd_filled(DETOUR_NAME, sheets->bytes, sheets->count * PAGE_BYTES);
	/* without a file the pages stay PAGE_NEW: the next call tries again */
	for (size_t at = 0; at < count && fd >= 0; at = page_end(all, at, count))
		find(&pages, page_of(all[at].address))->state = map_page(
			fd, page_of(all[at].address), which[at]);
	if (fd >= 0)
		kernel_close(fd);
	heap_free(which, count * sizeof *which);
}

/* In order of address; NULL: no memory. */
static struct fresh *collect(size_t room, size_t *count)
{
	struct fresh *all = heap_alloc(room * sizeof *all);

	*count = 0;
	for (size_t i = 0; all && i < landings.room; i++) {
		const struct cell *cell = &landings.cells[i];

		if (cell->code && find(&pages, page_of(cell->address))->state == PAGE_NEW)
			all[(*count)++] = (struct fresh){ cell->address, cell->code };
	}
	if (all && sort_by_address(all, *count, sizeof *all))
		*count = 0;
	return all;
}

void landing_map(void)
{
	size_t room = landings.count, count = 0, bytes;
	struct fresh *all;
	uint8_t *memory;

	if (!room)
		return;
	all = collect(room, &count);
	bytes = count * (PAGE_BYTES + PAGE_BYTES / 8);
	memory = count ? kernel_map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE)
		       : MAP_FAILED;
	if (memory != MAP_FAILED) {
		struct sheets sheets = { .bytes = (void *)memory,
					 .used = (void *)(memory + count * PAGE_BYTES) };

		map_sheets(&sheets, all, count);
		kernel_munmap(memory, bytes);
	}
	heap_free(all, room * sizeof *all);
}

int landing_error(const struct jump *jump)
{
	int state = PAGE_MAPPED;

	for (unsigned int i = 0; i < jump->count && state == PAGE_MAPPED; i++)
		state = find(&pages, page_of(jump->landings[i]))->state;
	return state == PAGE_MAPPED ? 0 : state == PAGE_NEW ? -EAGAIN : state;
}
