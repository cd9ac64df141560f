/* SPDX-License-Identifier: MIT */
#include "cli/watch_hit.h"

#include "record/session/session.h"
#include "record/watch/watches.h"
#include "target/expression/type.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

static struct watched_spec spec = { .words = "wide", .processes = 1, .bytes = 16 };
static struct watched_list list = { .all = &spec, .count = 1 };
static struct wm_session session = { .watched = &list };
static struct watch_wheres *wheres;
static struct writers *table;
static struct watch_hits *hits;

static void begin(void)
{
	struct watch_node *nodes = calloc(1, sizeof(*nodes));
	struct watch_type type = { .nodes = nodes, .node_count = 1, .names_bytes = 1 };

	nodes->class = WATCH_UNSIGNED;
	nodes->bytes = 16;
	type.names = calloc(1, 1);
	cr_assert_eq(watched_type_take(&spec, 0, &type), 0);
	cr_assert_eq(watch_wheres_new(&wheres, &session), 0);
	cr_assert_eq(writers_new(&table, 16), 0);
	cr_assert_eq(watch_hits_new(&hits, &session, table, wheres, 0), 0);
}

static void end(void)
{
	watch_hits_free(hits);
	writers_free(table);
	watch_wheres_free(wheres);
}

/* A register's hit, as a process may claim it. */
static void claim(int offset_type, uint64_t offset, uint64_t old, uint64_t new)
{
	struct wm_event_field fields[] = {
		{ .name = "ip", .type = WM_TYPE_PTR, .value.u = 0x1000 },
		{ .name = "old", .type = WM_TYPE_U64, .value.u = old },
		{ .name = "new", .type = WM_TYPE_U64, .value.u = new },
		{ .name = "how", .type = WM_TYPE_U16, .value.u = WATCH_NEW_EXACT },
		{ .name = "offset", .type = offset_type, .value.u = offset },
	};
	const struct wm_event event = { .size = sizeof(event),
					.name = "watch:wide",
					.tid = 7,
					.fields = fields,
					.field_count = 5 };

	cr_assert_eq(watch_hits_add(hits, &event), 0);
}

Test(watch_hits, number_in_two_registers_is_one_hit, .init = begin, .fini = end)
{
	claim(WM_TYPE_U32, 0, 1, 2);
	cr_assert_eq(writers_hits(table), 0);
	claim(WM_TYPE_U32, 8, 3, 4);
	cr_assert_eq(writers_hits(table), 1);
}

/* 40 = 8 + 32: a shift by it is one by 8 on x86-64. */
Test(watch_hits, offset_outside_of_the_value_is_a_hit_alone, .init = begin, .fini = end)
{
	static const uint64_t offsets[] = { 40,		1,	    7,		16,	   31,
					    0x40000008, 0x7fffffe8, 0xffffffe8, 0xffffffff };
	uint64_t count = 0;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		claim(WM_TYPE_U32, 0, 1, 2);
		claim(WM_TYPE_U32, offsets[i], ~0ull, ~1ull);
		count += 2;
		cr_assert_eq(writers_hits(table), count, "%llx", (unsigned long long)offsets[i]);
	}
	claim(WM_TYPE_I32, (uint64_t)-8, 5, 6);
	cr_assert_eq(writers_hits(table), count + 1);
}

Test(watch_hits, field_that_is_no_number_is_not_read, .init = begin, .fini = end)
{
	claim(WM_TYPE_STR, 8, 1, 2);
	cr_assert_eq(writers_hits(table), 1);
}

/* Each claim is a hit, alone or with the one of the number's other register. */
Test(watch_hits, any_claim_is_in_one_hit, .init = begin, .fini = end)
{
	static const char *const names[] = { "watch:wide", "watch:", "watch:other", "x",
					     "watch:*p" };
	static const int types[] = { WM_TYPE_U64, WM_TYPE_U32, WM_TYPE_I64,	 WM_TYPE_U16,
				     WM_TYPE_F64, WM_TYPE_PTR, WM_TYPE_ADDRESSES };
	uint64_t seed = 35, claims = 0;

	for (unsigned int i = 0; i < 5000; i++) {
		uint64_t random = sample_random(&seed);
		struct wm_event_field fields[] = {
			{ .name = "ip", .type = WM_TYPE_PTR, .value.u = random >> 40 & 3 },
			{ .name = "old", .type = types[random % 6] },
			{ .name = "new", .type = types[random / 8 % 6] },
			{ .name = "how", .type = WM_TYPE_U16, .value.u = random >> 48 },
			{ .name = "offset", .type = types[random / 64 % 6] },
		};
		const struct wm_event event = {
			.size = sizeof(event),
			.name = names[random >> 12 & 7 ? 0 : random % 5],
			.tid = (uint32_t)(random >> 16 & 3),
			.fields = fields,
			.field_count = (uint32_t)(random >> 18 & 7 ? 5 : random % 6)
		};

		fields[1].value.u = random >> 21 & 1 ? sample_random(&seed) : 0;
		fields[2].value.u = random >> 22 & 1 ? sample_random(&seed) : 0;
		fields[4].value.u = random >> 23 & 3 ? random >> 25 & 8 : sample_random(&seed);
		session.told_process = (uint32_t)(random >> 26 & 1);
		cr_assert_eq(watch_hits_add(hits, &event), 0);
		claims += event.field_count > 0;
		cr_assert_leq(writers_hits(table), claims);
		if (i % 100 == 0)
			cr_assert_eq(watch_hits_settle(hits, 0), 0);
	}
	cr_assert_eq(watch_hits_settle(hits, 1), 0);
	cr_expect_geq(2 * writers_hits(table), claims);
	session.told_process = 0;
}
