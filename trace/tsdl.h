/* SPDX-License-Identifier: MIT */
/*
 * Writing the metadata of Waymark's traces, for other CTF readers; ours has trace/facts.h.
 *
 * Each name of a field has a '_' in front in the TSDL, which CTF readers take off again: so no
 * field can be a reserved word. Beside a string NAME is its state, _NAME_state; beside a run also
 * its length, _NAME_length.
 *
 * The names of a field's values are declared once, before the first event that uses them:
 *
 *	typealias enum : wm_u32 { "RED" = 0, "GREEN" = 1 } := wm_u32_enum_0;
 */
#ifndef TRACE_TSDL_H
#define TRACE_TSDL_H

#include "base/text_buffer.h"
#include "trace/facts.h"
#include "trace/schema.h"

#include <stdint.h>

/* The wall clock at tick 0 of a clock that stood at `ticks` when it was `realtime_ns`. */
void tsdl_clock_offset(struct trace_clock *clock, uint64_t ticks, uint64_t realtime_ns);

/* The trace, its types and its environment; hostname may be NULL. */
void tsdl_head(struct text *text, const uint8_t uuid[16], const char *hostname);
void tsdl_clock(struct text *text, uint32_t kind, const struct trace_clock *clock);
void tsdl_stream(struct text *text, uint32_t stream_id, uint32_t clock, int is_kernel);
void tsdl_enum(struct text *text, const struct enumeration *of);
void tsdl_event(struct text *text, uint32_t stream_id, const struct trace_class *class);

#endif
