/* SPDX-License-Identifier: MIT */
#include "record/watch/watch_state.h"

#include "abi/watch.h"
#include "base/array.h"
#include "target/process/sealed.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <waymark/error.h>

int watch_state_map(struct watch_state *state, int fd, uint64_t bytes)
{
	uint64_t file_bytes;
	void *map;

	if (bytes != sizeof(*state->table) || sealed_bytes(fd, &file_bytes) || file_bytes != bytes)
		return -WM_E_PROTOCOL;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	/* watches of the program before still point into the old table */
	if (state->table && array_grow(&state->earlier, &state->earlier_room,
				       state->earlier_count + 1, sizeof(*state->earlier))) {
		munmap(map, bytes);
		return -ENOMEM;
	}
	if (state->table)
		state->earlier[state->earlier_count++] = state->table;
	state->table = map;
	return 0;
}

int watch_state_note_module(struct watch_state *state, uint64_t base)
{
	if (array_grow(&state->modules, &state->module_room, state->module_count + 1,
		       sizeof(*state->modules)))
		return -ENOMEM;
	state->modules[state->module_count++] = base;
	return 0;
}

int watch_state_note_gone(struct watch_state *state, uint64_t base)
{
	if (array_grow(&state->gone, &state->gone_room, state->gone_count + 1,
		       sizeof(*state->gone)))
		return -ENOMEM;
	state->gone[state->gone_count++] = base;
	return 0;
}

void watch_state_release(struct watch_state *state)
{
	if (state->table)
		munmap(state->table, sizeof(*state->table));
	for (size_t i = 0; i < state->earlier_count; i++)
		munmap(state->earlier[i], sizeof(*state->earlier[i]));
	free(state->earlier);
	free(state->modules);
	free(state->gone);
	*state = (struct watch_state){ .next = state->next };
}
