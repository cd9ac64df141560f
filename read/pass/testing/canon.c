/* SPDX-License-Identifier: MIT */
#include "read/pass/testing/canon.h"

#include "base/text_buffer.h"
#include "read/pass/merge.h"

#include <stdlib.h>
#include <string.h>

static void put_fixed(struct text *line, uint8_t type, const uint8_t *at)
{
	uint64_t word = 0;
	unsigned int bytes = site_type_bytes(type), spare = 64 - 8 * bytes;
	float narrow;
	double wide;

	type &= WM_TYPE_MASK;
	memcpy(&word, at, bytes);
	memcpy(&narrow, at, sizeof(narrow) < bytes ? sizeof(narrow) : bytes);
	memcpy(&wide, &word, sizeof(wide));
	if (type == WM_TYPE_F32)
		text_format(line, "%a", (double)narrow);
	else if (type == WM_TYPE_F64)
		text_format(line, "%a", wide);
	else if (type == WM_TYPE_I8 || type == WM_TYPE_I16 || type == WM_TYPE_I32 ||
		 type == WM_TYPE_I64 || type == WM_TYPE_CHAR)
		text_format(line, "%lld", (long long)((int64_t)(word << spare) >> spare));
	else
		text_format(line, "%llu", (unsigned long long)word);
}

static const uint8_t *put_varying(struct text *line, const char *name, uint8_t type,
				  const uint8_t *at)
{
	size_t bytes;

	text_format(line, " _%s_state=%u", name, *at);
	if (type == WM_TYPE_STR) {
		bytes = strlen((const char *)at + 1);
		text_format(line, " %s=", name);
		text_hex(line, at + 1, bytes);
		return at + 2 + bytes;
	}
	bytes = load_u32(at + 1);
	text_format(line, " _%s_length=%zu %s=", name, bytes, name);
	at += 5;
	if (type == (WM_TYPE_CHAR | WM_TYPE_ARRAY)) {
		text_hex(line, at, bytes);
		return at + bytes;
	}
	for (; bytes; bytes--, at += schema_element_bytes(type)) {
		put_fixed(line,
			  type == WM_TYPE_BYTES	      ? WM_TYPE_U8
			  : type == WM_TYPE_ADDRESSES ? WM_TYPE_U64
						      : type,
			  at);
		text_format(line, ",");
	}
	return at;
}

static void put_event(struct canon *canon, const struct merge_event *event)
{
	const struct trace_class *class = event->class;
	const uint8_t *at = event->fields;
	struct text line = { 0 };

	text_format(&line, "%020llu %s", (unsigned long long)event->ns, class->name);
	for (unsigned int i = 0; i < class->count; i++) {
		int bytes = schema_type_bytes(class->types[i]);

		if (bytes < 0) {
			at = put_varying(&line, class->fields[i], class->types[i], at);
			continue;
		}
		text_format(&line, " %s=", class->fields[i]);
		put_fixed(&line, class->types[i], at);
		at += bytes;
	}
	if (at != event->end)
		abort();
	if (canon->count == canon->room) {
		canon->room = canon->room ? canon->room * 2 : 256;
		canon->lines = reallocarray(canon->lines, canon->room, sizeof(char *));
		if (!canon->lines)
			abort();
	}
	canon->lines[canon->count++] = line.at;
}

int canon_read(struct canon *canon, const char *dir)
{
	struct trace_reader *reader;
	struct merge_event event;
	struct merge *merge;
	uint64_t last = 0;
	int err;

	*canon = (struct canon){ 0 };
	err = trace_reader_open(&reader, dir);
	if (err)
		return err;
	err = merge_open(&merge, reader, 0, NULL, NULL);
	while (!err && (err = merge_next(merge, &event)) > 0) {
		err = 0;
		canon->disorder |= event.ns < last;
		last = event.ns;
		canon->lost += event.lost;
		canon->missing_packets += event.missing_packets;
		if (event.class)
			put_event(canon, &event);
	}
	canon->damages = reader->damages_ever;
	merge_close(merge);
	trace_reader_close(reader);
	return err;
}

void canon_release(struct canon *canon)
{
	for (uint32_t i = 0; i < canon->count; i++)
		free(canon->lines[i]);
	free(canon->lines);
}

static int by_text(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

void canon_sort(char **lines, uint32_t count)
{
	if (count)
		qsort(lines, count, sizeof(*lines), by_text);
}
