/* SPDX-License-Identifier: MIT */
/* From a place to an address in the process: read the pointers and virtual tables on the way. */
#include "target/expression/watch_place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>

#define USER_END 0x7ffffffff000ull /* what the processor has for programs, without its last page */

static int word_read(const struct code_memory *memory, uint64_t address, uint64_t *word)
{
	return memory ? memory->read(memory->data, address, word, sizeof(*word)) : -EFAULT;
}

/* From an object to its virtual base class. */
static int base_go(const struct watch_place *place, const struct watch_follow *follow,
		   const struct code_memory *memory, uint64_t *address,
		   struct watch_trouble *trouble)
{
	const char *text = place->text + follow->at;
	uint64_t table, offset;
	int err = word_read(memory, *address, &table);

	if (!err && !table)
		return expression_trouble_set(trouble, -WM_E_WATCH_NULL, follow->at, follow->bytes,
					      "%.*s, at 0x%" PRIx64
					      ", is not constructed yet, so the place of its "
					      "virtual base class is unknown",
					      (int)follow->bytes, text, *address);
	if (!err)
		err = word_read(memory, table - follow->below, &offset);
	if (err == -EFAULT || err == -EIO)
		return expression_trouble_set(trouble, -WM_E_WATCH_UNMAPPED, follow->at,
					      follow->bytes,
					      "the virtual table of %.*s, at 0x%" PRIx64,
					      (int)follow->bytes, text, *address);
	if (!err)
		*address += offset + (uint64_t)follow->offset;
	return err;
}

/* Whether a container has the element, whose pointer is at `address` and leads to `target`. */
static int limit_check(const struct watch_place *place, const struct watch_follow *follow,
		       const struct code_memory *memory, uint64_t address, uint64_t target,
		       struct watch_trouble *trouble)
{
	uint64_t limit, count, room;
	int err;

	if (!follow->limit)
		return 0;
	err = word_read(memory, address + (uint64_t)follow->limit_offset, &limit);
	if (err)
		return err == -EFAULT || err == -EIO ? -WM_E_WATCH_UNMAPPED : err;
	count = follow->limit == LIBRARY_COUNT ? limit
		: limit < target	       ? 0
					       : (limit - target) / follow->element_bytes;
	room = count + (follow->limit == LIBRARY_COUNT);
	if (follow->index < room)
		return 0;
	return expression_trouble_set(trouble, -WM_E_WATCH_MEMBER, follow->at, follow->bytes,
				      "%.*s has %" PRIu64, (int)follow->bytes,
				      place->text + follow->at, count);
}

/* One pointer on the way, whose own address is known. */
static int pointer_go(const struct watch_place *place, const struct watch_follow *follow,
		      const struct code_memory *memory, uint64_t *address,
		      struct watch_trouble *trouble)
{
	const char *text = place->text + follow->at;
	uint64_t target;
	int err = word_read(memory, *address, &target);

	if (err == -EFAULT || err == -EIO)
		return expression_trouble_set(trouble, -WM_E_WATCH_UNMAPPED, follow->at,
					      follow->bytes, "%.*s would lie at 0x%" PRIx64,
					      (int)follow->bytes, text, *address);
	if (err)
		return err;
	if (!target)
		return expression_trouble_set(trouble, -WM_E_WATCH_NULL, follow->at, follow->bytes,
					      "%.*s", (int)follow->bytes, text);
	err = limit_check(place, follow, memory, *address, target, trouble);
	*address = target + (uint64_t)follow->offset;
	return err;
}

int watch_place_address(const struct watch_place *place, const struct code_memory *memory,
			uint64_t thread_pointer, uint64_t *address, struct watch_trouble *trouble)
{
	int err = 0;

	if (trouble)
		*trouble = (struct watch_trouble){ 0 };
	*address = place->start;
	if (place->base == WATCH_IN_FRAME)
		return expression_trouble_set(trouble, -WM_E_WATCH_LOCAL, 0, 0, "%s",
					      place->variable);
	if (place->base == WATCH_IN_MODULE)
		*address += place->module->base;
	else if (place->base == WATCH_IN_THREAD || place->base == WATCH_IN_BLOCK)
		*address += thread_pointer;
	for (unsigned int i = 0; !err && i < place->follow_count; i++)
		err = (place->follows[i].below ? base_go : pointer_go)(place, &place->follows[i],
								       memory, address, trouble);
	if (!err && (*address >= USER_END || place->bytes > USER_END - *address))
		return expression_trouble_set(trouble, -WM_E_WATCH_UNMAPPED, 0, 0,
					      "0x%" PRIx64 " is not one of the program's",
					      *address);
	return err;
}

static int follow_is_plain(const struct watch_place *place)
{
	for (unsigned int i = 0; i < place->follow_count; i++)
		if (place->follows[i].below || place->follows[i].limit)
			return 0;
	return place->base == WATCH_IN_PROCESS || place->base == WATCH_IN_MODULE;
}

int watch_follow_check(const struct watch_place *place, struct watch_trouble *trouble)
{
	struct watch_piece pieces[WATCH_REGISTERS];
	size_t registers, used = 0;
	char list[WATCH_DETAIL_MAX / 2] = "";

	if (!place->follow_count)
		return expression_trouble_set(trouble, -WM_E_WATCH_OPTION, 0, 0,
					      "follow: no pointer is on the way");
	/* pointers lead to memory that is aligned, and a packed member of it may not be */
	registers = expression_pieces((uint64_t)place->follows[place->follow_count - 1].offset % 8,
				      place->bytes, pieces) +
		    place->follow_count;
	if (!follow_is_plain(place))
		return expression_trouble_set(
			trouble, -WM_E_WATCH_OPTION, 0, 0,
			"follow: only pointers of variables that all threads share are followed, "
			"not containers, virtual base classes, local or thread variables");
	for (unsigned int i = 0; i < place->follow_count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%.*s", i ? ", " : "",
					 (int)place->follows[i].bytes,
					 place->text + place->follows[i].at);
	if (registers <= WATCH_REGISTERS)
		return 0;
	return expression_trouble_set(
		trouble, -WM_E_WATCH_LARGE, 0, 0,
		"follow: %s take a register each, with the value %zu debug registers in all", list,
		registers);
}

void watch_place_release(struct watch_place *place)
{
	expression_type_release(&place->type);
	free(place->variable);
	free(place->source);
	free(place->frame);
	*place = (struct watch_place){ 0 };
}

/* ---- the debug registers that an object takes ---- */

/* The largest piece that begins there. */
static uint64_t piece_at(uint64_t address, uint64_t bytes)
{
	uint64_t piece = 8;

	while (piece > bytes || address & (piece - 1))
		piece /= 2;
	return piece;
}

size_t expression_pieces(uint64_t address, uint64_t bytes,
			 struct watch_piece pieces[WATCH_REGISTERS])
{
	size_t count = 0;

	while (bytes) {
		uint64_t piece = piece_at(address, bytes);

		if (count < WATCH_REGISTERS)
			pieces[count++] = (struct watch_piece){ address, (uint8_t)piece };
		else if (piece < 8)
			count++;
		else
			count += (piece = bytes & ~7ull) / 8; /* no caller needs them one by one */
		address += piece;
		bytes -= piece;
	}
	return count;
}

int expression_pieces_check(uint64_t address, uint64_t bytes, struct watch_trouble *trouble)
{
	struct watch_piece pieces[WATCH_REGISTERS];
	size_t count = expression_pieces(address, bytes, pieces);

	if (count <= WATCH_REGISTERS)
		return 0;
	return expression_trouble_set(
		trouble, -WM_E_WATCH_LARGE, 0, 0, "%" PRIu64 " bytes%s take %zu registers of %d",
		bytes, address % 8 && bytes <= 8 * WATCH_REGISTERS ? ", as they are aligned," : "",
		count, WATCH_REGISTERS);
}
