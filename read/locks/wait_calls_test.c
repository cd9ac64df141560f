/* SPDX-License-Identifier: MIT */
#include "read/locks/wait_calls.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

enum { LOCK, UNLOCK, TRY, COND, SIGNAL, READ, SLEEP, OTHERS, EVENTS };

#define THREADS 4
#define M 0x1000 /* a mutex */
#define C 0x2000 /* a condition */

static char dir[64];
static struct trace_writer *writer;
static struct sample packets[THREADS];
static struct trace_reader *reader;
static struct images images;
static struct samples samples;
static struct wait_calls calls;

static void begin(void)
{
	static const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};
	static const char *const names[EVENTS] = {
		[LOCK] = "libc\npthread_mutex_lock",	[UNLOCK] = "libc\npthread_mutex_unlock",
		[TRY] = "libc\npthread_mutex_trylock",	[COND] = "libc\npthread_cond_wait",
		[SIGNAL] = "libc\npthread_cond_signal", [READ] = "libc\nread",
		[SLEEP] = "libc\nclock_nanosleep",	[OTHERS] = "shop\nread",
	};
	const uint8_t *types = SAMPLE_TYPES(WM_TYPE_PTR, WM_TYPE_PTR, WM_TYPE_U64,
					    WM_TYPE_ADDRESSES);

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	for (uint32_t i = 0; i < EVENTS; i++) {
		char text[128];

		snprintf(text, sizeof(text), "md\n%s\n?\n0\narg1,arg2,duration,callchain",
			 names[i]);
		trace_event_add(writer, 0, i, types, text);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		packets[i].head = (struct wm_packet){ .pid = 10, .tid = 20 + i, .instance = i };
		sample_begin(&packets[i], 0);
	}
}

/* A call of a function that is called at `place`. */
static void call_from(uint64_t place, uint32_t thread, uint32_t id, uint64_t from_ns,
		      uint64_t to_ns, uint64_t first, uint64_t second)
{
	struct sample *packet = &packets[thread];

	sample_event(packet, id, to_ns, 0);
	sample_u64(packet, first);
	sample_u64(packet, second);
	sample_u64(packet, to_ns - from_ns);
	sample_u8(packet, 0);
	sample_u32(packet, 2);
	sample_u64(packet, 0x7f00 + id);
	sample_u64(packet, place);
}

static void call(uint32_t thread, uint32_t id, uint64_t from_ns, uint64_t to_ns, uint64_t object)
{
	call_from(0x400000, thread, id, from_ns, to_ns, object, 0);
}

static void read_all(void)
{
	static const struct samples_options all;
	struct pass_observer *observer = &calls.observer;

	for (uint32_t i = 0; i < THREADS; i++)
		cr_assert_eq(sample_write(&packets[i], writer, 0), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert(wait_calls_has(reader));
	cr_assert_eq(images_open(&images, reader, NULL), 0);
	cr_assert_eq(samples_open(&samples, &images, &all), 0);
	cr_assert_eq(wait_calls_open(&calls, &samples), 0);
	cr_assert_eq(pass_read(reader, &observer, 1), 0);
	cr_assert_eq(wait_calls_finish(&calls), 0);
}

static void end(void)
{
	wait_calls_release(&calls);
	samples_close(&samples);
	images_close(&images);
	trace_reader_close(reader);
	for (uint32_t i = 0; i < THREADS; i++)
		sample_release(&packets[i]);
	sample_folder_remove(dir);
}

TestSuite(wait_calls, .init = begin, .fini = end);

/* The row of a function and an object, and whose waker it is: a thread's number here, or -1. */
static const struct wait_call_row *expect_row(const char *function, uint64_t object, uint64_t count,
					      uint64_t ns, int waker)
{
	for (size_t i = 0; i < calls.count; i++) {
		const struct wait_call_row *row = &calls.rows[i];

		if (strcmp(row->function, function) != 0 || row->object != object)
			continue;
		cr_expect_eq(row->count, count, "%s: count %lu", function, row->count);
		cr_expect_eq(row->ns, ns, "%s: %lu ns", function, row->ns);
		cr_expect_eq(row->waker_comm ? (int)samples.threads[row->waker].tid - 20 : -1,
			     waker, "%s: waker", function);
		return row;
	}
	cr_assert_fail("no row of %s and 0x%lx", function, object);
	return NULL;
}

Test(wait_calls, last_unlock_within_the_wait_is_the_wakers)
{
	call(1, UNLOCK, 150, 160, M); /* before it */
	call(0, LOCK, 200, 1200, M);
	call(1, UNLOCK, 500, 510, M);
	call(2, UNLOCK, 1100, 1300, M); /* it ends after the wait */
	call(3, UNLOCK, 1250, 1260, M);
	read_all();
	cr_assert_eq(calls.count, 1);
	cr_expect(expect_row("pthread_mutex_lock", M, 1, 1000, 2)->lock_bytes);
	cr_expect_eq(calls.rows[0].longest_ns, 1000);
}

Test(wait_calls, own_unlock_and_that_of_another_lock_wake_no_one)
{
	call(2, UNLOCK, 50, 60, M); /* before the wait */
	call(0, UNLOCK, 100, 105, M);
	call(0, LOCK, 100, 1200, M);
	call(1, UNLOCK, 500, 510, C);
	read_all();
	expect_row("pthread_mutex_lock", M, 1, 1100, -1);
}

Test(wait_calls, wait_for_a_condition_gives_its_mutex_up)
{
	call(1, LOCK, 100, 520, M);
	call(1, SIGNAL, 700, 705, C);
	call_from(0x400000, 0, COND, 500, 800, C, M);
	read_all();
	cr_assert_eq(calls.count, 2);
	expect_row("pthread_mutex_lock", M, 1, 420, 0);
	expect_row("pthread_cond_wait", C, 1, 300, 1);
}

Test(wait_calls, waker_of_a_row_ended_most_of_its_time)
{
	for (uint64_t i = 1; i < 4; i++) {
		call(0, LOCK, 10000 * i, 10000 * i + 100, M);
		call(1, UNLOCK, 10000 * i + 90, 10000 * i + 95, M);
	}
	call(0, LOCK, 50000, 50250, M);
	call(2, UNLOCK, 50200, 50210, M);
	read_all();
	cr_assert_eq(calls.count, 1);
	cr_expect_eq(expect_row("pthread_mutex_lock", M, 4, 550, 1)->waker_ns, 300);
}

Test(wait_calls, place_and_object_have_rows_of_their_own)
{
	call(0, READ, 100, 200, 3);
	call(1, READ, 100, 300, 3); /* threads have one name */
	call(0, READ, 300, 700, 4);
	call_from(0x500000, 2, READ, 100, 900, 5, 0);
	call(3, SLEEP, 100, 600, 1);
	read_all();
	cr_assert_eq(calls.count, 4);
	cr_expect(expect_row("read", 3, 2, 300, -1)->has_fd);
	expect_row("read", 4, 1, 400, -1);
	expect_row("read", 5, 1, 800, -1);
	expect_row("clock_nanosleep", 0, 1, 500, -1);
}

Test(wait_calls, attempt_and_functions_of_other_modules_are_no_waits)
{
	call(0, TRY, 100, 1200, M);
	call(0, OTHERS, 2000, 9000, 3);
	call(0, LOCK, 10000, 10010, M);
	read_all();
	cr_expect_eq(calls.count, 1);
}

static const struct wait_call *longest(uint32_t thread, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t clock = stream_clock(reader, &reader->streams[0]);

	return wait_calls_longest(&calls, 10, 20 + thread, reader_ns(reader, clock, from_ns),
				  reader_ns(reader, clock, to_ns));
}

Test(wait_calls, longest_of_a_thread_within_a_time_is_found)
{
	call(0, LOCK, 100, 200, M);
	call(0, READ, 300, 600, 3);
	call(0, SLEEP, 700, 800, 0);
	call(1, READ, 100, 900, 4);
	read_all();
	cr_expect_str_eq(longest(0, 100, 800)->function, "read");
	cr_expect_eq(longest(0, 100, 800)->object, 3);
	cr_expect_str_eq(longest(0, 400, 800)->function, "clock_nanosleep");
	cr_expect_str_eq(longest(0, 100, 599)->function, "pthread_mutex_lock");
	cr_expect_null(longest(0, 801, 900));
	cr_expect_null(longest(2, 100, 900));
}

Test(wait_calls, duration_longer_than_the_clock_is_none)
{
	call(0, LOCK, 100, 200, M);
	sample_event(&packets[0], READ, 300, 0);
	sample_u64(&packets[0], 3);
	sample_u64(&packets[0], 0);
	sample_u64(&packets[0], UINT64_MAX);
	sample_u8(&packets[0], 0);
	sample_u32(&packets[0], 0);
	read_all();
	cr_assert_eq(calls.count, 2);
	cr_expect_eq(expect_row("read", 3, 1, 0, -1)->stack, STACKS_ROOT);
}
