/* SPDX-License-Identifier: MIT */
/* waymark/trace.h: order, numbers, and that nothing missing is silent. */
#include "trace/index.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/trace.h>

#define BASE_NS 1700000000000000000u

static char dir[64];
static struct trace_writer *writer;
static struct sample sample;
static struct wm_trace *trace;
static const struct wm_event *event;

/* Two processes of one program: the second has the same events under other ids. */
static void begin_trace(void)
{
	struct trace_process about = {
		.pid = 10, .ppid = 1, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	for (int process = 0; process < 2; process++) {
		cr_assert_eq(trace_process_add(writer, &about), process);
		about.pid = 20;
		trace_event_add(writer, process, (uint32_t)process, SAMPLE_TYPES(WM_TYPE_U32),
				"mj\ndb\nrow\na.c\n1\nn");
		trace_event_add(writer, process, !process, SAMPLE_TYPES(WM_TYPE_STR),
				"bj\ndb\nquery\na.c\n2\nsql");
	}
	trace_clock_set(writer, 1000000000, 0, BASE_NS);
}

static void begin_stream(uint32_t pid, uint32_t tid, uint64_t instance)
{
	sample.head = (struct wm_packet){ .pid = pid, .tid = tid, .instance = instance };
}

static void put_row(uint32_t id, uint64_t ticks, uint32_t n)
{
	sample_event(&sample, id, ticks, 0);
	sample_u32(&sample, n);
}

static void put_packet(int process)
{
	cr_assert_eq(sample_write(&sample, writer, process), 0);
}

static void end_writing(void)
{
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

static void open_trace(void)
{
	cr_assert_eq(wm_trace_open(&trace, dir, NULL), 0);
}

static void end_test(void)
{
	cr_assert_eq(wm_trace_next(trace, &event), 0, "%s", event ? event->name : "");
	cr_assert_null(event);
	cr_assert_eq(wm_trace_next(trace, &event), 0);
	wm_trace_close(trace);
	sample_folder_remove(dir);
}

static void expect(char kind, const char *name, uint32_t tid, uint64_t ns)
{
	cr_assert_eq(wm_trace_next(trace, &event), 1, "no %s", name);
	cr_assert_str_eq(event->name, name);
	cr_assert_eq(event->kind, kind);
	cr_assert_eq(event->size, sizeof(*event));
	cr_assert_eq(event->tid, tid);
	cr_assert_eq(event->realtime_ns, BASE_NS + ns, "%lu", event->realtime_ns - BASE_NS);
}

static uint64_t number(const char *name)
{
	uint64_t value = 0;

	cr_assert_eq(wm_event_field_u64(wm_event_field_find(event, name), &value), 0, "%s", name);
	return value;
}

static const char *text(const char *name)
{
	const char *value = NULL;

	cr_assert_eq(wm_event_field_string(wm_event_field_find(event, name), &value), 0);
	return value;
}

static char *path_of(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return path;
}

Test(trace, events_of_all_processes_come_in_order_with_one_number_a_name)
{
	uint32_t row, query;

	begin_trace();
	begin_stream(10, 11, 0);
	sample_begin(&sample, 100);
	put_row(0, 100, 5);
	put_row(0, 300, 6);
	put_packet(0);
	begin_stream(20, 21, 0);
	sample_begin(&sample, 50);
	sample_event(&sample, 0, 200, 0);
	sample_string(&sample, "select");
	put_row(1, 400, 7);
	put_packet(1);
	end_writing();
	open_trace();
	expect('m', "db:row", 11, 100);
	row = event->id;
	cr_assert_eq(number("n"), 5);
	cr_assert_eq(event->pid, 10);
	expect('b', "db:query:begin", 21, 200);
	query = event->id;
	cr_assert_str_eq(text("sql"), "select");
	cr_assert_eq(event->pid, 20);
	expect('m', "db:row", 11, 300);
	cr_assert_eq(event->id, row);
	expect('m', "db:row", 21, 400);
	cr_assert_eq(event->id, row);
	cr_assert_eq(number("n"), 7);
	cr_assert(row == 1 && query == 2);
	end_test();
}

Test(trace, losses_come_before_the_event_behind_them)
{
	begin_trace();
	begin_stream(10, 11, 0);
	sample_begin(&sample, 100);
	put_row(0, 100, 1);
	put_packet(0);
	sample_begin(&sample, 200);
	sample.head.discarded = 3;
	sample.head.seq += 2;
	put_row(0, 250, 2);
	put_packet(0);
	sample_begin(&sample, 300);
	sample.head.discarded = 4; /* after the last event */
	put_packet(0);
	end_writing();
	open_trace();
	expect('m', "db:row", 11, 100);
	expect('l', "waymark:lost", 11, 250);
	cr_assert_eq(number("events"), 3);
	cr_assert_eq(number("packets"), 2);
	cr_assert_eq(event->pid, 10);
	cr_assert_neq(event->id, 1);
	expect('m', "db:row", 11, 250);
	expect('l', "waymark:lost", 11, 300);
	cr_assert_eq(number("events"), 1);
	cr_assert_eq(number("packets"), 0);
	end_test();
}

Test(trace, losses_that_no_packet_counts_come_at_the_end)
{
	begin_trace();
	begin_stream(10, 11, 0);
	sample_begin(&sample, 100);
	put_row(0, 100, 1);
	sample.head.discarded = 2;
	put_packet(0);
	trace_end_set(writer,
		      &(struct trace_end){ .length_ns = 1000, .discarded = 9 }); /* a full disk */
	end_writing();
	open_trace();
	expect('l', "waymark:lost", 11, 100);
	cr_assert_eq(number("events"), 2);
	expect('m', "db:row", 11, 100);
	expect('l', "waymark:lost", 0, 100);
	cr_assert_eq(number("events"), 7);
	cr_assert_eq(event->pid, 0);
	end_test();
}

static void write_two_packets(void)
{
	begin_trace();
	begin_stream(10, 11, 0);
	for (uint32_t i = 1; i <= 2; i++) {
		sample_begin(&sample, i * 100);
		put_row(0, i * 100, i);
		put_packet(0);
	}
	end_writing();
}

Test(trace, damage_is_a_record_with_its_place)
{
	off_t bytes;
	struct stat about;

	write_two_packets();
	cr_assert_eq(stat(path_of("10-11-0"), &about), 0);
	bytes = about.st_size - 1;
	cr_assert_eq(truncate(path_of("10-11-0"), bytes), 0);
	open_trace();
	cr_assert_str_eq(wm_trace_detail(trace), "");
	for (int is_cut = 0; !is_cut;) {
		cr_assert_eq(wm_trace_next(trace, &event), 1);
		cr_assert_eq(event->kind, 'd');
		cr_assert_str_eq(event->name, "waymark:damage");
		is_cut = !strcmp(text("what"), "cut in a packet");
	}
	cr_assert_str_eq(text("file"), "10-11-0");
	cr_assert_eq(number("offset") + number("bytes"), (uint64_t)bytes);
	cr_assert_not_null(strstr(wm_trace_detail(trace), "10-11-0, byte "));
	while (wm_trace_next(trace, &event) == 1 && event->kind == 'd')
		;
	cr_assert_eq(number("n"), 1);
	cr_assert_str_eq(wm_trace_detail(trace), "");
	/* the events of the packet, which the index counts */
	cr_assert_eq(wm_trace_next(trace, &event), 1);
	cr_assert_eq(event->kind, 'l');
	cr_assert_eq(number("events"), 1);
	end_test();
}

Test(trace, stream_that_is_gone_is_damage_and_loss)
{
	write_two_packets();
	cr_assert_eq(unlink(path_of("10-11-0")), 0);
	open_trace();
	cr_assert_eq(wm_trace_next(trace, &event), 1);
	cr_assert_eq(event->kind, 'd');
	cr_assert_str_eq(text("file"), "10-11-0");
	cr_assert_eq(wm_trace_next(trace, &event), 1);
	cr_assert_eq(event->kind, 'l');
	cr_assert_eq(number("events"), 2);
	end_test();
}

Test(trace, end_of_a_killed_recorder_is_a_record)
{
	struct index_head head;
	int fd;

	write_two_packets();
	fd = open(path_of(INDEX_NAME), O_RDWR);
	cr_assert_eq(pread(fd, &head, sizeof(head), 0), sizeof(head));
	head.is_ended = 0;
	cr_assert_eq(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	close(fd);
	open_trace();
	expect('m', "db:row", 11, 100);
	expect('m', "db:row", 11, 200);
	expect('d', "waymark:damage", 0, 200);
	cr_assert_not_null(strstr(text("what"), "the recorder was killed"));
	end_test();
}

Test(trace, damage_past_the_limit_is_counted_by_a_last_record)
{
	uint32_t seen = 0;
	uint64_t last = 0;

	write_two_packets();
	for (int i = 0; i < DAMAGES_MAX + 200; i++) {
		char file[32];

		snprintf(file, sizeof(file), "/nonsense-%d", i);
		sample_folder_put(dir, file, "?", 1);
	}
	open_trace();
	while (wm_trace_next(trace, &event) == 1) {
		if (event->kind != 'd')
			continue;
		seen++;
		last = number("offset");
	}
	cr_assert_eq(seen, DAMAGES_MAX + 1);
	cr_assert_geq(last, 200);
	wm_trace_close(trace);
	sample_folder_remove(dir);
}

Test(trace, reading_may_begin_late)
{
	struct wm_trace_options options = { .size = sizeof(options),
					    .from_realtime_ns = BASE_NS + 150 };

	write_two_packets();
	cr_assert_eq(wm_trace_open(&trace, dir, &options), 0);
	expect('m', "db:row", 11, 200);
	end_test();
}

Test(trace, wrong_arguments_are_refused)
{
	struct {
		struct wm_trace_options options;
		uint64_t more;
	} newer = { { .size = sizeof(newer) }, 1 };
	struct wm_trace_options older = { .size = 4 };

	cr_assert_eq(wm_trace_open(NULL, "/tmp", NULL), -EINVAL);
	trace = (void *)&newer;
	cr_assert_eq(wm_trace_open(&trace, NULL, NULL), -EINVAL);
	cr_assert_null(trace);
	cr_assert_eq(wm_trace_open(&trace, "/nowhere", NULL), -ENOENT);
	cr_assert_eq(wm_trace_open(&trace, "/proc/self", NULL), -WM_E_NOT_A_TRACE);
	cr_assert_eq(wm_trace_open(&trace, "/proc/self/stat", NULL), -WM_E_NOT_A_TRACE);
	write_two_packets();
	cr_assert_eq(wm_trace_open(&trace, dir, &newer.options), -E2BIG);
	cr_assert_eq(wm_trace_open(&trace, dir, &older), -EINVAL);
	cr_assert_null(trace);
	newer.more = 0;
	cr_assert_eq(wm_trace_open(&trace, dir, &newer.options), 0);
	cr_assert_eq(wm_trace_next(trace, NULL), -EINVAL);
	cr_assert_eq(wm_trace_next(NULL, &event), -EINVAL);
	cr_assert_str_eq(wm_trace_detail(NULL), "");
	wm_trace_close(NULL);
	expect('m', "db:row", 11, 100);
	expect('m', "db:row", 11, 200);
	end_test();
}

static void *read_all(void *data)
{
	int got;

	(void)data;
	pthread_cancel(pthread_self()); /* pending: the first cancellation point would take it */
	open_trace();
	while ((got = wm_trace_next(trace, &event)) > 0)
		;
	wm_trace_close(trace);
	return got ? NULL : dir;
}

Test(trace, no_call_is_a_cancellation_point)
{
	pthread_t thread;
	void *result;

	write_two_packets();
	cr_assert_eq(pthread_create(&thread, NULL, read_all, NULL), 0);
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_assert_eq(result, dir);
	sample_folder_remove(dir);
}
