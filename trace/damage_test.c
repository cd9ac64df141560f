/* SPDX-License-Identifier: MIT */
/*
 * A small trace cut at every length, and with every byte changed: the reader reads everything
 * before the damage, says what it could not read, and comes to no harm.
 */
#include "base/testing/await.h"
#include "trace/testing/babeltrace.h"
#include "read/pass/merge.h"
#include "read/pass/summary.h"
#include "read/pass/testing/canon.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define PACKETS 3
#define EVENTS 4 /* in each */

static char dir[64];
static uint64_t packet_end[PACKETS];

static void put_events(struct sample *sample, uint64_t ticks)
{
	sample_event(sample, 0, ticks + 1, 0);
	sample_u32(sample, 7);
	sample_string(sample, "query");
	sample_event(sample, 1, ticks + 2, 0);
	sample_event(sample, 70000, ticks + 3, 0);
	sample_run(sample, "bytes", 5);
	sample_event(sample, 2, ticks + 4, 1);
}

/* One stream of three packets. */
static void make_trace(void)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	struct sample sample = { .head = { .pid = 10, .tid = 11, .comm = "x" } };
	struct trace_writer *writer;
	uint64_t bytes = 0;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_U32, WM_TYPE_STR),
			"bj\ndb\nquery\na.c\n1\nn, sql");
	trace_event_add(writer, 0, 1, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n2\n");
	trace_event_add(writer, 0, 2, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	trace_event_add(writer, 0, 70000, SAMPLE_TYPES(WM_TYPE_BYTES), "mj\ndb\nrow\na.c\n4\nrow");
	trace_clock_set(writer, about.ticks_hz, 0, 1700000000000000000);
	for (int i = 0; i < PACKETS; i++) {
		sample_begin(&sample, 1000 * ((uint64_t)i + 1));
		put_events(&sample, 1000 * ((uint64_t)i + 1));
		cr_assert_eq(sample_write(&sample, writer, 0), 0);
		bytes += PAGE_HEAD_BYTES + sample.bytes;
		packet_end[i] = bytes;
	}
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

static char *path_of(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return path;
}

static char *load(const char *file, size_t *bytes)
{
	char *content = malloc(1 << 20);
	int fd = open(path_of(file), O_RDONLY);
	ssize_t count = read(fd, content, 1 << 20);

	close(fd);
	cr_assert_gt(count, 0);
	*bytes = (size_t)count;
	return content;
}

static void store(const char *file, const char *content, size_t bytes)
{
	int fd = open(path_of(file), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(write(fd, content, bytes), (ssize_t)bytes);
	close(fd);
}

/* The summary reads by another path than the merge: both must agree on what there is. */
static void check_summary(const struct canon *canon)
{
	struct trace_reader *reader;
	struct summary *summary;

	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_assert_eq(summary->total, canon->count);
	cr_assert_eq(reader->damages_ever, canon->damages);
	summary_free(summary);
	trace_reader_close(reader);
}

/* The first `count` events of `whole` are there. */
static void check_start(const struct canon *whole, const struct canon *canon, uint32_t count)
{
	cr_assert_geq(canon->count, count);
	for (uint32_t i = 0; i < count; i++)
		cr_assert_str_eq(canon->lines[i], whole->lines[i]);
}

/* The events of whole packets before byte `at`. */
static uint32_t events_before(uint64_t at)
{
	uint32_t count = 0;

	for (int i = 0; i < PACKETS; i++)
		count += packet_end[i] <= at ? EVENTS : 0;
	return count;
}

Test(damage, a_stream_cut_anywhere_reads_up_to_its_last_whole_packet)
{
	struct canon whole, canon;
	size_t bytes;
	char *content;

	make_trace();
	content = load("10-11-0", &bytes);
	cr_assert_eq(bytes, packet_end[PACKETS - 1]);
	cr_assert_eq(canon_read(&whole, dir), 0);
	cr_assert_eq(whole.count, PACKETS * EVENTS);
	for (size_t cut = 0; cut < bytes; cut++) {
		store("10-11-0", content, cut);
		cr_assert_eq(canon_read(&canon, dir), 0);
		cr_assert_eq(canon.count, events_before(cut));
		cr_assert_eq(canon.damages, 1);
		check_start(&whole, &canon, events_before(cut));
		check_summary(&canon);
		canon_release(&canon);
	}
	canon_release(&whole);
	free(content);
	sample_folder_remove(dir);
}

Test(damage, a_changed_byte_leaves_what_stands_before_it_intact, .timeout = 120)
{
	static const char flips[] = { 1, (char)0x80, (char)0xff };
	struct canon whole, canon;
	size_t bytes;
	char *content;

	make_trace();
	content = load("10-11-0", &bytes);
	cr_assert_eq(canon_read(&whole, dir), 0);
	for (size_t at = 0; at < bytes; at++) {
		for (unsigned int i = 0; i < sizeof(flips); i++) {
			content[at] = (char)(content[at] ^ flips[i]);
			store("10-11-0", content, bytes);
			cr_assert_eq(canon_read(&canon, dir), 0);
			/*
			 * A changed time may place an event elsewhere, but only in its own packet.
			 */
			check_start(&whole, &canon, events_before(at));
			check_summary(&canon);
			canon_release(&canon);
			content[at] = (char)(content[at] ^ flips[i]);
		}
	}
	canon_release(&whole);
	free(content);
	sample_folder_remove(dir);
}

Test(damage, facts_cut_or_changed_anywhere_are_survived, .timeout = 120)
{
	struct canon canon;
	size_t bytes;
	char *content;
	int err;

	make_trace();
	content = load(FACTS_FILE, &bytes);
	for (size_t at = 0; at < bytes; at++) {
		store(FACTS_FILE, content, at);
		err = canon_read(&canon, dir);
		cr_assert(err == 0 || err == -WM_E_NOT_A_TRACE);
		canon_release(&canon);
		content[at] ^= 0x11;
		store(FACTS_FILE, content, bytes);
		err = canon_read(&canon, dir);
		cr_assert(err == 0 || err == -WM_E_NOT_A_TRACE);
		if (!err)
			check_summary(&canon);
		canon_release(&canon);
		content[at] ^= 0x11;
	}
	free(content);
	sample_folder_remove(dir);
}

/* Store these facts: a repair changes no stream for the want of others. */
static void expect_no_repair(const char *facts, size_t bytes)
{
	struct stat about;

	store(FACTS_FILE, facts, bytes);
	cr_expect_eq(trace_repair(dir), -WM_E_NOT_A_TRACE, "%zu bytes", bytes);
	cr_assert_eq(stat(path_of("10-11-0"), &about), 0);
	cr_expect_eq((uint64_t)about.st_size, packet_end[PACKETS - 1]);
}

Test(damage, repair_refuses_a_trace_that_lacks_facts)
{
	const uint32_t magic = PACKET_MAGIC;
	size_t bytes, packets = 0;
	char *content;

	make_trace();
	content = load(FACTS_FILE, &bytes);
	for (size_t cut = 0; cut < bytes; cut++)
		expect_no_repair(content, cut);
	cr_assert_eq(unlink(path_of(".index")), 0);
	for (size_t at = 0; at + sizeof(magic) < bytes; at++)
		if (!memcmp(content + at, &magic, sizeof(magic))) {
			content[at]++;
			expect_no_repair(content, bytes);
			content[at]--;
			packets++;
		}
	cr_expect_gt(packets, 2);
	free(content);
	sample_folder_remove(dir);
}

/* Put `tail` behind the stream, and see that it is reported, repaired, and then read by all. */
static void repair_with_tail(const char *tail, size_t tail_bytes)
{
	struct babeltrace theirs;
	struct canon canon;
	char *content;
	size_t bytes;
	int fd;

	make_trace();
	fd = open(path_of("10-11-0"), O_WRONLY | O_APPEND);
	cr_assert_eq(write(fd, tail, tail_bytes), (ssize_t)tail_bytes);
	close(fd);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.count, PACKETS * EVENTS);
	cr_assert_eq(canon.damages, 1);
	canon_release(&canon);

	cr_assert_eq(trace_repair(dir), 1);
	content = load(".cut-10-11-0", &bytes);
	cr_assert_eq(bytes, tail_bytes);
	cr_assert_arr_eq(content, tail, bytes);
	free(content);
	cr_assert_eq(trace_repair(dir), 0);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.damages, 0);
	cr_assert_eq(canon.count, PACKETS * EVENTS);
	if (!babeltrace_read(&theirs, dir)) {
		cr_assert_not(theirs.failed);
		cr_assert_eq(theirs.count, PACKETS * EVENTS);
		babeltrace_release(&theirs);
	}
	canon_release(&canon);
	sample_folder_remove(dir);
}

Test(damage, repair_cuts_a_torn_packet_off_and_keeps_it)
{
	struct wm_packet head = { .magic = PACKET_MAGIC,
				  .content_bits = 8000,
				  .packet_bits = 8000 };
	static const char zeros[5000];

	repair_with_tail((const char *)&head, sizeof(head));
	repair_with_tail("x", 1);
	repair_with_tail(zeros, sizeof(zeros));
}

Test(damage, repair_shortens_a_packet_with_a_bad_event_in_it)
{
	struct babeltrace theirs;
	struct canon canon;
	size_t bytes;
	char *content;

	make_trace();
	content = load("10-11-0", &bytes);
	content[packet_end[0] + PAGE_HEAD_BYTES + 4 + 4] = 9; /* a string's state */
	store("10-11-0", content, bytes);
	free(content);
	cr_assert_eq(trace_repair(dir), 1);
	cr_assert_eq(trace_repair(dir), 0);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.count, 2 * EVENTS);
	cr_assert_eq(canon.damages, 1); /* it is still reported */
	canon_release(&canon);
	if (!babeltrace_read(&theirs, dir)) {
		cr_assert_not(theirs.failed);
		cr_assert_eq(theirs.count, 2 * EVENTS);
		babeltrace_release(&theirs);
	}
	sample_folder_remove(dir);
}

/* Whatever one changed byte of an event does: after a repair babeltrace2 reads as much as we do. */
Test(damage, what_was_repaired_is_read_by_all, .timeout = 120)
{
	struct babeltrace theirs;
	struct canon canon;
	size_t bytes;
	char *content;

	make_trace();
	content = load("10-11-0", &bytes);
	for (size_t at = packet_end[0] + PAGE_HEAD_BYTES; at < packet_end[1]; at++) {
		content[at] ^= 0x41;
		store("10-11-0", content, bytes);
		content[at] ^= 0x41;
		cr_assert_geq(trace_repair(dir), 0);
		cr_assert_eq(canon_read(&canon, dir), 0);
		if (!babeltrace_read(&theirs, dir)) {
			cr_assert_not(theirs.failed, "byte %zu", at);
			cr_assert_eq(theirs.count, canon.count, "byte %zu", at);
			babeltrace_release(&theirs);
		}
		canon_release(&canon);
	}
	free(content);
	sample_folder_remove(dir);
}

Test(damage, a_stream_of_which_nothing_is_whole_becomes_empty)
{
	struct babeltrace theirs;
	struct stat about;

	make_trace();
	cr_assert_eq(truncate(path_of("10-11-0"), 100), 0);
	cr_assert_eq(trace_repair(dir), 1);
	cr_assert_eq(stat(path_of("10-11-0"), &about), 0);
	cr_assert_eq(about.st_size, 0);
	if (!babeltrace_read(&theirs, dir)) {
		cr_assert_not(theirs.failed);
		cr_assert_eq(theirs.count, 0);
		babeltrace_release(&theirs);
	}
	sample_folder_remove(dir);
}

/* 30 packets of 60 kB, which no reader has in memory at once. */
static void make_large(void)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	struct sample sample = { .head = { .pid = 10, .tid = 11, .comm = "x" } };
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 2, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	for (uint64_t packet = 0; packet < 30; packet++) {
		sample_begin(&sample, 100000 * (packet + 1));
		while (sample.bytes < 60000)
			sample_event(&sample, 2, sample.ticks + 1, 0);
		cr_assert_eq(sample_write(&sample, writer, 0), 0);
	}
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

/* How many events a merge hands out of a stream that is cut once one was read. */
static uint64_t cut_while_merged(const char *file, off_t bytes)
{
	struct trace_reader *reader;
	struct merge_event event;
	struct merge *merge;
	uint64_t count = 0;

	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(merge_open(&merge, reader, 0, NULL, NULL), 0);
	while (merge_next(merge, &event) > 0) {
		if (!count++)
			cr_assert_eq(truncate(path_of(file), bytes), 0);
	}
	cr_expect_eq(reader->damages_ever, 1);
	merge_close(merge);
	trace_reader_close(reader);
	return count;
}

Test(damage, a_stream_cut_while_it_is_read_is_damage)
{
	struct trace_reader *reader;
	struct summary *summary;
	uint64_t events;

	make_large();
	events = cut_while_merged("10-11-0", 1000000);
	cr_expect_geq(events, 200000);
	cr_expect_lt(events, 450000);
	sample_folder_remove(dir);
	make_large();
	events = cut_while_merged("10-11-0", 0);
	cr_expect_lt(events, 450000);
	sample_folder_remove(dir);
	make_large();
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(truncate(path_of("10-11-0"), 1000000), 0);
	cr_assert_eq(reader_stream_map(reader, &reader->streams[0]), -WM_E_TRACE_DAMAGED);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_expect_eq(reader->damages_ever, 1);
	cr_expect_lt(summary->total, 450000);
	summary_free(summary);
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

Test(damage, a_packet_of_a_size_that_none_has_costs_no_memory)
{
	struct wm_packet head;
	struct canon canon;
	size_t bytes;
	char *content;

	make_trace();
	content = load("10-11-0", &bytes);
	memcpy(&head, content, sizeof(head));
	head.content_bits = head.packet_bits = 8ull << 40;
	memcpy(content, &head, sizeof(head));
	store("10-11-0", content, bytes);
	cr_assert_eq(truncate(path_of("10-11-0"), (off_t)1 << 41), 0);
	free(content);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_expect_eq(canon.count, 0);
	cr_expect_eq(canon.damages, 1);
	canon_release(&canon);
	sample_folder_remove(dir);
}

/* Behind a fact that is changed, classes may be unknown, and their events would look torn. */
Test(damage, repair_refuses_facts_it_cannot_read)
{
	char *facts, *before, *after;
	size_t bytes, left;

	make_trace();
	facts = load(FACTS_FILE, &bytes);
	facts[PAGE_HEAD_BYTES + 1] = FACTS; /* the first event's id */
	store(FACTS_FILE, facts, bytes);
	before = load("10-11-0", &bytes);
	cr_assert_eq(trace_repair(dir), -WM_E_NOT_A_TRACE);
	after = load("10-11-0", &left);
	cr_assert_eq(left, bytes);
	cr_assert_arr_eq(after, before, bytes);
	free(facts);
	free(before);
	free(after);
	sample_folder_remove(dir);
}

/* A recorder that was killed while it wrote facts: no packet needs those. */
Test(damage, repair_cuts_a_torn_packet_of_facts_off)
{
	static const struct wm_packet head = { .magic = PACKET_MAGIC,
					       .content_bits = 8000,
					       .packet_bits = 8000 };
	struct babeltrace theirs;
	struct canon canon;
	char *facts;
	size_t bytes;

	make_trace();
	facts = load(FACTS_FILE, &bytes);
	memcpy(facts + bytes, &head, sizeof(head));
	store(FACTS_FILE, facts, bytes + sizeof(head));
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_expect_eq(canon.count, PACKETS * EVENTS);
	cr_expect_eq(canon.damages, 1);
	canon_release(&canon);
	cr_assert_eq(trace_repair(dir), 1);
	cr_assert_eq(trace_repair(dir), 0);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_expect_eq(canon.count, PACKETS * EVENTS);
	cr_expect_eq(canon.damages, 0);
	canon_release(&canon);
	if (!babeltrace_read(&theirs, dir)) {
		cr_assert_not(theirs.failed);
		cr_assert_eq(theirs.count, PACKETS * EVENTS);
		cr_assert_eq(theirs.facts, 3); /* trace, host, process */
		babeltrace_release(&theirs);
	}
	free(facts);
	sample_folder_remove(dir);
}

/* A format that this reader does not know. */
Test(damage, trace_of_another_version_is_refused)
{
	struct canon canon;
	char *facts;
	size_t bytes;

	make_trace();
	facts = load(FACTS_FILE, &bytes);
	facts[PAGE_HEAD_BYTES + EVENT_EXTENDED_BYTES] ^= 2;
	store(FACTS_FILE, facts, bytes);
	cr_assert_eq(canon_read(&canon, dir), -WM_E_NOT_A_TRACE);
	free(facts);
	sample_folder_remove(dir);
}

Test(damage, what_is_no_trace_is_refused)
{
	struct canon canon;

	sample_folder(dir);
	cr_assert_eq(canon_read(&canon, dir), -WM_E_NOT_A_TRACE);
	cr_assert_eq(trace_repair(dir), -WM_E_NOT_A_TRACE);
	store("metadata", "/* CTF 1.8 */ env { tracer_name = \"waymark\"; };", 47);
	cr_assert_eq(canon_read(&canon, dir), -WM_E_NOT_A_TRACE);
	cr_assert_eq(symlink("/dev/zero", path_of(FACTS_FILE)), 0);
	cr_assert_eq(canon_read(&canon, dir), -WM_E_NOT_A_TRACE);
	unlink(path_of(FACTS_FILE));
	cr_assert_eq(mkfifo(path_of(FACTS_FILE), 0600), 0);
	cr_assert_eq(canon_read(&canon, dir), -WM_E_NOT_A_TRACE);
	unlink(path_of(FACTS_FILE));
	store(FACTS_FILE, "not a packet", 12);
	cr_assert_eq(canon_read(&canon, dir), -WM_E_NOT_A_TRACE);
	sample_folder_remove(dir);
	cr_assert_eq(canon_read(&canon, dir), -ENOENT);
	cr_assert_eq(canon_read(&canon, "/dev/null"), -WM_E_NOT_A_TRACE);
}

Test(damage, a_trace_that_is_being_written_ends_with_its_last_whole_packet)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_reader *reader;
	struct trace_writer *writer;
	struct canon canon;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.count, 0);
	trace_process_add(writer, &about);
	trace_event_add(writer, 0, 5, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	sample_begin(&sample, 1000);
	sample_event(&sample, 5, 1001, 0);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	store("10-12-9", "half a packet", 13);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.count, 1);
	cr_assert_eq(canon.damages, 0);
	canon_release(&canon);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert(reader->live);
	trace_reader_close(reader);
	cr_assert_eq(trace_repair(dir), -EBUSY);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.damages, 1);
	canon_release(&canon);
	sample_release(&sample);
	sample_folder_remove(dir);
}

static char state_of(pid_t pid)
{
	char path[32], state = '?';
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	from = fopen(path, "r");
	cr_assert(from && fscanf(from, "%*d (%*[^)]) %c", &state) == 1);
	fclose(from);
	return state;
}

/* As a repair does, of a trace whose recorder was killed: no one writes any more. */
Test(damage, reader_waits_for_the_end_of_a_repair, .timeout = 60)
{
	struct trace_reader *reader;
	int folder, status;
	pid_t child;

	make_trace();
	folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(flock(folder, LOCK_EX | LOCK_NB), 0);
	child = fork();
	if (!child) {
		close(folder);
		_exit(trace_reader_open(&reader, dir) ? 2 : reader->live);
	}
	/* it waits, or has ended without */
	cr_assert(AWAIT(strchr("SZ", state_of(child))));
	close(folder);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "live");
	sample_folder_remove(dir);
}

/* A writer that never stops. Each packet holds 10,000 events. */
static void write_for_ever(void)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_writer *writer;
	char text[64];

	if (trace_writer_open(&writer, dir) || trace_process_add(writer, &about))
		_exit(1);
	trace_event_add(writer, 0, 5, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	for (uint64_t ticks = 0;; ticks += 20000) {
		sample_begin(&sample, ticks);
		for (uint64_t i = 0; i < 10000; i++)
			sample_event(&sample, 5, ticks + i, 0);
		if (sample_write(&sample, writer, 0))
			_exit(1);
		/* Another event each time, so that the metadata grows all the while too. */
		snprintf(text, sizeof(text), "mj\ndb\nnew%lu\na.c\n3\n", ticks);
		trace_event_add(writer, 0, (uint32_t)(ticks / 20000) + 6, SAMPLE_TYPES(0), text);
	}
}

Test(damage, a_writer_killed_at_any_moment_leaves_whole_packets, .timeout = 120)
{
	for (unsigned int round = 0; round < 20; round++) {
		struct canon canon;
		int status;
		pid_t pid;

		sample_folder(dir);
		pid = fork();
		if (!pid)
			write_for_ever();
		usleep(3000 + round * 531); /* the moment is the subject */
		kill(pid, SIGKILL);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSIGNALED(status));
		status = canon_read(&canon, dir);
		if (status == 0) {
			cr_assert_eq(canon.count % 10000, 0, "%u events", canon.count);
			cr_assert_leq(canon.damages, 1);
			cr_assert_geq(trace_repair(dir), 0);
			canon_release(&canon);
			cr_assert_eq(canon_read(&canon, dir), 0);
			cr_assert_eq(canon.damages, 0);
		}
		canon_release(&canon);
		sample_folder_remove(dir);
	}
}
