/* SPDX-License-Identifier: MIT */
/* The events of a trail, as CTF classes: what each is called and which fields it has. */
#ifndef TRACE_TRAIL_EVENT_H
#define TRACE_TRAIL_EVENT_H

#include "abi/trail.h"

#include <stddef.h>
#include <stdint.h>

struct trace_class;

#define TRAIL_SUBSYSTEM "trail"

/* All classes of a trail; enum trail_event comes first. */
enum trail_class {
	TRAIL_CLASS_BEGIN = TRAIL_EVENTS,
	TRAIL_CLASS_BLOCKS,
	TRAIL_CLASS_DEFINE,
	TRAIL_CLASS_THREAD,
	TRAIL_CLASS_SPACE,
	TRAIL_CLASSES,
};

#define TRAIL_FIELDS_MAX 4

struct trail_shape {
	const char *name;
	const char *fields[TRAIL_FIELDS_MAX];
	uint8_t types[16]; /* WM_TYPE_* */
};

extern const struct trail_shape trail_shapes[TRAIL_CLASSES];

/* Which class of a trail this is, by its name and fields; -1: none. */
int trail_class_of(const struct trace_class *class);

/*
 * A site's text for a class (abi/site.h), in text[bytes]: what trace_event_add() takes. 0, -ENOSPC.
 */
int trail_class_text(enum trail_class class, char *text, size_t bytes);

#endif
