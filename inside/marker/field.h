/* SPDX-License-Identifier: MIT */
/* Field types, as sites hand them over (abi/site.h). */
#ifndef INSIDE_MARKER_FIELD_H
#define INSIDE_MARKER_FIELD_H

#include <waymark/marker.h>

#define FIELD_TYPE_MASK 31

/* Bytes that a field takes in the payload; 0 for a type that there isn't. */
static const unsigned char field_payload_bytes[FIELD_TYPE_MASK + 1] = {
	[WM_TYPE_I8] = 1,   [WM_TYPE_U8] = 1,	  [WM_TYPE_I16] = 2,  [WM_TYPE_U16] = 2,
	[WM_TYPE_I32] = 4,  [WM_TYPE_U32] = 4,	  [WM_TYPE_I64] = 8,  [WM_TYPE_U64] = 8,
	[WM_TYPE_BOOL] = 1, [WM_TYPE_F32] = 4,	  [WM_TYPE_F64] = 8,  [WM_TYPE_PTR] = 8,
	[WM_TYPE_STR] = 8,  [WM_TYPE_BYTES] = 16, [WM_TYPE_CHAR] = 1,
};

#endif
