/* SPDX-License-Identifier: MIT */
#include "inside/engine/action.h"
#include "inside/engine/attach_places.h"
#include "inside/engine/gate.h"
#include "inside/engine/places.h"

/* Of attach.S. */
void attach_called(void);
void attach_way_take(void);
void attach_way_commit(void);
void attach_way_undo(void);
void attach_way_leave(void);

extern const char __ehdr_start[], _end[];
extern uint8_t start_stack_end[];

void attach_places(struct engine_channel *head)
{
	head->places = (struct engine_places){
		.take = (uint64_t)attach_way_take,
		.commit = (uint64_t)attach_way_commit,
		.undo = (uint64_t)attach_way_undo,
		.leave = (uint64_t)attach_way_leave,
		.stack = (uint64_t)start_stack_end,
		.call_done = (uint64_t)gate_call_done,
		.call_back = (uint64_t)attach_called,
		.start = (uint64_t)__ehdr_start,
		.bytes = ((uint64_t)(_end - __ehdr_start) + 4095) & ~UINT64_C(4095),
		.own_signals = action_own,
		.mappings = (uint64_t)places_all(),
		.mapping_count = PLACES_MAX,
	};
}
