/* SPDX-License-Identifier: MIT */
#include "record/watch/follow_plan.h"

#include <stdio.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define PLACE_FOR_PIECES (UINT64_C(1) << 40) /* aligned like memory of an allocator */

static void ask_pointers(struct asked_watch *asked, unsigned int pointers)
{
	for (unsigned int i = 0; i < asked->count; i++) {
		asked->about[i].address = 0;
		asked->about[i].flags |= WATCH_FOLLOWED;
		asked->about[i].frame = (uint8_t)pointers;
	}
	for (unsigned int i = 0; i < pointers; i++)
		asked->about[asked->count++] = (struct control_watch){
			.bytes = 8,
			.type = WM_TYPE_U64,
			.on = WATCH_ON_WRITE,
			.flags = WATCH_LEADS | WATCH_COUNT_ONLY,
			.frame = (uint8_t)i,
		};
}

int follow_plan_make(struct follow_plan *plan, struct asked_watch *asked,
		     const struct watch_expr *expr, const struct watch_place *place,
		     struct watch_trouble *trouble)
{
	uint64_t offset = (uint64_t)place->follows[place->follow_count - 1].offset;
	int err = ask_make(asked, expr, place, PLACE_FOR_PIECES + offset % 8, trouble);

	if (err)
		return err;
	*plan = (struct follow_plan){
		.pointers = place->follow_count,
		.pieces = asked->count,
		.start = place->start,
		.bytes = place->bytes,
	};
	if (place->base == WATCH_IN_MODULE)
		plan->start += place->module->base;
	if (plan->start % 8)
		return expression_trouble_set(trouble, -WM_E_WATCH_OPTION, 0, 0,
					      "follow: %.*s is not aligned",
					      (int)place->follows[0].bytes,
					      place->text + place->follows[0].at);
	for (unsigned int i = 0; i < place->follow_count; i++) {
		const struct watch_follow *follow = &place->follows[i];

		plan->offsets[i] = follow->offset;
		snprintf(plan->texts[i], sizeof(plan->texts[i]), "%.*s", (int)follow->bytes,
			 place->text + follow->at);
	}
	ask_pointers(asked, plan->pointers);
	return 0;
}
