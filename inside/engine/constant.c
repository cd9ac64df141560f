/* SPDX-License-Identifier: MIT */
#include "inside/engine/constant.h"
#include "inside/engine/engine_memory.h"

#define CONSTANTS_MAX 512u /* a module has one; of more, the oldest are not known to be */

static struct {
	uint64_t start, end;
} constants[CONSTANTS_MAX];
static uint32_t used, next;

void constant_add(uint64_t start, uint64_t bytes)
{
	uint32_t at = 0;

	while (at < used && constants[at].end)
		at++;
	if (at == CONSTANTS_MAX)
		at = next++ % CONSTANTS_MAX;
	else if (at == used)
		used++;
	constants[at].start = start;
	constants[at].end = start + bytes;
}

void constant_drop(uint64_t start, uint64_t bytes)
{
	for (uint32_t i = 0; i < used; i++)
		if (start < constants[i].end && constants[i].start < start + bytes)
			constants[i].start = constants[i].end = 0;
}

uint64_t constant_at(struct code_read *read, uint64_t address)
{
	uint64_t value, bytes = sizeof(value);
	const uint8_t *from;

	if (address % sizeof(value)) /* within a page: its traces are known by that */
		return 0;
	for (uint32_t i = 0; i < used; i++) {
		if (address < constants[i].start || address >= constants[i].end)
			continue;
		from = code_read_at(read, address, &bytes, CODE_AHEAD);
		if (!from)
			return 0;
		memory_copy(&value, from, sizeof(value));
		return value;
	}
	return 0;
}
