/* SPDX-License-Identifier: MIT */
/*
 * What a recording knows: its processes, clocks, enumerations and event classes, and how far each
 * stream has come. It notes that in the folder that it writes (trace/destination.h), and again in
 * the next one.
 *
 * Before the next packet the writer appends a packet of the new facts, and to the metadata, which
 * it keeps as a text that only grows, the new classes. It replaces the metadata when a clock has
 * changed.
 */
#include "trace/writer.h"

#include "base/array.h"
#include "trace/facts.h"
#include "trace/folder.h"
#include "trace/jitdump.h"
#include "trace/kernel_names.h"
#include "trace/metadata.h"
#include "trace/destination.h"
#include "trace/packet_walk.h"
#include "trace/perf_map.h"
#include "trace/recent.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define TOLD_BYTES_MAX (16u << 20) /* for each process: an agent may be hostile */
/* written by a process for each id that it may inherit: from then on all of them are declared */
#define DECLARE_ALL_BYTES 16384u
/* How long a process's kernel events may come behind its end. */
#define PAST_NS 1000000000u
/* Processes that come before those that have ended are looked for. */
#define FORGET_EVERY 64

/* ---- the writer ---- */

struct writer_process {
	struct trace_schema *schema;
	struct perf_map_owner owner;
	uint32_t clock;
	int is_kernel;
	struct text facts;	/* all facts about it */
	size_t told_bytes;	/* of those that its agent reports */
	uint64_t ended_ns;	/* CLOCK_MONOTONIC, when that was noted; 0: it runs */
	int is_past;		/* it is in no folder that begins from now on */
	unsigned int in_folder; /* the number of the last folder that has it */
	int from;		/* -1; else some of whose events it has, */
	uint32_t from_ids;	/* those with an id below */
	int declared_all;	/* of them */
	uint64_t walked_bytes;
};

struct trace_writer {
	struct destination *folder; /* NULL: there is no folder, and packets are kept in memory */
	struct destination *next;   /* opened, and not begun */
	struct recent *recent;	    /* NULL: packets go to the folder */
	char *hostname;
	struct trace_clock clocks[TRACE_CLOCKS];
	int clock_known[TRACE_CLOCKS];
	struct writer_process *processes;
	int process_count;
	struct trace_schema *fact_schema;
	struct enumeration_pool enums;
	struct text body;     /* of the folder's metadata */
	struct streams known; /* how far each stream has come */
	unsigned int folders; /* begun so far */
	uint64_t said;	      /* events lost, as packets say that were taken */
};

/* ---- facts and metadata ---- */

/* Note a fact of the recording as a whole: it goes to the present folder. */
static void note(struct trace_writer *writer, enum fact fact, const union fact_value *values)
{
	if (writer->folder)
		destination_note(writer->folder, fact, values);
}

#define NOTE(writer, fact, ...) note(writer, fact, (const union fact_value[]){ __VA_ARGS__ })

/* Note a fact about a process, which is noted again in the next folders. Returns its bytes. */
static size_t note_of(struct trace_writer *writer, struct writer_process *of, enum fact fact,
		      const union fact_value *values)
{
	size_t before = of->facts.bytes;

	if (of->is_past)
		return 0;
	fact_put(&of->facts, fact, 0, values); /* tell_facts() gives it a time */
	note(writer, fact, values);
	return of->facts.bytes - before;
}

static int metadata_write(struct trace_writer *writer)
{
	struct destination *folder = writer->folder;
	struct text head = { 0 };
	int err;

	metadata_head(&head, folder->uuid, writer->hostname);
	for (uint32_t i = 0; i < TRACE_CLOCKS; i++)
		if (writer->clocks[i].used)
			metadata_clock(&head, i, &writer->clocks[i]);
	metadata_stream(&head, FACTS_STREAM, CLOCK_OF_FACTS, 0);
	for (uint32_t i = 0; i < FACT_CLOCK; i++)
		metadata_event(&head, FACTS_STREAM, schema_find(writer->fact_schema, i));
	err = metadata_replace(&folder->metadata, folder->dir, &head, &writer->body);
	text_release(&head);
	return err;
}

/* Have everything on disk that the next packet needs. */
static int writer_flush(struct trace_writer *writer)
{
	struct destination *folder = writer->folder;
	int err = folder ? destination_facts_write(folder) : 0;

	if (err || !folder || !folder->is_behind)
		return err;
	if (writer->body.error)
		return -ENOMEM;
	err = folder->is_head_behind ? -EBADF : metadata_append(&folder->metadata, &writer->body);
	if (err)
		err = metadata_write(writer);
	if (!err)
		folder->is_behind = folder->is_head_behind = 0;
	return err;
}

/* The folder's error, as the user's cause. */
static int write_failed(struct trace_writer *writer, int err)
{
	return writer->folder ? destination_failed(writer->folder, err) : err;
}

/* That of a file beside the streams is one of the trace when there was no room for it. */
static int beside_failed(struct trace_writer *writer, int err)
{
	return destination_cause(err) == -WM_E_TRACE_FULL ? write_failed(writer, err) : err;
}

/* Whether the present folder has it, or the next snapshot will. */
static int is_in_folder(const struct trace_writer *writer, const struct writer_process *of)
{
	return !of->is_past || (!writer->recent && of->in_folder == writer->folders);
}

/* ---- what is known, for a new folder ---- */

static void tell_clock(struct trace_writer *writer, uint32_t kind)
{
	const struct trace_clock *clock = &writer->clocks[kind];

	NOTE(writer, FACT_CLOCK, { .u = kind }, { .u = clock->ticks_hz },
	     { .u = (uint64_t)clock->offset_s }, { .u = clock->offset_ticks });
}

static void tell_enum(struct trace_writer *writer, const struct enumeration *of)
{
	struct destination *folder = writer->folder;

	metadata_enum(&writer->body, of);
	fact_put_enum(&folder->own_facts, destination_now(folder), of);
}

static void tell_class(struct trace_writer *writer, int process, const struct trace_class *class)
{
	struct destination *folder = writer->folder;

	metadata_event(&writer->body, (uint32_t)process, class);
	fact_put_class(&folder->own_facts, destination_now(folder), (uint32_t)process, class);
	destination_settle(folder, &folder->own_facts);
	folder->is_behind = 1;
}

/*
 * The facts about a process, as if they were noted now: times in a stream do not go back. Changes
 * of specs are over, but those that packets in memory may be older than.
 */
static void tell_facts(struct trace_writer *writer, const struct text *noted)
{
	struct destination *folder = writer->folder;
	struct walk walk = { .at = (uint8_t *)noted->at,
			     .end = (uint8_t *)noted->at + noted->bytes };
	uint64_t now = destination_now(folder);
	uint32_t id = 0;

	while (walk.at < walk.end) {
		const char *start = (const char *)walk.at;
		size_t head = EVENT_EXTENDED_BYTES;

		if (walk_header(&walk, &id) ||
		    walk_fields(&walk, schema_find(writer->fact_schema, id)))
			break;
		if (id == FACT_CHANGE && !writer->recent)
			continue;
		text_add(&folder->facts, start, head - sizeof(now));
		text_add(&folder->facts, (const char *)&now, sizeof(now));
		text_add(&folder->facts, start + head,
			 (size_t)((const char *)walk.at - start) - head);
		destination_settle(folder, &folder->facts);
	}
}

static void tell_process(struct trace_writer *writer, int number)
{
	struct writer_process *of = &writer->processes[number];

	of->in_folder = writer->folders;
	tell_facts(writer, &of->facts);
	metadata_stream(&writer->body, (uint32_t)number, of->clock, of->is_kernel);
	for (uint32_t i = 0; i < of->schema->count; i++)
		tell_class(writer, number, of->schema->classes[i]);
}

/* Forget processes that had ended before the oldest packet came that is not written. */
static void past_forget(struct trace_writer *writer)
{
	uint64_t since_ns = recent_now_ns() - trace_kept_ns(writer);

	for (int i = 0; i < writer->process_count; i++) {
		struct writer_process *of = &writer->processes[i];

		if (of->is_past || !of->ended_ns || of->ended_ns + PAST_NS >= since_ns)
			continue;
		of->is_past = 1;
		text_release(&of->facts);
		of->facts = (struct text){ 0 };
	}
}

/* Tell the new folder all. */
static int tell_all(struct trace_writer *writer)
{
	text_release(&writer->body);
	writer->body = (struct text){ 0 };
	if (writer->hostname)
		NOTE(writer, FACT_HOST, fact_string(writer->hostname));
	for (uint32_t i = 0; i < CLOCK_OF_FACTS; i++)
		if (writer->clock_known[i])
			tell_clock(writer, i);
	for (size_t i = 0; i < writer->enums.count; i++)
		tell_enum(writer, writer->enums.all[i]);
	past_forget(writer);
	for (int i = 0; i < writer->process_count; i++) {
		if (writer->processes[i].facts.error)
			return writer->processes[i].facts.error;
		if (!writer->processes[i].is_past)
			tell_process(writer, i);
	}
	return 0;
}

/* ---- folders ---- */

static int writer_new(struct trace_writer **writer)
{
	struct trace_writer *made = calloc(1, sizeof(*made));
	int err = made ? fact_schema_new(&made->fact_schema) : -ENOMEM;

	*writer = NULL;
	if (err) {
		free(made);
		return err;
	}
	made->clocks[CLOCK_OF_FACTS] = (struct trace_clock){ .used = 1, .ticks_hz = 1000000000 };
	*writer = made;
	return 0;
}

int trace_writer_open(struct trace_writer **writer, const char *dir)
{
	struct trace_writer *made;
	int err = writer_new(&made);

	*writer = NULL;
	if (err)
		return err;
	err = destination_open(&made->folder, dir);
	if (!err) {
		err = write_failed(made, writer_flush(made));
		if (err)
			destination_undo(made->folder);
	}
	if (err) {
		made->folder = NULL;
		trace_writer_close(made);
		return err;
	}
	*writer = made;
	return 0;
}

int trace_writer_keep(struct trace_writer **writer, uint64_t bytes, uint64_t age_ns)
{
	int err = writer_new(writer);

	if (err)
		return err;
	(*writer)->recent = calloc(1, sizeof(*(*writer)->recent));
	if (!(*writer)->recent) {
		trace_writer_close(*writer);
		*writer = NULL;
		return -ENOMEM;
	}
	(*writer)->recent->bytes_max = bytes;
	(*writer)->recent->age_ns_max = age_ns;
	return 0;
}

int trace_next_open(struct trace_writer *writer, const char *dir)
{
	return writer->next ? -EBUSY : destination_open(&writer->next, dir);
}

int trace_next_begin(struct trace_writer *writer)
{
	struct destination *ended = writer->folder;
	int err = write_failed(writer, writer_flush(writer)), closed;

	if (!writer->recent)
		ended->unsaid = 0; /* that is for the last folder */
	closed = destination_close(ended);
	writer->folders++;
	writer->folder = writer->next;
	writer->next = NULL;
	err = err ? err : closed;
	closed = tell_all(writer);
	if (!closed)
		closed = write_failed(writer, writer_flush(writer));
	return err ? err : closed;
}

uint64_t trace_kept_ns(const struct trace_writer *writer)
{
	uint64_t came_ns = writer->recent ? recent_trim(writer->recent) : 0;

	return came_ns ? recent_now_ns() - came_ns : 0;
}

int trace_kept_write(struct trace_writer *writer)
{
	struct recent_packets held;
	int err = recent_hold(writer->recent, &held);

	if (err)
		return err;
	err = write_failed(writer, recent_write(&held, writer->folder));
	recent_let_go(&held);
	recent_free(writer->recent);
	writer->recent = NULL;
	return err;
}

struct trace_snapshot {
	struct destination *folder;
	struct recent_packets held;
};

int trace_snapshot_take(struct trace_writer *writer, struct trace_snapshot **snapshot)
{
	struct trace_snapshot *made = calloc(1, sizeof(*made));
	int err = made ? recent_hold(writer->recent, &made->held) : -ENOMEM;

	if (!err)
		err = write_failed(writer, writer_flush(writer));
	if (err) {
		if (made)
			recent_let_go(&made->held);
		free(made);
		made = NULL;
		destination_close(writer->folder);
	} else {
		made->folder = writer->folder;
	}
	writer->folder = NULL;
	*snapshot = made;
	return err;
}

int trace_snapshot_write(struct trace_snapshot *snapshot)
{
	int err = destination_failed(snapshot->folder,
				     recent_write(&snapshot->held, snapshot->folder));
	int closed = destination_close(snapshot->folder);

	return err ? err : closed;
}

void trace_snapshot_free(struct trace_snapshot *snapshot)
{
	recent_let_go(&snapshot->held);
	free(snapshot);
}

void trace_end_set(struct trace_writer *writer, const struct trace_end *end)
{
	struct destination *folder = writer->folder;

	if (!folder)
		return;
	folder->index.head.length_ns = end->length_ns;
	folder->unsaid = end->discarded > writer->said ? end->discarded - writer->said : 0;
	folder->index.head.unwritten_blocks = end->unwritten_blocks;
	folder->index.head.unwritten_threads = end->unwritten_threads;
}

int trace_in_memory_add(struct trace_writer *writer, const char *what)
{
	NOTE(writer, FACT_IN_MEMORY, fact_string(what));
	return write_failed(writer, writer_flush(writer));
}

void trace_unrecorded_add(struct trace_writer *writer, const char *program, uint64_t processes,
			  const char *reason)
{
	NOTE(writer, FACT_UNRECORDED, { .u = processes }, fact_string(program),
	     fact_string(reason));
}

uint32_t trace_watch_add(struct trace_writer *writer, const char *spec)
{
	if (!writer->folder)
		return 0;
	NOTE(writer, FACT_WATCH, { .u = writer->folder->watches }, fact_string(spec));
	return writer->folder->watches++;
}

void trace_figure_add(struct trace_writer *writer, uint32_t watch, const char *name, uint64_t value)
{
	NOTE(writer, FACT_FIGURE, { .u = watch }, fact_string(name), { .u = value });
}

static enum fact begin_of(char way)
{
	return way == LIFE_START  ? FACT_START
	       : way == LIFE_FORK ? FACT_FORK
	       : way == LIFE_EXEC ? FACT_EXEC
				  : FACT_PROCESS;
}

static uint32_t clock_of(uint64_t ticks_hz)
{
	return ticks_hz == 1000000000 ? STORE_CLOCK_MONOTONIC : STORE_CLOCK_TSC;
}

int trace_process_add(struct trace_writer *writer, const struct trace_process *process)
{
	size_t id_bytes = process->build_id_bytes;
	struct writer_process *larger, *added;
	int number = writer->process_count;
	struct trace_clock *clock;
	int err, is_head_changed = 0;

	if (!process->ticks_hz)
		return -EINVAL;
	if (number % FORGET_EVERY == 0)
		past_forget(writer);
	if (!writer->hostname && process->hostname) {
		writer->hostname = strdup(process->hostname);
		if (!writer->hostname)
			return -ENOMEM;
		NOTE(writer, FACT_HOST, fact_string(writer->hostname));
		is_head_changed = 1;
	}
	larger = reallocarray(writer->processes, (size_t)number + 1, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	writer->processes = larger;
	added = &larger[number];
	*added = (struct writer_process){ .owner = { .pid = process->pid,
						     .uid = process->uid,
						     .start_time = process->start_time },
					  .clock = clock_of(process->ticks_hz),
					  .is_kernel = !process->pid,
					  .in_folder = writer->folders,
					  .from = -1 };
	err = trace_schema_new(&added->schema);
	if (err)
		return err;
	clock = &writer->clocks[added->clock];
	is_head_changed |= !clock->used;
	clock->used = 1;
	if (!clock->ticks_hz)
		clock->ticks_hz = process->ticks_hz;
	if (id_bytes > sizeof(process->build_id))
		id_bytes = sizeof(process->build_id);
	note_of(writer, added, begin_of(process->way),
		(const union fact_value[]){ { .u = (uint64_t)number },
					    { .u = process->pid },
					    { .u = process->ppid },
					    { .u = added->clock },
					    { .u = process->start_time },
					    { .u = process->begin_ns },
					    { .run = { process->build_id, id_bytes } },
					    fact_string(process->exe) });
	writer->process_count++;
	if (!writer->folder)
		return number;
	metadata_stream(&writer->body, (uint32_t)number, added->clock, added->is_kernel);
	writer->folder->is_behind = 1;
	writer->folder->is_head_behind |= is_head_changed;
	return number;
}

int trace_perf_maps_copy(struct trace_writer *writer)
{
	uint64_t room = PERF_MAPS_BYTES_MAX;
	int first = 0;

	for (int i = 0; i < writer->process_count; i++) {
		const struct writer_process *of = &writer->processes[i];
		int err = of->is_kernel || !is_in_folder(writer, of)
				  ? 0
				  : perf_map_copy(writer->folder->dir, &of->owner, &room);

		first = first ? first : err;
	}
	return beside_failed(writer, first);
}

int trace_kernel_names_add(struct trace_writer *writer, uint64_t *addresses, size_t count)
{
	int err = kernel_names_write(writer->folder->dir, "", addresses, count);

	return beside_failed(writer, err);
}

static struct writer_process *process_of(struct trace_writer *writer, int process)
{
	return process < 0 || process >= writer->process_count ? NULL : &writer->processes[process];
}

int trace_event_add(struct trace_writer *writer, int process, uint32_t id, const uint8_t types[16],
		    const char *text)
{
	static const struct enumeration *const none[SCHEMA_FIELDS_MAX];

	return trace_event_add_named(writer, process, id, types, text, none);
}

/* The writer's copy, which the metadata declares. NULL: no names, values are numbers. */
static const struct enumeration *enum_declare(struct trace_writer *writer,
					      const struct enumeration *of)
{
	size_t before = writer->enums.count;
	const struct enumeration *kept = of ? enumeration_pool_copy(&writer->enums, of) : NULL;

	if (writer->enums.count > before && writer->folder)
		tell_enum(writer, kept);
	return kept;
}

/* The names that the field has in its site's text. NULL: none. */
static const struct enumeration *enum_labelled(struct trace_writer *writer, uint8_t type,
					       const char *text, unsigned int field)
{
	struct enumeration_draft draft = { .type = type };
	struct enumeration_pool pool = { 0 };
	const struct enumeration *kept = NULL;

	schema_labels(text, field, &draft);
	if (draft.count)
		kept = enum_declare(writer, enumeration_pool_make(&pool, &draft));
	enumeration_draft_release(&draft);
	enumeration_pool_release(&pool);
	return kept;
}

/* Declare a class that the process's schema has. */
static void class_declare(struct trace_writer *writer, int process, uint32_t id)
{
	if (writer->folder)
		tell_class(writer, process, schema_find(writer->processes[process].schema, id));
}

int trace_event_add_named(struct trace_writer *writer, int process, uint32_t id,
			  const uint8_t types[16], const char *text,
			  const struct enumeration *const names[SCHEMA_FIELDS_MAX])
{
	struct writer_process *of = process_of(writer, process);
	const struct enumeration *kept[SCHEMA_FIELDS_MAX];
	int err;

	if (!of)
		return -EINVAL;
	for (unsigned int i = 0; i < SCHEMA_FIELDS_MAX; i++)
		kept[i] = names[i] ? enum_declare(writer, names[i])
				   : enum_labelled(writer, types[i], text, i);
	err = schema_put_text(of->schema, id, types, text, kept);
	if (err <= 0)
		return err;
	if (of->is_kernel && !schema_find(of->schema, id)->has_thread)
		return -EINVAL;
	class_declare(writer, process, id);
	return 0;
}

/* Note a fact that an agent reports. Past TOLD_BYTES_MAX note once that facts are left out. */
static void note_told(struct trace_writer *writer, struct writer_process *of, enum fact fact,
		      const union fact_value *values)
{
	if (of->told_bytes > TOLD_BYTES_MAX)
		return;
	of->told_bytes += note_of(writer, of, fact, values);
	if (of->told_bytes > TOLD_BYTES_MAX)
		note_of(writer, of, FACT_CUT, values); /* of the same process */
}

int trace_process_end(struct trace_writer *writer, int process, uint64_t end_ns)
{
	struct writer_process *of = process_of(writer, process);

	if (!of)
		return -EINVAL;
	note_of(writer, of, FACT_END,
		(const union fact_value[]){ { .u = (uint64_t)process }, { .u = end_ns } });
	trace_process_over(writer, process);
	return 0;
}

void trace_process_over(struct trace_writer *writer, int process)
{
	if (!writer->processes[process].ended_ns)
		writer->processes[process].ended_ns = recent_now_ns();
}

int trace_module_add(struct trace_writer *writer, int process, const struct control_module *module,
		     const char *path, uint64_t ns)
{
	struct writer_process *of = process_of(writer, process);
	size_t bytes = module->build_id_bytes;

	if (!of)
		return -EINVAL;
	if (jitdump_is_name(path)) {
		free(of->owner.jitdump);
		of->owner.jitdump = strdup(path);
		return of->owner.jitdump ? 0 : -ENOMEM;
	}
	if (bytes > sizeof(module->build_id))
		bytes = sizeof(module->build_id);
	note_told(writer, of, FACT_MODULE,
		  (const union fact_value[]){ { .u = (uint64_t)process },
					      { .u = module->gone != 0 },
					      { .u = module->base },
					      { .u = ns },
					      { .run = { module->build_id, bytes } },
					      fact_string(path) });
	return 0;
}

int trace_change_add(struct trace_writer *writer, int process, const struct trace_change *change)
{
	struct writer_process *of = process_of(writer, process);

	if (!of)
		return -EINVAL;
	note_told(writer, of, FACT_CHANGE,
		  (const union fact_value[]){ { .u = (uint64_t)process },
					      { .u = change->begin_ns },
					      { .u = change->gap_ns },
					      fact_string(change->from),
					      fact_string(change->to) });
	return 0;
}

int trace_gap_add(struct trace_writer *writer, int process, const struct trace_gap *gap)
{
	struct writer_process *of = process_of(writer, process);

	if (!of)
		return -EINVAL;
	note_told(writer, of, FACT_GAP,
		  (const union fact_value[]){ { .u = (uint64_t)process },
					      { .u = gap->begin_ns },
					      { .u = gap->end_ns },
					      fact_string(gap->name),
					      fact_string(gap->cause) });
	return 0;
}

int trace_clock_set(struct trace_writer *writer, uint64_t ticks_hz, uint64_t ticks,
		    uint64_t realtime_ns)
{
	uint32_t kind = clock_of(ticks_hz);
	struct trace_clock *clock = &writer->clocks[kind];
	struct trace_clock set = { .used = clock->used, .ticks_hz = ticks_hz };

	if (!ticks_hz)
		return -EINVAL;
	metadata_clock_offset(&set, ticks, realtime_ns);
	writer->clock_known[kind] = 1;
	if (!memcmp(&set, clock, sizeof(set)))
		return 0;
	*clock = set;
	tell_clock(writer, kind);
	if (writer->folder)
		writer->folder->is_behind = writer->folder->is_head_behind = 1;
	return 0;
}

int trace_events_inherit(struct trace_writer *writer, int process, int from, uint32_t ids)
{
	struct writer_process *of = process_of(writer, process);

	if (!of || from < 0 || from >= process || of->from >= 0)
		return -EINVAL;
	of->from = from;
	of->from_ids = ids;
	return 0;
}

/* The class that one before this process has for an id, NULL: none. Each comes before its child. */
static const struct trace_class *inherited_class(const struct trace_writer *writer,
						 const struct writer_process *of, uint32_t id)
{
	const struct trace_class *class = NULL;

	while (!class && of->from >= 0 && id < of->from_ids) {
		of = &writer->processes[of->from];
		class = schema_find(of->schema, id);
	}
	return class;
}

/* Declare one that is inherited. Returns 1 when there is such a class, else 0 or an error. */
static int declare_one(struct trace_writer *writer, int process, uint32_t id)
{
	struct writer_process *of = &writer->processes[process];
	const struct trace_class *class = inherited_class(writer, of, id);
	int err = class ? schema_put_copy(of->schema, class) : 0;

	if (err < 0 || !class)
		return err;
	class_declare(writer, process, id);
	return 1;
}

/*
 * Declare all that is inherited, so that this process's packets need not be looked through any
 * more. What the metadata grows by is little beside what was written by then; where an id has no
 * class, it is tried again when as much more was.
 */
static int declare_all(struct trace_writer *writer, int process)
{
	struct writer_process *of = &writer->processes[process];
	int all = 1;

	of->walked_bytes = 0;
	for (uint32_t id = 0; id < of->from_ids; id++) {
		int got = schema_find(of->schema, id) ? 1 : declare_one(writer, process, id);

		if (got < 0)
			return got;
		all &= got;
	}
	of->declared_all = all;
	return 0;
}

/*
 * Declare what is inherited and turns up here for the first time. What can't be read is left to
 * readers.
 */
static int declare_inherited(struct trace_writer *writer, int process, const void *content,
			     size_t bytes)
{
	struct writer_process *of = &writer->processes[process];
	struct walk walk = { .at = content, .end = (const uint8_t *)content + bytes };
	uint32_t id;

	while (walk.at < walk.end && !walk_header(&walk, &id)) {
		const struct trace_class *class = schema_find(of->schema, id);

		if (!class) {
			int err = declare_one(writer, process, id);

			if (err < 0)
				return err;
			class = schema_find(of->schema, id);
		}
		if (!class || walk_fields(&walk, class))
			break;
	}
	of->walked_bytes += bytes;
	return of->walked_bytes / DECLARE_ALL_BYTES >= of->from_ids ? declare_all(writer, process)
								    : 0;
}

void trace_triggers_set(struct trace_writer *writer, int process, uint32_t id, uint32_t triggers)
{
	struct trace_class *class = schema_find(writer->processes[process].schema, id);

	if (class)
		class->triggers = triggers;
}

int trace_packet_each(const struct trace_writer *writer, int process, const void *content,
		      size_t bytes,
		      int (*call)(const struct trace_class *class, const uint8_t *at, void *data),
		      void *data)
{
	struct walk walk = { .at = content, .end = (const uint8_t *)content + bytes };
	const struct writer_process *of;
	int got = 0;
	uint32_t id;

	if (process < 0 || process >= writer->process_count)
		return -1;
	of = &writer->processes[process];
	while (walk.at < walk.end && !got) {
		const struct trace_class *class;
		const uint8_t *fields;

		if (walk_header(&walk, &id))
			return -1;
		class = schema_find(of->schema, id);
		if (!class)
			class = inherited_class(writer, of, id);
		fields = walk.at;
		if (!class || walk_fields(&walk, class))
			return -1;
		got = call(class, fields, data);
	}
	return got;
}

static int skip(const struct trace_class *class, const uint8_t *at, void *data)
{
	(void)class, (void)at, (void)data;
	return 0;
}

int trace_packet_is_declared(const struct trace_writer *writer, int process, const void *content,
			     size_t bytes)
{
	return !trace_packet_each(writer, process, content, bytes, skip, NULL);
}

int trace_packet_write(struct trace_writer *writer, int process, struct wm_packet *head,
		       const void *content, size_t bytes, uint32_t events)
{
	struct writer_process *of = process_of(writer, process);
	struct packet_step step;
	struct stream *known;
	int err = 0;

	if (!of || bytes > UINT32_MAX)
		return -EINVAL;
	if (!is_in_folder(writer, of))
		return -WM_E_GONE;
	if (!writer->clock_known[of->clock])
		trace_clock_set(writer, writer->clocks[of->clock].ticks_hz, head->begin_ticks,
				head->realtime_ns);
	if (of->from >= 0 && !of->declared_all)
		err = declare_inherited(writer, process, content, bytes);
	if (!err && !writer->recent)
		err = writer_flush(writer);
	if (err)
		return write_failed(writer, err);
	head->magic = PACKET_MAGIC;
	head->stream_id = (uint32_t)process;
	head->content_bits = head->packet_bits = 8 * ((uint64_t)PAGE_HEAD_BYTES + bytes);
	err = streams_find(&writer->known, head, &known);
	if (err)
		return err;
	step = (struct packet_step){ .missed = head->seq - known->seq,
				     .lost = head->discarded - known->discarded };
	err = writer->recent
		      ? recent_add(writer->recent, head, &step, content, bytes, events)
		      : destination_packet(writer->folder, head, &step, content, bytes, events);
	if (err)
		return write_failed(writer, err);
	known->seq = head->seq + 1;
	known->discarded = head->discarded;
	writer->said += step.lost;
	return 0;
}

int trace_writer_close(struct trace_writer *writer)
{
	int err, closed;

	if (!writer)
		return 0;
	err = write_failed(writer, writer_flush(writer));
	closed = destination_close(writer->folder);
	if (writer->next)
		destination_undo(writer->next);
	for (int i = 0; i < writer->process_count; i++) {
		trace_schema_free(writer->processes[i].schema);
		free(writer->processes[i].owner.jitdump);
		text_release(&writer->processes[i].facts);
	}
	free(writer->processes);
	recent_free(writer->recent);
	streams_release(&writer->known);
	enumeration_pool_release(&writer->enums);
	text_release(&writer->body);
	trace_schema_free(writer->fact_schema);
	free(writer->hostname);
	free(writer);
	return err ? err : closed;
}
