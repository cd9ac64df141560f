/* SPDX-License-Identifier: MIT */
/*
 * What a trace knows beside its events: its processes and their modules, what was not recorded,
 * what watches came to, and which event classes and clocks there are. Each fact is an event of
 * waymark:* in the trace's stream `facts`, which is written before what needs it.
 *
 * The facts from FACT_CLOCK on are for our reader alone, as other readers have the metadata. Their
 * packets have no content, and hold them in what other readers take for padding.
 */
#ifndef TRACE_FACTS_H
#define TRACE_FACTS_H

#include "base/enumeration.h"
#include "base/text_buffer.h"
#include "trace/schema.h"

#include <stddef.h>
#include <stdint.h>
#include <waymark/session.h>

#define FACTS_FILE "facts"
#define FACTS_STREAM UINT32_MAX /* the id of its stream class */
#define FACTS_FORMAT 2u

enum fact {
	FACT_TRACE, /* the first */
	FACT_HOST,
	FACT_IN_MEMORY,
	FACT_PROCESS, /* how it came to be recorded is unknown */
	FACT_START,
	FACT_FORK,
	FACT_EXEC,
	FACT_END,
	FACT_MODULE,
	FACT_CHANGE,
	FACT_GAP,
	FACT_CUT,
	FACT_UNRECORDED,
	FACT_WATCH,
	FACT_FIGURE,
	FACT_CLOCK,
	FACT_ENUM,
	FACT_CLASS,
	FACTS,
};

/* How a process came to be recorded; the `kind` of its record. */
enum life_kind {
	LIFE_UNKNOWN = 0,
	LIFE_START = 's', /* launched or attached to */
	LIFE_FORK = 'f',
	LIFE_EXEC = 'x',
	LIFE_END = 'q',
};

/* The trace's possible clocks: by enum store_clock, and that of the facts. */
enum { CLOCK_OF_FACTS = 2, TRACE_CLOCKS };

struct trace_clock {
	int used;
	uint64_t ticks_hz;
	int64_t offset_s;      /* the wall clock at tick 0 is offset_s seconds */
	uint64_t offset_ticks; /* and this many ticks, less than ticks_hz */
};

/* ---- writing ---- */

union fact_value {
	uint64_t u; /* of any number */
	struct {
		const void *start;
		size_t bytes;
	} run; /* of strings and bytes */
};

/* A string as a value; NULL is an empty one. */
union fact_value fact_string(const char *string);

/* Append an event. There is one value for each field that facts.c lists. */
void fact_put(struct text *to, enum fact fact, uint64_t wall_ns, const union fact_value *values);

/* Append FACT_ENUM, FACT_CLASS. */
void fact_put_enum(struct text *to, uint64_t wall_ns, const struct enumeration *of);
void fact_put_class(struct text *to, uint64_t wall_ns, uint32_t process,
		    const struct trace_class *class);

/* Make the schema of all facts; trace_schema_free() releases it. 0 or -ENOMEM. */
int fact_schema_new(struct trace_schema **schema);

/* ---- reading ---- */

/* A module of a process: that it has it, or, with `gone`, has it no more. */
struct fact_module {
	uint64_t base; /* what is added to addresses as linked */
	uint64_t ns;   /* when it came or went, by the wall clock; 0: unknown */
	int gone;
	char *build_id; /* in hex; NULL: it has none */
	char *path;
};

/* Specs that went and came, and from when on: struct trace_change (writer.h). */
struct fact_change {
	const char *from, *to;
	uint64_t begin_ns, gap_ns;
};

/* From when to when, by the wall clock, hits are missing: struct trace_gap (writer.h). */
struct fact_gap {
	const char *name, *cause;
	uint64_t begin_ns, end_ns;
};

/* A process, which is a stream class; its place in the list is its number. */
struct fact_process {
	int declared;
	int is_kernel; /* its streams are of CPUs (struct wm_packet) */
	uint32_t pid, ppid;
	uint64_t start_time;
	uint32_t clock;		     /* enum store_clock */
	struct fact_module *modules; /* as they came and went */
	size_t module_count, module_room;
	struct fact_change *changes; /* in the order of time */
	size_t change_count, change_room;
	struct fact_gap *gaps; /* likewise, after facts_end() */
	size_t gap_count, gap_room;
	char way;		    /* enum life_kind */
	uint64_t begin_ns, end_ns;  /* by the wall clock, as the recorder saw it; end 0: unknown */
	const char *exe, *build_id; /* the latter in hex; NULL: it has none */
	struct trace_schema *schema;
};

/*
 * Add a module to those of a process, with copies of its path and of its build id, of 0 bytes where
 * it has none. 0 or -ENOMEM.
 */
int fact_module_add(struct fact_process *process, const struct fact_module *about, const char *path,
		    const void *build_id, size_t bytes);
void fact_modules_release(struct fact_process *process);

/* Processes of a program that ran unrecorded, and why. */
struct fact_unrecorded {
	const char *program, *reason;
	uint64_t processes;
};

/* What a watch came to: figures by name. */
struct fact_watch {
	const char *spec;
	struct fact_figure {
		const char *name;
		uint64_t value;
	} * figures;
	size_t count, room;
};

struct facts {
	struct trace_schema *schema; /* of the facts themselves */
	uint8_t uuid[16];
	uint32_t format;      /* FACTS_FORMAT; 0 until it was read */
	int is_broken;	      /* some could not be read */
	const char *hostname; /* may be NULL, as in_memory: trace_in_memory_add() */
	const char *in_memory;
	char **texts; /* all strings but those of modules */
	size_t text_count, text_room;
	struct trace_clock clocks[TRACE_CLOCKS];
	struct enumeration_pool pool;
	const struct enumeration **enums; /* by number; may be NULL */
	size_t enum_count, enum_room;
	struct fact_process *processes;
	uint32_t process_count;
	struct fact_unrecorded *unrecorded;
	size_t unrecorded_count, unrecorded_room;
	struct fact_watch *watches;
	size_t watch_count, watch_room;
};

/* 0 or -ENOMEM; facts_release() in any case. */
int facts_init(struct facts *facts);

/*
 * Note a fact, with the fields that trace_fields() has of it. 0; -EINVAL: it makes no sense and is
 * left out; -ENOMEM.
 */
int facts_take(struct facts *facts, enum fact fact, const struct wm_event_field *fields);

/* All were taken: an entry of fact_gap with an end replaces the same without. */
void facts_end(struct facts *facts);
void facts_release(struct facts *facts);

#endif
