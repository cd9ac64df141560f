/* SPDX-License-Identifier: MIT */
#include "base/slots.h"
#include "read/pass/summary.h"
#include "read/pass/testing/canon.h"
#include "trace/compress.h"
#include "trace/index.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define EVENTS 5u  /* in a packet */
#define PACKETS 2u /* in a stream */
#define STREAMS 3u
#define FACT_PACKETS 3u /* trace; process; class and clock */
#define PACKET_BYTES (PAGE_HEAD_BYTES + EVENTS * EVENT_COMPACT_BYTES)

static char dir[64];

static const char *path_of(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return path;
}

static struct trace_writer *begin_trace(void)
{
	static const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 1, SAMPLE_TYPES(0), "mj\na\nb\nc.c\n1\n");
	return writer;
}

static int write_packet(struct trace_writer *writer, uint32_t tid, uint64_t seq)
{
	struct sample sample = {
		.head = { .pid = 10, .tid = tid, .instance = tid, .seq = seq, .comm = "x" }
	};
	int err;

	sample_begin(&sample, 1000 * (seq + 1));
	for (uint32_t i = 0; i < EVENTS; i++)
		sample_event(&sample, 1, sample.ticks + 1, 0);
	err = sample_write(&sample, writer, 0);
	sample_release(&sample);
	return err;
}

/* Streams 10-11-0, 10-12-1 and 10-13-2. */
static struct trace_writer *write_trace(void)
{
	struct trace_writer *writer = begin_trace();

	for (uint64_t seq = 0; seq < PACKETS; seq++)
		for (uint32_t i = 0; i < STREAMS; i++)
			cr_assert_eq(write_packet(writer, 11 + i, seq), 0);
	return writer;
}

static void make_trace(void)
{
	cr_assert_eq(trace_writer_close(write_trace()), 0);
}

/* Read all: so many events and losses, and this is the only damage; NULL: none. */
static void expect(uint64_t events, uint64_t discarded, const char *file, const char *what)
{
	struct trace_reader *reader;
	struct summary *summary;

	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_expect_eq(summary->total, events, "%llu", (unsigned long long)summary->total);
	cr_expect_eq(summary->discarded, discarded, "%llu", (unsigned long long)summary->discarded);
	cr_expect_eq(reader->damages_ever, file ? 1 : 0, "%s",
		     reader->damages_ever ? reader->damages[0].what : "");
	if (file && reader->damages_ever) {
		cr_expect_str_eq(reader->damages[0].file, file);
		cr_expect_str_eq(reader->damages[0].what, what);
	}
	summary_free(summary);
	trace_reader_close(reader);
}

/* After a repair nothing is damaged, and what was missing is lost. */
static void expect_mended(uint64_t events)
{
	cr_assert_geq(trace_repair(dir), 0);
	expect(events, EVENTS * PACKETS * STREAMS - events, NULL, NULL);
	cr_assert_eq(trace_repair(dir), 0);
	expect(events, EVENTS * PACKETS * STREAMS - events, NULL, NULL);
	sample_folder_remove(dir);
}

static void copy(const char *from, const char *to, int flags)
{
	char bytes[4096];
	int in = open(path_of(from), O_RDONLY), out = open(path_of(to), flags, 0600);
	ssize_t count = read(in, bytes, sizeof(bytes));

	cr_assert_gt(count, 0);
	cr_assert_eq(write(out, bytes, (size_t)count), count);
	close(in);
	close(out);
}

Test(index, whole_trace_agrees_with_it)
{
	make_trace();
	expect(30, 0, NULL, NULL);
	cr_assert_eq(trace_compress(dir, NULL), (int)STREAMS);
	expect(30, 0, NULL, NULL);
	cr_assert_eq(trace_decompress(dir, NULL), (int)STREAMS);
	expect_mended(30);
}

Test(index, stream_that_was_deleted_is_missed)
{
	make_trace();
	cr_assert_eq(unlink(path_of("10-12-1")), 0);
	expect(20, 10, "10-12-1", "the stream is missing");
	expect_mended(20);
	make_trace();
	cr_assert_eq(trace_compress(dir, NULL), (int)STREAMS);
	cr_assert_eq(unlink(path_of("10-12-1.zst")), 0);
	expect(20, 10, "10-12-1", "the stream is missing");
	sample_folder_remove(dir);
}

Test(index, stream_that_was_cut_between_packets_is_missed)
{
	make_trace();
	cr_assert_eq(truncate(path_of("10-12-1"), PACKET_BYTES), 0);
	expect(25, 5, "10-12-1", "its last packets are missing");
	expect_mended(25);
	make_trace();
	cr_assert_eq(truncate(path_of("10-12-1"), 0), 0);
	expect(20, 10, "10-12-1", "its last packets are missing");
	expect_mended(20);
	/* within one, that is the only damage */
	make_trace();
	cr_assert_eq(truncate(path_of("10-12-1"), PACKET_BYTES + 50), 0);
	expect(25, 5, "10-12-1", "cut in a packet's head");
	expect_mended(25);
}

Test(index, stream_that_was_copied_is_not_read_twice)
{
	make_trace();
	copy("10-12-1", "10-14-3", O_WRONLY | O_CREAT);
	expect(30, 0, "10-14-3", "a stream that is not of this trace");
	expect_mended(30);
	make_trace();
	copy("10-12-1", "10-12-1", O_WRONLY | O_APPEND);
	expect(30, 0, "10-12-1", "packets that are not of this trace");
	expect_mended(30);
}

Test(index, stream_that_was_replaced_by_another_is_missed)
{
	struct trace_reader *reader;
	struct summary *summary;

	make_trace();
	copy("10-12-1", "10-13-2", O_WRONLY | O_TRUNC);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_expect_eq(summary->total, 20);
	cr_expect_eq(summary->discarded, 10);
	cr_assert_eq(reader->damages_ever, 1);
	cr_expect_str_eq(reader->damages[0].what, "another stream is in its place");
	summary_free(summary);
	trace_reader_close(reader);
	expect_mended(20);
}

/* A repair leaves fewer entries than the number of the last stream. */
Test(index, stream_that_is_left_alone_is_read)
{
	make_trace();
	cr_assert_eq(unlink(path_of("10-11-0")), 0);
	cr_assert_eq(unlink(path_of("10-12-1")), 0);
	expect_mended(10);
}

/*
 * What the recorder counted and could not write is in the trace, as its room was taken at the
 * beginning.
 */
Test(index, losses_that_no_packet_says_are_known)
{
	struct trace_writer *writer = write_trace();
	struct trace_reader *reader;

	trace_end_set(writer, &(struct trace_end){ .length_ns = 4000000000, .discarded = 1234 });
	cr_assert_eq(trace_writer_close(writer), 0);
	expect(30, 1234, NULL, NULL);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_expect_eq(reader->length_ns, 4000000000);
	cr_expect(reader->is_indexed && reader->is_ended);
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

/* Room for so many entries. */
static void limit_index(rlim_t entries)
{
	struct rlimit limit = { .rlim_cur = entries == RLIM_INFINITY
						    ? entries
						    : sizeof(struct index_head) +
							      entries * sizeof(struct index_packet),
				.rlim_max = RLIM_INFINITY };

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(index, packet_without_room_for_its_entry_is_not_written)
{
	struct trace_writer *writer = write_trace();
	uint64_t written = 0;

	limit_index(INDEX_WAITING - 1);
	while (FACT_PACKETS + PACKETS * STREAMS + written < INDEX_WAITING - 1)
		cr_assert_eq(write_packet(writer, 20, written++), 0);
	cr_assert_eq(write_packet(writer, 20, written), -WM_E_TRACE_FULL);
	limit_index(RLIM_INFINITY);
	cr_assert_eq(write_packet(writer, 20, written++), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect(EVENTS * (PACKETS * STREAMS + written), 0, NULL, NULL);
	sample_folder_remove(dir);
}

/* Its packets are all read, and it is not taken for one whose recorder was killed. */
Test(index, trace_without_room_for_its_last_entries_says_so)
{
	struct trace_writer *writer = write_trace();
	struct trace_reader *reader;
	int fd;

	limit_index(FACT_PACKETS + 2);
	cr_assert_eq(trace_writer_close(writer), -WM_E_TRACE_FULL);
	limit_index(RLIM_INFINITY);
	fd = open(path_of(".index"), O_RDONLY);
	cr_expect_eq(flock(fd, LOCK_SH | LOCK_NB), 0, "the writer's descriptor is still open");
	close(fd);
	expect(EVENTS * PACKETS * STREAMS, 0, NULL, NULL);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_expect_str_eq(reader_end_words(reader), "the recorder could not write all of the trace");
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

/* As a recorder leaves it that is killed between a packet and its entry. */
Test(index, trace_that_did_not_end_says_so)
{
	struct trace_writer *writer = write_trace();
	struct trace_reader *reader;
	struct index_head head;
	char aside[128];
	int fd;

	cr_assert_eq(trace_writer_close(writer), 0);
	fd = open(path_of(".index"), O_RDWR);
	cr_assert_eq(pread(fd, &head, sizeof(head), 0), sizeof(head));
	cr_assert_eq(head.packets, FACT_PACKETS + PACKETS * STREAMS);
	head.is_ended = 0;
	head.packets = 0;
	cr_assert_eq(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	cr_assert_eq(ftruncate(fd,
			       sizeof(head) + (FACT_PACKETS + 5) * sizeof(struct index_packet) + 7),
		     0);
	close(fd);
	expect(30, 0, NULL, NULL);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_expect(reader->is_indexed && !reader->is_ended);
	trace_reader_close(reader);
	snprintf(aside, sizeof(aside), "%s", path_of("10-11-0"));
	cr_assert_eq(unlink(aside), 0);
	expect(20, 10, "10-11-0", "the stream is missing");
	sample_folder_remove(dir);
}

Test(index, index_of_rubbish_is_damage)
{
	static const uint32_t bad[] = { 0, 8, 24, 32 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd;

		make_trace();
		fd = open(path_of(".index"), O_WRONLY);
		cr_assert_eq(pwrite(fd, "rubbish!", 8, bad[i]), 8);
		close(fd);
		expect(30, 0, ".index", "not the list of this trace's packets");
		sample_folder_remove(dir);
	}
	make_trace();
	cr_assert_eq(truncate(path_of(".index"), 10), 0);
	expect(30, 0, ".index", "not the list of this trace's packets");
	sample_folder_remove(dir);
}

/* Without entries, a file's hole of 64 GiB took minutes. */
Test(index, hole_is_not_read, .timeout = 20)
{
	uint32_t is_ended = 0;
	int fd;

	make_trace();
	fd = open(path_of(".index"), O_RDWR);
	cr_assert_eq(pwrite(fd, &is_ended, sizeof(is_ended), offsetof(struct index_head, is_ended)),
		     sizeof(is_ended));
	cr_assert_eq(ftruncate(fd, 64ll << 30), 0);
	close(fd);
	expect(30, 0, NULL, NULL);
	sample_folder_remove(dir);
}

#define FORGED 300000u

/* Whether a file number meets others of its kind in a table by slots_hash(). */
static int is_crowded(uint32_t number)
{
	return (slots_hash(number) & 0xfffff) < 4096;
}

/* Each of 300,000 streams that are missing costs as much as its entry, whatever its number. */
Test(index, forged_numbers_cost_no_more, .timeout = 20)
{
	static struct index_packet entries[FORGED];
	struct trace_writer *writer = write_trace();
	struct trace_reader *reader;
	uint32_t number = STREAMS;
	int fd;

	cr_assert_eq(trace_writer_close(writer), 0);
	for (uint32_t i = 0; i < FORGED; number++)
		if (is_crowded(number))
			entries[i++] = (struct index_packet){ .number = number, .bytes = 200 };
	fd = open(path_of(".index"), O_RDWR | O_APPEND);
	cr_assert_eq(write(fd, entries, sizeof(entries)), sizeof(entries));
	close(fd);
	fd = open(path_of(".index"), O_RDWR);
	cr_assert_eq(pwrite(fd, &(uint32_t){ 0 }, 4, offsetof(struct index_head, is_ended)), 4);
	close(fd);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_expect_eq(reader->damages_ever, FORGED);
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

/*
 * A packet that an entry cuts is left out whole, or the stream would end within it after the
 * repair.
 */
Test(index, entry_that_ends_within_a_packet_leaves_it_out)
{
	struct index_packet entry;
	off_t at = sizeof(struct index_head) + (FACT_PACKETS + 4) * sizeof(entry);
	int fd;

	make_trace();
	fd = open(path_of(".index"), O_RDWR);
	cr_assert_eq(pread(fd, &entry, sizeof(entry), at), sizeof(entry));
	entry.bytes -= 8;
	cr_assert_eq(pwrite(fd, &entry, sizeof(entry), at), sizeof(entry));
	close(fd);
	expect(25, 5, "10-12-1", "packets that are not of this trace");
	expect_mended(25);
}

/*
 * Numbers, offsets and sizes as no writer has them: no crash, and nothing is believed but that
 * packets are missing.
 */
Test(index, entries_of_rubbish_do_no_harm)
{
	uint64_t seed = 1;

	for (int round = 0; round < 300; round++) {
		struct trace_reader *reader;
		struct index_packet entry;
		int fd;

		make_trace();
		fd = open(path_of(".index"), O_RDWR);
		for (size_t at = 0; at < sizeof(entry); at += 8) {
			uint64_t word = sample_random(&seed) >> (sample_random(&seed) % 64);

			if (sample_random(&seed) % 3)
				memcpy((char *)&entry + at, &word, 8);
		}
		cr_assert_eq(pwrite(fd, &entry, sizeof(entry),
				    sizeof(struct index_head) +
					    (off_t)(sample_random(&seed) % (FACT_PACKETS + 6) *
						    sizeof(entry))),
			     sizeof(entry));
		close(fd);
		cr_assert_eq(trace_reader_open(&reader, dir), 0);
		trace_reader_close(reader);
		cr_assert_geq(trace_repair(dir), 0);
		cr_expect_eq(trace_repair(dir), 0, "round %d is not repaired", round);
		sample_folder_remove(dir);
	}
}
