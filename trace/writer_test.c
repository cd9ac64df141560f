/* SPDX-License-Identifier: MIT */
#include "trace/testing/babeltrace.h"
#include "read/pass/summary.h"
#include "read/pass/testing/canon.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static const struct trace_process about = {
	.pid = 10, .ppid = 1, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
};
static char dir[64];

static char *path_of(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return path;
}

static off_t size_of(const char *file)
{
	struct stat found;

	return stat(path_of(file), &found) ? -1 : found.st_size;
}

static struct trace_writer *open_writer(void)
{
	struct trace_writer *writer;

	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	cr_assert_eq(
		trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_STR), "mj\na\nb\nc.c\n1\ns"), 0);
	return writer;
}

/* A packet of one event with a string of `bytes`. */
static int write_packet(struct trace_writer *writer, struct sample *sample, size_t bytes)
{
	char *string = malloc(bytes + 1);

	memset(string, 's', bytes);
	string[bytes] = '\0';
	sample_begin(sample, sample->ticks + 1);
	sample_event(sample, 0, sample->ticks + 1, 0);
	sample_string(sample, string);
	free(string);
	return sample_write(sample, writer, 0);
}

static void expect_events(uint32_t count)
{
	struct babeltrace theirs;
	struct canon canon;

	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.damages, 0);
	cr_assert_eq(canon.count, count, "%u events", canon.count);
	canon_release(&canon);
	if (babeltrace_read(&theirs, dir))
		return;
	cr_assert_not(theirs.failed);
	cr_assert_eq(theirs.count, count);
	babeltrace_release(&theirs);
}

Test(writer, a_folder_is_made_and_is_ours_alone)
{
	struct trace_writer *writer;
	struct stat found;

	sample_folder(dir);
	strcat(dir, "/trace");
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(stat(dir, &found), 0);
	cr_assert_eq(found.st_mode & 0777, 0700);
	cr_assert_gt(size_of("metadata"), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_events(0);
	cr_assert_eq(trace_writer_open(&writer, dir), -WM_E_TRACE_DIR);
	cr_assert_null(writer);
	sample_folder_remove(dir);
	*strrchr(dir, '/') = '\0';
	sample_folder_remove(dir);
	cr_assert_eq(trace_writer_open(&writer, "/nowhere/at/all"), -ENOENT);
	cr_assert_eq(trace_writer_open(&writer, "/dev/null"), -ENOTDIR);
	cr_assert_eq(trace_writer_close(NULL), 0);
}

/* Someone looks into the folder right when it is made. */
Test(writer, a_reader_of_the_empty_folder_is_waited_for)
{
	struct trace_writer *writer;
	int fd, ready[2];
	char byte;
	pid_t pid;

	sample_folder(dir);
	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		fd = open(dir, O_RDONLY | O_DIRECTORY);
		if (flock(fd, LOCK_SH) || write(ready[1], "x", 1) != 1)
			_exit(1);
		usleep(100000); /* as long as a busy machine may keep a reader there */
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	cr_expect_eq(trace_writer_open(&writer, dir), 0);
	cr_expect_eq(trace_writer_close(writer), 0);
	waitpid(pid, NULL, 0);
	sample_folder_remove(dir);
}

Test(writer, metadata_is_there_before_the_packet_that_needs_it)
{
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_writer *writer;

	sample_folder(dir);
	writer = open_writer();
	cr_assert_eq(write_packet(writer, &sample, 5), 0);
	expect_events(1);
	cr_assert_eq(trace_event_add(writer, 0, 77, SAMPLE_TYPES(WM_TYPE_U8),
				     "mj\na\nlate\nc.c\n1\nx"),
		     0);
	sample_begin(&sample, sample.ticks + 1);
	sample_event(&sample, 77, sample.ticks + 1, 0);
	sample_u8(&sample, 5);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	expect_events(2);
	cr_assert_eq(size_of(".metadata.new"), -1);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
	sample_folder_remove(dir);
}

Test(writer, an_event_is_declared_once)
{
	static const char text[] = "mj\na\nb\nc.c\n1\ns";
	struct trace_writer *writer;
	uint8_t gap[16] = { WM_TYPE_U8, 0, WM_TYPE_U8 };

	sample_folder(dir);
	writer = open_writer();
	cr_assert_eq(trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_STR), text), 0);
	cr_assert_eq(trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_U8), text), -EEXIST);
	cr_assert_eq(trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_STR),
				     "mj\na\nc\nc.c\n1\ns"),
		     -EEXIST);
	cr_assert_eq(trace_event_add(writer, 0, 1, SAMPLE_TYPES(WM_TYPE_ADDRESSES + 1), text),
		     -EINVAL);
	cr_assert_eq(trace_event_add(writer, 0, 1, gap, text), -EINVAL);
	cr_assert_eq(trace_event_add(writer, 1, 1, SAMPLE_TYPES(0), text), -EINVAL);
	cr_assert_eq(trace_event_add(writer, -1, 1, SAMPLE_TYPES(0), text), -EINVAL);
	cr_assert_eq(trace_event_add(writer, 0, 2, SAMPLE_TYPES(0), "not a site's text"), 0);
	cr_assert_eq(trace_event_add(writer, 0, 3, SAMPLE_TYPES(0), ""), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_events(0);
	sample_folder_remove(dir);
}

static int write_number(struct trace_writer *writer, struct sample *sample, int process,
			uint32_t id)
{
	sample_begin(sample, sample->ticks + 1);
	sample_event(sample, id, sample->ticks + 1, id > 30);
	sample_u8(sample, 5);
	return sample_write(sample, writer, process);
}

static unsigned int declarations(const char *event)
{
	FILE *metadata = fopen(path_of("metadata"), "r");
	unsigned int count = 0;
	char line[512];

	cr_assert_not_null(metadata);
	while (fgets(line, sizeof(line), metadata))
		count += strstr(line, event) != NULL;
	fclose(metadata);
	return count;
}

Test(writer, a_child_declares_of_its_parents_events_those_that_it_has)
{
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_writer *writer;

	sample_folder(dir);
	writer = open_writer();
	for (uint32_t id = 1; id < 40; id++)
		cr_assert_eq(trace_event_add(writer, 0, id, SAMPLE_TYPES(WM_TYPE_U8),
					     id == 35 ? "md\na\nhit\nc.c\n1\nx"
						      : "md\na\nnot\nc.c\n1\nx"),
			     0);
	cr_assert_eq(trace_process_add(writer, &about), 1);
	cr_assert_eq(trace_process_add(writer, &about), 2);
	cr_assert_eq(trace_events_inherit(writer, 1, 0, 40), 0);
	cr_assert_eq(trace_events_inherit(writer, 1, 0, 40), -EINVAL);
	cr_assert_eq(trace_events_inherit(writer, 2, 2, 40), -EINVAL);
	cr_assert_eq(trace_events_inherit(writer, 2, 1, 36), 0);
	/*
	 * the grandchild's is not one of its parent's own, and past what it has of its grandparent
	 */
	cr_assert_eq(trace_event_add(writer, 2, 36, SAMPLE_TYPES(WM_TYPE_U8),
				     "md\na\nown\nc.c\n1\nx"),
		     0);
	sample.head.tid = 12;
	cr_assert_eq(write_number(writer, &sample, 1, 35), 0);
	cr_assert_eq(write_number(writer, &sample, 1, 35), 0);
	sample.head.tid = 13;
	sample.head.instance = 2;
	cr_assert_eq(write_number(writer, &sample, 2, 35), 0);
	cr_assert_eq(write_number(writer, &sample, 2, 36), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(declarations("a:hit"), 3, "once for each process");
	cr_assert_eq(declarations("a:not"), 38, "the first one's");
	cr_assert_eq(declarations("a:own"), 1);
	expect_events(4);
	sample_release(&sample);
	sample_folder_remove(dir);
}

/* Packets of a process, each full of one event, until it has written `bytes`. */
static void write_much(struct trace_writer *writer, struct sample *sample, int process, uint32_t id,
		       size_t bytes)
{
	for (size_t written = 0; written < bytes; written += sample->bytes) {
		sample_begin(sample, sample->ticks + 1);
		for (int i = 0; i < 4000; i++) {
			sample_event(sample, id, sample->ticks + 1, id > 30);
			sample_u8(sample, 5);
		}
		cr_assert_eq(sample_write(sample, writer, process), 0);
	}
}

Test(writer, a_child_that_writes_much_declares_all_that_it_has)
{
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_writer *writer;

	sample_folder(dir);
	writer = open_writer();
	for (uint32_t id = 1; id < 40; id++)
		if (id != 10) /* added late */
			cr_assert_eq(trace_event_add(writer, 0, id, SAMPLE_TYPES(WM_TYPE_U8),
						     "md\na\nhit\nc.c\n1\nx"),
				     0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(trace_process_add(writer, &about), i + 1);
		cr_assert_eq(trace_events_inherit(writer, i + 1, i, 20 - (uint32_t)i * 10), 0);
	}
	sample.head.tid = 12;
	write_much(writer, &sample, 1, 5, 20 * 16384);
	cr_assert_eq(declarations("a:hit"), 38 + 18);
	cr_assert_eq(trace_event_add(writer, 0, 10, SAMPLE_TYPES(WM_TYPE_U8),
				     "md\na\nhit\nc.c\n1\nx"),
		     0);
	cr_assert_eq(write_number(writer, &sample, 1, 10), 0);
	cr_assert_eq(declarations("a:hit"), 39 + 19);
	sample.head.tid = 13;
	sample.head.instance = 2;
	write_much(writer, &sample, 2, 5, 8000);
	cr_assert_eq(declarations("a:hit"), 58 + 1, "little was written");
	write_much(writer, &sample, 2, 5, 10 * 16384);
	cr_assert_eq(declarations("a:hit"), 58 + 9);
	/* whatever it has of its own comes later */
	cr_assert_eq(trace_event_add(writer, 2, 10, SAMPLE_TYPES(WM_TYPE_U8),
				     "md\na\nown\nc.c\n1\nx"),
		     0);
	cr_assert_eq(write_number(writer, &sample, 2, 10), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(declarations("a:own"), 1);
	sample_release(&sample);
	sample_folder_remove(dir);
}

Test(writer, text_without_manners_is_escaped)
{
	struct control_module module = { .base = 0x7f0000000000, .build_id_bytes = 200 };
	struct trace_process rude = about;
	struct trace_reader *reader;
	struct trace_writer *writer;
	const struct trace_class *class;
	struct text text = { 0 };

	sample_folder(dir);
	rude.exe = "/bin/\"; }; event { \\\n\x01\xff\xc3\xa9";
	rude.hostname = "*/ /* ";
	rude.build_id_bytes = 200;
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &rude), 0);
	cr_assert_eq(trace_module_add(writer, 0, &module, "/lib/\"x\n}", 7), 0);
	text_format(&text, "mj\n\"; }; stream {\\\n");
	for (int i = 0; i < 60000; i++)
		text_add(&text, "\xff", 1);
	text_format(&text, "\n/src/\"#:*/.c\n12\nstream, event, \"}\", trace");
	cr_assert_eq(
		trace_event_add(writer, 0, 0,
				SAMPLE_TYPES(WM_TYPE_U8, WM_TYPE_STR, WM_TYPE_BYTES, WM_TYPE_CHAR),
				text.at),
		0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_events(0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_str_eq(reader->meta.hostname, rude.hostname);
	cr_assert_eq(strlen(reader->meta.processes[0].build_id), 2 * sizeof(rude.build_id));
	cr_assert_str_eq(reader->meta.processes[0].exe, rude.exe);
	cr_assert_eq(reader->meta.processes[0].module_count, 1);
	cr_expect_str_eq(reader->meta.processes[0].modules[0].path, "/lib/\"x\n}");
	cr_expect_eq(reader->meta.processes[0].modules[0].ns, 7);
	class = schema_find(reader->meta.processes[0].schema, 0);
	cr_assert_eq(class->name_bytes, strlen("\"; }; stream {\\:") + 60000);
	cr_assert_str_eq(class->file, "/src/\"#:*/.c");
	cr_assert_eq(class->line, 12);
	cr_assert_eq(class->count, 4);
	cr_assert_str_eq(class->fields[0], "stream_");
	cr_assert_str_eq(class->fields[2], "field3");
	trace_reader_close(reader);
	text_release(&text);
	sample_folder_remove(dir);
}

Test(writer, changes_are_read_as_they_were_written)
{
	const struct trace_change changes[] = {
		{ "watch:a", "watch:b/if=value>0/", 1700000000000000001, 1234 },
		{ "watch:\"x y\"\n 5", "", UINT64_MAX, 0 },
	};
	struct trace_reader *reader;
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(trace_change_add(writer, 0, &changes[i]), 0);
	cr_assert_eq(trace_change_add(writer, 1, &changes[0]), -EINVAL);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(reader->meta.processes[0].change_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct fact_change *read = &reader->meta.processes[0].changes[i];

		cr_assert_str_eq(read->from, changes[i].from);
		cr_assert_str_eq(read->to, changes[i].to);
		cr_assert_eq(read->begin_ns, changes[i].begin_ns);
		cr_assert_eq(read->gap_ns, changes[i].gap_ns);
	}
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

Test(writer, a_field_called_as_another_s_state_is_no_harm)
{
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	cr_assert_eq(
		trace_event_add(writer, 0, 0,
				SAMPLE_TYPES(WM_TYPE_STR, WM_TYPE_U8, WM_TYPE_BYTES, WM_TYPE_U8),
				"mj\na\nb\nc.c\n1\ns, _s_state, r, _r_length"),
		0);
	sample_begin(&sample, 1);
	sample_event(&sample, 0, 2, 0);
	sample_string(&sample, NULL);
	sample_u8(&sample, 1);
	sample_run(&sample, "", 0);
	sample_u8(&sample, 2);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_events(1);
	sample_release(&sample);
	sample_folder_remove(dir);
}

static unsigned int open_files(void)
{
	DIR *list = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (readdir(list))
		count++;
	closedir(list);
	return count;
}

/* For babeltrace2, which opens all streams at once: as many as may be. */
static rlim_t raise_limit(void)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_max;
}

Test(writer, thousands_of_streams_take_few_descriptors)
{
	struct sample sample = { .head = { .pid = 10 } };
	unsigned int before = open_files();
	struct trace_writer *writer;
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 256;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	sample_folder(dir);
	writer = open_writer();
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 3000; i++) {
			sample.head.instance = i;
			sample.head.tid = 1000 + i;
			sample.head.depth = i % 2;
			sample.head.seq = (uint64_t)round;
			cr_assert_eq(write_packet(writer, &sample, 3), 0);
		}
	}
	/* beside the streams: the folder, .index, metadata */
	cr_assert_leq(open_files(), before + 256 / 8 + 3);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(open_files(), before);
	cr_assert_gt(size_of("10-1000-0"), 0);
	cr_assert_gt(size_of("10-1001-1-1"), 0);
	if (raise_limit() < 6100)
		cr_skip_test("babeltrace2 may not open 6000 files here");
	expect_events(6000);
	sample_release(&sample);
	sample_folder_remove(dir);
}

Test(writer, a_shortage_of_descriptors_is_lived_with)
{
	struct sample sample = { .head = { .pid = 10 } };
	struct rlimit limit = { 0 };
	struct trace_writer *writer;

	sample_folder(dir);
	writer = open_writer();
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = open_files() + 4;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (uint32_t i = 0; i < 50; i++) {
		sample.head.instance = i;
		sample.head.tid = i;
		cr_assert_eq(write_packet(writer, &sample, 3), 0);
	}
	cr_assert_eq(trace_writer_close(writer), 0);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	expect_events(50);
	sample_release(&sample);
	sample_folder_remove(dir);
}

/* Write until it fails, then see that all that was written before is whole. */
static void fill_up(int expected)
{
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_writer *writer = open_writer();
	uint32_t count = 0;
	int err;

	while (!(err = write_packet(writer, &sample, 30001)))
		count++;
	cr_assert_eq(err, expected, "%d", err);
	cr_assert_gt(count, 3);
	expect_events(count);
	/* A smaller one may still fit: it goes where the failed one would have gone. */
	err = write_packet(writer, &sample, 10);
	cr_assert(!err || err == expected);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_events(count + !err);
	sample_release(&sample);
}

Test(writer, a_limit_on_files_leaves_whole_packets)
{
	struct rlimit limit = { .rlim_cur = 200000, .rlim_max = RLIM_INFINITY };

	signal(SIGXFSZ, SIG_IGN);
	sample_folder(dir);
	setrlimit(RLIMIT_FSIZE, &limit);
	fill_up(-WM_E_TRACE_FULL);
	sample_folder_remove(dir);
}

Test(writer, trace_that_can_not_be_made_leaves_an_empty_folder)
{
	struct trace_writer *none = NULL;
	struct rlimit before, few;
	char folder[64];
	int failures = 0, err = -1;

	sample_folder(folder);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	for (few.rlim_cur = 3; err && few.rlim_cur < 64; few.rlim_cur++) {
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
		err = trace_writer_open(&none, folder);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
		cr_assert(!err || err == -EMFILE, "%d", err);
		failures += err != 0;
	}
	cr_assert_gt(failures, 1);
	cr_assert_eq(err, 0);
	cr_assert_eq(trace_writer_close(none), 0);
	sample_folder_remove(folder);
}

Test(writer, a_full_disk_leaves_whole_packets)
{
	sample_folder(dir);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, "size=1m,mode=700")) {
		sample_folder_remove(dir);
		cr_skip_test("mounting a small tmpfs needs root");
	}
	fill_up(-WM_E_TRACE_FULL);
	umount2(dir, MNT_DETACH);
	sample_folder_remove(dir);
}

Test(writer, metadata_that_finds_no_room_keeps_the_old)
{
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct rlimit limit = { .rlim_cur = 20000, .rlim_max = RLIM_INFINITY };
	struct trace_writer *writer;
	struct text text = { 0 };

	signal(SIGXFSZ, SIG_IGN);
	sample_folder(dir);
	writer = open_writer();
	cr_assert_eq(write_packet(writer, &sample, 10), 0);
	setrlimit(RLIMIT_FSIZE, &limit);
	text_format(&text, "mj\na\n%030000d\nc.c\n1\n", 1);
	cr_assert_eq(trace_event_add(writer, 0, 9, SAMPLE_TYPES(0), text.at), 0);
	cr_assert_eq(write_packet(writer, &sample, 10), -WM_E_TRACE_FULL);
	cr_assert_eq(trace_writer_close(writer), -WM_E_TRACE_FULL);
	expect_events(1);
	cr_assert_eq(size_of(".metadata.new"), -1);
	text_release(&text);
	sample_release(&sample);
	sample_folder_remove(dir);
}

/* ---- several folders ---- */

/* A packet of one event; `discarded` so far, as the agent counts it. */
static void write_lossy(struct trace_writer *writer, struct sample *sample, uint64_t discarded)
{
	sample->head.discarded = discarded;
	cr_assert_eq(write_packet(writer, sample, 8), 0);
}

/* What the folder has: events, and how many were lost. */
static void expect_counts(const char *path, uint32_t events, uint64_t lost)
{
	struct trace_reader *reader;
	struct summary *summary;

	cr_assert_eq(trace_reader_open(&reader, path), 0, "%s", path);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_expect_eq(summary->total, events, "%s: %lu events", path, summary->total);
	cr_expect_eq(summary->discarded, lost, "%s: %lu lost", path, summary->discarded);
	cr_expect_eq(summary->missing_packets, 0, "%s", path);
	summary_free(summary);
	trace_reader_close(reader);
}

static void expect_folder(const char *path, uint32_t events, uint64_t lost)
{
	expect_counts(path, events, lost);
	strcpy(dir, path);
	expect_events(events);
}

static void next_folder(struct trace_writer *writer, const char *path)
{
	cr_assert_eq(trace_next_open(writer, path), 0);
	cr_assert_eq(trace_next_open(writer, "/tmp"), -EBUSY);
	cr_assert_eq(trace_next_begin(writer), 0);
}

Test(writer, folders_follow_each_other_and_each_has_its_own_losses)
{
	struct trace_writer *writer;
	struct sample sample = { 0 };
	char folder[3][64];

	for (int i = 0; i < 3; i++)
		sample_folder(folder[i]);
	strcpy(dir, folder[0]);
	writer = open_writer();
	write_lossy(writer, &sample, 0);
	write_lossy(writer, &sample, 5);
	next_folder(writer, folder[1]);
	write_lossy(writer, &sample, 5);
	write_lossy(writer, &sample, 7);
	write_lossy(writer, &sample, 7);
	next_folder(writer, folder[2]);
	write_lossy(writer, &sample, 7);
	trace_end_set(writer, &(struct trace_end){ .length_ns = 1, .discarded = 10 });
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_folder(folder[0], 2, 5);
	expect_folder(folder[1], 3, 2);
	expect_folder(folder[2], 1, 3); /* those that no packet says */
	for (int i = 0; i < 3; i++)
		sample_folder_remove(folder[i]);
	sample_release(&sample);
}

/* As many facts as an agent may report are more than one packet may have. */
Test(writer, a_process_with_many_modules_is_in_each_folder)
{
	const struct control_module module = { .base = 4096 };
	struct trace_writer *writer;
	struct sample sample = { 0 };
	char folder[2][64], path[4000];

	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 1] = 0;
	sample_folder(folder[0]);
	sample_folder(folder[1]);
	strcpy(dir, folder[0]);
	writer = open_writer();
	for (int i = 0; i < 4300; i++)
		cr_assert_eq(trace_module_add(writer, 0, &module, path, 1), 0);
	next_folder(writer, folder[1]);
	write_lossy(writer, &sample, 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_counts(folder[1], 1, 0);
	sample_folder_remove(folder[0]);
	sample_folder_remove(folder[1]);
	sample_release(&sample);
}

Test(writer, a_process_that_has_ended_is_in_no_later_folder)
{
	struct trace_process other = about;
	struct trace_writer *writer;
	struct sample sample = { 0 };
	char folder[2][64];
	struct canon canon;

	sample_folder(folder[0]);
	sample_folder(folder[1]);
	strcpy(dir, folder[0]);
	writer = open_writer();
	other.pid = 11;
	other.exe = "/bin/y";
	cr_assert_eq(trace_process_end(writer, 0, 1), 0);
	cr_assert_eq(trace_process_add(writer, &other), 1);
	cr_assert_eq(
		trace_event_add(writer, 1, 0, SAMPLE_TYPES(WM_TYPE_U32), "mj\na\nd\nc.c\n1\nn"), 0);
	usleep(1100000); /* the time is the subject: for a second it is not past */
	next_folder(writer, folder[1]);
	sample_begin(&sample, 1);
	sample_event(&sample, 0, 1, 0);
	sample_u32(&sample, 7);
	cr_assert_eq(sample_write(&sample, writer, 0), -WM_E_GONE);
	cr_assert_eq(sample_write(&sample, writer, 1), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(canon_read(&canon, folder[1]), 0);
	cr_expect_eq(canon.count, 1);
	canon_release(&canon);
	strcpy(dir, folder[1]);
	expect_events(1);
	sample_folder_remove(folder[0]);
	sample_folder_remove(folder[1]);
	sample_release(&sample);
}

Test(writer, the_newest_packets_are_kept_and_written_as_often_as_asked)
{
	struct trace_snapshot *snapshot;
	struct trace_writer *writer;
	struct sample sample = { 0 };
	char folder[3][64];

	for (int i = 0; i < 3; i++)
		sample_folder(folder[i]);
	cr_assert_eq(trace_writer_keep(&writer, 6000, 0), 0);
	cr_assert_eq(trace_kept_ns(writer), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	cr_assert_eq(
		trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_STR), "mj\na\nb\nc.c\n1\ns"), 0);
	for (uint64_t i = 0; i < 10; i++) {
		sample.head.discarded = i;
		cr_assert_eq(write_packet(writer, &sample, 1500), 0);
	}
	cr_assert_gt(trace_kept_ns(writer), 0);
	for (int i = 0; i < 2; i++) {
		next_folder(writer, folder[i]);
		cr_assert_eq(trace_snapshot_take(writer, &snapshot), 0);
		/* what comes meanwhile is not in it, and is kept */
		sample.head.discarded = 10;
		cr_assert_eq(write_packet(writer, &sample, 1500), 0);
		cr_assert_eq(trace_snapshot_write(snapshot), 0);
		trace_snapshot_free(snapshot);
	}
	next_folder(writer, folder[2]);
	cr_assert_eq(trace_kept_write(writer), 0);
	cr_assert_eq(write_packet(writer, &sample, 8), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_folder(folder[0], 3, 3);
	expect_folder(folder[1], 3, 3);
	expect_folder(folder[2], 4, 2);
	for (int i = 0; i < 3; i++)
		sample_folder_remove(folder[i]);
	sample_release(&sample);
}

Test(writer, packets_that_are_too_old_are_dropped)
{
	struct trace_writer *writer;
	struct sample sample = { 0 };

	cr_assert_eq(trace_writer_keep(&writer, 0, 1), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	cr_assert_eq(
		trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_STR), "mj\na\nb\nc.c\n1\ns"), 0);
	for (int i = 0; i < 20000; i++)
		cr_assert_eq(write_packet(writer, &sample, 8), 0);
	sample_folder(dir);
	cr_assert_eq(trace_next_open(writer, dir), 0);
	cr_assert_eq(trace_next_begin(writer), 0);
	cr_assert_eq(trace_kept_write(writer), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	expect_events(0);
	sample_folder_remove(dir);
	sample_release(&sample);
}
