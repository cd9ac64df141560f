/* SPDX-License-Identifier: MIT */
/* A type out of debug information, as watches keep it. */
#ifndef TARGET_EXPRESSION_TYPE_MAKE_H
#define TARGET_EXPRESSION_TYPE_MAKE_H

#include "target/expression/declared.h"
#include "target/expression/type.h"

/*
 * Make it of a variable's type, or of a bit-field, whose `bits` begin at bit `bit` of the `bytes`
 * that are watched; bits 0: none. 0, -ENOMEM, -WM_E_WATCH_DAMAGED. Release also after an error.
 */
int type_make(struct watch_type *type, const struct declared *declared, uint64_t bytes,
	      unsigned int bit, unsigned int bits, const struct code_file *file);

/*
 * A node's number out of its bytes as they lay in memory: widened by sign where it has one, a
 * bit-field's bits taken out and moved down. 0 where it is no number of 8 bytes or less; a float's
 * are its own bits.
 */
uint64_t type_node_bits(const struct watch_node *node, const void *value);

/* One node of a class and a name. 0 or -ENOMEM. */
int type_make_single(struct watch_type *type, enum watch_class class, uint8_t wm_type,
		     uint64_t bytes, const char *name);

#endif
