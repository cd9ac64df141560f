/* SPDX-License-Identifier: MIT */
/*
 * One packet's bytes into events, for callers that have no trace folder.
 */
#ifndef TRACE_DECODE_H
#define TRACE_DECODE_H

#include "abi/page.h"

#include <stddef.h>
#include <stdint.h>
#include <waymark/session.h>

struct trace_class;
struct trace_schema;

/* Make an empty set of event classes; released with trace_schema_free(), which allows NULL. */
int trace_schema_new(struct trace_schema **schema);
void trace_schema_free(struct trace_schema *schema);

/*
 * Declare event `id`, as trace_event_add() does: the same event given again is ignored, another
 * under the same id is -EEXIST, a type that doesn't exist -EINVAL.
 */
int trace_schema_add(struct trace_schema *schema, uint32_t id, const uint8_t types[16],
		     const char *text);

/*
 * Call `event` for each event of a packet, in order. `content` is what follows the packet's head
 * and must be the caller's own copy: it may not change meanwhile. The clock of `ticks_hz` stood at
 * `base_ticks` when the wall clock said `base_realtime_ns`.
 *
 * Returns 0; or what a callback returned when that was not 0, which ends the packet; or
 * -WM_E_TRACE_DAMAGED at the first event that can't be read (those before it were handed over).
 */
int trace_decode(const struct trace_schema *schema, const struct wm_packet *head,
		 const void *content, size_t bytes, uint64_t ticks_hz, uint64_t base_ticks,
		 uint64_t base_realtime_ns, int (*event)(const struct wm_event *event, void *data),
		 void *data);

/*
 * Fill in the fields of an event of this class, which walk_fields() has stepped over. `at` is where
 * they begin. Strings and runs point into these bytes.
 */
void trace_fields(struct wm_event_field *fields, const struct trace_class *class,
		  const uint8_t *at);

#endif
