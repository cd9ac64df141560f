/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "inside/marker/hit.h"
#include "inside/marker/testing/fixture.h"

#include <waymark/marker.h>
#include <waymark/probe.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	PAIR = 1,
	TYPES = 2,
	TEXT = 3,
	RUN = 4,
	MANY = 5,
	EMPTY = 6,
	LAST = 7,
	ARRAYS = 8,
	ROWS = 9,
	SIGNAL = 40,
	LAST_FAR = 41
};

static uint64_t text_width(const unsigned char *fields)
{
	return 1 + strlen((const char *)fields + 1) + 1;
}

static uint64_t run_width(const unsigned char *fields)
{
	uint32_t bytes;

	memcpy(&bytes, fields + 1, sizeof bytes);
	return 5 + bytes;
}

static uint64_t array_width(const unsigned char *fields)
{
	uint64_t bytes = 0;

	for (unsigned int shift = 1; shift < 4; shift++)
		bytes += 5 + ((run_width(fields + bytes) - 5) << shift);
	return bytes + run_width(fields + bytes) + 4;
}

static uint64_t width(uint32_t id, const unsigned char *fields)
{
	uint64_t bytes = 0;

	switch (id) {
	case PAIR:
	case SIGNAL:
		return 12;
	case TYPES:
		return 1 + 2 + 4 + 8 + 1 + 2 + 4 + 8 + 1 + 1 + 4 + 8 + 8;
	case TEXT:
		return text_width(fields) + 4;
	case LAST:
	case LAST_FAR:
		return 4 + text_width(fields + 4);
	case RUN:
		return run_width(fields);
	case ARRAYS:
		return array_width(fields);
	case ROWS:
		for (int i = 0; i < 16; i++)
			bytes += 5 + (run_width(fields + bytes) - 5) * 8;
		return bytes;
	case MANY:
		for (int i = 0; i < 16; i++)
			bytes += text_width(fields + bytes);
		return bytes;
	default:
		return 0;
	}
}

static __attribute__((noinline)) void hit_pair(int a, uint64_t b)
{
	WAYMARK(hit, pair, a, b);
}

static __attribute__((noinline)) void hit_text(const char *text, int after)
{
	WAYMARK(hit, text, text, after);
}

static void last_event(const struct fixture_event *event, void *data)
{
	*(struct fixture_event *)data = *event;
}

Test(hit, every_type_arrives_as_it_was)
{
	struct __attribute__((packed)) {
		int8_t i8;
		int16_t i16;
		int32_t i32;
		int64_t i64;
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		uint8_t yes;
		char c;
		float f;
		double d;
		const void *p;
	} got;
	struct fixture_event event = { 0 };

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:types", TYPES, 1);
	WAYMARK(hit, types, (int8_t)-8, (int16_t)-16, -32, INT64_C(-64), (uint8_t)8, (uint16_t)16,
		32u, UINT64_C(64), (_Bool)1, (char)'c', 1.5f, -2.25, (void *)&got);
	cr_assert_eq(fixture_read(0, width, last_event, &event), 1);
	memcpy(&got, event.fields, sizeof got);
	cr_assert(got.i8 == -8 && got.i16 == -16 && got.i32 == -32 && got.i64 == -64);
	cr_assert(got.u8 == 8 && got.u16 == 16 && got.u32 == 32 && got.u64 == 64);
	cr_assert(got.yes == 1 && got.c == 'c' && got.f == 1.5f && got.d == -2.25 && got.p == &got);
	cr_assert_eq(event.tid, (uint32_t)gettid());
}

static void check_text(const char *text, unsigned int state, size_t length)
{
	struct fixture_event event = { 0 };
	int after;

	hit_text(text, 77);
	fixture_read(0, width, last_event, &event);
	cr_assert_eq(event.fields[0], state);
	cr_assert_eq(strlen((const char *)event.fields + 1), length);
	if (text)
		cr_assert_eq(memcmp(event.fields + 1, text, length), 0);
	memcpy(&after, event.fields + text_width(event.fields), sizeof after);
	cr_assert_eq(after, 77);
}

Test(hit, a_string_is_whole_up_to_4096_bytes_and_cut_past_them)
{
	static char text[8192];

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:text", TEXT, 1);
	check_text(NULL, FIELD_NULL, 0);
	check_text("", FIELD_WHOLE, 0);
	for (size_t length = 1; length < 80; length++) {
		for (size_t shift = 0; shift < 8; shift++) {
			memset(text, 'x', length + shift);
			text[length + shift] = 0;
			check_text(text + shift, FIELD_WHOLE, length);
		}
	}
	for (size_t length = 4080; length < 4120; length++) {
		memset(text, 'y', length);
		text[length] = 0;
		check_text(text, length > 4096 ? FIELD_CUT : FIELD_WHOLE,
			   length > 4096 ? 4096 : length);
	}
}

static void check_last(uint32_t id, const char *text)
{
	struct fixture_event event = { 0 };
	int before;

	WAYMARK(hit, last, 1 << 20, text);
	fixture_read(0, width, last_event, &event);
	memcpy(&before, event.fields, sizeof before);
	cr_assert(event.id == id && (event.extended || id == LAST) && before == 1 << 20);
	cr_assert_eq(event.fields[4], text ? FIELD_WHOLE : FIELD_NULL);
	cr_assert_str_eq((const char *)event.fields + 5, text ? text : "");
}

Test(hit, any_bytes_in_a_string_in_the_last_place_arrive_with_either_header)
{
	static char page[4096] __attribute__((aligned(4096)));
	static const char bytes[] = { 'a', 1, (char)0x80, (char)0x81, (char)0xff };

	fixture_make(1 << 20, STORE_DISCARD);
	for (int far = 0; far < 2; far++) {
		uint32_t id = far ? LAST_FAR : LAST;

		fixture_arm("hit:last", id, 1);
		check_last(id, NULL);
		for (int shift = 0; shift < 4; shift++) {
			for (int length = 0; length < 40; length++) {
				for (int i = 0; i < length; i++)
					page[shift + i] = bytes[(i + length + shift) % 5];
				page[shift + length] = 0;
				check_last(id, page + shift);
			}
		}
	}
}

Test(hit, a_string_at_the_end_of_mapped_memory_is_not_read_past)
{
	char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_eq(mprotect(map + 4096, 4096, PROT_NONE), 0);
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:text", TEXT, 1);
	memset(map, 'z', 4095);
	for (int length = 0; length < 64; length++)
		check_text(map + 4095 - length, FIELD_WHOLE, (size_t)length);
	check_text(map, FIELD_WHOLE, 4095);
}

Test(hit, sixteen_long_strings_are_cut_until_they_fit_a_page)
{
	static char text[5000];
	struct fixture_event event = { 0 };
	const char *t = text;

	memset(text, 'q', sizeof text - 1);
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:many", MANY, 1);
	WAYMARK(hit, many, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t);
	cr_assert_eq(fixture_read(0, width, last_event, &event), 1);
	cr_assert_eq(fixture_discarded(0), 0);
	cr_assert_eq(event.fields[0], FIELD_CUT);
	cr_assert_eq(text_width(event.fields), 1 + 993 + 1); /* waymark-marker(3) says so */
}

Test(hit, a_byte_run_keeps_its_length_and_a_null_one_its_state)
{
	struct fixture_event event = { 0 };
	unsigned char bytes[5000];

	memset(bytes, 0, sizeof bytes);
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:run", RUN, 1);
	for (size_t length = 0; length < sizeof bytes; length += 499) {
		WAYMARK(hit, run, WM_BYTES(bytes, length));
		fixture_read(0, width, last_event, &event);
		cr_assert_eq(run_width(event.fields), 5 + (length > 4096 ? 4096 : length));
		cr_assert_eq(event.fields[0], length > 4096 ? FIELD_CUT : FIELD_WHOLE);
	}
	WAYMARK(hit, run, WM_BYTES(NULL, 9));
	fixture_read(0, width, last_event, &event);
	cr_assert_eq(event.fields[0], FIELD_NULL);
	cr_assert_eq(run_width(event.fields), 5);
}

Test(hit, arrays_count_elements_and_are_cut_at_whole_ones)
{
	struct fixture_event event = { 0 };
	static uint16_t small[3000];
	static float middle[3000];
	static uint64_t large[3000];
	const unsigned char *at;

	for (unsigned int i = 0; i < 3000; i++)
		large[i] = small[i] = (uint16_t)i;
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:arrays", ARRAYS, 1);
	for (size_t length = 0; length <= 3000; length += 100) {
		size_t kept[] = { length > 2048 ? 2048 : length, length > 1024 ? 1024 : length,
				  length > 512 ? 512 : length };

		WAYMARK(hit, arrays, WM_ARRAY(small, length), WM_ARRAY(middle, length),
			WM_ARRAY(large, length), WM_ARRAY("chars", 5), (int)length);
		cr_assert_geq(fixture_read(0, width, last_event, &event), 1);
		at = event.fields;
		for (unsigned int i = 0; i < 3; at += 5 + (kept[i] << (i + 1)), i++) {
			cr_assert_eq(run_width(at) - 5, kept[i]);
			cr_assert_eq(*at, kept[i] < length ? FIELD_CUT : FIELD_WHOLE);
		}
		cr_assert_eq(memcmp(event.fields + 5, small, kept[0] * 2), 0);
		cr_assert_eq(memcmp(at - kept[2] * 8, large, kept[2] * 8), 0);
		cr_assert_eq(memcmp(at, "\0\5\0\0\0chars", 10), 0);
		cr_assert_eq(memcmp(at + 10, &(int){ (int)length }, 4), 0);
	}
	WAYMARK(hit, arrays, WM_ARRAY((uint16_t *)NULL, 7), WM_ARRAY(middle, 0),
		WM_ARRAY(large, UINT64_MAX / 4), WM_ARRAY("chars", 1), 0);
	cr_assert_geq(fixture_read(0, width, last_event, &event), 1);
	cr_assert_eq(memcmp(event.fields, "\1\0\0\0\0\0\0\0\0\0\2\0\2\0\0", 15), 0);
}

Test(hit, sixteen_long_arrays_are_cut_until_they_fit_a_page)
{
	static uint64_t n[600];
	struct fixture_event event = { 0 };

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:rows", ROWS, 1);
#define ROW WM_ARRAY(n, 600)
	WAYMARK(hit, rows, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW,
		ROW, ROW);
	cr_assert_eq(fixture_read(0, width, last_event, &event), 1);
	cr_assert_eq(fixture_discarded(0), 0);
	cr_assert_eq(event.fields[0], FIELD_CUT);
	cr_assert_eq(run_width(event.fields), 5 + 993 / 8);
}

Test(hit, ids_past_30_and_long_gaps_take_the_extended_header)
{
	struct fixture_event event = { 0 };

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:pair", PAIR, 1);
	hit_pair(1, 1);
	fixture_read(0, width, last_event, &event);
	cr_assert_not(event.extended);
	usleep(200000); /* past 2^27 ticks of any TSC of 0.7 GHz or more */
	hit_pair(1, 1);
	fixture_read(0, width, last_event, &event);
	cr_assert(event.extended);
	fixture_arm("hit:pair", SIGNAL, 1);
	hit_pair(1, 1);
	fixture_read(0, width, last_event, &event);
	cr_assert(event.extended);
	cr_assert_eq(event.id, SIGNAL);
}

Test(hit, two_sessions_see_the_same_events)
{
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_store(3, 1 << 20, STORE_CYCLIC);
	fixture_arm("hit:pair", PAIR, 1 | 1 << 3);
	for (int i = 0; i < 1000; i++)
		hit_pair(i, 0);
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 1000);
	cr_assert_eq(fixture_read(3, width, NULL, NULL), 1000);
}

Test(hit, a_full_store_counts_what_it_loses)
{
	for (uint32_t policy = STORE_DISCARD; policy <= STORE_CYCLIC; policy++) {
		if (policy == STORE_DISCARD)
			fixture_make(3 * STORE_PAGE_BYTES, policy);
		else
			fixture_store(policy, 3 * STORE_PAGE_BYTES, policy);
		fixture_arm("hit:pair", PAIR, 1u << policy);
		for (int i = 0; i < 100000; i++)
			hit_pair(i, 0);
		cr_assert_eq(fixture_read(policy, width, NULL, NULL) + fixture_discarded(policy),
			     100000);
		cr_assert_gt(fixture_discarded(policy), 0);
	}
}

static __attribute__((noinline)) void hit_empty(void)
{
	WAYMARK(hit, empty);
}

/* A lane without a page and an event without fields: nothing plus nothing is not past nothing. */
Test(hit, an_event_without_fields_finds_no_page)
{
	fixture_make(2 * STORE_PAGE_BYTES, STORE_DISCARD);
	fixture_store(1, 1 << 20, STORE_DISCARD);
	fixture_arm("hit:empty", EMPTY, 1);
	for (int i = 0; i < 100000; i++)
		hit_empty();
	cr_assert_eq(fixture_read(0, width, NULL, NULL) + fixture_discarded(0), 100000);
	cr_assert_gt(fixture_discarded(0), 0);
	fixture_arm("hit:empty", EMPTY, 2);
	for (int i = 0; i < 3; i++)
		hit_empty();
	cr_assert_eq(fixture_read(1, width, NULL, NULL), 3);
}

static volatile int stop_draining;
static void *scribble(void *data)
{
	(void)data;
	while (!stop_draining) {
		for (uint32_t i = 0; i < stores[0].page_count; i++) {
			volatile struct wm_page *page = &stores[0].pages[i];

			page->slot = UINT32_MAX;
			page->commit = UINT32_MAX;
		}
		for (uint32_t i = 0; i < stores[0].page_count; i++)
			__atomic_store_n(&stores[0].taken[i], 1 << 30, __ATOMIC_RELAXED);
		for (uint32_t i = 0; i < stores[0].page_count; i++)
			__atomic_store_n(&stores[0].taken[i], 0, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The result makes no sense, but no byte outside of the store is written. */
Test(hit, whatever_the_outside_writes_the_inside_stays_in_its_pages)
{
	const unsigned char *end;
	pthread_t thread;

	fixture_make(2 * STORE_PAGE_BYTES, STORE_CYCLIC);
	fixture_arm("hit:pair", PAIR, 1);
	end = stores[0].data + 2 * STORE_PAGE_BYTES;
	cr_assert_eq(pthread_create(&thread, NULL, scribble, NULL), 0);
	for (int n = 0; n < 2000000; n++) {
		const struct lane *lane;

		hit_pair(n, 0);
		lane = &writer_self->lanes.of[0];
		cr_assert_leq(lane->base + lane->limit, end);
	}
	stop_draining = 1;
	pthread_join(thread, NULL);
}

struct span {
	int first, last;
};

static void span_of(const struct fixture_event *event, void *data)
{
	struct span *span = data;
	int value;

	memcpy(&value, event->fields, sizeof value);
	if (span->first < 0)
		span->first = value;
	span->last = value;
}

Test(hit, discard_keeps_the_oldest_and_cyclic_the_newest)
{
	struct span oldest = { -1, -1 }, newest = { -1, -1 };

	fixture_make(3 * STORE_PAGE_BYTES, STORE_DISCARD);
	fixture_store(1, 3 * STORE_PAGE_BYTES, STORE_CYCLIC);
	fixture_arm("hit:pair", PAIR, 3);
	for (int i = 0; i < 100000; i++)
		hit_pair(i, 0);
	fixture_read(0, width, span_of, &oldest);
	fixture_read(1, width, span_of, &newest);
	cr_assert_eq(oldest.first, 0);
	cr_assert_eq(newest.last, 99999);
	cr_assert_gt(newest.first, 80000);
}

static void *drain_thread(void *data)
{
	while (!stop_draining) {
		*(uint64_t *)data += fixture_drain(0);
		usleep(1000); /* seldom enough that the writer has to wait */
	}
	return NULL;
}

Test(hit, block_waits_for_the_drain_and_loses_nothing)
{
	uint64_t drained = 0;
	pthread_t thread;

	fixture_make(2 * STORE_PAGE_BYTES, STORE_BLOCK);
	fixture_drain(0);
	cr_assert_eq(pthread_create(&thread, NULL, drain_thread, &drained), 0);
	fixture_arm("hit:pair", PAIR, 1);
	for (int i = 0; i < 200000; i++)
		hit_pair(i, 0);
	stop_draining = 1;
	pthread_join(thread, NULL);
	cr_assert_eq(drained + fixture_read(0, width, NULL, NULL), 200000);
	cr_assert_eq(fixture_discarded(0), 0);
}

static void *hit_thread(void *data)
{
	for (int i = 0; i < 200000; i++)
		hit_pair(i, 0);
	__atomic_store_n((int *)data, 1, __ATOMIC_RELEASE);
	return NULL;
}

Test(hit, block_waits_its_time_for_a_drain_that_is_long_ago)
{
	uint64_t drained = 0;
	pthread_t thread;
	int is_done = 0;

	fixture_make(2 * STORE_PAGE_BYTES, STORE_BLOCK);
	stores[0].block_ns = UINT64_C(3600000000000);
	stores[0].head->drained_ns = 1;
	fixture_arm("hit:pair", PAIR, 1);
	cr_assert_eq(pthread_create(&thread, NULL, hit_thread, &is_done), 0);
	cr_assert(AWAIT(__atomic_load_n(&stores[0].full_mark, __ATOMIC_RELAXED)));
	while (!__atomic_load_n(&is_done, __ATOMIC_ACQUIRE))
		drained += fixture_drain(0);
	pthread_join(thread, NULL);
	cr_assert_eq(drained + fixture_read(0, width, NULL, NULL), 200000);
	cr_assert_eq(fixture_discarded(0), 0);
}

Test(hit, block_waits_once_for_a_drain_that_does_not_come)
{
	fixture_make(2 * STORE_PAGE_BYTES, STORE_BLOCK);
	stores[0].head->drained_ns = 1;
	fixture_arm("hit:pair", PAIR, 1);
	for (int i = 0; i < 200000; i++) /* at 200 ms a wait this would take hours */
		hit_pair(i, 0);
	cr_assert_eq(stores[0].waited_ns, 1, "one wait was in vain");
	cr_assert_eq(fixture_read(0, width, NULL, NULL) + fixture_discarded(0), 200000);
}

Test(hit, block_waits_for_nobody_when_nobody_drains)
{
	fixture_make(2 * STORE_PAGE_BYTES, STORE_BLOCK);
	fixture_arm("hit:pair", PAIR, 1);
	for (int i = 0; i < 200000; i++) /* at 200 ms a wait this would take hours */
		hit_pair(i, 0);
	cr_assert_eq(fixture_read(0, width, NULL, NULL) + fixture_discarded(0), 200000);
}

WM_PROBE(hit, pair, int, uint64_t);
static struct {
	int a, calls;
	uint64_t b;
} seen;

static void on_pair(void *data, int a, uint64_t b)
{
	seen.a = a;
	seen.b = b;
	seen.calls++;
	errno = EILSEQ;
	cr_assert_eq(data, &seen);
	if (seen.calls < 100)
		hit_pair(a, b); /* its own marker */
}

static void on_pair_too(void *data, int a, uint64_t b)
{
	(void)a;
	*(uint64_t *)data += b;
}

Test(hit, probes_get_the_fields_and_do_not_call_themselves)
{
	uint64_t sum = 0;
	struct plan_probe probes[] = {
		{ wm_probe_add_hit_pair_call, (wm_probe_fn)on_pair, &seen },
		{ wm_probe_add_hit_pair_call, (wm_probe_fn)on_pair_too, &sum },
	};

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm_probe("hit:pair", PAIR, 1, probes, 2);
	errno = 123;
	hit_pair(-5, 7);
	cr_assert_eq(errno, 123, "a handler's errno is its own");
	cr_assert_eq(seen.a, -5);
	cr_assert_eq(seen.b, 7);
	cr_assert_eq(seen.calls, 1);
	cr_assert_eq(sum, 14); /* the outer hit and the one from the first handler */
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 2);
}

static void on_pair_with_vectors(void *data, int a, uint64_t b)
{
	(void)data, (void)a, (void)b;
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm7, %%xmm7; pcmpeqd %%xmm15, %%xmm15"
			 :
			 :
			 : "xmm0", "xmm7", "xmm15");
}

/* What no compiler would keep over the marker, since it knows of no call there. */
static __attribute__((noinline)) int registers_survive(void)
{
	uint64_t before[4] = { 0x1111, 0x2222, 0x3333, 0x4444 }, after[4];

	__asm__ volatile("movq %0, %%xmm0; movq %1, %%xmm7; movq %2, %%xmm15; movq %3, %%r11"
			 :
			 : "m"(before[0]), "m"(before[1]), "m"(before[2]), "m"(before[3])
			 : "xmm0", "xmm7", "xmm15", "r11");
	WAYMARK(hit, bare);
	__asm__ volatile("movq %%xmm0, %0; movq %%xmm7, %1; movq %%xmm15, %2; movq %%r11, %3"
			 : "=m"(after[0]), "=m"(after[1]), "=m"(after[2]), "=m"(after[3]));
	return !memcmp(before, after, sizeof before);
}

static void on_bare(wm_probe_fn fn, void *data, const unsigned char *payload)
{
	(void)fn, (void)payload;
	on_pair_with_vectors(data, 0, 0);
}

Test(hit, all_registers_survive_first_hits_and_probes)
{
	struct plan_probe probe = { on_bare, NULL, NULL };

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm_probe("hit:bare", EMPTY, 1, &probe, 1);
	cr_assert(registers_survive(), "the thread's first hit");
	cr_assert(registers_survive(), "a probe's handler");
	fixture_arm("hit:bare", EMPTY, 1);
	for (int i = 0; i < 5000; i++)
		cr_assert(registers_survive(), "hit %d", i); /* new pages among them */
}
