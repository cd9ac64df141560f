/* SPDX-License-Identifier: MIT */
#include "target/code/testing/fixture.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL_BYTES (4ul << 20)
#define POOLS_MAX 64
#define POOL_STEP (16ul << 20)
#define REACH                                                                                      \
	((1ul << 31) - (64ul << 20)) /* of a jump, less what a module and a pool may be long */
#define PAGE_BYTES 4096ul
#define PAGES_ROOM 65536 /* a power of two */
#define PAGES_MAX 45000	 /* of vm.max_map_count */
#define STEPS_MAX 512

/* Memory for trampolines, each filled from its start. */
static struct {
	uint64_t start, used;
} pools[POOLS_MAX];

/*
 * Pages that jumps lead to, by hash of the address, with a bit for each byte that is a landing's.
 */
static struct page {
	uint64_t address;
	uint64_t used[PAGE_BYTES / 64];
} pages[PAGES_ROOM];
static unsigned int page_count;

static bool is_near(uint64_t a, uint64_t b)
{
	return a - b + REACH < 2 * REACH;
}

static uint64_t map(uint64_t address, size_t bytes)
{
	void *at = mmap((void *)address, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return at == MAP_FAILED ? 0 : (uint64_t)at;
}

/* Where it is near to both. */
static uint64_t pool_map(uint64_t a, uint64_t b)
{
	uint64_t middle = (a / 2 + b / 2) & ~(PAGE_BYTES - 1), start;

	for (uint64_t far = 0; far < REACH; far += POOL_STEP) {
		for (int side = 0; side < 2; side++) {
			uint64_t at = side ? middle - far : middle + far;

			start = is_near(at, a) && is_near(at, b) ? map(at, POOL_BYTES) : 0;
			if (start)
				return start;
		}
	}
	return 0;
}

static uint64_t pool_take(uint64_t a, uint64_t b, size_t bytes)
{
	unsigned int i = 0;

	bytes = (bytes + 15) & ~15ul;
	while (i < POOLS_MAX && pools[i].start &&
	       (!is_near(pools[i].start, a) || !is_near(pools[i].start, b) ||
		pools[i].used + bytes > POOL_BYTES))
		i++;
	if (i == POOLS_MAX)
		return 0;
	if (!pools[i].start)
		pools[i].start = pool_map(a, b);
	if (!pools[i].start)
		return 0;
	pools[i].used += bytes;
	return pools[i].start + pools[i].used - bytes;
}

static int fixup_apply(uint64_t code, const struct detour_fixup *fixup, uint64_t base,
		       const struct fixture_ends *ends)
{
	uint64_t at = code + fixup->offset;
	uint64_t value = 0;
	int32_t distance;

	switch (fixup->kind) {
	case FIXUP_REL32:
		value = base + fixup->target - (at + 4 + fixup->after);
		distance = (int32_t)value;
		if ((uint64_t)distance != value)
			return -ENOMEM;
		memcpy((void *)at, &distance, sizeof(distance));
		return 0;
	case FIXUP_ABS64:
		value = base + fixup->target;
		break;
	case FIXUP_WORD:
		value = (uint64_t)ends->word;
		break;
	case FIXUP_ENTER:
		value = (uint64_t)ends->enter;
		break;
	case FIXUP_RETURN_WORD:
		value = (uint64_t)ends->return_word;
		break;
	case FIXUP_RETURN_ENTER:
		value = (uint64_t)ends->return_enter;
		break;
	default:
		return -EBADMSG;
	}
	memcpy((void *)at, &value, sizeof(value));
	return 0;
}

static int code_write(uint64_t address, const void *bytes, size_t count)
{
	uint64_t page = address & ~4095ul;

	if (mprotect((void *)page, address + count - page, PROT_READ | PROT_WRITE | PROT_EXEC))
		return -errno;
	memcpy((void *)address, bytes, count);
	return 0;
}

/* NULL: something else is there, or no landing may be. */
static struct page *page_of(uint64_t landing)
{
	uint64_t address = landing & ~(PAGE_BYTES - 1);
	uint64_t i = address / PAGE_BYTES % PAGES_ROOM;

	if (landing < PUN_LOWEST || landing >= PUN_HIGHEST ||
	    landing - address > PAGE_BYTES - DETOUR_JUMP_BYTES)
		return NULL;
	while (pages[i].address && pages[i].address != address)
		i = (i + 1) % PAGES_ROOM;
	if (pages[i].address)
		return &pages[i];
	if (page_count == PAGES_MAX || !map(address, PAGE_BYTES))
		return NULL;
	page_count++;
	pages[i].address = address;
	return &pages[i];
}

static bool is_used(const struct page *page, uint64_t landing)
{
	for (uint64_t i = landing % PAGE_BYTES; i < landing % PAGE_BYTES + DETOUR_JUMP_BYTES; i++)
		if (page->used[i / 64] >> i % 64 & 1)
			return true;
	return false;
}

/* used <-> free */
static void toggle(struct page *page, uint64_t landing)
{
	for (uint64_t i = landing % PAGE_BYTES; i < landing % PAGE_BYTES + DETOUR_JUMP_BYTES; i++)
		page->used[i / 64] ^= 1ul << i % 64;
}

/* The first landing that a jump written in this way may have; 0: none. */
static uint64_t landing_take(const struct pun_window *window, uint64_t base)
{
	uint64_t size = 1ul << 8 * window->free_bytes;
	uint64_t step = size > PAGE_BYTES ? PAGE_BYTES : DETOUR_JUMP_BYTES;

	for (uint64_t x = 0; x < size && x / step < STEPS_MAX; x += step) {
		uint64_t landing = base + (uint64_t)window->low + x;
		struct page *page = page_of(landing);

		if (page && !is_used(page, landing)) {
			toggle(page, landing);
			return landing;
		}
	}
	return 0;
}

static int jump_to(uint64_t from, uint64_t to, uint8_t jump[DETOUR_JUMP_BYTES])
{
	int32_t distance = (int32_t)(to - from - DETOUR_JUMP_BYTES);

	jump[0] = 0xe9;
	memcpy(jump + 1, &distance, sizeof(distance));
	return from + DETOUR_JUMP_BYTES + (uint64_t)(int64_t)distance == to ? 0 : -ENOMEM;
}

static int jump_place(struct placed *placed, const struct control_detour *detour,
		      const struct pun_window *window, uint64_t base)
{
	uint64_t to = placed->landing ? placed->landing : placed->code;
	uint8_t jump[DETOUR_JUMP_BYTES];
	struct pun_bytes bytes;

	if (placed->landing && jump_to(placed->landing, placed->code, jump))
		return -ENOMEM;
	if (placed->landing)
		memcpy((void *)placed->landing, jump, sizeof(jump));
	else if (jump_to(placed->instruction + window->opcode_at, to, jump))
		return -ENOMEM;
	pun_write(detour, window, to - base, &bytes);
	return code_write(placed->instruction + bytes.at, bytes.bytes, bytes.count);
}

static int window_place(struct placed *placed, const struct trampoline *trampoline,
			const struct pun_window *window, uint64_t base,
			const struct fixture_ends *ends)
{
	const struct control_detour *detour = &trampoline->detour;
	int err = 0;

	placed->landing = window->count ? landing_take(window, base) : 0;
	if (window->count && !placed->landing)
		return -ENOMEM;
	placed->code = pool_take(placed->instruction,
				 placed->landing ? placed->landing : placed->instruction,
				 detour->code_bytes);
	if (!placed->code)
		err = -ENOMEM;
	else
		memcpy((void *)placed->code, trampoline->emit.code, detour->code_bytes);
	for (unsigned int i = 0; i < detour->fixup_count && !err; i++)
		err = fixup_apply(placed->code, &trampoline->emit.fixups[i], base, ends);
	if (!err)
		err = jump_place(placed, detour, window, base);
	if (err && placed->landing)
		toggle(page_of(placed->landing), placed->landing);
	return err;
}

int fixture_place(struct placed *placed, const struct trampoline *trampoline, enum detour_form form,
		  uint64_t base, const struct fixture_ends *ends)
{
	const struct control_detour *detour = &trampoline->detour;
	struct pun_window window;
	unsigned int number = 0;
	int err = -ENOENT;

	placed->instruction = base + detour->address;
	placed->insn_bytes = detour->insn_bytes;
	memcpy(placed->original, detour->original, detour->insn_bytes);
	if (memcmp((void *)placed->instruction, detour->original,
		   detour->insn_bytes + detour->kept_bytes) != 0)
		return -EBADMSG;
	while (err && pun_next(detour, form, &number, &window))
		err = window_place(placed, trampoline, &window, base, ends);
	return err;
}

void fixture_remove(struct placed *placed)
{
	code_write(placed->instruction, placed->original, placed->insn_bytes);
	if (placed->landing)
		toggle(page_of(placed->landing), placed->landing);
}
