/* SPDX-License-Identifier: MIT */
#include "read/locks/locks.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <waymark/marker.h>

enum { LOCK, LOCKED, TRY, TRIED, UNLOCK, COND, COND_ENDED, EVENTS };

#define THREADS 4
#define M 0x1000 /* a mutex */
#define OTHER 0x2000

static char dir[64];
static struct trace_writer *writer;
static struct sample samples[THREADS];
static struct trace_reader *reader;
static struct locks locks;

static void begin(void)
{
	static const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};
	const uint8_t *begins = SAMPLE_TYPES(WM_TYPE_PTR, WM_TYPE_ADDRESSES);
	const uint8_t *ends = SAMPLE_TYPES(WM_TYPE_I32), *one = SAMPLE_TYPES(WM_TYPE_PTR);

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, LOCK, begins,
			"bd\nlibc\npthread_mutex_lock\n?\n0\narg1,callchain");
	trace_event_add(writer, 0, LOCKED, ends, "ed\nlibc\npthread_mutex_lock\n?\n0\nret");
	trace_event_add(writer, 0, TRY, one, "bd\nlibc\npthread_mutex_trylock\n?\n0\narg1");
	trace_event_add(writer, 0, TRIED, ends, "ed\nlibc\npthread_mutex_trylock\n?\n0\nret");
	trace_event_add(writer, 0, UNLOCK, one, "md\nlibc\npthread_mutex_unlock\n?\n0\narg1");
	trace_event_add(writer, 0, COND, one, "bd\nlibc\npthread_cond_wait\n?\n0\nmutex");
	trace_event_add(writer, 0, COND_ENDED, ends, "ed\nlibc\npthread_cond_wait\n?\n0\nret");
	for (uint32_t i = 0; i < THREADS; i++) {
		samples[i].head = (struct wm_packet){ .pid = 10, .tid = 20 + i, .instance = i };
		sample_begin(&samples[i], 0);
	}
}

/* `value`: the mutex, or what the call returned. */
static void put(uint32_t thread, uint32_t id, uint64_t ns, uint64_t value)
{
	struct sample *sample = &samples[thread];

	sample_event(sample, id, ns, 0);
	if (id == LOCKED || id == TRIED || id == COND_ENDED)
		sample_u32(sample, (uint32_t)value);
	else
		sample_u64(sample, value);
	if (id == LOCK) { /* a callchain: the place, and its caller */
		sample_u8(sample, 0);
		sample_u32(sample, 2);
		sample_u64(sample, 0x7f00);
		sample_u64(sample, 0x400000 + thread);
	}
}

static void lock(uint32_t thread, uint64_t from_ns, uint64_t to_ns)
{
	put(thread, LOCK, from_ns, M);
	put(thread, LOCKED, to_ns, 0);
}

static void unlock(uint32_t thread, uint64_t ns)
{
	put(thread, UNLOCK, ns, M);
}

static void read_all(void)
{
	struct pass_observer *observer = &locks.observer;

	for (uint32_t i = 0; i < THREADS; i++)
		cr_assert_eq(sample_write(&samples[i], writer, 0), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert(locks_has(reader));
	cr_assert_eq(locks_open(&locks, reader), 0);
	cr_assert_eq(pass_read(reader, &observer, 1), 0);
	locks_finish(&locks);
}

static void end(void)
{
	locks_release(&locks);
	trace_reader_close(reader);
	for (uint32_t i = 0; i < THREADS; i++)
		sample_release(&samples[i]);
	sample_folder_remove(dir);
}

static void expect_row(size_t number, uint32_t waiter, uint32_t holder, uint64_t waits,
		       uint64_t waited_ns, uint64_t held_ns)
{
	const struct lock_row *row = &locks.rows[number];

	cr_assert_gt(locks.count, number);
	cr_expect_eq(row->waiter, 20 + waiter, "waiter %u", row->waiter);
	cr_expect_eq(row->holder, 20 + holder, "holder %u", row->holder);
	cr_expect_eq(row->waits, waits, "waits %lu", row->waits);
	cr_expect_eq(row->waited_ns, waited_ns, "waited %lu", row->waited_ns);
	cr_expect_eq(row->held_ns, held_ns, "held %lu", row->held_ns);
}

Test(locks, wait_counts_to_the_holder_until_the_waiter_has_it, .init = begin, .fini = end)
{
	lock(0, 100, 110);
	lock(1, 200, 530);
	unlock(0, 500);
	unlock(1, 600);
	read_all();
	cr_assert_eq(locks.count, 1);
	expect_row(0, 1, 0, 1, 330, 390);
	cr_expect_eq(locks.rows[0].mutex, M);
	cr_expect_eq(locks.rows[0].place, 0x400000);
	cr_expect_eq(locks.rows[0].longest_ns, 330);
}

Test(locks, lock_without_another_holder_is_no_wait, .init = begin, .fini = end)
{
	lock(0, 100, 110);
	unlock(0, 120);
	lock(1, 130, 500);
	unlock(1, 600);
	put(2, LOCK, 610, OTHER);
	lock(3, 620, 650);
	put(2, LOCKED, 640, 0);
	unlock(3, 660);
	put(2, UNLOCK, 670, OTHER);
	read_all();
	cr_expect_eq(locks.count, 0);
}

Test(locks, wait_for_two_holders_is_divided, .init = begin, .fini = end)
{
	lock(0, 100, 110);
	lock(2, 150, 410);
	unlock(0, 400);
	lock(1, 200, 920); /* the other was first */
	unlock(2, 900);
	unlock(1, 950);
	read_all();
	cr_assert_eq(locks.count, 3);
	expect_row(0, 1, 2, 1, 520, 490);
	expect_row(1, 2, 0, 1, 260, 290);
	expect_row(2, 1, 0, 1, 200, 290);
}

Test(locks, waits_of_one_kind_are_summed, .init = begin, .fini = end)
{
	for (uint64_t i = 0; i < 3; i++) {
		lock(0, 1000 * i + 100, 1000 * i + 110);
		lock(1, 1000 * i + 200, 1000 * i + 510 + 10 * i);
		unlock(0, 1000 * i + 500);
		unlock(1, 1000 * i + 600);
	}
	read_all();
	cr_assert_eq(locks.count, 1);
	expect_row(0, 1, 0, 3, 960, 1170);
	cr_expect_eq(locks.rows[0].longest_ns, 330);
}

Test(locks, holder_since_before_the_trace_is_found_by_its_unlock, .init = begin, .fini = end)
{
	lock(1, 200, 530);
	unlock(0, 500);
	unlock(1, 600);
	read_all();
	cr_assert_eq(locks.count, 1);
	expect_row(0, 1, 0, 1, 330, 0);
	cr_expect_eq(locks.rows[0].place, 0);
}

Test(locks, recursive_mutex_is_held_until_the_last_unlock, .init = begin, .fini = end)
{
	lock(0, 100, 110);
	lock(0, 120, 130);
	lock(1, 200, 530);
	unlock(0, 300);
	unlock(0, 500);
	read_all();
	cr_assert_eq(locks.count, 1);
	expect_row(0, 1, 0, 1, 330, 390);
}

Test(locks, condition_gives_the_mutex_up, .init = begin, .fini = end)
{
	lock(0, 100, 110);
	put(0, COND, 120, M);
	lock(1, 115, 130);
	unlock(1, 300);
	put(0, COND_ENDED, 310, 0);
	lock(1, 400, 530);
	unlock(0, 500);
	read_all();
	cr_assert_eq(locks.count, 2); /* the holder took it at two places */
	expect_row(0, 1, 0, 1, 130, 190);
	expect_row(1, 1, 0, 1, 15, 10);
}

Test(locks, refused_lock_is_no_hold, .init = begin, .fini = end)
{
	put(0, TRY, 100, M);
	put(0, TRIED, 110, EBUSY);
	lock(1, 200, 300);
	unlock(0, 400); /* nonsense: it has not got it */
	read_all();
	cr_expect_eq(locks.count, 0);
}

Test(locks, timed_out_wait_counts_to_the_holder, .init = begin, .fini = end)
{
	put(0, TRY, 100, M);
	put(0, TRIED, 110, 0);
	put(1, LOCK, 200, M);
	put(1, LOCKED, 300, ETIMEDOUT);
	unlock(0, 400);
	read_all();
	cr_assert_eq(locks.count, 1);
	expect_row(0, 1, 0, 1, 100, 0);
}

Test(locks, what_was_before_a_loss_is_forgotten, .init = begin, .fini = end)
{
	lock(0, 100, 110);
	cr_assert_eq(sample_write(&samples[0], writer, 0), 0);
	samples[0].head.discarded = 2; /* an unlock, and a lock again */
	sample_begin(&samples[0], 200);
	put(0, TRY, 210, OTHER);
	put(0, TRIED, 220, EBUSY);
	lock(1, 300, 530);
	unlock(0, 500);
	read_all();
	cr_assert_eq(locks.count, 1);
	expect_row(0, 1, 0, 1, 230, 0);
	cr_expect_eq(locks.rows[0].place, 0);
}

Test(locks, call_without_an_end_is_left, .init = begin, .fini = end)
{
	lock(0, 100, 110);
	put(1, LOCK, 200, M);
	put(1, LOCK, 300, OTHER); /* out of a signal handler by longjmp() */
	put(1, LOCKED, 310, 0);
	unlock(0, 500);
	put(1, LOCKED, 600, 0);
	read_all();
	cr_expect_eq(locks.count, 0);
}
