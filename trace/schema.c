/* SPDX-License-Identifier: MIT */
#include "trace/schema.h"

#include "base/array.h"
#include "base/fieldname.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DENSE_MAX 65536u /* agents number events from 0 up; a table may be this long */

static int is_integer(uint8_t type)
{
	return type >= WM_TYPE_I8 && type <= WM_TYPE_U64;
}

int schema_type_bytes(uint8_t type)
{
	static const int8_t bytes[] = {
		[WM_TYPE_I8] = 1,	  [WM_TYPE_U8] = 1,	[WM_TYPE_I16] = 2,
		[WM_TYPE_U16] = 2,	  [WM_TYPE_I32] = 4,	[WM_TYPE_U32] = 4,
		[WM_TYPE_I64] = 8,	  [WM_TYPE_U64] = 8,	[WM_TYPE_BOOL] = 1,
		[WM_TYPE_F32] = 4,	  [WM_TYPE_F64] = 8,	[WM_TYPE_PTR] = 8,
		[WM_TYPE_STR] = -1,	  [WM_TYPE_BYTES] = -1, [WM_TYPE_CHAR] = 1,
		[WM_TYPE_ADDRESSES] = -1,
	};

	if (type < sizeof(bytes))
		return bytes[type];
	if (type & (uint8_t) ~(WM_TYPE_MASK | WM_TYPE_HEX | WM_TYPE_ARRAY) ||
	    (type & WM_TYPE_HEX && !is_integer(type & WM_TYPE_MASK)))
		return 0;
	return type & WM_TYPE_ARRAY ? (site_type_bytes(type) ? -1 : 0) : site_type_bytes(type);
}

static void class_clear(struct trace_class *class)
{
	free(class->name);
	free(class->file);
	free(class->fields);
	free(class->names);
}

int trace_schema_new(struct trace_schema **schema)
{
	*schema = calloc(1, sizeof(**schema));
	return *schema ? 0 : -ENOMEM;
}

void trace_schema_free(struct trace_schema *schema)
{
	if (!schema)
		return;
	for (uint32_t i = 0; i < schema->count; i++) {
		class_clear(schema->classes[i]);
		free(schema->classes[i]);
	}
	free(schema->classes);
	free(schema->dense);
	free(schema->sparse);
	free(schema);
}

/* Index of the first sparse class whose id is not less. */
static uint32_t sparse_place(const struct trace_schema *schema, uint32_t id)
{
	uint32_t low = 0, high = schema->sparse_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (schema->sparse[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct trace_class *schema_find_sparse(const struct trace_schema *schema, uint32_t id)
{
	uint32_t place = sparse_place(schema, id);

	if (place < schema->sparse_count && schema->sparse[place]->id == id)
		return schema->sparse[place];
	return NULL;
}

static int class_equal(const struct trace_class *a, const struct trace_class *b)
{
	return a->kind == b->kind && a->count == b->count && a->costs == b->costs &&
	       !strcmp(a->name, b->name) && !memcmp(a->types, b->types, sizeof(a->types));
}

/* A class's types as they must be: known, none after the last. Fills in what follows from them. */
static int class_check(struct trace_class *class)
{
	if (!class->name || class->count > SCHEMA_FIELDS_MAX || (class->count && !class->fields))
		return -EINVAL;
	class->fixed_bytes = 0;
	for (unsigned int i = 0; i < SCHEMA_FIELDS_MAX; i++) {
		int bytes = schema_type_bytes(class->types[i]);

		if ((i < class->count) != (bytes != 0) || (!bytes && class->types[i]))
			return -EINVAL;
		if (bytes < 0)
			class->fixed_bytes = -1;
		else if (class->fixed_bytes >= 0)
			class->fixed_bytes += bytes;
		if (bytes)
			class->field_bytes[i] = (uint8_t)strlen(class->fields[i]);
	}
	for (unsigned int i = 0; i < class->costs; i++)
		if (class->costs > class->count ||
		    class->types[class->count - 1 - i] != WM_TYPE_U64)
			return -EINVAL;
	class->name_bytes = (uint32_t)strlen(class->name);
	class->has_thread = class->count >= 2 && class->types[0] == WM_TYPE_I32 &&
			    class->types[1] == WM_TYPE_I32 && !strcmp(class->fields[0], "pid") &&
			    !strcmp(class->fields[1], "tid");
	return 0;
}

static int insert(struct trace_schema *schema, struct trace_class *class)
{
	uint32_t place;

	if (array_grow(&schema->classes, &schema->room, schema->count + 1ul, sizeof(class)))
		return -ENOMEM;
	if (class->id < DENSE_MAX) {
		if (array_grow_zeroed(&schema->dense, &schema->dense_room, class->id + 1ul,
				      sizeof(class)))
			return -ENOMEM;
		schema->dense[class->id] = class;
	} else {
		if (array_grow(&schema->sparse, &schema->sparse_room, schema->sparse_count + 1ul,
			       sizeof(class)))
			return -ENOMEM;
		place = sparse_place(schema, class->id);
		memmove(schema->sparse + place + 1, schema->sparse + place,
			(schema->sparse_count - place) * sizeof(*schema->sparse));
		schema->sparse[place] = class;
		schema->sparse_count++;
	}
	class->index = schema->count;
	schema->classes[schema->count++] = class;
	return 1;
}

/*
 * Put a class in. Its strings are taken over (also on failure, which frees them); count, types,
 * costs, kind, id and line are read from *class. Returns 1 when it is new, 0 when the same is there
 * already, or -EEXIST, -EINVAL, -ENOMEM.
 */
static int put(struct trace_schema *schema, const struct trace_class *class)
{
	struct trace_class *copy = malloc(sizeof(*copy));
	const struct trace_class *there;
	int err = -ENOMEM;

	if (!copy) {
		struct trace_class gone = *class;

		class_clear(&gone);
		return err;
	}
	*copy = *class;
	err = class_check(copy);
	if (!err) {
		there = schema_find(schema, copy->id);
		if (!there) {
			err = insert(schema, copy);
			if (err > 0)
				return err;
		} else {
			err = class_equal(there, copy) ? 0 : -EEXIST;
		}
	}
	class_clear(copy);
	free(copy);
	return err;
}

/*
 * Cut the next of a text's parts, which newlines divide, off *text. The last part takes the rest.
 */
static const char *part(const char **text, int last, size_t *bytes)
{
	const char *start = *text;
	const char *end = last ? NULL : strchr(start, '\n');

	*bytes = end ? (size_t)(end - start) : strlen(start);
	*text = end ? end + 1 : start + *bytes;
	return start;
}

static const char *class_suffix(char kind)
{
	return kind == 'b'   ? ":begin"
	       : kind == 'e' ? ":end"
	       : kind == 's' ? ":sum"
	       : kind == 'B' ? ":begin:sum"
	       : kind == 'E' ? ":end:sum"
			     : "";
}

static char *class_name(char kind, const char *subsystem, size_t subsystem_bytes, const char *event,
			size_t event_bytes)
{
	const char *suffix = class_suffix(kind);
	char *name = malloc(subsystem_bytes + 1 + event_bytes + strlen(suffix) + 1);
	char *to = name;

	if (!name)
		return NULL;
	to = mempcpy(to, subsystem, subsystem_bytes);
	*to++ = ':';
	to = mempcpy(to, event, event_bytes);
	strcpy(to, suffix);
	return name;
}

/* Make a class of a site's types and text; *class owns its strings. -EINVAL, -ENOMEM. */
static int class_of(struct trace_class *class, uint32_t id, const uint8_t types[16],
		    const char *text)
{
	const char *kind, *subsystem, *event, *file, *line, *fields;
	size_t bytes, subsystem_bytes, event_bytes, file_bytes;

	*class = (struct trace_class){ .id = id };
	kind = part(&text, 0, &bytes);
	class->kind = bytes && strchr("ibesBE", *kind) ? *kind : 'm';
	class->way = bytes > 1 ? kind[1] : 'd';
	class->costs = bytes > 2 && kind[2] > '0' && kind[2] <= '9' ? (uint8_t)(kind[2] - '0') : 0;
	subsystem = part(&text, 0, &subsystem_bytes);
	event = part(&text, 0, &event_bytes);
	file = part(&text, 0, &file_bytes);
	line = part(&text, 0, &bytes);
	class->line = (uint32_t)strtoul(line, NULL, 10);
	fields = part(&text, 1, &bytes);

	memcpy(class->types, types, sizeof(class->types));
	while (class->count < SCHEMA_FIELDS_MAX && types[class->count])
		class->count++;

	class->name = class_name(class->kind, subsystem, subsystem_bytes, event, event_bytes);
	if (class->kind == 'B' || class->kind == 'E')
		class->kind = 's';
	class->file = strndup(file, file_bytes);
	class->fields = calloc(class->count ? class->count : 1, sizeof(*class->fields));
	if (!class->name || !class->file || !class->fields) {
		class_clear(class);
		return -ENOMEM;
	}
	if (class->count)
		fieldname_list(fields, class->count, class->fields);
	for (unsigned int i = 0; i < class->count; i++)
		if (is_integer(types[i] & (uint8_t)~WM_TYPE_ARRAY) &&
		    fieldname_is_hex(fields, (int)i))
			class->types[i] |= WM_TYPE_HEX;
	return 0;
}

static void label_add(uint64_t value, const char *name, void *draft)
{
	enumeration_draft_add(draft, value, name);
}

void schema_labels(const char *text, unsigned int field, struct enumeration_draft *draft)
{
	size_t bytes;

	for (int i = 0; i < 5; i++)
		part(&text, 0, &bytes);
	fieldname_labels(text, (int)field, label_add, draft);
}

/* Names of another type than the field's are ignored. 0 or -ENOMEM. */
static int names_take(struct trace_class *class, const struct enumeration *const *names)
{
	for (unsigned int i = 0; i < class->count; i++) {
		if (!names[i] || names[i]->type != (class->types[i] & (uint8_t)~WM_TYPE_HEX))
			continue;
		if (!class->names)
			class->names = calloc(class->count, sizeof(*class->names));
		if (!class->names)
			return -ENOMEM;
		class->names[i] = names[i];
	}
	return 0;
}

void schema_text(const struct trace_class *class, struct text *text)
{
	const char *suffix = class_suffix(class->kind), *colon = strchr(class->name, ':');
	size_t bytes = strlen(class->name) - strlen(suffix);

	text_format(text, "%c%c", class->kind, class->way);
	if (class->costs)
		text_format(text, "%u", class->costs);
	text_format(text, "\n%.*s\n%.*s\n%s\n%u\n", (int)(colon - class->name), class->name,
		    (int)(class->name + bytes - colon - 1), colon + 1, class->file, class->line);
	for (unsigned int i = 0; i < class->count; i++)
		text_format(text, "%s%s", i ? ", " : "", class->fields[i]);
}

int schema_put_text(struct trace_schema *schema, uint32_t id, const uint8_t types[16],
		    const char *text, const struct enumeration *const *names)
{
	struct trace_class class;
	int err = class_of(&class, id, types, text);

	if (err)
		return err;
	err = names ? names_take(&class, names) : 0;
	if (!err)
		return put(schema, &class);
	class_clear(&class);
	return err;
}

int schema_put_copy(struct trace_schema *schema, const struct trace_class *class)
{
	struct text text = { 0 };
	int err;

	schema_text(class, &text);
	err = text.error ? text.error
			 : schema_put_text(schema, class->id, class->types, text.at, class->names);
	if (err > 0)
		schema_find(schema, class->id)->triggers = class->triggers;
	text_release(&text);
	return err;
}

int trace_schema_add(struct trace_schema *schema, uint32_t id, const uint8_t types[16],
		     const char *text)
{
	int err = schema_put_text(schema, id, types, text, NULL);

	return err < 0 ? err : 0;
}
