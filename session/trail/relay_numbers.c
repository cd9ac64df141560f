/* SPDX-License-Identifier: MIT */
#include "session/trail/relay_numbers.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GAP_MAX (1u << 20)

int relay_numbers_add(struct relay_numbers *numbers, uint32_t number,
		      const struct trail_entry *entry, const uint8_t *code)
{
	size_t bytes = code ? entry->bytes : 0;
	struct relay_number *made;

	if (relay_numbers_has(numbers, number) || number > numbers->count + GAP_MAX ||
	    numbers->code_bytes + bytes > UINT32_MAX)
		return -EPROTO;
	if (array_grow(&numbers->list, &numbers->room, number + (size_t)1,
		       sizeof(*numbers->list)) ||
	    array_grow(&numbers->code, &numbers->code_room, numbers->code_bytes + bytes, 1))
		return -ENOMEM;
	if (number >= numbers->count) {
		memset(numbers->list + numbers->count, 0,
		       (number + (size_t)1 - numbers->count) * sizeof(*numbers->list));
		numbers->count = number + (size_t)1;
	}
	made = &numbers->list[number];
	*made = (struct relay_number){ *entry, (uint32_t)numbers->code_bytes, bytes != 0 };
	if (bytes)
		memcpy(numbers->code + numbers->code_bytes, code, bytes);
	numbers->code_bytes += bytes;
	return 0;
}

void relay_numbers_release(struct relay_numbers *numbers)
{
	free(numbers->list);
	free(numbers->code);
	*numbers = (struct relay_numbers){ 0 };
}
