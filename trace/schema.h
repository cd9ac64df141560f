/* SPDX-License-Identifier: MIT */
/*
 * Event classes: what the events of one process are called and hold, found by id.
 */
#ifndef TRACE_SCHEMA_H
#define TRACE_SCHEMA_H

#include "abi/site.h"
#include "base/enumeration.h"
#include "base/text_buffer.h"
#include "trace/decode.h"
#include "trace/number.h"

#include <stdint.h>
#include <waymark/marker.h>

#define SCHEMA_FIELDS_MAX 16
#define SCHEMA_NAME_BYTES 64 /* of a field, NUL included */

struct trace_class {
	uint32_t id;
	char kind; /* 'm', 'i', 'b', 'e' or 's' */
	char way;  /* 'd': of a probe (abi/site.h) */
	uint8_t count;
	uint8_t has_thread; /* begins with a pid and a tid, as the kernel's events do */
	uint8_t costs;	    /* so many of its last fields are counts (abi/cost.h) */
	uint8_t types[SCHEMA_FIELDS_MAX]; /* WM_TYPE_* */
	int32_t fixed_bytes;		  /* of all fields together; -1 when it varies */
	uint32_t line;
	char *name; /* SUBSYSTEM:EVENT, as the trace has it (":begin", ":end", ":sum" included) */
	char *file;
	char (*fields)[SCHEMA_NAME_BYTES];
	/*
	 * the names of each field's values, or NULL; NULL as a whole if no field has any. Not owned
	 */
	const struct enumeration **names;
	uint32_t name_bytes; /* lengths, for those who print many */
	uint8_t field_bytes[SCHEMA_FIELDS_MAX];
	uint32_t triggers; /* of a recorder: a bit for each (record/session/triggers.h) */
	uint32_t index;	   /* its place in classes[]; for tables of readers */
	uint32_t number;   /* of schema_number(); 0: not asked for yet */
};

struct trace_schema {
	struct trace_class **classes; /* in the order of their coming */
	uint32_t count;
	struct trace_class **dense;  /* by id, for ids below dense_room */
	struct trace_class **sparse; /* the others, sorted by id */
	uint32_t sparse_count;
	size_t room, dense_room, sparse_room;
	struct number_list *numbers; /* not owned; NULL: none */
};

/* The number of a class of this schema, by its name; 0: none. */
static inline uint32_t schema_number(const struct trace_schema *schema,
				     const struct trace_class *class)
{
	if (__builtin_expect(!class->number && schema->numbers != NULL, 0))
		schema->classes[class->index]->number = number_of_name(schema->numbers,
								       class->name);
	return class->number;
}

/*
 * Put in the class of a site's types and text (abi/site.h). `names`, of the values of its fields,
 * may be NULL, as may each of them. Returns 1 when it is new, 0 when the same is there already, or
 * -EEXIST, -EINVAL, -ENOMEM.
 */
int schema_put_text(struct trace_schema *schema, uint32_t id, const uint8_t types[16],
		    const char *text, const struct enumeration *const *names);

/* Add the names that a site's text has for a field's values (WM_ENUM); `draft` has its type. */
void schema_labels(const char *text, unsigned int field, struct enumeration_draft *draft);

/* Append the text from which schema_put_text() makes the same class. */
void schema_text(const struct trace_class *class, struct text *text);

/* A copy of a class that another schema of the same trace has. As schema_put_text(). */
int schema_put_copy(struct trace_schema *schema, const struct trace_class *class);

struct trace_class *schema_find_sparse(const struct trace_schema *schema, uint32_t id);

/* The class of an id, or NULL. */
static inline struct trace_class *schema_find(const struct trace_schema *schema, uint32_t id)
{
	if (__builtin_expect(id < schema->dense_room, 1))
		return schema->dense[id];
	return schema_find_sparse(schema, id);
}

/* Bytes of a type in an event: 0 for no type, -1 for strings, runs and arrays. */
int schema_type_bytes(uint8_t type);

/* Bytes of an element of a run or an array, with its state and count before them. 0: neither. */
static inline unsigned int schema_element_bytes(uint8_t type)
{
	if (type & WM_TYPE_ARRAY)
		return site_type_bytes(type);
	return type == WM_TYPE_BYTES ? 1 : type == WM_TYPE_ADDRESSES ? 8 : 0;
}

#endif
