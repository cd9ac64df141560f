/* SPDX-License-Identifier: MIT */
/*
 * The text of the metadata of Waymark's traces, for other CTF readers; ours has trace/facts.h.
 *
 * Each name of a field has a '_' in front in the TSDL, which CTF readers take off again: so no
 * field can be a reserved word. Beside a string NAME is its state, _NAME_state; beside a run also
 * its length, _NAME_length.
 *
 * The names of a field's values are declared once, before the first event that uses them:
 *
 *	typealias enum : wm_u32 { "RED" = 0, "GREEN" = 1 } := wm_u32_enum_0;
 *
 * Its file `metadata` while the trace is being written. A reader finds whole declarations at any
 * time, also after SIGKILL.
 *
 * To replace the file, the writer renames a new one over it. To append, the writer uses one
 * write(2) for each page of the file, and no declaration crosses a page: the kernel copies a page's
 * bytes in one step, and neither a signal nor a reader comes between.
 */
#ifndef TRACE_METADATA_H
#define TRACE_METADATA_H

#include "base/text_buffer.h"
#include "trace/facts.h"
#include "trace/schema.h"

#include <stdint.h>

/* The wall clock at tick 0 of a clock that stood at `ticks` when it was `realtime_ns`. */
void metadata_clock_offset(struct trace_clock *clock, uint64_t ticks, uint64_t realtime_ns);

/* The trace, its types and its environment; hostname may be NULL. */
void metadata_head(struct text *text, const uint8_t uuid[16], const char *hostname);
void metadata_clock(struct text *text, uint32_t kind, const struct trace_clock *clock);
void metadata_stream(struct text *text, uint32_t stream_id, uint32_t clock, int is_kernel);
void metadata_enum(struct text *text, const struct enumeration *of);
void metadata_event(struct text *text, uint32_t stream_id, const struct trace_class *class);

struct metadata {
	int fd; /* -1: nothing to append to; metadata_replace() opens it */
	uint64_t bytes;
	size_t body_bytes; /* of the writer's text, how much the file has */
};

/* The file becomes head and body. 0, -ENOMEM, -errno. */
int metadata_replace(struct metadata *metadata, int dir, const struct text *head,
		     const struct text *body);

/*
 * Append what body has grown by. 0, or a negative error: the file is as before, or -1 is its
 * descriptor and it has to be replaced. -E2BIG: a declaration is larger than a page.
 */
int metadata_append(struct metadata *metadata, const struct text *body);

void metadata_release(struct metadata *metadata);

#endif
