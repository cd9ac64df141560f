/* SPDX-License-Identifier: MIT */
#include "trace/index.h"

#include "trace/folder.h"
#include "trace/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_MAGIC 0x31584449534d57ULL /* "WMSIDX1", little endian */
#define INDEX_VERSION 2
#define ENTRIES_READ 1024
#define INDEX_NEW INDEX_NAME ".new"

_Static_assert(sizeof(struct index_head) == 80 && sizeof(struct index_packet) == 64,
	       "a file's layout has no gaps");

static int write_at(int fd, const void *bytes, size_t count, off_t offset)
{
	ssize_t done;

	do
		done = pwrite(fd, bytes, count, offset);
	while (done < 0 && errno == EINTR);
	if (done == (ssize_t)count)
		return 0;
	return done < 0 ? -errno : -ENOSPC;
}

int index_make(struct index *index, int dir, const char *name, const uint8_t uuid[16])
{
	index->head = (struct index_head){ .magic = INDEX_MAGIC, .version = INDEX_VERSION };
	memcpy(index->head.uuid, uuid, sizeof(index->head.uuid));
	index->fd = folder_create(dir, name, 0600);
	if (index->fd < 0)
		return index->fd;
	return write_at(index->fd, &index->head, sizeof(index->head), 0);
}

static int waiting_write(struct index *index)
{
	size_t bytes = index->waiting_count * sizeof(*index->waiting);
	off_t end = (off_t)(sizeof(index->head) + index->head.packets * sizeof(*index->waiting));
	int err = write_at(index->fd, index->waiting, bytes, end);

	if (err) {
		(void)!ftruncate(index->fd, end); /* should it fail, a reader drops the part */
		return err;
	}
	index->head.packets += index->waiting_count;
	index->waiting_count = 0;
	return 0;
}

int index_add(struct index *index, const struct index_packet *packet)
{
	int err;

	index->waiting[index->waiting_count++] = *packet;
	if (index->waiting_count < INDEX_WAITING)
		return 0;
	err = waiting_write(index);
	if (err)
		index->waiting_count--;
	return err;
}

int index_end(struct index *index)
{
	int lacks = waiting_write(index), err;

	if (lacks && !index->head.write_error)
		index->head.write_error = (uint32_t)-lacks;
	index->head.is_ended = !lacks;
	err = write_at(index->fd, &index->head, sizeof(index->head), 0);
	return lacks ? lacks : err;
}

int index_close(struct index *index)
{
	int err = index->fd >= 0 && close(index->fd) ? -errno : 0;

	index->fd = -1;
	return err;
}

void index_file(const struct index_packet *packet, char name[INDEX_FILE_BYTES])
{
	char depth[16] = "";

	if (packet->process == FACTS_STREAM) {
		snprintf(name, INDEX_FILE_BYTES, "%s", FACTS_FILE);
		return;
	}
	if (packet->depth)
		snprintf(depth, sizeof(depth), "-%u", packet->depth);
	if (!packet->pid && packet->tid == PACKET_NO_CPU)
		snprintf(name, INDEX_FILE_BYTES, "cpus%s-%u", depth, packet->number);
	else if (!packet->pid)
		snprintf(name, INDEX_FILE_BYTES, "cpu%u%s-%u", packet->tid, depth, packet->number);
	else
		snprintf(name, INDEX_FILE_BYTES, "%u-%u%s-%u", packet->pid, packet->tid, depth,
			 packet->number);
}

/* ---- checking ---- */

/* What the index has of one file. */
struct expected {
	struct index_packet first;
	uint64_t end;	   /* 0: no packets */
	uint64_t kept_end; /* of the packets that a mended index has */
	struct trace_stream *found;
	int is_replaced; /* another stream has its name */
	struct expected *next;
};

struct check {
	struct trace_reader *reader;
	int fd;
	uint64_t entries; /* whole ones in the file */
	/* By number: a tree, for a forged index could choose numbers of one hash. */
	void *tree;			     /* of tsearch(3) */
	struct expected *files, **files_end; /* in the order of their first packets */
	struct index mended;
	int err; /* what ended it */
};

static uint64_t entry_at(off_t offset)
{
	return ((uint64_t)offset - sizeof(struct index_head)) / sizeof(struct index_packet);
}

/*
 * Hand on all entries. A hole of the file has none; skip it, because a hole of terabytes costs no
 * disk.
 */
static int each_entry(struct check *check,
		      void (*take)(struct check *check, const struct index_packet *packet))
{
	struct index_packet *packets = malloc(ENTRIES_READ * sizeof(*packets));
	uint64_t done = 0;

	if (!packets)
		return -ENOMEM;
	while (done < check->entries) {
		uint64_t left = check->entries - done;
		size_t want = left < ENTRIES_READ ? (size_t)left : ENTRIES_READ;
		off_t at = (off_t)(sizeof(struct index_head) + done * sizeof(*packets));
		off_t data = lseek(check->fd, at, SEEK_DATA);
		ssize_t got;

		if (data < 0 && errno == ENXIO)
			break;
		if (data > at && entry_at(data) > done) {
			done = entry_at(data);
			continue;
		}
		got = pread(check->fd, packets, want * sizeof(*packets), at);
		if (got < (ssize_t)(want * sizeof(*packets))) {
			reader_damage(check->reader, INDEX_NAME, (uint64_t)at, 0,
				      "can't be read any more");
			break;
		}
		for (size_t i = 0; i < want; i++)
			take(check, &packets[i]);
		done += want;
	}
	free(packets);
	return 0;
}

static int by_number(const void *left, const void *right)
{
	const struct expected *a = left, *b = right;

	return (a->first.number > b->first.number) - (a->first.number < b->first.number);
}

/* What the index has of the file of that number; NULL: nothing. */
static struct expected *file_at(const struct check *check, uint32_t number)
{
	const struct expected key = { .first.number = number };
	struct expected **found = tfind(&key, &check->tree, by_number);

	return found ? *found : NULL;
}

static struct expected *file_add(struct check *check, const struct index_packet *packet)
{
	struct expected *file = calloc(1, sizeof(*file));

	if (file)
		file->first = *packet;
	if (!file || !tsearch(file, &check->tree, by_number)) {
		free(file);
		check->err = -ENOMEM;
		return NULL;
	}
	*check->files_end = file;
	check->files_end = &file->next;
	return file;
}

static void expect(struct check *check, const struct index_packet *packet)
{
	struct expected *file;

	if (!packet->bytes || packet->bytes > UINT64_MAX - packet->offset)
		return;
	file = file_at(check, packet->number);
	if (!file)
		file = file_add(check, packet);
	if (!file)
		return;
	if (packet->offset + packet->bytes > file->end)
		file->end = packet->offset + packet->bytes;
}

static int is_there(const struct check *check, const struct index_packet *packet)
{
	const struct expected *file = file_at(check, packet->number);

	return file && file->found && packet->offset <= file->found->bytes &&
	       packet->bytes <= file->found->bytes - packet->offset;
}

static void count_missing(struct check *check, const struct index_packet *packet)
{
	if (!is_there(check, packet))
		check->reader->missing_events += packet->events;
}

static void keep(struct check *check, const struct index_packet *packet)
{
	struct index_packet kept = *packet;
	struct expected *file;

	if (!is_there(check, packet) || check->err)
		return;
	file = file_at(check, packet->number);
	kept.process = file->first.process;
	kept.pid = file->first.pid;
	kept.tid = file->first.tid;
	kept.depth = file->first.depth;
	kept.instance = file->first.instance;
	check->err = index_add(&check->mended, &kept);
	if (packet->offset + packet->bytes > file->kept_end)
		file->kept_end = packet->offset + packet->bytes;
}

/*
 * Add an entry for the packets behind the last entry that was kept. Without it the next reader
 * would take them for packets of another trace.
 */
static void keep_rest(struct check *check, struct expected *file)
{
	struct index_packet rest = file->first;

	if (check->err || file->kept_end >= file->found->bytes)
		return;
	rest.events = 0;
	rest.offset = file->kept_end;
	rest.bytes = file->found->bytes - file->kept_end;
	check->err = index_add(&check->mended, &rest);
}

/* Which of the files it is by its name; NULL: none. */
static struct expected *file_of(const struct check *check, const struct trace_stream *stream)
{
	const char *number = strrchr(stream->file, '-');
	size_t bytes = strlen(stream->file);
	char name[INDEX_FILE_BYTES];
	struct expected *file;
	unsigned long n;

	if (stream->is_packed)
		bytes -= sizeof(PACKED_SUFFIX) - 1;
	n = stream->is_facts ? UINT32_MAX : number ? strtoul(number + 1, NULL, 10) : ULONG_MAX;
	file = n <= UINT32_MAX ? file_at(check, (uint32_t)n) : NULL;
	if (!file)
		return NULL;
	index_file(&file->first, name);
	return strlen(name) == bytes && !memcmp(name, stream->file, bytes) ? file : NULL;
}

static int has_damage(const struct trace_reader *reader, const char *file)
{
	for (uint32_t i = 0; i < reader->damage_count; i++)
		if (!strcmp(reader->damages[i].file, file))
			return 1;
	return 0;
}

static void leave_out(struct check *check, struct trace_stream *stream, const char *why)
{
	if (!has_damage(check->reader, stream->file))
		reader_damage(check->reader, stream->file, 0, stream->bytes, why);
	stream->is_foreign = 1;
	stream->bytes = stream->packets = stream->discarded = stream->missing_packets = 0;
}

/* Leave out the packets from `end` on; if the index is damaged, a packet may lie across it. */
static void cut_stream(struct trace_reader *reader, struct trace_stream *stream, uint64_t end)
{
	struct trace_packet packet;
	uint64_t offset = 0, whole = 0, packets = 0;

	if (!reader_stream_open(reader, stream))
		while (reader_stream_packet(reader, stream, &offset, &packet) && offset <= end) {
			whole = offset;
			packets++;
		}
	reader_stream_unmap(stream);
	reader_damage(reader, stream->file, whole, stream->bytes - whole,
		      "packets that are not of this trace");
	stream->bytes = whole;
	stream->packets = packets;
}

static void check_stream(struct check *check, struct trace_stream *stream)
{
	struct trace_reader *reader = check->reader;
	struct expected *file = file_of(check, stream);

	if (!file) {
		/* a recorder that was killed may have left a packet that it had not put down */
		if (reader->is_ended && stream->file_bytes && !stream->is_facts)
			leave_out(check, stream, "a stream that is not of this trace");
		return;
	}
	/* nothing is read without the facts: an index that is wrong about them is not believed */
	if (stream->packets && !stream->is_facts &&
	    (stream->process != file->first.process || stream->instance != file->first.instance)) {
		leave_out(check, stream, "another stream is in its place");
		file->is_replaced = 1;
		return;
	}
	file->found = stream;
	if (stream->bytes < file->end && !has_damage(reader, stream->file))
		reader_damage(reader, stream->file, stream->bytes, file->end - stream->bytes,
			      "its last packets are missing");
	if (stream->bytes < file->end && stream->is_facts)
		reader->meta.is_broken = 1;
	if (stream->bytes > file->end && reader->is_ended && !stream->is_facts)
		cut_stream(reader, stream, file->end);
}

static void check_all(struct check *check)
{
	struct trace_reader *reader = check->reader;
	char name[INDEX_FILE_BYTES];

	for (uint32_t i = 0; i < reader->file_count; i++)
		check_stream(check, &reader->streams[i]);
	for (const struct expected *file = check->files; file; file = file->next) {
		if (file->found || file->is_replaced)
			continue;
		index_file(&file->first, name);
		reader_damage(reader, name, 0, file->end, "the stream is missing");
	}
}

/* Whether the head is this trace's; then what it says. */
static int take_head(struct check *check)
{
	struct trace_reader *reader = check->reader;
	struct index_head head;
	struct stat about;

	if (pread(check->fd, &head, sizeof(head), 0) != sizeof(head) || fstat(check->fd, &about) ||
	    head.magic != INDEX_MAGIC || head.version != INDEX_VERSION ||
	    memcmp(head.uuid, reader->meta.uuid, sizeof(head.uuid)) != 0)
		return 0;
	check->entries = ((uint64_t)about.st_size - sizeof(head)) / sizeof(struct index_packet);
	if (head.is_ended && head.packets != check->entries)
		return 0;
	reader->is_ended = head.is_ended != 0;
	reader->discarded = head.discarded;
	reader->length_ns = head.length_ns;
	reader->missing_events = head.cut;
	reader->unwritten_blocks = head.unwritten_blocks;
	reader->unwritten_threads = head.unwritten_threads;
	reader->write_error = (int)head.write_error;
	check->mended.head = head;
	return 1;
}

/* Read the index; *check is released with check_release() in any case. */
static int check_make(struct check *check, struct trace_reader *reader)
{
	int err;

	*check = (struct check){ .reader = reader, .mended.fd = -1 };
	check->files_end = &check->files;
	check->fd = openat(reader->dir, INDEX_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (check->fd < 0)
		return 0;
	reader->is_indexed = take_head(check);
	if (!reader->is_indexed) {
		reader_damage(reader, INDEX_NAME, 0, 0, "not the list of this trace's packets");
		return 0;
	}
	err = each_entry(check, expect);
	return err ? err : check->err;
}

static void in_list(void *file)
{
	(void)file; /* the list frees it */
}

static void check_release(struct check *check)
{
	if (check->fd >= 0)
		close(check->fd);
	index_close(&check->mended);
	tdestroy(check->tree, in_list);
	while (check->files) {
		struct expected *next = check->files->next;

		free(check->files);
		check->files = next;
	}
}

int index_check(struct trace_reader *reader)
{
	struct check check;
	int err;

	if (reader->live)
		return 0;
	err = check_make(&check, reader);
	if (!err && reader->is_indexed) {
		check_all(&check);
		err = each_entry(&check, count_missing);
	}
	check_release(&check);
	return err;
}

/* Write the index without what is missing, beside the old. */
static int write_mended(struct check *check, uint64_t cut)
{
	struct trace_reader *reader = check->reader;
	struct index_head head = check->mended.head;
	int err;

	for (uint32_t i = 0; i < reader->file_count; i++) {
		struct expected *file = file_of(check, &reader->streams[i]);

		if (file && !reader->streams[i].is_foreign)
			file->found = &reader->streams[i];
	}
	unlinkat(reader->dir, INDEX_NEW, 0);
	err = index_make(&check->mended, reader->dir, INDEX_NEW, head.uuid);
	if (!err)
		err = each_entry(check, keep);
	for (uint32_t i = 0; !err && i < reader->file_count; i++)
		if (!reader->streams[i].is_foreign && file_of(check, &reader->streams[i]))
			keep_rest(check, file_of(check, &reader->streams[i]));
	if (!err)
		err = check->err ? check->err : waiting_write(&check->mended);
	head.packets = check->mended.head.packets;
	head.cut = cut;
	return err ? err : write_at(check->mended.fd, &head, sizeof(head), 0);
}

int index_mend(struct trace_reader *reader)
{
	uint64_t missing = reader->missing_events;
	struct check check;
	int err = check_make(&check, reader);

	if (!err && reader->is_indexed)
		err = write_mended(&check, missing);
	if (!err && renameat(reader->dir, INDEX_NEW, reader->dir, INDEX_NAME))
		err = -errno;
	if (err)
		unlinkat(reader->dir, INDEX_NEW, 0);
	check_release(&check);
	return err;
}
