/* SPDX-License-Identifier: MIT */
/*
 * Jumps to addresses that a register holds. Where the register was loaded from memory, the whole
 * address was there, and gather_words() has seen it where the program put it. Where it was
 * computed, it comes from a table of 32-bit distances. Two kinds are known:
 *
 *	from the table itself, as gcc and clang write for a switch:
 *		lea table(%rip), %b; movslq (%b,%i,4), %r; add %b, %r; jmp *%r
 *	from a label, as glibc's printf writes for computed gotos:
 *		lea table(%rip), %t; lea label(%rip), %b; movslq (%t,%i,4), %r; add %b, %r; jmp *%r
 *
 * Tables of whole addresses (.quad label) are words like any other. Every constant whose address is
 * taken is tried as a table of the first kind, wherever it is taken: part of a function may be
 * elsewhere.
 */
#include "target/code/gather.h"

#include "base/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 65536
#define LOOK_BACK 48	     /* instructions */
#define PAIRS_MAX (1u << 20) /* of labels and tables of one function */

enum jump_kind { JUMP_LOADED, JUMP_COMPUTED, JUMP_UNKNOWN };

/* Whether `base` plus the distance at `at` is an instruction inside [start, end). */
static bool entry_read(const struct sweep *sweep, uint64_t at, uint64_t base,
		       const struct image_range *within, uint64_t *address)
{
	int32_t distance;

	if (image_read(&sweep->image, at, &distance, sizeof(distance)))
		return false;
	*address = base + (uint64_t)(int64_t)distance;
	if (within && (*address < within->start || *address >= within->end))
		return false;
	return sweep_is_start(sweep, *address);
}

/* Mark what a table leads to, up to `end` or what is no entry; returns how many there were. */
static size_t table_take(struct gather *gather, uint64_t table, uint64_t base, uint64_t end,
			 const struct image_range *within)
{
	uint64_t address;
	size_t count = 0;

	for (uint64_t at = table; at < end && count < ENTRIES_MAX; at += 4, count++) {
		if (!entry_read(gather->sweep, at, base, within, &address))
			break;
		sweep_gather_target(gather, address);
	}
	return count;
}

static bool list_has(const struct address_list *list, uint64_t address)
{
	size_t at = sorted_below(list->all, list->count, sizeof(*list->all), 0, address);

	return at < list->count && list->all[at] == address;
}

/* All tables of the first kind, in order. */
static void tables_find(struct gather *gather, struct address_list *tables)
{
	uint64_t address;

	for (size_t i = 0; i < gather->lea_count; i++) {
		uint64_t target = gather->leas[i].target;

		if (!sweep_part_at(gather->sweep, target) &&
		    entry_read(gather->sweep, target, target, NULL, &address))
			sweep_address_add(gather, tables, target);
	}
	sweep_address_sort(tables);
	for (size_t i = 0; i < tables->count; i++)
		table_take(gather, tables->all[i], tables->all[i],
			   i + 1 < tables->count ? tables->all[i + 1] : UINT64_MAX, NULL);
}

/* The function, or the part of one, that holds an address. */
static struct image_range function_at(const struct gather *gather, uint64_t address)
{
	const struct frame *frame = frames_at(&gather->sweep->frames, address);
	const struct address_list *edges = &gather->edges;
	size_t low;

	if (frame)
		return (struct image_range){ frame->start, frame->end };
	low = sorted_at_most(edges->all, edges->count, sizeof(*edges->all), 0, address);
	return (struct image_range){ low ? edges->all[low - 1] : address,
				     low < edges->count ? edges->all[low] : UINT64_MAX };
}

static size_t leas_from(const struct gather *gather, uint64_t address)
{
	return sorted_below(gather->leas, gather->lea_count, sizeof(*gather->leas),
			    offsetof(struct gather_lea, at), address);
}

/*
 * Tables of the second kind: every constant of the function from every label of it. False: the
 * function has no such table, or too many candidates to be any.
 */
static bool labels_take(struct gather *gather, const struct image_range *function)
{
	size_t first = leas_from(gather, function->start);
	unsigned int pairs = 0;
	bool found = false;

	for (size_t i = first; i < gather->lea_count && gather->leas[i].at < function->end; i++) {
		uint64_t label = gather->leas[i].target;

		if (label < function->start || label >= function->end)
			continue;
		for (size_t j = first; j < gather->lea_count && gather->leas[j].at < function->end;
		     j++) {
			uint64_t table = gather->leas[j].target;

			if (++pairs > PAIRS_MAX)
				return false;
			if (!sweep_part_at(gather->sweep, table) &&
			    table_take(gather, table, label, UINT64_MAX, function) > 1)
				found = true;
		}
	}
	return found;
}

static bool function_has_table(const struct gather *gather, const struct image_range *function,
			       const struct address_list *tables)
{
	for (size_t i = leas_from(gather, function->start);
	     i < gather->lea_count && gather->leas[i].at < function->end; i++)
		if (list_has(tables, gather->leas[i].target))
			return true;
	return false;
}

/* Decode with operands. */
static bool insn_read(const struct gather *gather, uint64_t at, ZydisDecodedInstruction *insn,
		      ZydisDecodedOperand *operands)
{
	size_t left;
	const uint8_t *data = image_at(&gather->sweep->image, at, &left);

	return data &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&gather->full, data, left, insn, operands));
}

static ZydisRegister whole(ZydisRegister reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
}

/* The operand that writes a register, or NULL. */
static const ZydisDecodedOperand *writer_of(const ZydisDecodedInstruction *insn,
					    const ZydisDecodedOperand *operands, ZydisRegister reg)
{
	for (int i = 0; i < insn->operand_count; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    whole(operands[i].reg.value) == reg)
			return &operands[i];
	return NULL;
}

/*
 * glibc's pointers at rest are rotated and xored with a secret of the thread's; nothing is
 * computed.
 */
static bool is_unscrambling(const ZydisDecodedInstruction *insn,
			    const ZydisDecodedOperand *operands)
{
	return insn->mnemonic == ZYDIS_MNEMONIC_ROR ||
	       (insn->mnemonic == ZYDIS_MNEMONIC_XOR &&
		operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		operands[1].mem.segment == ZYDIS_REGISTER_FS);
}

/*
 * Where the register that a jump goes to has its value from: the last instruction above that writes
 * it.
 */
static enum jump_kind jump_kind_of(const struct gather *gather, uint64_t at, uint64_t start)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisRegister reg;

	if (!insn_read(gather, at, &insn, operands))
		return JUMP_UNKNOWN;
	reg = operands[0].reg.value;
	for (int i = 0; i < LOOK_BACK; i++) {
		/* who jumps here may have written it too */
		if (sweep_is_target(gather->sweep, at))
			return JUMP_UNKNOWN;
		at = sweep_previous(gather->sweep, at);
		if (!at || at < start || !insn_read(gather, at, &insn, operands))
			return JUMP_UNKNOWN;
		if (insn.meta.category == ZYDIS_CATEGORY_CALL ||
		    insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		    insn.meta.category == ZYDIS_CATEGORY_RET)
			return JUMP_UNKNOWN;
		if (!writer_of(&insn, operands, reg))
			continue;
		if (is_unscrambling(&insn, operands))
			continue;
		if ((insn.mnemonic != ZYDIS_MNEMONIC_MOV && insn.mnemonic != ZYDIS_MNEMONIC_POP) ||
		    operands[0].size != 64)
			return JUMP_COMPUTED;
		if (operands[1].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    insn.mnemonic == ZYDIS_MNEMONIC_POP)
			return JUMP_LOADED;
		reg = operands[1].reg.value;
	}
	return JUMP_UNKNOWN;
}

/* Whether a function loads distances at all: sign-extending, with an index. */
static bool function_loads_distances(const struct gather *gather,
				     const struct image_range *function)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

	for (uint64_t at = function->start; at < function->end; at += insn.length) {
		if (!insn_read(gather, at, &insn, operands))
			return true;
		if (insn.mnemonic == ZYDIS_MNEMONIC_MOVSXD &&
		    operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operands[1].mem.index != ZYDIS_REGISTER_NONE)
			return true;
	}
	return false;
}

static void doubt_add(struct gather *gather, struct image_range function)
{
	struct sweep *sweep = gather->sweep;

	if (sweep->doubt_count && sweep->doubts[sweep->doubt_count - 1].start == function.start)
		return;
	if (!(sweep->doubt_count & 63)) {
		struct image_range *doubts = realloc(sweep->doubts,
						     (sweep->doubt_count + 64) * sizeof(*doubts));

		if (!doubts) {
			gather->err = -ENOMEM;
			return;
		}
		sweep->doubts = doubts;
	}
	sweep->doubts[sweep->doubt_count++] = function;
}

/* Whether it is known where a function's computed jumps may go. */
static bool function_is_known(struct gather *gather, const struct image_range *function,
			      const struct address_list *tables)
{
	/* one function may have both kinds */
	bool has_labels = labels_take(gather, function);

	return function_has_table(gather, function, tables) || has_labels;
}

/*
 * Where the jumps of a function aren't understood, neither it nor any whose address it takes is
 * safe: that address and a byte out of a table, say, may be where they go.
 */
static void doubt_reached(struct gather *gather, const struct image_range *function)
{
	doubt_add(gather, *function);
	for (size_t i = leas_from(gather, function->start);
	     i < gather->lea_count && gather->leas[i].at < function->end; i++) {
		uint64_t target = gather->leas[i].target;

		if (sweep_part_at(gather->sweep, target) &&
		    (target < function->start || target >= function->end))
			doubt_add(gather, function_at(gather, target));
	}
}

static void jumps_take(struct gather *gather, const struct address_list *tables)
{
	struct image_range last = { 0 };
	bool last_loads = false, last_is_judged = false;

	for (size_t i = 0; i < gather->jumps.count; i++) {
		uint64_t jump = gather->jumps.all[i];
		struct image_range function = function_at(gather, jump);
		enum jump_kind kind;

		if (function.start != last.start || function.end != last.end) {
			last = function;
			last_loads = function_loads_distances(gather, &function);
			last_is_judged = false;
		}
		kind = jump_kind_of(gather, jump, function.start);
		if (last_is_judged || kind == JUMP_LOADED || (kind == JUMP_UNKNOWN && !last_loads))
			continue;
		last_is_judged = true;
		if (!function_is_known(gather, &function, tables))
			doubt_reached(gather, &function);
	}
}

void jump_table_gather(struct gather *gather)
{
	struct address_list tables = { 0 };
	struct sweep *sweep = gather->sweep;

	tables_find(gather, &tables);
	jumps_take(gather, &tables);
	for (size_t i = 0; i < gather->unread.count; i++)
		doubt_add(gather, function_at(gather, gather->unread.all[i]));
	sorted_make(sweep->doubts, sweep->doubt_count, sizeof(*sweep->doubts));
	free(tables.all);
}
