/* SPDX-License-Identifier: MIT */
/*
 * Enumerations in the metadata. The writer declares each once, before the first event that uses it:
 *
 *	typealias enum : wm_u32 { "RED" = 0, "GREEN" = 1 } := wm_u32_enum_0;
 *
 * The alias begins with the name of the integer type. So a reader knows a field's type even if the
 * declaration is damaged.
 */
#ifndef TRACE_TSDL_ENUM_H
#define TRACE_TSDL_ENUM_H

#include "base/enumeration.h"
#include "base/text_buffer.h"
#include "trace/tsdl_lex.h"

#include <stddef.h>
#include <stdint.h>

#define TSDL_ENUM_NAME_BYTES 48

/* The enumerations of a trace that is being read. Zeroed is empty. */
struct tsdl_enums {
	struct enumeration_pool pool;
	const struct enumeration **all; /* by number; may be NULL */
	size_t count, room;
};

const char *tsdl_enum_name(const struct enumeration *of, char name[TSDL_ENUM_NAME_BYTES]);
void tsdl_enum_write(struct text *text, const struct enumeration *of);

/*
 * Read a declaration from behind "typealias enum" to its ';'. It skips enumerations that are not of
 * fields. 0; -1: damaged; -ENOMEM.
 */
int tsdl_enum_read(struct tsdl_enums *enums, struct lex *lex);
void tsdl_enums_release(struct tsdl_enums *enums);

/* The WM_TYPE_* of a field's type name, 0: unknown. *names: the names of its values, or NULL. */
uint8_t tsdl_type_of(const struct tsdl_enums *enums, const char *name,
		     const struct enumeration **names);

#endif
