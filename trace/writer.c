/* SPDX-License-Identifier: MIT */
/*
 * The writer's folder, stream files, facts and metadata.
 *
 * Before the next packet the writer appends a packet of the new facts, and to the metadata, which
 * it keeps as a text that only grows, the new classes. It replaces the metadata when a clock has
 * changed.
 */
#include "trace/writer.h"

#include "base/array.h"
#include "base/slots.h"
#include "trace/facts.h"
#include "trace/folder.h"
#include "trace/index.h"
#include "trace/jitdump.h"
#include "trace/kernel_names.h"
#include "trace/metadata.h"
#include "trace/packet_walk.h"
#include "trace/perf_map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define TOLD_BYTES_MAX (16u << 20) /* for each process: an agent may be hostile */
/* written by a process for each id that it may inherit: from then on all of them are declared */
#define DECLARE_ALL_BYTES 16384u
#define LOCK_TRIES 50
#define LOCK_PAUSE_NS 20000000
#define FACTS_PACKET_BYTES (64u << 10) /* one is written when it is as large */
#define FACTS_UNWRITTEN_MAX (8u << 20) /* what waits for room on the disk */

/* ---- stream files. There may be many thousands; few are open. ---- */

struct stream_file {
	struct index_packet next; /* its offset is the next packet's; the file keeps its name */
	int is_made;		  /* its file is there */
	int fd;			  /* -1 while closed */
};

struct streams {
	int dir;		  /* borrowed */
	struct index *index;	  /* likewise */
	struct stream_file **all; /* by number */
	size_t room;
	uint32_t count;
	struct slots slots; /* of all, by stream and instance */
	struct stream_file *open[TRACE_FILES_OPEN_MAX];
	uint32_t open_count, open_max;
	uint64_t closed; /* files, so far */
	int close_error; /* the first error of any close */
};

/*
 * Close any: where more streams than are open are written to in turn, the one that was written to
 * longest ago would always be the next to be needed.
 */
static void close_one(struct streams *streams)
{
	uint32_t place = slots_hash(++streams->closed) % streams->open_count;
	struct stream_file *file = streams->open[place];

	if (close(file->fd) && !streams->close_error)
		streams->close_error = -errno;
	file->fd = -1;
	streams->open[place] = streams->open[--streams->open_count];
}

static int file_open(struct streams *streams, struct stream_file *file)
{
	char name[INDEX_FILE_BYTES];

	if (file->fd >= 0)
		return 0;
	index_file(&file->next, name);
	if (streams->open_count == streams->open_max)
		close_one(streams);
	for (;;) {
		int err;

		if (file->is_made)
			file->fd = openat(streams->dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
		else
			file->fd = folder_create(streams->dir, name, 0600);
		if (file->fd >= 0)
			break;
		err = file->is_made ? -errno : file->fd;
		file->fd = -1;
		if ((err != -EMFILE && err != -ENFILE) || !streams->open_count)
			return err;
		close_one(streams);
	}
	file->is_made = 1;
	streams->open[streams->open_count++] = file;
	return 0;
}

static uint32_t files_open_max(void)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur / 8 < TRACE_FILES_OPEN_MIN)
		return TRACE_FILES_OPEN_MIN;
	return limit.rlim_cur / 8 < TRACE_FILES_OPEN_MAX ? (uint32_t)(limit.rlim_cur / 8)
							 : TRACE_FILES_OPEN_MAX;
}

/* Find the packet's stream, or make it. */
static int file_of(struct streams *streams, const struct wm_packet *head,
		   struct stream_file **found)
{
	uint32_t hash = slots_hash(head->instance ^ (uint64_t)head->stream_id << 40), number;
	struct stream_file *file;

	if (slots_fit(&streams->slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&streams->slots, hash, &at, &number);) {
		*found = streams->all[number];
		if ((*found)->next.process == head->stream_id &&
		    (*found)->next.instance == head->instance)
			return 0;
	}
	if (array_grow(&streams->all, &streams->room, streams->count + 1ul, sizeof(*streams->all)))
		return -ENOMEM;
	*found = file = malloc(sizeof(*file));
	if (!file)
		return -ENOMEM;
	*file = (struct stream_file){
		.next = { .process = head->stream_id,
			  .pid = head->pid,
			  .tid = head->tid,
			  .depth = head->depth,
			  .number = streams->count - 1, /* UINT32_MAX for the facts, the first */
			  .instance = head->instance },
		.fd = -1,
	};
	streams->all[streams->count] = file;
	slots_add(&streams->slots, hash, streams->count++);
	return 0;
}

/* Write both parts at an offset; what was written of them on failure is for the caller to cut. */
static int write_at(int fd, struct iovec parts[2], uint64_t offset)
{
	struct iovec *part = parts;

	while (part < parts + 2) {
		ssize_t count = pwritev(fd, part, (int)(parts + 2 - part), (off_t)offset);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		offset += (uint64_t)count;
		while (part < parts + 2 && (size_t)count >= part->iov_len)
			count -= (ssize_t)part++->iov_len;
		if (part < parts + 2) {
			part->iov_base = (char *)part->iov_base + count;
			part->iov_len -= (size_t)count;
		}
	}
	return 0;
}

/*
 * Append a packet, whole or not at all, to its stream (head->stream_id and head->instance) and to
 * the index.
 */
static int streams_write(struct streams *streams, const struct wm_packet *head, const void *content,
			 size_t bytes, uint32_t events)
{
	union {
		const void *from;
		void *base;
	} of_head = { head }, of_content = { content };
	struct iovec parts[2] = {
		{ of_head.base, sizeof(*head) },
		{ of_content.base, bytes },
	};
	struct stream_file *file;
	struct index_packet *next;
	int err;

	err = file_of(streams, head, &file);
	if (!err)
		err = file_open(streams, file);
	if (err)
		return err;
	next = &file->next;
	next->events = events;
	next->bytes = sizeof(*head) + bytes;
	next->begin_ticks = head->begin_ticks;
	next->end_ticks = head->end_ticks;
	err = write_at(file->fd, parts, next->offset);
	if (!err)
		err = index_add(streams->index, next);
	if (err) {
		/* If even that fails, the next packet is written over what stays behind. */
		(void)!ftruncate(file->fd, (off_t)next->offset);
		return err;
	}
	next->offset += next->bytes;
	return 0;
}

/* Close all; returns the first error of any close. */
static int streams_release(struct streams *streams)
{
	while (streams->open_count)
		close_one(streams);
	for (uint32_t i = 0; i < streams->count; i++)
		free(streams->all[i]);
	free(streams->all);
	free(streams->slots.all);
	return streams->close_error;
}

/* ---- the writer ---- */

struct writer_process {
	struct trace_schema *schema;
	struct perf_map_owner owner;
	uint32_t clock;
	int is_kernel;
	size_t told_bytes; /* of the facts that its agent reports */
	int from;	   /* -1; else some of whose events it has, */
	uint32_t from_ids; /* those with an id below */
	int declared_all;  /* of them */
	uint64_t walked_bytes;
};

struct trace_writer {
	int dir;
	uint32_t watches;
	struct index index;
	int changed;	     /* the metadata on disk is behind */
	int is_head_changed; /* in its clocks, so it has to be replaced */
	struct metadata metadata;
	uint8_t uuid[16];
	char *hostname;
	struct trace_clock clocks[TRACE_CLOCKS];
	int clock_known[TRACE_CLOCKS];
	struct writer_process *processes;
	int process_count;
	struct text body;
	struct text facts, own_facts; /* not written yet; the latter are for our reader alone */
	struct trace_schema *fact_schema;
	struct wm_packet fact_head;    /* of their next packet */
	uint64_t fact_ns;	       /* the wall clock when the last one was noted */
	struct enumeration_pool enums; /* those that the body declares */
	struct streams streams;
};

/* Every failure to write for want of room is one cause to the user. */
static int room_error(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EFBIG ? -WM_E_TRACE_FULL : err;
}

/* ---- facts and metadata ---- */

/* Write a packet; is_own: with its content where other readers take it for padding. */
static int facts_write(struct trace_writer *writer, struct text *facts, int is_own)
{
	struct wm_packet *head = &writer->fact_head;
	int err;

	if (facts->error || !facts->bytes)
		return facts->error;
	head->end_ticks = writer->fact_ns;
	head->packet_bits = 8 * ((uint64_t)PAGE_HEAD_BYTES + facts->bytes);
	head->content_bits = is_own ? 8 * PAGE_HEAD_BYTES : head->packet_bits;
	err = streams_write(&writer->streams, head, facts->at, facts->bytes, 0);
	if (err)
		return err;
	head->begin_ticks = head->end_ticks;
	head->seq++;
	facts->bytes = 0;
	return 0;
}

static int facts_flush(struct trace_writer *writer)
{
	int err = facts_write(writer, &writer->facts, 0);

	return err ? err : facts_write(writer, &writer->own_facts, 1);
}

/* The wall clock, which facts do not see go back. */
static uint64_t fact_now(struct trace_writer *writer)
{
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (ns > writer->fact_ns)
		writer->fact_ns = ns;
	return writer->fact_ns;
}

/* Facts were added: write them when they are many. The next packet reports an error that lasts. */
static void facts_settle(struct trace_writer *writer, struct text *facts)
{
	int err = facts->bytes < FACTS_PACKET_BYTES ? 0 : facts_flush(writer);

	if (err && facts->bytes > FACTS_UNWRITTEN_MAX && !facts->error)
		facts->error = err;
}

/* Returns how many bytes the fact has. */
static size_t note(struct trace_writer *writer, enum fact fact, const union fact_value *values)
{
	struct text *facts = fact < FACT_CLOCK ? &writer->facts : &writer->own_facts;
	size_t before = facts->bytes, bytes;

	fact_put(facts, fact, fact_now(writer), values);
	bytes = facts->bytes - before;
	facts_settle(writer, facts);
	return bytes;
}

#define NOTE(writer, fact, ...) note(writer, fact, (const union fact_value[]){ __VA_ARGS__ })

static int metadata_write(struct trace_writer *writer)
{
	struct text head = { 0 };
	int err;

	metadata_head(&head, writer->uuid, writer->hostname);
	for (uint32_t i = 0; i < TRACE_CLOCKS; i++)
		if (writer->clocks[i].used)
			metadata_clock(&head, i, &writer->clocks[i]);
	metadata_stream(&head, FACTS_STREAM, CLOCK_OF_FACTS, 0);
	for (uint32_t i = 0; i < FACT_CLOCK; i++)
		metadata_event(&head, FACTS_STREAM, schema_find(writer->fact_schema, i));
	err = metadata_replace(&writer->metadata, writer->dir, &head, &writer->body);
	text_release(&head);
	return err;
}

/* Have everything on disk that the next packet needs. */
static int writer_flush(struct trace_writer *writer)
{
	int err = facts_flush(writer);

	if (err || !writer->changed)
		return err;
	if (writer->body.error)
		return -ENOMEM;
	err = writer->is_head_changed ? -EBADF : metadata_append(&writer->metadata, &writer->body);
	if (err)
		err = metadata_write(writer);
	if (!err)
		writer->changed = writer->is_head_changed = 0;
	return err;
}

/* ---- opening ---- */

/* 1; 0: it has files; -errno. */
static int is_empty(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0), empty = 1;
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!list) {
		int err = -errno;

		if (copy >= 0)
			close(copy);
		return err;
	}
	rewinddir(list);
	while ((entry = readdir(list)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			empty = 0;
	closedir(list);
	return empty;
}

/*
 * Open the folder, made if need be, see that it is empty, and lock it where the file system can:
 * that keeps repairs and compression away. Returns its descriptor. A reader that came right behind
 * mkdir() has the lock for a moment.
 */
static int open_empty(const char *path)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	int fd, empty = 0, is_locked = 0;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = folder_open(path);
	if (fd < 0)
		return fd;
	for (int tries = 0; !is_locked && tries < LOCK_TRIES && (empty = is_empty(fd)) > 0;
	     tries++) {
		is_locked = !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
		if (!is_locked)
			nanosleep(&pause, NULL);
	}
	/* another writer may have had it meanwhile */
	if (is_locked)
		empty = is_empty(fd);
	if (is_locked && empty > 0)
		return fd;
	close(fd);
	return empty < 0 ? empty : -WM_E_TRACE_DIR;
}

static void uuid_make(uint8_t uuid[16])
{
	if (getrandom(uuid, 16, 0) != 16)
		memset(uuid, 0x5a, 16);
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40); /* version 4, RFC 4122 */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

/*
 * Lock the index, by which a reader knows that more is to come. Without that lock it would take the
 * folder's for that of a repair, and wait: where the file system has none for the index, give up
 * the folder's too.
 */
static void index_lock(struct trace_writer *writer)
{
	int err;

	do
		err = flock(writer->index.fd, LOCK_EX);
	while (err && errno == EINTR);
	if (err)
		flock(writer->dir, LOCK_UN);
}

/* Make the files that a trace has from the start. */
static int files_make(struct trace_writer *writer)
{
	int err = fact_schema_new(&writer->fact_schema);

	if (!err)
		err = index_make(&writer->index, writer->dir, INDEX_NAME, writer->uuid);
	if (err)
		return err;
	index_lock(writer);
	writer->fact_head = (struct wm_packet){ .magic = PACKET_MAGIC,
						.stream_id = FACTS_STREAM,
						.begin_ticks = fact_now(writer),
						.realtime_ns = fact_now(writer),
						.comm = "facts" };
	memcpy(writer->fact_head.uuid, writer->uuid, sizeof(writer->uuid));
	NOTE(writer, FACT_TRACE, { .u = FACTS_FORMAT }, fact_string(WAYMARK_VERSION));
	return writer_flush(writer);
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
	made->streams = (struct streams){ .dir = made->dir,
					  .index = &made->index,
					  .open_max = files_open_max() };
	uuid_make(made->uuid);
	made->clocks[CLOCK_OF_FACTS] = (struct trace_clock){ .used = 1, .ticks_hz = 1000000000 };
	made->changed = made->is_head_changed = 1;
	err = room_error(files_make(made));
	if (err) {
		unlinkat(made->dir, INDEX_NAME, 0);
		unlinkat(made->dir, FACTS_FILE, 0);
		unlinkat(made->dir, "metadata", 0);
		trace_writer_close(made);
		return err;
	}
	*writer = made;
	return 0;
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
	NOTE(writer, FACT_WATCH, { .u = writer->watches }, fact_string(spec));
	return writer->watches++;
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
	int err;

	if (!process->ticks_hz)
		return -EINVAL;
	if (!writer->hostname && process->hostname) {
		writer->hostname = strdup(process->hostname);
		if (!writer->hostname)
			return -ENOMEM;
		NOTE(writer, FACT_HOST, fact_string(writer->hostname));
		writer->is_head_changed = 1;
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
					  .from = -1 };
	err = trace_schema_new(&added->schema);
	if (err)
		return err;
	clock = &writer->clocks[added->clock];
	writer->is_head_changed |= !clock->used;
	clock->used = 1;
	if (!clock->ticks_hz)
		clock->ticks_hz = process->ticks_hz;
	if (id_bytes > sizeof(process->build_id))
		id_bytes = sizeof(process->build_id);
	NOTE(writer, begin_of(process->way), { .u = (uint64_t)number }, { .u = process->pid },
	     { .u = process->ppid }, { .u = added->clock }, { .u = process->start_time },
	     { .u = process->begin_ns }, { .run = { process->build_id, id_bytes } },
	     fact_string(process->exe));
	metadata_stream(&writer->body, (uint32_t)number, added->clock, added->is_kernel);
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

	if (writer->enums.count > before) {
		metadata_enum(&writer->body, kept);
		fact_put_enum(&writer->own_facts, fact_now(writer), kept);
	}
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
	const struct trace_class *class = schema_find(writer->processes[process].schema, id);

	metadata_event(&writer->body, (uint32_t)process, class);
	fact_put_class(&writer->own_facts, fact_now(writer), (uint32_t)process, class);
	facts_settle(writer, &writer->own_facts);
	writer->changed = 1;
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
	of->told_bytes += note(writer, fact, values);
	if (of->told_bytes > TOLD_BYTES_MAX)
		note(writer, FACT_CUT, values); /* of the same process */
}

int trace_process_end(struct trace_writer *writer, int process, uint64_t end_ns)
{
	if (!process_of(writer, process))
		return -EINVAL;
	NOTE(writer, FACT_END, { .u = (uint64_t)process }, { .u = end_ns });
	return 0;
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
	if (memcmp(&set, clock, sizeof(set))) {
		NOTE(writer, FACT_CLOCK, { .u = kind }, { .u = ticks_hz },
		     { .u = (uint64_t)set.offset_s }, { .u = set.offset_ticks });
		writer->changed = writer->is_head_changed = 1;
	}
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
		err = writer_flush(writer);
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
	int err, closed, ended, shut;

	if (!writer)
		return 0;
	err = writer_flush(writer);
	metadata_release(&writer->metadata);
	err = write_failed(writer, err);
	closed = write_failed(writer, streams_release(&writer->streams));
	ended = writer->index.fd < 0 ? 0 : index_end(&writer->index);
	shut = index_close(&writer->index);
	ended = ended ? ended : shut;
	for (int i = 0; i < writer->process_count; i++) {
		trace_schema_free(writer->processes[i].schema);
		free(writer->processes[i].owner.jitdump);
	}
	free(writer->processes);
	enumeration_pool_release(&writer->enums);
	text_release(&writer->body);
	text_release(&writer->facts);
	text_release(&writer->own_facts);
	trace_schema_free(writer->fact_schema);
	free(writer->hostname);
	close(writer->dir);
	free(writer);
	return err ? err : closed ? closed : room_error(ended);
}
