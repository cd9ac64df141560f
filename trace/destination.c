/* SPDX-License-Identifier: MIT */
#include "trace/destination.h"

#include "trace/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define LOCK_TRIES 50
#define LOCK_PAUSE_NS 20000000
#define FACTS_PACKET_BYTES (64u << 10) /* one is written when it is as large */
#define FACTS_UNWRITTEN_MAX (8u << 20) /* what waits for room on the disk */

int destination_packet(struct destination *folder, const struct wm_packet *head,
		       const struct packet_step *step, const void *content, size_t bytes,
		       uint32_t events)
{
	struct wm_packet copy = *head;
	struct stream *stream;
	int err = streams_find(&folder->streams, head, &stream);

	if (err)
		return err;
	memcpy(copy.uuid, folder->uuid, sizeof(copy.uuid));
	copy.seq = stream->seq + step->missed;
	copy.discarded = stream->discarded + step->lost;
	err = streams_write(&folder->streams, folder->dir, &folder->index, stream, &copy, content,
			    bytes, events);
	if (err)
		return err;
	stream->seq = copy.seq + 1;
	stream->discarded = copy.discarded;
	folder->lost += step->lost;
	return 0;
}

/* ---- facts ---- */

int destination_cause(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EFBIG ? -WM_E_TRACE_FULL : err;
}

int destination_failed(struct destination *folder, int err)
{
	if (err < 0 && !folder->index.head.write_error)
		folder->index.head.write_error = (uint32_t)-err;
	return destination_cause(err);
}

/* Write a packet; is_own: with its content where other readers take it for padding. */
static int facts_write(struct destination *folder, struct text *facts, int is_own)
{
	static const struct packet_step next = { 0 };
	struct wm_packet *head = &folder->fact_head;
	int err;

	if (facts->error || !facts->bytes)
		return facts->error;
	head->end_ticks = folder->fact_ns;
	head->packet_bits = 8 * ((uint64_t)PAGE_HEAD_BYTES + facts->bytes);
	head->content_bits = is_own ? 8 * PAGE_HEAD_BYTES : head->packet_bits;
	err = destination_packet(folder, head, &next, facts->at, facts->bytes, 0);
	if (err)
		return err;
	head->begin_ticks = head->end_ticks;
	facts->bytes = 0;
	return 0;
}

int destination_facts_write(struct destination *folder)
{
	int err = facts_write(folder, &folder->facts, 0);

	return err ? err : facts_write(folder, &folder->own_facts, 1);
}

uint64_t destination_now(struct destination *folder)
{
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (ns > folder->fact_ns)
		folder->fact_ns = ns;
	return folder->fact_ns;
}

void destination_settle(struct destination *folder, struct text *facts)
{
	int err = facts->bytes < FACTS_PACKET_BYTES ? 0 : destination_facts_write(folder);

	if (err && facts->bytes > FACTS_UNWRITTEN_MAX && !facts->error)
		facts->error = err;
}

void destination_note(struct destination *folder, enum fact fact, const union fact_value *values)
{
	struct text *facts = fact < FACT_CLOCK ? &folder->facts : &folder->own_facts;

	fact_put(facts, fact, destination_now(folder), values);
	destination_settle(folder, facts);
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
static void index_lock(struct destination *folder)
{
	int err;

	do
		err = flock(folder->index.fd, LOCK_EX);
	while (err && errno == EINTR);
	if (err)
		flock(folder->dir, LOCK_UN);
}

/* Make the files that a trace has from the start. */
static int files_make(struct destination *folder)
{
	int err = index_make(&folder->index, folder->dir, INDEX_NAME, folder->uuid);

	if (err)
		return err;
	index_lock(folder);
	folder->fact_head = (struct wm_packet){ .magic = PACKET_MAGIC,
						.stream_id = FACTS_STREAM,
						.begin_ticks = destination_now(folder),
						.realtime_ns = destination_now(folder),
						.comm = "facts" };
	destination_note(folder, FACT_TRACE,
			 (const union fact_value[]){ { .u = FACTS_FORMAT },
						     fact_string(WAYMARK_VERSION) });
	return destination_facts_write(folder);
}

int destination_open(struct destination **folder, const char *path)
{
	struct destination *made = calloc(1, sizeof(*made));
	int err;

	*folder = NULL;
	if (!made)
		return -ENOMEM;
	made->index.fd = made->metadata.fd = -1;
	made->dir = open_empty(path);
	if (made->dir < 0) {
		err = made->dir;
		free(made);
		return err;
	}
	streams_init(&made->streams);
	uuid_make(made->uuid);
	made->is_behind = made->is_head_behind = 1;
	err = destination_cause(files_make(made));
	if (err) {
		destination_undo(made);
		return err;
	}
	*folder = made;
	return 0;
}

/* ---- closing ---- */

int destination_close(struct destination *folder)
{
	int err, closed, ended, shut;

	if (!folder)
		return 0;
	err = destination_failed(folder, destination_facts_write(folder));
	metadata_release(&folder->metadata);
	closed = destination_failed(folder, streams_release(&folder->streams));
	folder->index.head.discarded = folder->lost + folder->unsaid;
	ended = folder->index.fd < 0 ? 0 : index_end(&folder->index);
	shut = index_close(&folder->index);
	ended = ended ? ended : shut;
	text_release(&folder->facts);
	text_release(&folder->own_facts);
	close(folder->dir);
	free(folder);
	return err ? err : closed ? closed : destination_cause(ended);
}

void destination_undo(struct destination *folder)
{
	unlinkat(folder->dir, INDEX_NAME, 0);
	unlinkat(folder->dir, FACTS_FILE, 0);
	unlinkat(folder->dir, "metadata", 0);
	destination_close(folder);
}
