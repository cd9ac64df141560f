/* SPDX-License-Identifier: MIT */
/*
 * The names of a marker's fields, made from its arguments' text (abi/site.h, FIELDS).
 *
 *	WM_FIELD(name, expr)      name
 *	WM_BYTES(p->buf, n)       p_buf: its pointer; so with WM_ARRAY, _HEX, _NET, _ENUM
 *	len                       len
 *	p->n, (x + 1), "text"     p_n, x_1, text: other characters become one '_', none at the ends
 *
 * An empty name becomes field1, field2 and so on by its place. A leading digit gets '_' in front, a
 * duplicate gets _2, _3 behind, and a reserved word of CTF's metadata language gets '_' behind.
 */
#ifndef BASE_FIELDNAME_H
#define BASE_FIELDNAME_H

#include <stddef.h>
#include <stdint.h>

#define FIELDNAME_BYTES 64

/*
 * Write `count` names, NUL-terminated, cut where they are too long. `count` is the number of types
 * that the site has; where the text has fewer arguments, the rest are called by their place.
 * Returns the number of arguments that the text has. Any thread; no allocation.
 */
int fieldname_list(const char *fields_text, int count, char (*names)[FIELDNAME_BYTES]);

/*
 * An argument as written, counted from 0, without the WM_FIELD around it; not NUL-terminated.
 * *bytes: 0 past the last.
 */
const char *fieldname_argument(const char *fields_text, int argument, size_t *bytes);

/* Whether an argument, counted from 0, is written with WM_HEX. */
int fieldname_is_hex(const char *fields_text, int argument);

/*
 * Call `label` for each name of the values of an argument: those of WM_ENUM(expr, A, B = 4, C),
 * written as those of an enumeration. A value that is no number has no name, nor has a value that
 * counts on from it.
 */
void fieldname_labels(const char *fields_text, int argument,
		      void (*label)(uint64_t value, const char *name, void *data), void *data);

#endif
