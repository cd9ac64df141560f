/* SPDX-License-Identifier: MIT */
#include "trace/trail/event.h"

#include "trace/schema.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

#define AT WM_TYPE_PTR, WM_TYPE_U32

const struct trail_shape trail_shapes[TRAIL_CLASSES] = {
	[TRAIL_DEPART] = { "depart", { "at", "left" }, { AT } },
	[TRAIL_ARRIVE] = { "arrive", { "at", "left" }, { AT } },
	[TRAIL_SIGNAL] = { "signal",
			   { "at", "left", "number", "handler" },
			   { AT, WM_TYPE_I64, WM_TYPE_PTR } },
	[TRAIL_SYSCALLED] = { "syscalled",
			      { "at", "left", "number", "result" },
			      { AT, WM_TYPE_I64, WM_TYPE_I64 } },
	[TRAIL_LOST] = { "lost", { "at", "left", "blocks" }, { AT, WM_TYPE_U64 } },
	[TRAIL_GAP] = { "gap", { "at", "left", "reason" }, { AT, WM_TYPE_U64 } },
	[TRAIL_FORK] = { "fork", { "at", "left", "child" }, { AT, WM_TYPE_I64 } },
	[TRAIL_EXEC] = { "exec", { "at", "left" }, { AT } },
	[TRAIL_END] = { "end",
			{ "at", "left", "reason", "number" },
			{ AT, WM_TYPE_I64, WM_TYPE_I64 } },
	[TRAIL_VALUE] = { "value",
			  { "at", "left", "number", "value" },
			  { AT, WM_TYPE_I64, WM_TYPE_U64 } },
	[TRAIL_CLASS_BEGIN] = { "begin",
				{ "space", "origin", "flags" },
				{ WM_TYPE_U32, WM_TYPE_U32, WM_TYPE_U32 } },
	[TRAIL_CLASS_BLOCKS] = { "blocks", { "space", "ids" }, { WM_TYPE_U32, WM_TYPE_BYTES } },
	[TRAIL_CLASS_DEFINE] = { "define",
				 { "space", "first", "blocks" },
				 { WM_TYPE_U32, WM_TYPE_U32, WM_TYPE_BYTES } },
	[TRAIL_CLASS_THREAD] = { "thread",
				 { "tid", "over", "blocks" },
				 { WM_TYPE_U32, WM_TYPE_U32, WM_TYPE_U64 } },
	[TRAIL_CLASS_SPACE] = { "space", { "space", "modules" }, { WM_TYPE_U32, WM_TYPE_U32 } },
};

static uint8_t field_count(const struct trail_shape *shape)
{
	uint8_t count = 0;

	while (count < TRAIL_FIELDS_MAX && shape->fields[count])
		count++;
	return count;
}

static int has_shape(const struct trace_class *class, const struct trail_shape *shape)
{
	if (class->count != field_count(shape) || memcmp(class->types, shape->types, class->count))
		return 0;
	for (uint8_t i = 0; i < class->count; i++)
		if (strcmp(class->fields[i], shape->fields[i]))
			return 0;
	return 1;
}

int trail_class_of(const struct trace_class *class)
{
	if (strncmp(class->name, TRAIL_SUBSYSTEM ":", sizeof(TRAIL_SUBSYSTEM)))
		return -1;
	for (int i = 0; i < TRAIL_CLASSES; i++)
		if (!strcmp(class->name + sizeof(TRAIL_SUBSYSTEM), trail_shapes[i].name))
			return has_shape(class, &trail_shapes[i]) ? i : -1;
	return -1;
}

int trail_class_text(enum trail_class class, char *text, size_t bytes)
{
	const struct trail_shape *shape = &trail_shapes[class];
	int used = snprintf(text, bytes, "mj\n" TRAIL_SUBSYSTEM "\n%s\n\n0\n", shape->name);

	for (uint8_t i = 0; i < field_count(shape) && used > 0 && (size_t)used < bytes; i++)
		used += snprintf(text + used, bytes - (size_t)used, "%s%s", i ? "," : "",
				 shape->fields[i]);
	return used > 0 && (size_t)used < bytes ? 0 : -ENOSPC;
}
