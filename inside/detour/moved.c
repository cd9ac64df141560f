/* SPDX-License-Identifier: MIT */
#include "inside/detour/moved.h"

#include "inside/detour/detour.h"
#include "inside/detour/memory.h"

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

	if (!detour || end <= detour->code + detour->record->moved_at)
		return -1;
	*copy = detour->code + detour->record->moved_at;
	*original = detour->record->address;
	return 0;
}
