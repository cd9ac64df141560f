/* SPDX-License-Identifier: MIT */
#include "target/code/pointer.h"

#include <dwarf.h>
#include <string.h>

uint64_t pointer_bytes_fixed(struct bytes *from, size_t bytes)
{
	uint64_t value = 0;

	if (from->is_over || (size_t)(from->end - from->at) < bytes) {
		from->is_over = true;
		return 0;
	}
	memcpy(&value, from->at, bytes);
	from->at += bytes;
	from->address += bytes;
	return value;
}

uint64_t pointer_bytes_uleb(struct bytes *from)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; !from->is_over; shift += 7) {
		uint64_t byte = pointer_bytes_fixed(from, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	return 0;
}

int64_t pointer_bytes_sleb(struct bytes *from)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; !from->is_over;) {
		uint64_t byte = pointer_bytes_fixed(from, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (shift < 64 && (byte & 0x40))
			value |= UINT64_MAX << shift;
		return (int64_t)value;
	}
	return 0;
}

void pointer_bytes_skip(struct bytes *from, uint64_t bytes)
{
	if (from->is_over || (uint64_t)(from->end - from->at) < bytes) {
		from->is_over = true;
		return;
	}
	from->at += bytes;
	from->address += bytes;
}

static uint64_t pointer_value(struct bytes *from, uint8_t format)
{
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return pointer_bytes_fixed(from, 8);
	case DW_EH_PE_uleb128:
		return pointer_bytes_uleb(from);
	case DW_EH_PE_sleb128:
		return (uint64_t)pointer_bytes_sleb(from);
	case DW_EH_PE_udata2:
		return pointer_bytes_fixed(from, 2);
	case DW_EH_PE_udata4:
		return pointer_bytes_fixed(from, 4);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int64_t)(int16_t)pointer_bytes_fixed(from, 2);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int64_t)(int32_t)pointer_bytes_fixed(from, 4);
	}
	from->is_over = true;
	return 0;
}

uint64_t pointer_bytes_pointer(struct bytes *from, uint8_t encoding)
{
	uint64_t self = from->address;
	uint64_t value;

	if (encoding == POINTER_OMIT)
		return 0;
	value = pointer_value(from, encoding & 0x0f);
	if (!value || from->is_over)
		return 0;
	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return value + self;
	}
	from->is_over = true;
	return 0;
}
