/* SPDX-License-Identifier: MIT */
/* A ring made by hand, and records as the kernel's header says they are. */
#include "record/perf/perf_record.h"
#include "record/perf/ring.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define BYTES 256u
#define TID_TIME (PERF_SAMPLE_TID | PERF_SAMPLE_TIME)

static struct perf_event_mmap_page page;
static uint8_t data[BYTES];
static struct ring ring;
static const struct perf_event_header *header;
static struct perf_record record;

static void put(const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		data[(page.data_head + i) % BYTES] = ((const uint8_t *)bytes)[i];
	__atomic_store_n(&page.data_head, page.data_head + count, __ATOMIC_RELEASE);
}

static void begin_at(uint64_t position)
{
	ring_release(&ring);
	page = (struct perf_event_mmap_page){ .data_head = position, .data_tail = position };
	cr_assert_eq(ring_init(&ring, &page, data, BYTES), 0);
}

Test(ring, reads_records_that_begin_anywhere)
{
	/* PERF_RECORD_SWITCH, misc 0x2000 (out), 24 bytes: pid 7, tid 8, time 9 */
	static const uint8_t away[24] = { 14, 0, 0, 0, 0, 0x20, 24, 0, 7, 0,
					  0,  0, 8, 0, 0, 0,	9,  0, 0, 0 };

	for (uint64_t at = 0; at < 2 * BYTES; at++) {
		begin_at(at * 8 + (UINT64_C(1) << 40));
		put(away, sizeof(away));
		put(away, sizeof(away));
		for (int i = 0; i < 2; i++) {
			cr_assert_eq(ring_next(&ring, &header), 1);
			cr_assert_eq(perf_record_read(&record, header, TID_TIME), 0);
			cr_assert_eq(record.type, PERF_RECORD_SWITCH);
			cr_assert(record.misc & PERF_RECORD_MISC_SWITCH_OUT);
			cr_assert(record.pid == 7 && record.tid == 8 && record.time == 9);
		}
		cr_assert_eq(page.data_tail, page.data_head - sizeof(away),
			     "given back before it was read");
		cr_assert_eq(ring_next(&ring, &header), 0);
		cr_assert_eq(page.data_tail, page.data_head);
	}
	ring_release(&ring);
}

Test(ring, drops_what_is_no_record)
{
	struct perf_event_header bad = { .type = 9, .size = 4 };

	begin_at(0);
	put(&bad, sizeof(bad));
	cr_expect_eq(ring_next(&ring, &header), -EBADMSG);
	cr_expect_eq(ring_next(&ring, &header), 0);
	bad.size = 200; /* more than is there */
	put(&bad, sizeof(bad));
	cr_expect_eq(ring_next(&ring, &header), -EBADMSG);
	page.data_head += 3; /* less than a header */
	cr_expect_eq(ring_next(&ring, &header), -EBADMSG);
	page.data_head += BYTES + 1;
	cr_expect_eq(ring_next(&ring, &header), -EBADMSG);
	page.data_head -= 64; /* back */
	cr_expect_eq(ring_next(&ring, &header), -EBADMSG);
	ring_release(&ring);
	cr_expect_eq(ring_init(&ring, &page, data, 200), -EINVAL);
	ring_release(&ring);
}

Test(ring, copies_an_area_that_goes_round)
{
	uint8_t area[64], out[64];

	for (unsigned int i = 0; i < sizeof(area); i++)
		area[i] = (uint8_t)i;
	for (uint64_t offset = 0; offset < 200; offset++) {
		cr_assert_eq(ring_aux_copy(out, area, sizeof(area), offset, 48), 0);
		for (uint64_t i = 0; i < 48; i++)
			cr_assert_eq(out[i], (offset + i) % 64);
	}
	cr_expect_eq(ring_aux_copy(out, area, sizeof(area), 0, 65), -EINVAL);
	cr_expect_eq(ring_aux_copy(out, area, 0, 0, 0), -EINVAL);
}

static int read_bytes(const uint8_t *bytes)
{
	return perf_record_read(&record, (const struct perf_event_header *)(const void *)bytes,
				TID_TIME);
}

#define U32(value) (uint8_t)(value), (uint8_t)((value) >> 8), 0, 0
#define U64(value) U32(value), 0, 0, 0, 0
#define HEAD(type, misc, size) U32(type), (uint8_t)(misc), (uint8_t)((misc) >> 8), size, 0
#define ID U32(7), U32(8), U64(9)

Test(perf_record, takes_each_kind_apart)
{
	_Alignas(8) static const uint8_t lost[] = { HEAD(2, 0, 40), U64(1), U64(500), ID };
	_Alignas(8) static const uint8_t comm[] = {
		HEAD(3, 0, 40), U32(70), U32(80), 'w', 'o', 'r', 'k', 0, 0, 0, 0, ID
	};
	_Alignas(8) static const uint8_t ended[] = { HEAD(4, 0, 48), U32(70), U32(1), U32(80),
						     U32(70),	     U64(99), ID };
	_Alignas(8) static const uint8_t forked[] = { HEAD(7, 0, 48), U32(70), U32(1), U32(81),
						      U32(80),	      U64(98), ID };
	_Alignas(8) static const uint8_t mapped[] = { HEAD(10, 0, 96),
						      U32(7),
						      U32(8),
						      U64(0x4000),
						      U64(0x2000),
						      U64(0x1000),
						      U32(8),
						      U32(1),
						      U64(55),
						      U64(0),
						      U32(5),
						      U32(2),
						      '/',
						      'a',
						      0,
						      0,
						      0,
						      0,
						      0,
						      0,
						      ID };
	_Alignas(8) static const uint8_t aux[] = { HEAD(11, 0, 48), U64(0x300), U64(0x48), U64(9),
						   ID };
	_Alignas(8) static const uint8_t started[] = { HEAD(12, 0, 32), U32(70), U32(80), ID };

	cr_expect_eq(read_bytes(lost), 0);
	cr_expect(record.lost == 500 && record.time == 9);
	cr_expect_eq(read_bytes(comm), 0);
	cr_expect(record.tid == 80 && !strcmp(record.text, "work"));
	cr_expect_eq(read_bytes(ended), 0);
	cr_expect(record.tid == 80 && record.time == 99);
	cr_expect_eq(read_bytes(forked), 0);
	cr_expect(record.tid == 81 && record.ptid == 80 && record.pid == 70);
	cr_expect_eq(read_bytes(mapped), 0);
	cr_expect(record.start == 0x4000 && record.bytes == 0x2000 && record.offset == 0x1000);
	cr_expect_str_eq(record.text, "/a");
	cr_expect_eq(read_bytes(aux), 0);
	cr_expect(record.aux_offset == 0x300 && record.aux_bytes == 0x48);
	cr_expect_eq(record.aux_flags, PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_COLLISION);
	cr_expect_eq(read_bytes(started), 0);
	cr_expect(record.pid == 70 && record.tid == 80 && record.time == 9);
}

Test(perf_record, refuses_each_that_is_too_short)
{
	static const uint8_t types[] = { 1, 2, 3, 4, 7, 10, 11, 12, 13, 14 };
	_Alignas(8) uint8_t bytes[128] = { 0 };

	for (size_t i = 0; i < sizeof(types); i++) {
		for (uint8_t size = 8; size < 24; size++) {
			memset(bytes, 0xff, sizeof(bytes));
			memcpy(bytes, (const uint8_t[]){ HEAD(types[i], 0, size) }, 8);
			cr_expect_eq(read_bytes(bytes), -EBADMSG, "type %d of %d bytes", types[i],
				     size);
		}
	}
	/* a name that does not end */
	memset(bytes, 0xff, sizeof(bytes));
	memcpy(bytes, (const uint8_t[]){ HEAD(3, 0, 48) }, 8);
	cr_expect_eq(read_bytes(bytes), -EBADMSG);
}
