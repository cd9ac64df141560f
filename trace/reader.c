/* SPDX-License-Identifier: MIT */
#include "trace/reader.h"

#include "base/array.h"
#include "trace/index.h"
#include "trace/packed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define LOCK_POLL_MS 10
#define LOCK_WAIT_S 60
#define PACKET_BYTES_MAX (16u << 20) /* of our writers, some KiB */
#define WINDOW_BYTES_MAX (256u << 10)
#define WINDOW_BYTES_MIN (16u << 10)
#define WINDOWS_BYTES (64u << 20) /* of all streams together, as long as each has the least */

const char *reader_end_words(const struct trace_reader *reader)
{
	if (reader->live || (reader->is_indexed && reader->is_ended && !reader->write_error))
		return NULL;
	return !reader->is_indexed ? "the trace has no index: packets may be missing"
	       : reader->is_ended || reader->write_error
		       ? "the recorder could not write all of the trace"
	       : reader->meta.in_memory
		       ? "the recorder was killed: what was in memory alone is missing"
		       : "the recorder was killed: its last 100 ms may be missing";
}

void reader_damage(struct trace_reader *reader, const char *file, uint64_t offset, uint64_t bytes,
		   const char *what)
{
	struct trace_damage *larger;

	if (reader->is_noted)
		return;
	reader->damages_ever++;
	if (reader->damage_count >= DAMAGES_MAX)
		return;
	larger = reallocarray(reader->damages, reader->damage_count + 1, sizeof(*larger));
	if (!larger)
		return;
	reader->damages = larger;
	larger += reader->damage_count;
	*larger = (struct trace_damage){ strdup(file), offset, bytes, what };
	if (larger->file)
		reader->damage_count++;
}

/* ---- where a stream's bytes come from: its file, or the packed one in its place ---- */

struct source {
	int fd; /* -1: packed */
	struct packed packed;
};

/* The name of the other form: of STREAM STREAM.zst, and the other way round. */
static void other_form(const char *file, char name[NAME_MAX + 8])
{
	size_t suffix = sizeof(PACKED_SUFFIX) - 1;

	snprintf(name, NAME_MAX + 8, "%s%s", file, packed_is_name(file) ? "" : PACKED_SUFFIX);
	if (packed_is_name(file))
		name[strlen(name) - suffix] = '\0';
}

/* Whether a packed file has the plain one beside it, which is the one to read. */
static int source_is_shadowed(int dir, const char *file)
{
	char name[NAME_MAX + 8];

	if (!packed_is_name(file))
		return 0;
	other_form(file, name);
	return !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int form_open(struct source *source, int dir, const char *file)
{
	*source = (struct source){ .fd = -1, .packed.fd = -1 };
	if (packed_is_name(file))
		return packed_open(&source->packed, dir, file);
	source->fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	return source->fd < 0 ? -errno : 0;
}

/* The other form is there now. */
static int take_form(struct source *source, struct trace_stream *stream, const char *file)
{
	struct stat about;
	char *name;

	if (stream->packets)
		return 0;
	name = strdup(file);
	if (!name)
		return -ENOMEM;
	free(stream->file);
	stream->file = name;
	stream->is_packed = source->fd < 0;
	if (!stream->is_packed && !fstat(source->fd, &about))
		stream->file_bytes = (uint64_t)about.st_size;
	return 0;
}

/*
 * Open a stream's file; the other form of it where that has taken its place since it was listed.
 * file, is_packed and file_bytes of a stream that nothing was read of yet are set by what is found.
 * 0 or -errno; release in any case.
 */
static int source_open(struct source *source, int dir, struct trace_stream *stream)
{
	char name[NAME_MAX + 8];
	int err = form_open(source, dir, stream->file);

	if (err == -ENOENT) {
		other_form(stream->file, name);
		if (!form_open(source, dir, name))
			err = take_form(source, stream, name);
	}
	if (!err && stream->is_packed && !stream->packets)
		stream->file_bytes = packed_length(&source->packed);
	return err;
}

static void source_release(struct source *source)
{
	if (source->fd >= 0)
		close(source->fd);
	packed_release(&source->packed);
	source->fd = -1;
}

/* Up to `bytes` of the stream from `offset` on, which doesn't go back. How many; -errno. */
static ssize_t source_read(struct source *source, uint64_t offset, void *to, size_t bytes)
{
	ssize_t count;

	if (source->fd < 0)
		return packed_read(&source->packed, offset, to, bytes);
	count = pread(source->fd, to, bytes, (off_t)offset);
	return count < 0 ? -errno : count;
}

/*
 * Why not all of `bytes` that lie at `offset`, by the file's length, can be read; NULL: they can.
 */
static const char *source_gap(struct source *source, uint64_t offset, uint64_t bytes)
{
	uint8_t byte;

	if (source->fd >= 0 || packed_read(&source->packed, offset + bytes - 1, &byte, 1) == 1)
		return NULL;
	return source->packed.fault ? source->packed.fault : "cut in a compressed frame";
}

/*
 * Why nothing can be read from `offset` on, which nothing was read behind; NULL: it can, or that is
 * the end.
 */
static const char *source_fault(struct source *source, uint64_t offset)
{
	uint8_t byte;

	if (source->fd >= 0)
		return NULL;
	(void)packed_read(&source->packed, offset, &byte, 1);
	return source->packed.fault;
}

static ssize_t read_whole(int fd, uint64_t offset, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = pread(fd, (uint8_t *)to + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/*
 * Read up to `bytes` of a file that is not packed, and close it: there may be more streams than
 * descriptors.
 */
static ssize_t source_read_once(int dir, const char *file, uint64_t offset, void *to, size_t bytes)
{
	int fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read_whole(fd, offset, to, bytes);
	close(fd);
	return got;
}

/*
 * Have the stream's whole packets at stream->map. 0, -errno, -WM_E_TRACE_DAMAGED: it is shorter
 * than it was.
 */
static int source_map(struct source *source, struct trace_stream *stream)
{
	void *map = mmap(NULL, stream->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	ssize_t got;

	if (map == MAP_FAILED)
		return -errno;
	got = source->fd < 0 ? packed_read(&source->packed, 0, map, stream->bytes)
			     : read_whole(source->fd, 0, map, stream->bytes);
	if (got < 0 || (uint64_t)got < stream->bytes) {
		munmap(map, stream->bytes);
		return got < 0 ? (int)got : -WM_E_TRACE_DAMAGED;
	}
	mprotect(map, stream->bytes, PROT_READ);
	stream->map = map;
	return 0;
}

void reader_losses(const struct trace_reader *reader, uint64_t *events, uint64_t *packets)
{
	*events = *packets = 0;
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		*events += reader->streams[i].discarded;
		*packets += reader->streams[i].missing_packets;
	}
	/* what no packet says, or one that is gone */
	*events = reader->discarded > *events ? reader->discarded : *events;
	*events += reader->missing_events;
}

/* ---- opening ---- */

/* Why a head can't be a packet of `left` bytes at most; NULL when it can. */
static const char *packet_fault(const struct wm_packet *head, const uint8_t *uuid, uint64_t left)
{
	if (left < sizeof(*head))
		return "cut in a packet's head";
	if (head->magic != PACKET_MAGIC)
		return "no packet begins here";
	if (memcmp(head->uuid, uuid, sizeof(head->uuid)) != 0)
		return "a packet of another trace";
	if (head->content_bits % 8 || head->packet_bits % 8 ||
	    head->content_bits / 8 < sizeof(*head) || head->content_bits > head->packet_bits ||
	    head->begin_ticks > head->end_ticks)
		return "a packet's head contradicts itself";
	if (head->packet_bits / 8 > PACKET_BYTES_MAX)
		return "a packet of a size that none has";
	if (head->packet_bits / 8 > left)
		return "cut in a packet";
	return NULL;
}

/* Take a whole packet into account. */
static void stream_count(const struct trace_reader *reader, struct trace_stream *stream,
			 const struct wm_packet *head, uint64_t *next_seq)
{
	if (!stream->packets) {
		stream->process = head->stream_id;
		stream->pid = head->pid;
		stream->tid = head->tid;
		stream->is_of_cpu = !stream->is_facts &&
				    reader->meta.processes[head->stream_id].is_kernel;
		stream->cpu = stream->is_of_cpu ? packet_cpu(head->tid) : -1;
		stream->depth = head->depth;
		stream->instance = head->instance;
		stream->begin_ticks = head->begin_ticks;
	} else if (head->seq > *next_seq) {
		stream->missing_packets += head->seq - *next_seq;
	}
	*next_seq = head->seq + 1;
	memcpy(stream->comm, head->comm, sizeof(head->comm));
	if (head->end_ticks > stream->end_ticks)
		stream->end_ticks = head->end_ticks;
	if (head->discarded > stream->discarded)
		stream->discarded = head->discarded;
	stream->packets++;
	stream->bytes += head->packet_bits / 8;
}

/* Why this whole packet can't follow in the stream; NULL when it can. */
static const char *stream_fault(const struct trace_reader *reader,
				const struct trace_stream *stream, const struct wm_packet *head)
{
	if (stream->is_facts)
		return head->stream_id == FACTS_STREAM ? NULL : "a packet of another stream";
	if (head->stream_id >= reader->meta.process_count ||
	    !reader->meta.processes[head->stream_id].declared)
		return "a packet of a process that the facts lack";
	if (stream->packets &&
	    (head->stream_id != stream->process || head->instance != stream->instance))
		return "a packet of another stream";
	return NULL;
}

/* Read the heads of a stream's packets. */
static int stream_scan(struct trace_reader *reader, struct trace_stream *stream)
{
	const char *tail_fault;
	uint64_t next_seq = 0;
	struct source source;
	int err = source_open(&source, reader->dir, stream);

	while (!err && stream->bytes < stream->file_bytes) {
		uint64_t left = stream->file_bytes - stream->bytes;
		struct wm_packet head = { 0 };
		ssize_t count = source_read(&source, stream->bytes, &head, sizeof(head));
		const char *fault;

		if (count < 0 || (size_t)count < sizeof(head))
			left = count < 0 ? 0 : (uint64_t)count;
		fault = packet_fault(&head, reader->meta.uuid, left);
		/* A part that its writer has only begun is no damage yet. */
		if (fault && reader->live)
			break;
		if (!fault)
			fault = stream_fault(reader, stream, &head);
		if (!fault)
			fault = source_gap(&source, stream->bytes, head.packet_bits / 8);
		if (fault) {
			reader_damage(reader, stream->file, stream->bytes,
				      stream->file_bytes - stream->bytes, fault);
			break;
		}
		/* The writer leaves no gap at a packet's end. */
		if (head.content_bits < head.packet_bits && !stream->is_facts)
			reader_damage(reader, stream->file, stream->bytes + head.content_bits / 8,
				      (head.packet_bits - head.content_bits) / 8,
				      "left out of its packet, as a repair does");
		stream_count(reader, stream, &head, &next_seq);
	}
	tail_fault = err || reader->live ? NULL : source_fault(&source, stream->file_bytes);
	if (tail_fault)
		reader_damage(reader, stream->file, stream->file_bytes, 0, tail_fault);
	source_release(&source);
	return err;
}

static int stream_order(const void *left, const void *right)
{
	const struct trace_stream *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	if (a->depth != b->depth)
		return a->depth < b->depth ? -1 : 1;
	if (a->instance != b->instance)
		return a->instance < b->instance ? -1 : 1;
	return strcmp(a->file, b->file);
}

/* Note the folder's stream files and how long they are now. */
static int list_streams(struct trace_reader *reader)
{
	int copy = openat(reader->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	size_t room = 0;
	struct dirent *entry;
	struct stat about;
	int err = 0;

	if (!list) {
		err = -errno;
		if (copy >= 0)
			close(copy);
		return err;
	}
	while (!err && (entry = readdir(list))) {
		if (entry->d_name[0] == '.' || source_is_shadowed(reader->dir, entry->d_name) ||
		    fstatat(reader->dir, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(about.st_mode))
			continue;
		reader->bytes += (uint64_t)about.st_size;
		if (!strcmp(entry->d_name, "metadata"))
			continue;
		if (array_grow(&reader->streams, &room, reader->file_count + 1,
			       sizeof(*reader->streams))) {
			err = -ENOMEM;
			break;
		}
		reader->streams[reader->file_count] = (struct trace_stream){
			.file = strdup(entry->d_name),
			.file_bytes = (uint64_t)about.st_size,
			.is_packed = packed_is_name(entry->d_name),
			.is_facts = !strcmp(entry->d_name, FACTS_FILE),
		};
		if (!reader->streams[reader->file_count++].file)
			err = -ENOMEM;
	}
	closedir(list);
	return err;
}

/* Have the facts' stream behind all others. -WM_E_NOT_A_TRACE: there is none. */
static int facts_find(struct trace_reader *reader)
{
	struct trace_stream *streams = reader->streams, facts;

	for (uint32_t i = 0; i < reader->file_count; i++) {
		if (!streams[i].is_facts)
			continue;
		facts = streams[i];
		streams[i] = streams[reader->file_count - 1];
		streams[reader->file_count - 1] = facts;
		reader->stream_count = reader->file_count - 1;
		return 0;
	}
	return -WM_E_NOT_A_TRACE;
}

/*
 * Take the trace's UUID from the first packet of its facts, and their length now, after those of
 * the other streams: then they have all that is needed to read these.
 */
static int facts_begin(struct trace_reader *reader, struct trace_stream *stream)
{
	struct wm_packet head;
	struct source source;
	struct stat about;
	int err = source_open(&source, reader->dir, stream);

	if (!err &&
	    (source.fd < 0 || source_read(&source, 0, &head, sizeof(head)) != sizeof(head) ||
	     head.magic != PACKET_MAGIC || head.stream_id != FACTS_STREAM))
		err = -WM_E_NOT_A_TRACE;
	if (!err) {
		memcpy(reader->meta.uuid, head.uuid, sizeof(head.uuid));
		if (!fstat(source.fd, &about))
			stream->file_bytes = (uint64_t)about.st_size;
	}
	source_release(&source);
	return err;
}

/* Read a packet's facts, also those that are behind its content. */
static int facts_read_packet(struct trace_reader *reader, const struct trace_stream *stream,
			     struct trace_packet *packet)
{
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	const struct trace_class *class;
	const uint8_t *start, *values;
	const char *fault = NULL;
	int err = 0;

	packet->walk.end = packet->bytes + packet->head.packet_bits / 8;
	packet->walk.ticks = 0; /* those behind the content may be older than the packet */
	while ((start = packet->walk.at) < packet->walk.end && !fault && err != -ENOMEM) {
		fault = reader_packet_event(packet, reader->meta.schema, &class, &values);
		if (!fault) {
			trace_fields(fields, class, values);
			err = facts_take(&reader->meta, (enum fact) class->id, fields);
		}
		if (!fault && !err && class->id == FACT_CUT)
			reader_damage(reader, stream->file,
				      packet->offset + (uint64_t)(start - packet->bytes), 0,
				      "its process's agent reported too much: more was left out");
		if (!fault && !err)
			continue;
		reader->meta.is_broken = 1;
		reader_damage(reader, stream->file,
			      packet->offset + (uint64_t)(start - packet->bytes),
			      (uint64_t)((fault ? packet->walk.end : packet->walk.at) - start),
			      fault ? fault : "a fact that makes no sense");
	}
	return err == -ENOMEM ? err : 0;
}

static int facts_read(struct trace_reader *reader)
{
	struct trace_stream *stream;
	struct trace_packet packet;
	uint64_t offset = 0;
	int err = facts_find(reader);

	if (err)
		return err;
	stream = &reader->streams[reader->stream_count];
	err = facts_begin(reader, stream);
	if (!err)
		err = stream_scan(reader, stream);
	if (!err)
		err = reader_stream_open(reader, stream);
	while (!err && reader_stream_packet(reader, stream, &offset, &packet))
		err = facts_read_packet(reader, stream, &packet);
	reader_stream_unmap(stream);
	facts_end(&reader->meta);
	if (!err && reader->meta.format != FACTS_FORMAT)
		err = -WM_E_NOT_A_TRACE;
	return err;
}

static void find_base(struct trace_reader *reader)
{
	for (uint32_t i = 0; i < TRACE_CLOCKS; i++) {
		struct trace_clock *clock = &reader->meta.clocks[i];

		/* lost with the facts; times are wrong, and it is damage */
		if (!clock->ticks_hz)
			clock->ticks_hz = 1000000000;
		reader->base_ns[i] = 0;
		reader->base_ns[i] = (uint64_t)clock->offset_s * 1000000000 +
				     reader_ns(reader, i, clock->offset_ticks);
	}
}

/* A writer has locked the index. One that has only begun may have none yet. */
static int is_being_written(int dir)
{
	int fd = openat(dir, INDEX_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	int is_locked = fd < 0 || (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK);

	if (fd >= 0)
		close(fd);
	return is_locked;
}

static time_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/*
 * Wait for the end of a repair or compression of the folder, but not for that of its writer. 0, or
 * -WM_E_TRACE_IN_USE: it does not end, or another program has locked the folder.
 */
static int folder_share(struct trace_reader *reader)
{
	time_t end = seconds_now() + LOCK_WAIT_S;

	while (flock(reader->dir, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK) {
		reader->live = is_being_written(reader->dir);
		if (reader->live)
			return 0;
		if (seconds_now() >= end)
			return -WM_E_TRACE_IN_USE;
		poll(NULL, 0, LOCK_POLL_MS);
	}
	return 0;
}

int trace_reader_open(struct trace_reader **reader, const char *dir)
{
	struct trace_reader *opened = calloc(1, sizeof(*opened));
	int err;

	*reader = NULL;
	if (!opened)
		return -ENOMEM;
	opened->mapped_max = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) /
			     2;
	opened->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (opened->dir < 0) {
		err = errno == ENOTDIR ? -WM_E_NOT_A_TRACE : -errno;
		free(opened);
		return err;
	}
	err = facts_init(&opened->meta);
	if (!err)
		err = folder_share(opened);
	if (!err)
		err = list_streams(opened);
	if (!err)
		err = facts_read(opened);
	if (!err)
		find_base(opened);
	for (uint32_t i = 0; !err && i < opened->stream_count; i++)
		err = stream_scan(opened, &opened->streams[i]);
	if (!err)
		err = index_check(opened);
	if (err) {
		trace_reader_close(opened);
		return err;
	}
	if (opened->stream_count)
		qsort(opened->streams, opened->stream_count, sizeof(*opened->streams),
		      stream_order);
	*reader = opened;
	return 0;
}

void trace_reader_close(struct trace_reader *reader)
{
	if (!reader)
		return;
	for (uint32_t i = 0; i < reader->file_count; i++) {
		reader_stream_unmap(&reader->streams[i]);
		free(reader->streams[i].file);
	}
	for (uint32_t i = 0; i < reader->damage_count; i++)
		free(reader->damages[i].file);
	free(reader->streams);
	free(reader->damages);
	facts_release(&reader->meta);
	close(reader->dir);
	free(reader);
}

uint64_t reader_begin_ns(const struct trace_reader *reader)
{
	uint64_t begin = UINT64_MAX;

	for (uint32_t i = 0; i < reader->stream_count; i++) {
		const struct trace_stream *stream = &reader->streams[i];
		uint64_t ns;

		if (!stream->packets)
			continue;
		ns = reader_ns(reader, stream_clock(reader, stream), stream->begin_ticks);
		begin = ns < begin ? ns : begin;
	}
	return begin;
}

int reader_stream_map(struct trace_reader *reader, struct trace_stream *stream)
{
	struct source source;
	int err;

	if (stream->map || !stream->bytes)
		return 0;
	err = source_open(&source, reader->dir, stream);
	if (!err && stream->bytes > reader->mapped_max - reader->mapped_bytes)
		err = -WM_E_TRACE_UNPACKED_SIZE;
	if (!err)
		err = source_map(&source, stream);
	if (!err) {
		stream->mapped = &reader->mapped_bytes;
		*stream->mapped += stream->bytes;
	}
	source_release(&source);
	return err;
}

int reader_stream_open(struct trace_reader *reader, struct trace_stream *stream)
{
	struct source source;
	int err = source_open(&source, reader->dir, stream), is_packed = source.fd < 0;

	source_release(&source);
	return err || !is_packed ? err : reader_stream_map(reader, stream);
}

void reader_stream_unmap(struct trace_stream *stream)
{
	if (stream->map)
		munmap((void *)(uintptr_t)stream->map, stream->bytes);
	if (stream->map && stream->mapped)
		*stream->mapped -= stream->bytes;
	stream->map = NULL;
	stream->mapped = NULL;
	free(stream->window);
	stream->window = NULL;
	stream->window_bytes = stream->window_room = 0;
}

/*
 * Have `bytes` of the stream from `offset` on in its window, and what follows as far as it has
 * room. 0, -errno, -WM_E_TRACE_DAMAGED: the file is shorter than it was.
 */
static int window_fill(const struct trace_reader *reader, struct trace_stream *stream,
		       uint64_t offset, size_t bytes)
{
	size_t room = WINDOWS_BYTES / reader->file_count;
	uint64_t left = stream->bytes - offset;
	ssize_t got;

	if (offset >= stream->window_at && offset - stream->window_at <= stream->window_bytes &&
	    stream->window_bytes - (offset - stream->window_at) >= bytes)
		return 0;
	room = room > WINDOW_BYTES_MAX ? WINDOW_BYTES_MAX : room;
	room = room < WINDOW_BYTES_MIN ? WINDOW_BYTES_MIN : room;
	room = room < bytes ? bytes : room;
	room = room > left ? (size_t)left : room;
	stream->window_bytes = 0;
	if (stream->window_room < room) {
		free(stream->window);
		stream->window = malloc(room);
		stream->window_room = stream->window ? room : 0;
		if (!stream->window)
			return -ENOMEM;
	}
	got = source_read_once(reader->dir, stream->file, offset, stream->window, room);
	if (got < 0)
		return (int)got;
	stream->window_at = offset;
	stream->window_bytes = (size_t)got;
	return (size_t)got < bytes ? -WM_E_TRACE_DAMAGED : 0;
}

/* The stream from `offset` on, in memory. NULL: it can't be read. */
static const uint8_t *stream_at(const struct trace_reader *reader, struct trace_stream *stream,
				uint64_t offset, size_t bytes)
{
	if (stream->map)
		return stream->map + offset;
	if (window_fill(reader, stream, offset, bytes))
		return NULL;
	return stream->window + (offset - stream->window_at);
}

int reader_stream_packet(struct trace_reader *reader, struct trace_stream *stream, uint64_t *offset,
			 struct trace_packet *packet)
{
	uint64_t left = stream->bytes - *offset;
	const uint8_t *at;

	if (left < sizeof(packet->head))
		return 0;
	at = stream_at(reader, stream, *offset, sizeof(packet->head));
	if (at)
		memcpy(&packet->head, at, sizeof(packet->head));
	/* Checked when the trace was opened; once more, for the file is not ours alone. */
	if (!at || packet_fault(&packet->head, reader->meta.uuid, left) ||
	    !(at = stream_at(reader, stream, *offset, (size_t)(packet->head.packet_bits / 8)))) {
		reader_damage(reader, stream->file, *offset, left, "can't be read any more");
		*offset = stream->bytes;
		return 0;
	}
	packet->offset = *offset;
	packet->bytes = at;
	packet->walk.at = at + sizeof(packet->head);
	packet->walk.end = at + packet->head.content_bits / 8;
	packet->walk.ticks = packet->head.begin_ticks;
	*offset += packet->head.packet_bits / 8;
	return 1;
}

const char *reader_packet_event(struct trace_packet *packet, const struct trace_schema *schema,
				const struct trace_class **class, const uint8_t **fields)
{
	struct walk *walk = &packet->walk;
	uint64_t ticks = walk->ticks;
	uint32_t id;

	if (walk_header(walk, &id))
		return "cut in an event's head";
	*class = schema_find(schema, id);
	if (!*class)
		return "an event that the facts lack";
	if (walk->ticks < ticks || walk->ticks > packet->head.end_ticks)
		return "an event outside its packet's time";
	*fields = walk->at;
	return walk_fields(walk, *class) ? "cut in an event" : NULL;
}
