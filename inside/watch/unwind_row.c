/* SPDX-License-Identifier: MIT */
#include "inside/watch/unwind_row.h"

#include "inside/watch/boundary.h"

#define SLOTS 512u
#define ROW_WORDS (sizeof(struct cfi_row) / sizeof(uint64_t))

_Static_assert(sizeof(struct cfi_row) % sizeof(uint64_t) == 0, "copied word by word");

/*
 * Any thread fills a slot, and any other may read it meanwhile. `version` is odd while a thread
 * fills the slot: even -> odd -> even. A thread that finds it odd, or changed, does not use the
 * slot. After a fork while the parent fills it, it stays odd in the child: that slot is lost.
 */
static struct slot {
	uint32_t version;
	uint32_t epoch; /* of boundary.h, when the row was read */
	uint64_t pc;	/* 0: empty */
	uint64_t words[ROW_WORDS];
} slots[SLOTS];

static struct slot *slot_of(uint64_t pc)
{
	return &slots[(pc * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS];
}

static int recall(uint64_t pc, uint32_t epoch, struct cfi_row *row)
{
	struct slot *slot = slot_of(pc);
	uint32_t version = __atomic_load_n(&slot->version, __ATOMIC_ACQUIRE);
	uint64_t words[ROW_WORDS];

	if (version & 1 || __atomic_load_n(&slot->pc, __ATOMIC_RELAXED) != pc ||
	    __atomic_load_n(&slot->epoch, __ATOMIC_RELAXED) != epoch)
		return -1;
	for (unsigned int i = 0; i < ROW_WORDS; i++)
		words[i] = __atomic_load_n(&slot->words[i], __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pairs with remember()'s release fence */
	if (__atomic_load_n(&slot->version, __ATOMIC_RELAXED) != version)
		return -1;
	__builtin_memcpy(row, words, sizeof(*row));
	return 0;
}

static void remember(uint64_t pc, uint32_t epoch, const struct cfi_row *row)
{
	struct slot *slot = slot_of(pc);
	uint32_t version = __atomic_load_n(&slot->version, __ATOMIC_RELAXED);
	uint64_t words[ROW_WORDS];

	if (version & 1 || !__atomic_compare_exchange_n(&slot->version, &version, version + 1, 0,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE); /* pairs with recall()'s acquire fence */
	__builtin_memcpy(words, row, sizeof(*row));
	__atomic_store_n(&slot->pc, pc, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->epoch, epoch, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < ROW_WORDS; i++)
		__atomic_store_n(&slot->words[i], words[i], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->version, version + 2, __ATOMIC_RELEASE);
}

enum unwind_row unwind_row(const struct cfi_reader *reader, uint64_t pc, struct cfi_row *row)
{
	uint32_t epoch = boundary_epoch();
	struct cfi_function function;

	if (!recall(pc, epoch, row))
		return UNWIND_ROW_FOUND;
	if (cfi_find(reader, boundary_table(pc), pc, &function))
		return UNWIND_ROW_NONE;
	if (function.is_signal)
		return UNWIND_ROW_SIGNAL;
	if (cfi_row(reader, &function, pc, row, NULL))
		return UNWIND_ROW_BAD;
	remember(pc, epoch, row);
	return UNWIND_ROW_FOUND;
}
