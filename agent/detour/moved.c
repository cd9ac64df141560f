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
	const struct detour_move *before = NULL;

	for (unsigned int i = 0; detour && i < detour->record->move_count; i++) {
		const struct detour_move *move = &detour->moves[i];

		if (detour->code + move->to < end && (!before || move->to > before->to))
			before = move;
	}
	if (!before)
		return -1;
	*copy = detour->code + before->to;
	*original = detour->record->address + before->from;
	return 0;
}
