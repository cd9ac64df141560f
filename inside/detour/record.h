/* SPDX-License-Identifier: MIT */
/*
 * One record of a PLACE message, checked by itself: no part of it is outside of its container.
 */
#ifndef INSIDE_DETOUR_RECORD_H
#define INSIDE_DETOUR_RECORD_H

#include "abi/detour.h"

#include <stddef.h>

/* Where the parts of a record lie in it. */
struct record_layout {
	size_t code, fixups, texts, end;
	const char *text[2];
	size_t text_bytes[2];
};

/* The record may take `bytes`, and says itself how many it takes. 0 or -WM_E_PROTOCOL. */
int record_check(const struct control_detour *record, size_t bytes, struct record_layout *layout);

#endif
