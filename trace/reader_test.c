/* SPDX-License-Identifier: MIT */
/*
 * The reader and the merge: order, times, clocks. That both CTF readers agree is in agree_test.c,
 * and what damage does in damage_test.c.
 */
#include "read/pass/merge.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <waymark/marker.h>

#define BASE_NS 1700000000000000000u

static char dir[64];
static struct trace_writer *writer;
static struct trace_reader *reader;
static struct merge *merge;
static struct merge_event event;
static struct sample sample;

/* Process 0 has the TSC at 2 GHz, process 1 CLOCK_MONOTONIC; both are 0 at BASE_NS. */
static void begin_trace(void)
{
	struct trace_process about = { .pid = 10,
				       .ppid = 1,
				       .start_time = 77,
				       .exe = "/bin/x",
				       .hostname = "here",
				       .build_id = { 0xab, 1 },
				       .build_id_bytes = 2,
				       .ticks_hz = 2000000000 };

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	about.pid = 20;
	about.ticks_hz = 1000000000;
	cr_assert_eq(trace_process_add(writer, &about), 1);
	for (int process = 0; process < 2; process++) {
		trace_event_add(writer, process, 0, SAMPLE_TYPES(0), "mj\nx\na\na.c\n1\n");
		trace_event_add(writer, process, 1, SAMPLE_TYPES(WM_TYPE_U32),
				"mj\nx\nb\na.c\n2\nn");
	}
	trace_clock_set(writer, 2000000000, 0, BASE_NS);
	trace_clock_set(writer, 1000000000, 0, BASE_NS);
}

static void begin_stream(uint32_t tid, uint64_t instance, uint64_t ticks)
{
	sample.head = (struct wm_packet){ .pid = 10, .tid = tid, .instance = instance };
	sample_begin(&sample, ticks);
}

static void end_stream(int process)
{
	cr_assert_eq(sample_write(&sample, writer, process), 0);
}

static void read_trace(uint64_t from_ns)
{
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(merge_open(&merge, reader, from_ns, NULL, NULL), 0);
}

static void expect(uint32_t tid, uint64_t ns)
{
	cr_assert_eq(merge_next(merge, &event), 1);
	cr_assert_not_null(event.class);
	cr_assert_eq(event.stream->tid, tid, "thread %u", event.stream->tid);
	cr_assert_eq(event.ns, BASE_NS + ns, "%lu", event.ns - BASE_NS);
}

static void end_trace(void)
{
	cr_assert_eq(merge_next(merge, &event), 0);
	cr_assert_eq(merge_next(merge, &event), 0);
	cr_assert_eq(reader->damages_ever, 0);
	merge_close(merge);
	trace_reader_close(reader);
	sample_release(&sample);
	sample_folder_remove(dir);
}

Test(reader, facts_come_back)
{
	begin_trace();
	read_trace(0);
	cr_assert_eq(reader->meta.process_count, 2);
	cr_assert_str_eq(reader->meta.hostname, "here");
	cr_assert_eq(reader->meta.processes[1].pid, 20);
	cr_assert_eq(reader->meta.processes[0].ppid, 1);
	cr_assert_eq(reader->meta.processes[0].start_time, 77);
	cr_assert_str_eq(reader->meta.processes[0].build_id, "ab01");
	cr_assert_eq(reader->meta.processes[1].clock, STORE_CLOCK_MONOTONIC);
	cr_assert_not(reader->meta.is_broken);
	end_trace();
}

Test(reader, events_of_all_streams_come_in_order_of_time)
{
	begin_trace();
	begin_stream(11, 0, 100);
	sample_event(&sample, 0, 100, 0); /* 50 ns */
	sample_event(&sample, 1, 140, 0);
	sample_u32(&sample, 5);
	sample_event(&sample, 0, 400, 0);
	end_stream(0);
	begin_stream(12, 1, 100);
	sample_event(&sample, 0, 100, 1);
	sample_event(&sample, 0, 300, 0);
	end_stream(0);
	begin_stream(21, 0, 60); /* on the other clock */
	sample_event(&sample, 0, 60, 0);
	sample_event(&sample, 0, 201, 0);
	end_stream(1);
	read_trace(0);
	expect(11, 50);
	expect(12, 50);
	expect(21, 60);
	expect(11, 70);
	cr_assert_eq(load_u32(event.fields), 5);
	cr_assert_eq(event.end - event.fields, 4);
	expect(12, 150);
	expect(11, 200);
	expect(21, 201);
	end_trace();
}

Test(reader, compact_times_wrap_at_27_bits)
{
	uint64_t start = (1ull << 40) - 5;

	begin_trace();
	begin_stream(11, 0, start);
	sample_event(&sample, 0, start, 0);
	sample_event(&sample, 0, start + (1 << 27) - 1, 0); /* the most that fits */
	sample_event(&sample, 0, start + (1 << 28) - 1, 0); /* one too many: extended */
	sample_event(&sample, 0, start + (1 << 28) + 5, 0);
	end_stream(0);
	read_trace(0);
	expect(11, start / 2);
	expect(11, (start + (1 << 27) - 1) / 2);
	expect(11, (start + (1 << 28) - 1) / 2);
	expect(11, (start + (1 << 28) + 5) / 2);
	end_trace();
}

Test(reader, reading_may_begin_late)
{
	begin_trace();
	begin_stream(11, 0, 0);
	for (uint64_t i = 0; i < 50; i++) {
		sample_event(&sample, 0, i * 20, 0);
		if (i % 10 == 9) {
			end_stream(0);
			sample_begin(&sample, i * 20);
		}
	}
	read_trace(BASE_NS + 335);
	for (uint64_t ns = 340; ns < 500; ns += 10)
		expect(11, ns);
	end_trace();
}

Test(reader, streams_that_lived_one_after_the_other_are_mapped_when_due)
{
	begin_trace();
	for (uint32_t i = 0; i < 500; i++) {
		begin_stream(1000 + i, i, i * 20);
		sample_event(&sample, 0, i * 20, 0);
		end_stream(0);
	}
	read_trace(0);
	for (uint32_t i = 0; i < 500; i++) {
		uint32_t mapped = 0;

		expect(1000 + i, i * 10);
		for (uint32_t j = 0; j < reader->stream_count; j++)
			mapped += reader->streams[j].map != NULL;
		cr_assert_leq(mapped, 1);
	}
	end_trace();
}

Test(reader, a_stream_of_an_empty_packet_adds_nothing)
{
	begin_trace();
	begin_stream(11, 0, 0);
	sample_event(&sample, 0, 20, 0);
	end_stream(0);
	begin_stream(12, 1, 0);
	end_stream(0); /* nothing but an empty packet */
	read_trace(0);
	expect(11, 10);
	end_trace();
}

Test(reader, a_clock_never_set_is_taken_from_the_first_packet)
{
	struct trace_process about = {
		.pid = 10, .exe = "x", .hostname = "h", .ticks_hz = 2399999999
	};

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(0), "mj\nx\na\na.c\n1\n");
	begin_stream(11, 0, 1ull << 52);
	sample.head.realtime_ns = BASE_NS + 5;
	sample_event(&sample, 0, 1ull << 52, 0);
	end_stream(0);
	read_trace(0);
	cr_assert_eq(merge_next(merge, &event), 1);
	cr_assert_lt(llabs((long long)(event.ns - BASE_NS - 5)), 3);
	end_trace();
}
