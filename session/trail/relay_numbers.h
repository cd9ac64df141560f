/* SPDX-License-Identifier: MIT */
/* What the numbers of blocks stand for that come over a relay. */
#ifndef SESSION_TRAIL_RELAY_NUMBERS_H
#define SESSION_TRAIL_RELAY_NUMBERS_H

#include "abi/trail.h"

#include <stddef.h>
#include <stdint.h>

struct relay_number {
	struct trail_entry entry; /* no instructions: it stands for nothing */
	uint32_t code;		  /* where its bytes are */
	uint32_t has_code;
};

struct relay_numbers {
	struct relay_number *list;
	size_t count, room;
	uint8_t *code;
	size_t code_bytes, code_room;
};

/* 0; -ENOMEM; -EPROTO for a number that is far beyond all others, or stands for something already. `code` may be NULL. */
int relay_numbers_add(struct relay_numbers *numbers, uint32_t number,
		      const struct trail_entry *entry, const uint8_t *code);
void relay_numbers_release(struct relay_numbers *numbers);

static inline int relay_numbers_has(const struct relay_numbers *numbers, uint32_t number)
{
	return number < numbers->count && numbers->list[number].entry.instructions;
}

#endif
