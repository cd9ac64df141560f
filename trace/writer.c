/* SPDX-License-Identifier: MIT */
/*
 * The writer's folder and metadata; its stream files are in streams.c.
 *
 * The writer keeps the metadata as texts that only grow: env, and body (stream and event classes).
 * Before the next packet it appends what is new to the file. It replaces the file when a clock has
 * changed, and at the end, so that a complete trace has one env.
 */
#include "trace/writer.h"

#include "trace/folder.h"
#include "trace/jitdump.h"
#include "trace/kernel_names.h"
#include "trace/metadata.h"
#include "trace/packet_walk.h"
#include "trace/perf_map.h"
#include "trace/streams.h"
#include "trace/tsdl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define TOLD_BYTES_MAX (16u << 20) /* for each process: an agent may be hostile */
/* written by a process for each id that it may inherit: from then on all of them are declared */
#define DECLARE_ALL_BYTES 16384u

struct writer_process {
	struct trace_schema *schema;
	struct perf_map_owner owner;
	uint32_t clock;
	int is_kernel;
	uint32_t modules, changes, foreign;
	size_t told_bytes; /* of the metadata, for these three */
	int from;	   /* -1; else some of whose events it has, */
	uint32_t from_ids; /* those with an id below */
	int declared_all;  /* of them */
	uint64_t walked_bytes;
};

struct trace_writer {
	int dir;
	unsigned int unrecorded, watches; /* entries in the metadata */
	struct index index;
	int changed;	     /* the metadata on disk is behind */
	int is_head_changed; /* in its clocks, so it has to be replaced */
	struct metadata metadata;
	uint8_t uuid[16];
	struct tsdl_clock clocks[TSDL_CLOCKS];
	int clock_known[TSDL_CLOCKS];
	struct writer_process *processes;
	int process_count;
	struct text env, body;
	struct enumeration_pool enums; /* those that the body declares */
	struct streams streams;
};

/* Every failure to write for want of room is one cause to the user. */
static int room_error(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EFBIG ? -WM_E_TRACE_FULL : err;
}

static int metadata_write(struct trace_writer *writer)
{
	struct text head = { 0 }, tail = { 0 };
	int err;

	tsdl_head(&head, writer->uuid);
	text_format(&head,
		    "env {\n\ttracer_name = \"waymark\";\n"
		    "\twaymark_version = \"%s\";\n",
		    WAYMARK_VERSION);
	text_format(&tail, "};\n\n");
	for (uint32_t i = 0; i < TSDL_CLOCKS; i++)
		if (writer->clocks[i].used)
			tsdl_clock(&tail, i, &writer->clocks[i]);
	err = metadata_replace(&writer->metadata, writer->dir, &head, &writer->env, &tail,
			       &writer->body);
	text_release(&head);
	text_release(&tail);
	return err;
}

static int metadata_flush(struct trace_writer *writer)
{
	int err;

	if (!writer->changed)
		return 0;
	if (writer->env.error || writer->body.error)
		return -ENOMEM;
	err = writer->is_head_changed
		      ? -EBADF
		      : metadata_append(&writer->metadata, &writer->env, &writer->body);
	if (err)
		err = metadata_write(writer);
	if (!err)
		writer->changed = writer->is_head_changed = 0;
	return err;
}

/* Open the folder, made if need be, and see that it is empty. Returns its descriptor. */
static int open_empty(const char *path)
{
	struct dirent *entry;
	DIR *list;
	int fd, copy, empty = 1;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = folder_open(path);
	if (fd < 0)
		return fd;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	list = copy < 0 ? NULL : fdopendir(copy);
	if (!list) {
		int err = -errno;

		if (copy >= 0)
			close(copy);
		close(fd);
		return err;
	}
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			empty = 0;
	closedir(list);
	/* Says that the trace is being written. Where a file system can't, readers only guess. */
	if (empty && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		empty = 0;
	if (empty)
		return fd;
	close(fd);
	return -WM_E_TRACE_DIR;
}

static void uuid_make(uint8_t uuid[16])
{
	if (getrandom(uuid, 16, 0) != 16)
		memset(uuid, 0x5a, 16);
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* version 4, RFC 4122 */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

int trace_writer_open(struct trace_writer **writer, const char *dir)
{
	struct trace_writer *made = calloc(1, sizeof(*made));
	int err;

	*writer = NULL;
	if (!made)
		return -ENOMEM;
	made->index.fd = made->metadata.fd = -1;
	made->dir = open_empty(dir);
	if (made->dir < 0) {
		err = made->dir;
		free(made);
		return err;
	}
	streams_init(&made->streams, made->dir, &made->index);
	uuid_make(made->uuid);
	made->changed = made->is_head_changed = 1;
	err = index_make(&made->index, made->dir, INDEX_NAME, made->uuid);
	if (!err)
		err = metadata_flush(made);
	err = room_error(err);
	if (err) {
		unlinkat(made->dir, INDEX_NAME, 0);
		unlinkat(made->dir, "metadata", 0);
		trace_writer_close(made);
		return err;
	}
	*writer = made;
	return 0;
}

static void env_string(struct trace_writer *writer, const char *key, const char *value)
{
	text_format(&writer->env, "\t%s = ", key);
	text_quoted(&writer->env, value ? value : "");
	text_add(&writer->env, ";\n", 2);
}

void trace_end_set(struct trace_writer *writer, const struct trace_end *end)
{
	writer->index.head.length_ns = end->length_ns;
	writer->index.head.discarded = end->discarded;
	writer->index.head.unwritten_blocks = end->unwritten_blocks;
	writer->index.head.unwritten_threads = end->unwritten_threads;
}

/* Note the first error of writing for the trace's index, and return it as the user's cause. */
static int write_failed(struct trace_writer *writer, int err)
{
	if (err < 0 && !writer->index.head.write_error)
		writer->index.head.write_error = (uint32_t)-err;
	return room_error(err);
}

int trace_in_memory_add(struct trace_writer *writer, const char *what)
{
	env_string(writer, "in_memory", what);
	writer->changed = 1;
	return write_failed(writer, metadata_flush(writer));
}

void trace_unrecorded_add(struct trace_writer *writer, const char *program, uint64_t processes,
			  const char *reason)
{
	unsigned int number = writer->unrecorded++;
	char key[64];

	text_format(&writer->env, "\tunrecorded_%u_processes = %llu;\n", number,
		    (unsigned long long)processes);
	snprintf(key, sizeof(key), "unrecorded_%u_program", number);
	env_string(writer, key, program);
	snprintf(key, sizeof(key), "unrecorded_%u_reason", number);
	env_string(writer, key, reason);
	writer->changed = 1;
}

void trace_watch_add(struct trace_writer *writer, const char *words)
{
	char key[64];

	snprintf(key, sizeof(key), "watch_%u", writer->watches++);
	env_string(writer, key, words);
	writer->changed = 1;
}

static void env_process(struct trace_writer *writer, int number,
			const struct trace_process *process)
{
	size_t bytes = process->build_id_bytes;
	char key[64];

	if (bytes > sizeof(process->build_id))
		bytes = sizeof(process->build_id);
	if (!number)
		env_string(writer, "hostname", process->hostname);
	text_format(&writer->env,
		    "\tprocess_%d_pid = %u;\n\tprocess_%d_ppid = %u;\n"
		    "\tprocess_%d_start_time = \"%llu\";\n\tprocess_%d_build_id = \"",
		    number, process->pid, number, process->ppid, number,
		    (unsigned long long)process->start_time, number);
	text_hex(&writer->env, process->build_id, bytes);
	text_add(&writer->env, "\";\n", 3);
	if (process->way)
		text_format(&writer->env, "\tprocess_%d_began = \"%c %llu\";\n", number,
			    process->way, (unsigned long long)process->begin_ns);
	snprintf(key, sizeof(key), "process_%d_exe", number);
	env_string(writer, key, process->exe);
}

static uint32_t clock_of(uint64_t ticks_hz)
{
	return ticks_hz == 1000000000 ? STORE_CLOCK_MONOTONIC : STORE_CLOCK_TSC;
}

int trace_process_add(struct trace_writer *writer, const struct trace_process *process)
{
	struct writer_process *larger, *added;
	int number = writer->process_count;
	struct tsdl_clock *clock;
	int err;

	if (!process->ticks_hz)
		return -EINVAL;
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
					  .from = -1 };
	err = trace_schema_new(&added->schema);
	if (err)
		return err;
	clock = &writer->clocks[added->clock];
	writer->is_head_changed |= !clock->used;
	clock->used = 1;
	if (!clock->ticks_hz)
		clock->ticks_hz = process->ticks_hz;
	env_process(writer, number, process);
	tsdl_stream(&writer->body, (uint32_t)number, added->clock, added->is_kernel);
	writer->process_count++;
	writer->changed = 1;
	return number;
}

int trace_perf_maps_copy(struct trace_writer *writer)
{
	uint64_t room = PERF_MAPS_BYTES_MAX;
	int first = 0;

	for (int i = 0; i < writer->process_count; i++) {
		int err = writer->processes[i].is_kernel
				  ? 0
				  : perf_map_copy(writer->dir, &writer->processes[i].owner, &room);

		first = first ? first : err;
	}
	return room_error(first) == -WM_E_TRACE_FULL ? write_failed(writer, first) : first;
}

int trace_kernel_names_add(struct trace_writer *writer, uint64_t *addresses, size_t count)
{
	int err = kernel_names_write(writer->dir, "", addresses, count);

	return room_error(err) == -WM_E_TRACE_FULL ? write_failed(writer, err) : err;
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

	if (writer->enums.count > before)
		tsdl_enum_write(&writer->body, kept);
	return kept;
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
		kept[i] = enum_declare(writer, names[i]);
	err = schema_put_text(of->schema, id, types, text, kept);
	if (err <= 0)
		return err;
	if (of->is_kernel && !schema_find(of->schema, id)->has_thread)
		return -EINVAL;
	tsdl_event(&writer->body, (uint32_t)process, schema_find(of->schema, id));
	writer->changed = 1;
	return 0;
}

/*
 * Note a value of a process in the metadata. Past TOLD_BYTES_MAX note once that values are left
 * out.
 */
static void env_told(struct trace_writer *writer, struct writer_process *of, const char *key,
		     const struct text *value)
{
	size_t before = writer->env.bytes;
	char cut[64];

	if (of->told_bytes > TOLD_BYTES_MAX)
		return;
	env_string(writer, key, value->at);
	if (value->error)
		writer->env.error = value->error;
	of->told_bytes += writer->env.bytes - before;
	if (of->told_bytes > TOLD_BYTES_MAX) {
		snprintf(cut, sizeof(cut), "process_%d_cut", (int)(of - writer->processes));
		env_string(writer, cut, "its agent reports too much");
	}
	writer->changed = 1;
}

int trace_process_end(struct trace_writer *writer, int process, uint64_t end_ns)
{
	if (!process_of(writer, process))
		return -EINVAL;
	text_format(&writer->env, "\tprocess_%d_ended = \"%llu\";\n", process,
		    (unsigned long long)end_ns);
	writer->changed = 1;
	return 0;
}

int trace_module_add(struct trace_writer *writer, int process, const struct control_module *module,
		     const char *path, uint64_t ns)
{
	struct writer_process *of = process_of(writer, process);
	size_t bytes = module->build_id_bytes;
	struct text value = { 0 };
	char key[64];

	if (!of)
		return -EINVAL;
	if (jitdump_is_name(path)) {
		free(of->owner.jitdump);
		of->owner.jitdump = strdup(path);
		return of->owner.jitdump ? 0 : -ENOMEM;
	}
	if (bytes > sizeof(module->build_id))
		bytes = sizeof(module->build_id);
	text_format(&value, "%s 0x%llx", module->gone ? "gone" : "at",
		    (unsigned long long)module->base);
	if (ns)
		text_format(&value, ",%llu", (unsigned long long)ns);
	text_add(&value, " ", 1);
	if (bytes)
		text_hex(&value, module->build_id, bytes);
	else
		text_add(&value, "-", 1);
	text_format(&value, " %s", path);
	snprintf(key, sizeof(key), "process_%d_module_%u", process, of->modules++);
	env_told(writer, of, key, &value);
	text_release(&value);
	return 0;
}

int trace_change_add(struct trace_writer *writer, int process, const struct trace_change *change)
{
	struct writer_process *of = process_of(writer, process);
	struct text value = { 0 };
	char key[64];

	if (!of)
		return -EINVAL;
	text_format(&value, "%llu %llu %s %zu %s %s", (unsigned long long)change->begin_ns,
		    (unsigned long long)change->gap_ns, change->was_stopped ? "stopped" : "running",
		    strlen(change->from), change->from, change->to);
	snprintf(key, sizeof(key), "process_%d_change_%u", process, of->changes++);
	env_told(writer, of, key, &value);
	text_release(&value);
	return 0;
}

int trace_foreign_add(struct trace_writer *writer, int process, const struct trace_foreign *foreign)
{
	struct writer_process *of = process_of(writer, process);
	struct text value = { 0 };
	char key[64];

	if (!of)
		return -EINVAL;
	text_format(&value, "%llu %llu %s", (unsigned long long)foreign->begin_ns,
		    (unsigned long long)foreign->end_ns, foreign->name);
	snprintf(key, sizeof(key), "process_%d_held_%u", process, of->foreign++);
	env_told(writer, of, key, &value);
	text_release(&value);
	return 0;
}

int trace_clock_set(struct trace_writer *writer, uint64_t ticks_hz, uint64_t ticks,
		    uint64_t realtime_ns)
{
	uint32_t kind = clock_of(ticks_hz);
	struct tsdl_clock *clock = &writer->clocks[kind];
	struct tsdl_clock set = { .used = clock->used, .ticks_hz = ticks_hz };

	if (!ticks_hz)
		return -EINVAL;
	tsdl_clock_offset(&set, ticks, realtime_ns);
	if (memcmp(&set, clock, sizeof(set)))
		writer->changed = writer->is_head_changed = 1;
	*clock = set;
	writer->clock_known[kind] = 1;
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
	tsdl_event(&writer->body, (uint32_t)process, class);
	writer->changed = 1;
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

int trace_packet_is_declared(const struct trace_writer *writer, int process, const void *content,
			     size_t bytes)
{
	struct walk walk = { .at = content, .end = (const uint8_t *)content + bytes };
	const struct writer_process *of;
	uint32_t id;

	if (process < 0 || process >= writer->process_count)
		return 0;
	of = &writer->processes[process];
	while (walk.at < walk.end) {
		const struct trace_class *class;

		if (walk_header(&walk, &id))
			return 0;
		class = schema_find(of->schema, id);
		if (!class)
			class = inherited_class(writer, of, id);
		if (!class || walk_fields(&walk, class))
			return 0;
	}
	return 1;
}

int trace_packet_write(struct trace_writer *writer, int process, struct wm_packet *head,
		       const void *content, size_t bytes, uint32_t events)
{
	struct writer_process *of = process_of(writer, process);
	int err = 0;

	if (!of || bytes > UINT32_MAX)
		return -EINVAL;
	if (!writer->clock_known[of->clock])
		trace_clock_set(writer, writer->clocks[of->clock].ticks_hz, head->begin_ticks,
				head->realtime_ns);
	if (of->from >= 0 && !of->declared_all)
		err = declare_inherited(writer, process, content, bytes);
	if (!err)
		err = metadata_flush(writer);
	if (err)
		return write_failed(writer, err);
	head->magic = PACKET_MAGIC;
	memcpy(head->uuid, writer->uuid, sizeof(head->uuid));
	head->stream_id = (uint32_t)process;
	head->content_bits = head->packet_bits = 8 * ((uint64_t)PAGE_HEAD_BYTES + bytes);
	err = streams_write(&writer->streams, head, content, bytes, events);
	return write_failed(writer, err);
}

int trace_writer_close(struct trace_writer *writer)
{
	int err, closed, ended;

	if (!writer)
		return 0;
	err = metadata_flush(writer);
	if (!err && writer->metadata.is_appended)
		metadata_write(writer); /* if it fails, the file is complete as it is */
	metadata_release(&writer->metadata);
	err = write_failed(writer, err);
	closed = write_failed(writer, streams_release(&writer->streams));
	ended = writer->index.fd < 0 ? 0 : index_end(&writer->index);
	if (!ended)
		ended = index_close(&writer->index);
	for (int i = 0; i < writer->process_count; i++) {
		trace_schema_free(writer->processes[i].schema);
		free(writer->processes[i].owner.jitdump);
	}
	free(writer->processes);
	enumeration_pool_release(&writer->enums);
	text_release(&writer->env);
	text_release(&writer->body);
	close(writer->dir);
	free(writer);
	return err ? err : closed ? closed : room_error(ended);
}
