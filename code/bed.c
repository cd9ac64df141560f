/* SPDX-License-Identifier: MIT */
#include "code/bed.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL_BYTES (4ul << 20)
#define NEAR_STEP (16ul << 20)
#define NEAR_MAX (1ul << 30)

/* Memory for trampolines, filled from its start; another is begun where it is full, or out of reach. */
static struct {
	uint64_t start, used;
} pool;

static bool is_near(uint64_t a, uint64_t b)
{
	return a - b + NEAR_MAX < 2 * NEAR_MAX;
}

static uint64_t pool_map(uint64_t near)
{
	for (uint64_t far = NEAR_STEP; far < NEAR_MAX; far += NEAR_STEP) {
		for (int side = 0; side < 2; side++) {
			uint64_t hint = (side ? near - far : near + far) & ~4095ul;
			void *at = mmap((void *)hint, POOL_BYTES,
					PROT_READ | PROT_WRITE | PROT_EXEC,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

			if (at != MAP_FAILED)
				return (uint64_t)at;
		}
	}
	return 0;
}

static uint64_t pool_take(uint64_t near, size_t bytes)
{
	if (!pool.start || !is_near(pool.start, near) || pool.used + bytes > POOL_BYTES) {
		pool.start = pool_map(near);
		pool.used = 0;
	}
	if (!pool.start)
		return 0;
	pool.used += (bytes + 15) & ~15ul;
	return pool.start + pool.used - ((bytes + 15) & ~15ul);
}

static int fixup_apply(uint64_t code, const struct detour_fixup *fixup, uint64_t base,
		       const struct bed_ends *ends)
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

/* Where a punned jump without prefixes leads, its free bytes being what they are; a page there. */
static uint64_t landing_map(const struct bed *bed, const struct control_detour *detour,
			    uint8_t *jump)
{
	uint64_t landing, page;
	int32_t distance;

	for (unsigned int prefixes = 0; prefixes < detour->span_bytes; prefixes++) {
		uint8_t bytes[DETOUR_SPAN_MAX] = { 0 };
		void *got;

		if (detour->span_bytes + detour->pun < prefixes + SPAN_JUMP_BYTES)
			continue;
		memcpy(bytes, bed->original, detour->span_bytes + detour->pun);
		memset(bytes, 0x26, prefixes);
		bytes[prefixes] = 0xe9;
		memcpy(&distance, bytes + prefixes + 1, sizeof(distance));
		landing = bed->address + prefixes + SPAN_JUMP_BYTES + (uint64_t)(int64_t)distance;
		page = landing & ~4095ul;
		if (landing >> 47 || page < 1ul << 20)
			continue;
		got = mmap((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		memcpy(jump, bytes, detour->span_bytes);
		if (got != MAP_FAILED)
			return landing;
	}
	return 0;
}

int bed_place(struct bed *bed, const struct trampoline *trampoline, uint64_t base,
	      const struct bed_ends *ends)
{
	const struct control_detour *detour = &trampoline->detour;
	uint8_t jump[SPAN_JUMP_BYTES] = { 0xe9 };
	uint8_t first_jump[SPAN_JUMP_BYTES] = { 0xeb, (uint8_t)detour->relay };
	uint64_t at = base + detour->address;
	int32_t distance;

	bed->address = base + detour->address;
	bed->span_bytes = detour->span_bytes;
	memcpy(bed->original, detour->original, sizeof(bed->original));
	if (detour->relay)
		at += SPAN_SHORT_JUMP_BYTES + (uint64_t)(int64_t)detour->relay;
	bed->relay = detour->relay ? at : 0;
	bed->landing = 0;
	if (memcmp((void *)bed->address, bed->original, bed->span_bytes + detour->pun) ||
	    (bed->relay && memcmp((void *)at, bed->original + bed->span_bytes, sizeof(jump))))
		return -EBADMSG;
	if (detour->pun)
		at = bed->landing = landing_map(bed, detour, first_jump);
	bed->code = at ? pool_take(bed->address, detour->code_bytes) : 0;
	if (!bed->code)
		return -ENOMEM;
	memcpy((void *)bed->code, trampoline->emit.code, detour->code_bytes);
	for (unsigned int i = 0; i < detour->fixup_count; i++) {
		int err = fixup_apply(bed->code, &trampoline->emit.fixups[i], base, ends);

		if (err)
			return err;
	}
	distance = (int32_t)(bed->code - (at + sizeof(jump)));
	if (at + sizeof(jump) + (uint64_t)(int64_t)distance != bed->code)
		return -ENOMEM;
	memcpy(jump + 1, &distance, sizeof(distance));
	if (code_write(at, jump, sizeof(jump)))
		return -EACCES;
	if (at == bed->address)
		return 0;
	return code_write(bed->address, first_jump,
			  detour->pun ? detour->span_bytes : SPAN_SHORT_JUMP_BYTES);
}

void bed_remove(struct bed *bed)
{
	code_write(bed->address, bed->original, bed->span_bytes);
	if (bed->relay)
		code_write(bed->relay, bed->original + bed->span_bytes, SPAN_JUMP_BYTES);
	if (bed->landing)
		munmap((void *)(bed->landing & ~4095ul), 8192);
}
