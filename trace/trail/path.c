/* SPDX-License-Identifier: MIT */
#include "trace/trail/path.h"

#include "base/array.h"
#include "trace/reader.h"
#include "trace/trail/check.h"
#include "trace/trail/event.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SPACES_FEW 128u /* of more, tables are of many */

/* What of a stream's fields is read. */
struct trail_fields {
	uint32_t words[3];
	const uint8_t *run;
	uint32_t run_bytes;
	uint64_t number; /* behind the words */
	struct trail_between between;
};

/* The fields of an event that reader_packet_event() has stepped over: all are there. */
static void fields_read(struct trail_fields *fields, int class, const uint8_t *at)
{
	const struct trail_shape *shape = &trail_shapes[class];

	*fields = (struct trail_fields){ 0 };
	if (class < TRAIL_EVENTS) {
		fields->between = (struct trail_between){ .at = load_u64(at),
							  .left = load_u32(at + 8),
							  .event = (uint8_t) class };
		for (int i = 0; i < 2 && shape->fields[2 + i]; i++)
			fields->between.values[i] = load_u64(at + 12 + 8 * i);
		return;
	}
	for (int i = 0; i < 3 && shape->fields[i]; i++) {
		if (shape->types[i] == WM_TYPE_BYTES) {
			fields->run_bytes = load_u32(at + 1);
			fields->run = at + 5;
			return;
		}
		if (shape->types[i] == WM_TYPE_U64) {
			fields->number = load_u64(at);
			return;
		}
		fields->words[i] = load_u32(at);
		at += 4;
	}
}

static struct trail_space *space_find(const struct trails *trails, uint32_t process,
				      uint32_t number)
{
	uint32_t hash = slots_hash((uint64_t)process << 32 | number), found;

	for (uint64_t at = hash; slots_next(&trails->space_slots, hash, &at, &found);)
		if (trails->spaces[found].process == process &&
		    trails->spaces[found].number == number)
			return &trails->spaces[found];
	return NULL;
}

static struct trail_space *space_of(struct trails *trails, uint32_t process, uint32_t number)
{
	struct trail_space *space = space_find(trails, process, number), *more;

	if (space || trails->space_count == TRAIL_SPACES_MAX)
		return space;
	if (slots_fit(&trails->space_slots) || array_grow(&trails->spaces, &trails->space_room,
							  trails->space_count + 1, sizeof(*more)))
		return NULL;
	more = trails->spaces;
	more[trails->space_count] = (struct trail_space){ .process = process,
							  .number = number,
							  .table.is_of_many = trails->space_count >=
									      SPACES_FEW };
	slots_add(&trails->space_slots, slots_hash((uint64_t)process << 32 | number),
		  (uint32_t)trails->space_count);
	return &more[trails->space_count++];
}

static struct trail_part *part_add(struct trail_path *path)
{
	if (array_grow(&path->parts, &path->room, path->count + 1, sizeof(*path->parts)))
		return NULL;
	path->parts[path->count] = (struct trail_part){ .before = path->blocks };
	return &path->parts[path->count++];
}

/* ---- threads that should have a trail ---- */

/* Take in an event, of a stream of that process. 0 or -ENOMEM. */
static int trail_threads_add(struct trail_threads *threads, const struct trace_stream *stream,
			     uint32_t tid, int is_over, uint64_t blocks)
{
	if (array_grow(&threads->all, &threads->room, threads->count + 1, sizeof(*threads->all)))
		return -ENOMEM;
	threads->all[threads->count++] = (struct trail_thread_entry){
		.process = stream->process,
		.tid = tid,
		.blocks = is_over ? blocks : 0,
		.over = is_over != 0,
		.file = stream->file,
		.is_missing = 1,
	};
	return 0;
}

static int by_thread(const void *one, const void *other)
{
	const struct trail_thread_entry *a = one, *b = other;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static struct trail_thread_entry *entry_find(const struct trail_threads *threads, uint32_t process,
					     uint32_t tid)
{
	struct trail_thread_entry thread = { .process = process, .tid = tid };

	return threads->count
		       ? bsearch(&thread, threads->all, threads->count, sizeof(thread), by_thread)
		       : NULL;
}

const struct trail_thread_entry *trail_threads_find(const struct trail_threads *threads,
						    uint32_t process, uint32_t tid)
{
	return entry_find(threads, process, tid);
}

/* All was taken in. */
static void trail_threads_settle(struct trail_threads *threads, const struct trace_reader *reader)
{
	size_t kept = 0;

	if (threads->count)
		qsort(threads->all, threads->count, sizeof(*threads->all), by_thread);
	for (size_t i = 0; i < threads->count; i++) {
		struct trail_thread_entry *last = kept ? &threads->all[kept - 1] : NULL;

		if (last && !by_thread(last, &threads->all[i])) {
			last->blocks += threads->all[i].blocks;
			last->over += threads->all[i].over;
		} else {
			threads->all[kept++] = threads->all[i];
		}
	}
	threads->count = kept;
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		struct trail_thread_entry *entry = entry_find(threads, reader->streams[i].process,
							      reader->streams[i].tid);

		if (entry)
			entry->is_missing = 0;
	}
}

static void trail_threads_release(struct trail_threads *threads)
{
	free(threads->all);
	*threads = (struct trail_threads){ 0 };
}

/* ---- a stream's events, whichever they are ---- */

struct stream_pass {
	struct trails *trails;
	struct trace_reader *reader;
	struct trace_stream *stream;
	struct trail_path *path;
	size_t unsettled; /* parts from there on are events that may belong to the next blocks */
	struct trail_check check;
	const struct trail_table *table; /* of the last blocks */
	uint64_t discarded, next_seq;
	int is_begun;
};

/* The space that the table's stream describes; NULL: no memory, or too many, which is reported. */
static struct trail_space *space_told(struct stream_pass *pass, uint32_t number, uint64_t offset,
				      uint64_t bytes)
{
	struct trail_space *space = space_of(pass->trails, pass->stream->process, number);

	if (!space && pass->trails->space_count == TRAIL_SPACES_MAX)
		reader_damage(pass->reader, pass->stream->file, offset, bytes,
			      "more spaces than a trace may have");
	return space;
}

static int define(struct stream_pass *pass, const struct trail_fields *fields, uint64_t offset)
{
	struct trail_space *space = space_told(pass, fields->words[0], offset, fields->run_bytes);
	int err;

	if (!space)
		return pass->trails->space_count == TRAIL_SPACES_MAX ? 0 : -ENOMEM;
	err = trail_table_define(&space->table, fields->words[1], fields->run, fields->run_bytes);
	if (err == -EINVAL || err == -EEXIST)
		reader_damage(pass->reader, pass->stream->file, offset, fields->run_bytes,
			      err == -EINVAL ? "blocks are defined that can't be"
					     : "a block is defined twice, as something else");
	return err == -ENOMEM ? err : 0;
}

static int begin_space(struct stream_pass *pass, const struct trail_fields *fields, uint64_t offset)
{
	struct trail_space *space = space_told(pass, fields->words[0], offset, 0);

	if (!space)
		return pass->trails->space_count == TRAIL_SPACES_MAX ? 0 : -ENOMEM;
	space->is_told = 1;
	space->table.era.from = fields->words[1];
	return 0;
}

/* An event of the table's stream. */
static int take_table(struct stream_pass *pass, int class, const struct trail_fields *fields,
		      uint64_t ticks, uint64_t offset)
{
	(void)ticks;
	switch (class) {
	case TRAIL_CLASS_DEFINE:
		return define(pass, fields, offset);
	case TRAIL_CLASS_SPACE:
		return begin_space(pass, fields, offset);
	case TRAIL_CLASS_THREAD:
		return trail_threads_add(&pass->trails->threads, pass->stream, fields->words[0],
					 fields->words[1] != 0, fields->number);
	default:
		return 0;
	}
}

/* Go over a stream's trail events. What `take` returns other than 0 ends it. */
static int stream_pass(struct stream_pass *pass,
		       int (*take)(struct stream_pass *pass, int class,
				   const struct trail_fields *fields, uint64_t ticks,
				   uint64_t offset),
		       int (*packet_begins)(struct stream_pass *pass, const struct trace_packet *))
{
	const struct trace_schema *schema = stream_schema(pass->reader, pass->stream);
	struct trace_packet packet;
	uint64_t offset = 0;
	int err = 0;

	while (!err && reader_stream_packet(pass->reader, pass->stream, &offset, &packet)) {
		if (pass->reader->pulse)
			pass->reader->pulse(pass->reader, pass->trails->read_bytes + offset);
		err = packet_begins ? packet_begins(pass, &packet) : 0;
		while (!err && packet.walk.at < packet.walk.end) {
			const uint8_t *begin = packet.walk.at, *at;
			const struct trace_class *class;
			struct trail_fields fields;
			const char *why = reader_packet_event(&packet, schema, &class, &at);
			int which;

			if (why) {
				reader_damage(pass->reader, pass->stream->file, packet.offset,
					      (uint64_t)(packet.walk.end - begin), why);
				break;
			}
			which = trail_class_of(class);
			if (which < 0)
				continue;
			fields_read(&fields, which, at);
			err = take(pass, which, &fields, packet.walk.ticks, packet.offset);
		}
	}
	pass->trails->read_bytes += pass->stream->bytes;
	return err;
}

/* ---- a thread's ---- */

/*
 * It says where the thread continues, which may be elsewhere altogether; the others say where it
 * was.
 */
static int is_of_next(uint8_t event)
{
	return event == TRAIL_ARRIVE || event == TRAIL_LOST || event == TRAIL_GAP ||
	       event == TRAIL_EXEC;
}

static int add_event(struct stream_pass *pass, const struct trail_between *between, uint64_t ticks)
{
	struct trail_part *part = part_add(pass->path);

	if (!part)
		return -ENOMEM;
	part->between = *between;
	part->ticks = ticks;
	if (!is_of_next(between->event)) {
		part->table = pass->table;
		if (pass->table)
			pass->unsettled = pass->path->count;
	}
	return 0;
}

static int add_blocks(struct stream_pass *pass, const struct trail_space *space,
		      const struct trail_fields *fields, const struct trail_checked *good,
		      uint64_t ticks)
{
	struct trail_part *part = good->blocks ? part_add(pass->path) : NULL;

	if (!part)
		return good->blocks ? -ENOMEM : 0;
	part->ids = fields->run;
	part->count = good->blocks;
	part->words = good->words < UINT16_MAX ? (uint16_t)good->words : UINT16_MAX;
	part->has_paths = good->has_paths != 0;
	part->table = &space->table;
	part->ticks = ticks;
	pass->path->blocks += good->blocks;
	pass->table = part->table;
	for (size_t i = pass->unsettled; i + 1 < pass->path->count; i++)
		pass->path->parts[i].table = pass->table;
	pass->unsettled = pass->path->count;
	return 0;
}

/* The path ends before this. */
static int ends_here(struct stream_pass *pass, const char *why, uint64_t offset)
{
	pass->path->damage = why;
	reader_damage(pass->reader, pass->stream->file, offset, 0, why);
	return 1;
}

/* A thread that continues afterwards was not killed: its values mean nothing. */
static void values_drop(struct trail_path *path)
{
	free(path->values);
	path->values = NULL;
}

static int value(struct trail_path *path, uint64_t number, uint64_t value)
{
	if (number >= TRAIL_VALUES) /* of a later version */
		return 0;
	if (!path->values)
		path->values = calloc(1, sizeof(*path->values));
	if (!path->values)
		return -ENOMEM;
	path->values->of[number] = value;
	path->values->has[number] = 1;
	return 0;
}

static int blocks(struct stream_pass *pass, const struct trail_fields *fields, uint64_t ticks,
		  uint64_t offset)
{
	const struct trail_space *space = space_find(pass->trails, pass->stream->process,
						     fields->words[0]);
	struct trail_checked good = { 0 };
	const char *why = "blocks of a space that is not defined";
	int err;

	if (space)
		why = trail_check_blocks(&pass->check, &space->table, fields->run,
					 fields->run_bytes / 4, &good);
	values_drop(pass->path);
	err = add_blocks(pass, space, fields, &good, ticks);
	if (!err && why)
		err = ends_here(pass, why, offset);
	return err;
}

/*
 * In an event, 0 means that the place is unknown. The exception is a SIGSEGV right behind an
 * indirect branch: the thread called or jumped through a null pointer. This holds for a signal, and
 * under step for an end, too.
 */
static int stood_at_0(const struct stream_pass *pass, const struct trail_between *between)
{
	const struct trail_block *before = pass->check.before;
	int is_end = between->event == TRAIL_END && between->values[0] == TRAIL_KILLED;

	if (!(pass->path->origin == TRAIL_STEP || (pass->path->origin == TRAIL_SOFT && !is_end)) ||
	    !before || between->left || (!is_end && between->event != TRAIL_SIGNAL) ||
	    between->values[is_end] != SIGSEGV)
		return 0;
	return before->kind == TRAIL_CALL_INDIRECT || before->kind == TRAIL_JUMP_INDIRECT ||
	       before->kind == TRAIL_RETURN || before->kind == TRAIL_FAR;
}

/*
 * The signal at address 0 that killed the thread, if that is the item right before its end; else
 * NULL.
 */
static struct trail_part *ends_by(const struct stream_pass *pass, const struct trail_between *end)
{
	struct trail_part *last = pass->path->count ? &pass->path->parts[pass->path->count - 1]
						    : NULL;

	return last && !last->count && last->between.event == TRAIL_SIGNAL &&
			       last->between.has_at && !last->between.at &&
			       !last->between.values[1] && end->event == TRAIL_END && !end->at &&
			       end->values[0] == TRAIL_KILLED &&
			       end->values[1] == last->between.values[0]
		       ? last
		       : NULL;
}

static int event(struct stream_pass *pass, struct trail_between *between, uint64_t ticks,
		 uint64_t offset)
{
	struct trail_part *signal;
	const char *why;

	between->has_at = between->at || stood_at_0(pass, between);
	why = trail_check_event(&pass->check, between);
	if (why)
		return ends_here(pass, why, offset);
	if (between->event == TRAIL_VALUE)
		return value(pass->path, between->values[0], between->values[1]);
	signal = ends_by(pass, between);
	if (!signal)
		return add_event(pass, between, ticks);
	signal->between = *between;
	signal->between.has_at = 1;
	return 0;
}

static int follow(struct stream_pass *pass, int class, const struct trail_fields *fields,
		  uint64_t ticks, uint64_t offset)
{
	struct trail_between between = fields->between;

	if (class > TRAIL_CLASS_BLOCKS)
		return 0;
	if (class == TRAIL_CLASS_BLOCKS)
		return blocks(pass, fields, ticks, offset);
	if (class == TRAIL_CLASS_BEGIN) {
		if (!pass->is_begun) {
			pass->path->origin = fields->words[1];
			pass->path->flags = fields->words[2];
		}
		pass->is_begun = 1;
		pass->check = (struct trail_check){ 0 };
		return 0;
	}
	return event(pass, &between, ticks, offset);
}

/* What the store lost is lost to the trail, however many blocks that were. */
static int notice_loss(struct stream_pass *pass, const struct trace_packet *packet)
{
	struct trail_between lost = { .event = TRAIL_LOST };
	int is_lost = packet->head.discarded != pass->discarded ||
		      packet->head.seq != pass->next_seq;

	pass->discarded = packet->head.discarded;
	pass->next_seq = packet->head.seq + 1;
	if (!is_lost)
		return 0;
	pass->check = (struct trail_check){ 0 };
	return add_event(pass, &lost, packet->head.begin_ticks);
}

static int is_same_thread(const struct trace_stream *a, const struct trace_stream *b)
{
	return a->process == b->process && a->pid == b->pid && a->tid == b->tid;
}

/* The thread's path, which is the last one's where that is the same thread. */
static struct trail_path *path_of(struct trails *trails, const struct trace_stream *stream)
{
	struct trail_path *last = trails->path_count ? &trails->paths[trails->path_count - 1]
						     : NULL;

	if (last && is_same_thread(last->stream, stream))
		return last;
	last = reallocarray(trails->paths, trails->path_count + 1, sizeof(*last));
	if (!last)
		return NULL;
	trails->paths = last;
	last[trails->path_count] = (struct trail_path){ .stream = stream };
	return &last[trails->path_count++];
}

static int has_trail(const struct trace_reader *reader, const struct trace_stream *stream)
{
	/* without a whole packet the facts may lack its process: that part may have been cut */
	const struct trace_schema *schema = stream->packets ? stream_schema(reader, stream) : NULL;

	for (uint32_t i = 0; schema && i < schema->count; i++)
		if (trail_class_of(schema->classes[i]) == TRAIL_CLASS_BLOCKS)
			return 1;
	return 0;
}

static int read_path(struct trails *trails, struct trace_reader *reader,
		     struct trace_stream *stream)
{
	struct stream_pass pass = { .trails = trails, .reader = reader, .stream = stream };
	int err;

	pass.path = path_of(trails, stream);
	if (!pass.path)
		return -ENOMEM;
	if (pass.path->damage)
		return 0;
	pass.unsettled = pass.path->count;
	err = stream_pass(&pass, follow, notice_loss);
	if (!pass.path->count) { /* a thread that has events of other kinds */
		values_drop(pass.path);
		trails->path_count--;
	}
	return err < 0 ? err : 0;
}

static int is_lossy(const struct trail_path *path)
{
	for (size_t i = 0; i < path->count; i++)
		if (!path->parts[i].count && path->parts[i].between.event == TRAIL_LOST)
			return 1;
	return 0;
}

/* Trails that were there once and are not, or not all of them, and nothing else says so. */
static void compare_told(struct trails *trails, struct trace_reader *reader)
{
	const struct trail_thread_entry *threads;

	for (size_t i = 0; i < trails->threads.count && !reader->live; i++) {
		threads = &trails->threads.all[i];
		if (threads->is_missing && threads->over)
			reader_damage(reader, threads->file, 0, 0,
				      "a thread's trail that it lists is not there");
	}
	for (size_t i = 0; i < trails->path_count && !reader->live; i++) {
		const struct trail_path *path = &trails->paths[i];

		threads = trail_threads_find(&trails->threads, path->stream->process,
					     path->stream->tid);
		if (threads && path->blocks < threads->blocks && !path->damage && !is_lossy(path))
			reader_damage(reader, path->stream->file, path->stream->bytes, 0,
				      "blocks are missing that it had once");
	}
}

/* ---- eras: each table is of one epoch of its process's modules ---- */

/* By process, and there by their epochs; those without one are first. */
static int by_epoch(const void *one, const void *other)
{
	const struct trail_space *const *a = one, *const *b = other;
	uint32_t of_a = (*a)->table.era.from, of_b = (*b)->table.era.from;

	if ((*a)->process != (*b)->process)
		return (*a)->process < (*b)->process ? -1 : 1;
	if ((*a)->is_told != (*b)->is_told)
		return (*a)->is_told ? 1 : -1;
	return of_a < of_b ? -1 : of_a > of_b;
}

/* As the writer had it. */
static int module_take(struct module_epochs *epochs, const struct fact_module *from)
{
	struct control_module module = { .base = from->base, .gone = from->gone != 0 };
	const char *id = from->build_id ? from->build_id : "";

	for (; id[0] && id[1] && module.build_id_bytes < sizeof(module.build_id); id += 2) {
		char digits[3] = { id[0], id[1], '\0' };

		module.build_id[module.build_id_bytes++] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return module_epochs_take(epochs, &module, from->path);
}

int trails_epochs_read(struct module_epochs *epochs, const struct fact_process *process)
{
	int err = 0;

	for (size_t i = 0; i < process->module_count && !err; i++)
		err = module_take(epochs, &process->modules[i]);
	return err;
}

/* The eras of a process's spaces; of one without a trail:space: all the time. */
static int eras_take(struct trail_space **spaces, size_t count, const struct fact_process *process)
{
	struct module_epochs epochs = { 0 };
	int err = trails_epochs_read(&epochs, process);
	uint32_t number = 0;

	for (size_t i = 0; i < count && !err; i++) {
		struct trail_era *era = &spaces[i]->table.era;

		number += i && by_epoch(&spaces[i - 1], &spaces[i]);
		era->number = number;
		era->to = spaces[i]->is_told ? module_epochs_end(&epochs, era->from) : 0;
	}
	module_epochs_release(&epochs);
	return err;
}

/* Once all spaces are known: each table's number and era. 0 or -ENOMEM. */
static int trails_eras_take(struct trails *trails, const struct trace_reader *reader)
{
	size_t count = trails->space_count, next;
	struct trail_space **sorted = calloc(count + 1, sizeof(*sorted));
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		trails->spaces[i].table.number = (uint32_t)i;
		sorted[i] = &trails->spaces[i];
	}
	qsort(sorted, count, sizeof(struct trail_space *), by_epoch);
	for (size_t i = 0; i < count && !err; i = next) {
		next = i;
		while (next < count && sorted[next]->process == sorted[i]->process)
			next++;
		err = eras_take(sorted + i, next - i, &reader->meta.processes[sorted[i]->process]);
	}
	free(sorted);
	return err;
}

/* ---- all ---- */

int trails_read(struct trails *trails, struct trace_reader *reader)
{
	int err;

	*trails = (struct trails){ 0 };
	err = slots_fit(&trails->space_slots);
	for (uint32_t i = 0; i < reader->stream_count && !err; i++) {
		struct trace_stream *stream = &reader->streams[i];
		struct stream_pass pass = { .trails = trails, .reader = reader, .stream = stream };

		if (!has_trail(reader, stream))
			continue;
		err = reader_stream_map(reader, stream);
		if (!err && stream->tid == TRAIL_TABLE_TID)
			err = stream_pass(&pass, take_table, NULL);
	}
	if (!err)
		err = trails_eras_take(trails, reader);
	for (uint32_t i = 0; i < reader->stream_count && !err; i++)
		if (reader->streams[i].map && reader->streams[i].tid != TRAIL_TABLE_TID &&
		    has_trail(reader, &reader->streams[i]))
			err = read_path(trails, reader, &reader->streams[i]);
	if (!err) {
		trail_threads_settle(&trails->threads, reader);
		compare_told(trails, reader);
	}
	return err;
}

void trails_release(struct trails *trails, struct trace_reader *reader)
{
	for (size_t i = 0; i < trails->space_count; i++)
		trail_table_release(&trails->spaces[i].table);
	for (size_t i = 0; i < trails->path_count; i++) {
		free(trails->paths[i].parts);
		values_drop(&trails->paths[i]);
	}
	free(trails->spaces);
	trail_threads_release(&trails->threads);
	free(trails->space_slots.all);
	free(trails->paths);
	*trails = (struct trails){ 0 };
	for (uint32_t i = 0; i < reader->stream_count; i++)
		reader_stream_unmap(&reader->streams[i]);
}
