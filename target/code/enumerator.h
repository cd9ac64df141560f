/* SPDX-License-Identifier: MIT */
/* Reads the names of an enumeration's values from debug information. */
#ifndef TARGET_CODE_ENUMERATOR_H
#define TARGET_CODE_ENUMERATOR_H

#include "base/enumeration.h"

#include <elfutils/libdw.h>

/* The enumerations of a file that were read. Zeroed is empty. */
struct code_enumerations {
	struct enumeration_pool pool;
	void *dies; /* a cache: each unit repeats the types that it includes */
};

/*
 * The names that a type gives the values of a field of type `field_type` (WM_TYPE_*). NULL: the
 * type is not an enumeration, or has no usable names. The result lives as long as the list.
 */
const struct enumeration *code_enumeration_of(struct code_enumerations *list, Dwarf_Die *type,
					      uint8_t field_type);
void code_enumerations_release(struct code_enumerations *list);

#endif
