/* SPDX-License-Identifier: MIT */
#include "target/code/emit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

/* Something in memory behind it that must stay as it is. */
static struct {
	struct emit emit;
	uint8_t behind[64];
} room;

static struct emit *begin(void)
{
	memset(&room, 0, sizeof(room));
	memset(room.behind, 0x5a, sizeof(room.behind));
	return &room.emit;
}

static void is_full(void)
{
	uint8_t behind[sizeof(room.behind)];

	memset(behind, 0x5a, sizeof(behind));
	cr_assert_arr_eq(room.behind, behind, sizeof(behind));
	cr_assert_eq(room.emit.err, -ENOSPC);
	cr_assert_eq(emit_finish(&room.emit), -ENOSPC);
}

Test(emit, code_has_room_to_its_last_byte)
{
	struct emit *emit = begin();

	for (unsigned int i = 0; i < DETOUR_CODE_MAX - 1; i++)
		emit_number(emit, 0x11, 1);
	emit_number(emit, 0x2222, 2);
	cr_assert_eq(emit->bytes, DETOUR_CODE_MAX - 1, "half of it is nothing");
	is_full();
	emit->err = 0;
	emit_number(emit, 0x33, 1);
	cr_assert_eq(emit->err, 0);
	cr_assert_eq(emit->code[DETOUR_CODE_MAX - 1], 0x33);
	cr_assert_eq(emit_finish(emit), 0);
}

Test(emit, distances_are_so_many_at_most)
{
	struct emit *emit = begin();

	for (unsigned int i = 0; i < DETOUR_FIXUPS_MAX; i++)
		emit_distance(emit, i, 0);
	cr_assert_eq(emit->err, 0);
	emit_distance(emit, 0, 0);
	cr_assert_eq(emit->fixup_count, DETOUR_FIXUPS_MAX);
	cr_assert_eq(emit->bytes, 4 * DETOUR_FIXUPS_MAX);
	is_full();
}

Test(emit, slots_are_so_many_at_most)
{
	struct emit *emit = begin();

	for (unsigned int i = 0; i < EMIT_SLOTS_MAX; i++)
		emit_slot(emit, FIXUP_ABS64, i);
	cr_assert_eq(emit->err, 0);
	emit_slot(emit, FIXUP_ABS64, 0);
	cr_assert_eq(emit->slot_count, EMIT_SLOTS_MAX);
	is_full();
}

/* Their distance is from behind the four bytes that it fills. */
Test(emit, slots_are_aligned_and_led_to)
{
	for (unsigned int before = 0; before < 8; before++) {
		struct emit *emit = begin();

		for (unsigned int i = 0; i < before; i++)
			EMIT(emit, 0x90);
		emit_slot(emit, FIXUP_ABS64, 0x1234);
		emit_slot(emit, FIXUP_WORD, 0);
		cr_assert_eq(emit_finish(emit), 0);
		cr_assert_eq(emit->fixup_count, 2);
		for (unsigned int i = 0; i < 2; i++) {
			unsigned int from = before + 4 * i;
			int32_t distance;

			memcpy(&distance, emit->code + from, sizeof(distance));
			cr_assert_eq(emit->fixups[i].offset, (int32_t)from + 4 + distance);
			cr_assert_eq(emit->fixups[i].offset % 8, 0, "behind %u bytes", before);
			cr_assert_eq(emit->fixups[i].kind, i ? FIXUP_WORD : FIXUP_ABS64);
		}
		cr_assert_eq(emit->fixups[0].target, 0x1234);
		cr_assert_eq(emit->bytes, emit->fixups[1].offset + 8);
	}
}
