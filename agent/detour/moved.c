/* SPDX-License-Identifier: MIT */
#include "agent/detour/moved.h"

#include "agent/detour/detour.h"
#include "agent/detour/memory.h"

/* Detours live for ever, and are whole before they are in the list. */
static const struct detour *find(uintptr_t address)
{
	const struct detour *detour = detour_first();

	while (detour && address - detour->code >= detour->record->code_bytes)
		detour = __atomic_load_n(&detour->next, __ATOMIC_ACQUIRE);
	return detour;
}

int moved_from(uintptr_t end, uintptr_t *copy, uintptr_t *original)
{
	const struct detour *detour = memory_holds(end - 1) ? find(end - 1) : NULL;
	const struct control_detour *record = detour ? detour->record : NULL;
	uintptr_t moved = record ? detour->code + record->moved_at : 0;
	unsigned int at = 0;

	if (!record || end <= moved)
		return -1;
	/* a push of a register is 1 byte, or 2 with REX */
	while (at < record->pushed_bytes) {
		unsigned int bytes = detour->code_bytes[record->moved_at + at] >> 4 == 4 ? 2 : 1;

		if (end <= moved + at + bytes)
			break;
		at += bytes;
	}
	*copy = moved + at;
	*original = record->address - record->pushed_bytes + at;
	return 0;
}
