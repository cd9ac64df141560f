/* SPDX-License-Identifier: MIT */
/* The type of a field (waymark/marker/field.h) that holds an integer. */
#ifndef BASE_INTEGER_TYPE_H
#define BASE_INTEGER_TYPE_H

#include <stdint.h>
#include <waymark/marker/field.h>

/* WM_TYPE_BYTES: no integer is so wide. */
static inline uint8_t integer_type(uint64_t bytes, int is_signed)
{
	switch (bytes) {
	case 1:
		return is_signed ? WM_TYPE_I8 : WM_TYPE_U8;
	case 2:
		return is_signed ? WM_TYPE_I16 : WM_TYPE_U16;
	case 4:
		return is_signed ? WM_TYPE_I32 : WM_TYPE_U32;
	case 8:
		return is_signed ? WM_TYPE_I64 : WM_TYPE_U64;
	default:
		return WM_TYPE_BYTES;
	}
}

#endif
