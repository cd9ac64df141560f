/* SPDX-License-Identifier: MIT */
/* Records of processes in a trace, as wm_trace_next() hands them out. */
#include "trace/process_records.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>
#include <waymark/trace.h>

#define BASE_NS 1700000000000000000u

static char dir[64];
static struct trace_writer *writer;
static struct sample sample;
static struct wm_trace *trace;
static const struct wm_event *event;

static void begin_trace(void)
{
	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	trace_clock_set(writer, 1000000000, 0, BASE_NS);
}

/* A process that began at that time; ends_ns 0: it lives on. */
static int add_process(uint32_t pid, enum life_kind way, uint64_t begin_ns, uint64_t end_ns)
{
	struct trace_process about = { .pid = pid,
				       .ppid = pid / 10,
				       .exe = "/bin/x",
				       .hostname = "here",
				       .ticks_hz = 1000000000,
				       .way = (char)way,
				       .begin_ns = BASE_NS + begin_ns };
	int process = trace_process_add(writer, &about);

	trace_event_add(writer, process, 0, SAMPLE_TYPES(0), "mj\ndb\nrow\na.c\n1\n");
	if (end_ns)
		cr_assert_eq(trace_process_end(writer, process, BASE_NS + end_ns), 0);
	return process;
}

/* Events of a thread at these two times. */
static void put_events(int process, uint32_t pid, uint64_t first, uint64_t last)
{
	sample.head = (struct wm_packet){ .pid = pid, .tid = pid, .instance = pid };
	sample_begin(&sample, first);
	sample_event(&sample, 0, first, 0);
	sample_event(&sample, 0, last, 0);
	cr_assert_eq(sample_write(&sample, writer, process), 0);
}

static void open_trace(uint64_t from_ns)
{
	struct wm_trace_options options = { .size = sizeof(options), .from_realtime_ns = from_ns };

	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
	cr_assert_eq(wm_trace_open(&trace, dir, &options), 0);
}

static void expect(char kind, const char *name, uint32_t pid, uint64_t ns)
{
	cr_assert_eq(wm_trace_next(trace, &event), 1, "no %s", name);
	cr_assert_str_eq(event->name, name);
	cr_assert_eq(event->kind, kind);
	cr_assert_eq(event->pid, pid);
	cr_assert_eq(event->realtime_ns, BASE_NS + ns, "%lu", event->realtime_ns - BASE_NS);
}

static void end_test(void)
{
	cr_assert_eq(wm_trace_next(trace, &event), 0, "%s", event ? event->name : "");
	wm_trace_close(trace);
	sample_folder_remove(dir);
}

static void check_about(uint32_t ppid)
{
	const char *program;
	uint64_t number;

	cr_assert_eq(wm_event_field_u64(wm_event_field_find(event, "ppid"), &number), 0);
	cr_assert_eq(number, ppid);
	cr_assert_eq(wm_event_field_string(wm_event_field_find(event, "program"), &program), 0);
	cr_assert_str_eq(program, "/bin/x");
	cr_assert_neq(event->id, 0);
}

Test(life, records_stand_among_the_events)
{
	int parent, child;

	begin_trace();
	parent = add_process(10, LIFE_START, 50, 500);
	child = add_process(100, LIFE_FORK, 150, 0);
	put_events(parent, 10, 100, 400);
	put_events(child, 100, 200, 300);
	child = add_process(100, LIFE_EXEC, 600, 900);
	put_events(child, 100, 700, 800);
	open_trace(0);
	expect('s', "waymark:start", 10, 50);
	check_about(1);
	expect('m', "db:row", 10, 100);
	expect('f', "waymark:fork", 100, 150);
	check_about(10);
	expect('m', "db:row", 100, 200);
	expect('m', "db:row", 100, 300);
	expect('m', "db:row", 10, 400);
	expect('q', "waymark:end", 10, 500);
	cr_assert_eq(event->field_count, 0);
	expect('x', "waymark:exec", 100, 600);
	expect('m', "db:row", 100, 700);
	expect('m', "db:row", 100, 800);
	expect('q', "waymark:end", 100, 900);
	end_test();
}

Test(life, begin_and_end_enclose_the_events)
{
	int process;

	begin_trace();
	process = add_process(10, LIFE_START, 120, 390); /* by another clock */
	put_events(process, 10, 100, 400);
	open_trace(0);
	expect('s', "waymark:start", 10, 100);
	expect('m', "db:row", 10, 100);
	expect('m', "db:row", 10, 400);
	expect('q', "waymark:end", 10, 400);
	end_test();
}

Test(life, process_without_events_has_its_records)
{
	begin_trace();
	add_process(10, LIFE_START, 100, 0);
	add_process(20, LIFE_EXEC, 200, 300);
	open_trace(0);
	expect('s', "waymark:start", 10, 100);
	expect('x', "waymark:exec", 20, 200);
	expect('q', "waymark:end", 20, 300);
	end_test();
}

Test(life, records_before_the_begin_are_left_out)
{
	int process;

	begin_trace();
	process = add_process(10, LIFE_START, 50, 500);
	put_events(process, 10, 100, 400);
	open_trace(BASE_NS + 200);
	expect('m', "db:row", 10, 400);
	expect('q', "waymark:end", 10, 500);
	end_test();
}

Test(life, unknown_way_has_no_record)
{
	int process;

	begin_trace();
	process = add_process(10, LIFE_UNKNOWN, 50, 0);
	put_events(process, 10, 100, 400);
	add_process(20, (enum life_kind)'?', 50, 0);
	cr_assert_eq(trace_process_end(writer, 7, 1), -EINVAL);
	open_trace(0);
	expect('m', "db:row", 10, 100);
	expect('m', "db:row", 10, 400);
	end_test();
}
