/* SPDX-License-Identifier: MIT */
/*
 * The metadata of Waymark's traces: TSDL as we write it. This header has the parts common to both
 * directions; tsdl.c writes, tsdl_parse.c reads.
 *
 * Each name of a field has a '_' in front in the TSDL, which CTF readers take off again: so no
 * field can be a reserved word. Beside a string NAME is its state, _NAME_state; beside a run also
 * its length, _NAME_length.
 */
#ifndef TRACE_TSDL_H
#define TRACE_TSDL_H

#include "base/text_buffer.h"
#include "trace/schema.h"
#include "trace/tsdl_enum.h"

#include <stdint.h>

/* What the packets of the kernel's stream class have instead of a tid. */
#define TSDL_CPU "cpu_id"

/* The trace's two possible clocks, by enum store_clock. */
#define TSDL_CLOCKS 2

struct tsdl_clock {
	int used;
	uint64_t ticks_hz;
	int64_t offset_s;      /* the wall clock at tick 0 is offset_s seconds */
	uint64_t offset_ticks; /* and this many ticks, less than ticks_hz */
};

/* Name of a clock; of a WM_TYPE_* in typealiases (a string's is "string", a run's elements'). */
const char *tsdl_clock_name(uint32_t clock);
const char *tsdl_type_name(uint8_t type);

/* The wall clock at tick 0 of a clock that stood at `ticks` when it was `realtime_ns`. */
void tsdl_clock_offset(struct tsdl_clock *clock, uint64_t ticks, uint64_t realtime_ns);

/* Everything before the env block: the trace and its types. */
void tsdl_head(struct text *text, const uint8_t uuid[16]);
void tsdl_clock(struct text *text, uint32_t kind, const struct tsdl_clock *clock);
void tsdl_stream(struct text *text, uint32_t stream_id, uint32_t clock, int is_kernel);
void tsdl_event(struct text *text, uint32_t stream_id, const struct trace_class *class);

/* A module of a process: that it has it, or, with `gone`, has it no more. */
struct tsdl_module {
	uint64_t base; /* what is added to addresses as linked */
	uint64_t ns;   /* when it came or went, by the wall clock; 0: unknown */
	int gone;
	char *build_id; /* in hex; NULL: it has none */
	char *path;
};

/* A watch of a process that became another, and from when on: struct trace_change (writer.h). */
struct tsdl_change {
	char *from, *to;
	uint64_t begin_ns, gap_ns;
	int was_stopped;
};

/* From when to when, by the wall clock, hits of an event are missing: struct trace_foreign. */
struct tsdl_foreign {
	char *name;
	uint64_t begin_ns, end_ns;
};

/* What metadata says of a process, which is a stream class; its place in the list is its number. */
struct tsdl_process {
	int declared;  /* its stream class was */
	int is_kernel; /* its streams are of CPUs (struct wm_packet) */
	uint32_t pid, ppid;
	uint64_t start_time;
	uint32_t clock;		     /* enum store_clock */
	struct tsdl_module *modules; /* as they came and went */
	size_t module_count, module_room;
	struct tsdl_change *changes; /* in the order of time */
	size_t change_count, change_room;
	struct tsdl_foreign *foreign;
	size_t foreign_count, foreign_room;
	/* how it came to be recorded: enum life_kind of trace/process_records.h; 0: unknown */
	char way;
	uint64_t begin_ns, end_ns; /* by the wall clock, as the recorder saw it; end 0: unknown */
	char *exe, *build_id;	   /* the latter in hex; both may be NULL */
	struct trace_schema *schema;
};

/* Processes of a program that ran unrecorded, and why; both strings may be NULL. */
struct tsdl_unrecorded {
	char *program, *reason;
	uint64_t processes;
};

struct tsdl {
	int ours; /* Waymark wrote it */
	int uuid_known;
	uint8_t uuid[16];
	char *hostname, *version; /* may be NULL */
	char *in_memory;	  /* trace_in_memory_add(); may be NULL */
	struct tsdl_clock clocks[TSDL_CLOCKS];
	struct tsdl_enums enums;
	struct tsdl_process *processes;
	uint32_t process_count;
	struct tsdl_unrecorded *unrecorded;
	size_t unrecorded_count, unrecorded_room;
	char **watches; /* what each came to: trace_watch_add() */
	size_t watch_count, watch_room;
	uint32_t broken_line; /* the first that could not be read; 0 for none */
};

/*
 * Read metadata. Damaged parts are left out, and broken_line says where that began. Returns 0,
 * -WM_E_NOT_A_TRACE or -ENOMEM; *tsdl is released with tsdl_release() in any case.
 */
int tsdl_parse(struct tsdl *tsdl, const char *text, size_t bytes);
void tsdl_release(struct tsdl *tsdl);

#endif
