/* SPDX-License-Identifier: MIT */
/* A target's claims of its hits, compared with the kernel's count. */
#include "record/watch/watches.h"

#include "record/perf/object.h"
#include "record/spec/spec.h"
#include "record/watch/watching_own.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 20000

static struct watch_counts counts;

Test(watch_counts, hits_that_no_handler_had_are_missed)
{
	watch_counts_add(&counts, &(struct watch_row){ .taken = 7, .dropped = 2, .late = 1 }, 12);
	cr_expect_eq(counts.hits, 12);
	cr_expect_eq(counts.taken, 7);
	cr_expect_eq(counts.dropped, 2);
	cr_expect_eq(counts.late, 1);
	cr_expect_eq(counts.missed, 3);
	watch_counts_add(&counts, &(struct watch_row){ .taken = 5 }, 3);
	cr_expect_eq(counts.hits, 15, "another session's event woke the handler");
	cr_expect_eq(counts.missed, 3);
}

Test(watch_counts, masked_stores_are_no_hits)
{
	watch_counts_add(&counts, &(struct watch_row){ .taken = 5, .masked = 2, .beside = 9 }, 8);
	cr_expect_eq(counts.masked, 5, "two of those taken, and all three without a signal");
	cr_expect_eq(counts.hits, 3);
	cr_expect_eq(counts.taken, 3);
	cr_expect_eq(counts.missed, 0);
}

/* Of rows that an agent fills, each hit of the kernel's is in one sum. */
Test(watch_counts, each_hit_is_in_one_sum)
{
	uint64_t seed = 3;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct watch_row row = { .taken = sample_random(&seed) % 1000,
					 .dropped = sample_random(&seed) % 1000,
					 .beside = sample_random(&seed) % 1000 };
		uint64_t hits = row.taken + row.dropped + sample_random(&seed) % 1000;

		row.masked = sample_random(&seed) % (row.taken + 1);
		counts = (struct watch_counts){ 0 };
		watch_counts_add(&counts, &row, hits);
		cr_assert_eq(counts.hits, counts.taken + counts.dropped + counts.missed);
		cr_assert_eq(counts.hits + counts.masked, hits);
	}
}

/* A target may say that it took more than there was: then none is missed. */
Test(watch_counts, claims_of_a_target_make_no_hits)
{
	uint64_t seed = 4;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct watch_row row = { 0 };
		uint64_t hits = sample_random(&seed) % 100;

		row.taken = sample_random(&seed) >> sample_random(&seed) % 64;
		row.dropped = sample_random(&seed) >> 1;
		row.beside = sample_random(&seed);
		row.masked = sample_random(&seed);
		counts = (struct watch_counts){ 0 };
		watch_counts_add(&counts, &row, hits);
		cr_assert_leq(counts.hits, hits);
		cr_assert_leq(counts.missed, hits);
	}
}

/* ---- of an object ---- */

static struct watch_table table;
static struct perf_object object = { .state = EVENT_ARMED, .request = { .source_count = 2 } };
static struct watching watching = {
	.table = &table, .object = &object, .count = 2, .all = { { .number = 5 }, { .number = 6 } }
};

Test(watched, hit_that_was_not_taken_is_missed)
{
	object.hits[0] = 10;
	table.rows[5].taken = 10;
	watched_count(&watching, 0, &counts);
	cr_expect_eq(counts.hits, 10);
	cr_expect_eq(counts.missed, 0);
	cr_expect(watching_is_told(&watching));
	object.hits[0] = 11;
	cr_expect_not(watching_is_told(&watching));
}

Test(watched, hit_of_another_session_is_counted_as_the_kernel_would)
{
	object.hits[0] = 3;
	table.rows[5].taken = 4;
	watched_count(&watching, 0, &counts);
	cr_expect_eq(counts.hits, 4);
}

Test(watched, change_of_a_pointer_is_no_hit)
{
	watching.all[1].is_pointer = 1;
	object.hits[1] = 9;
	table.rows[6].taken = 7;
	watched_count(&watching, 1, &counts);
	cr_expect_eq(counts.hits, 0);
	cr_expect_eq(counts.follow.unseen, 2);
}

/* ---- types ---- */

static struct watch_type type_of(uint64_t bytes)
{
	struct watch_type type;

	cr_assert_eq(expression_type_plain(&type, bytes), 0);
	return type;
}

Test(watched, process_has_the_type_that_it_had_last)
{
	struct watched_spec one = { 0 };
	struct watch_type type;

	cr_expect_null(watched_type(&one, 0));
	for (uint32_t process = 0; process < 100; process++) {
		type = type_of(1u << process % 4);
		cr_assert_eq(watched_type_take(&one, process, &type), 0);
		cr_expect_null(type.nodes);
	}
	cr_expect_eq(one.type_count, 4);
	cr_expect_eq(watched_type(&one, 6)->nodes[0].bytes, 4);
	cr_expect_eq(watched_type(&one, 1000)->nodes[0].bytes, 1, "the first");
	type = type_of(8);
	cr_assert_eq(watched_type_take(&one, 6, &type), 0);
	cr_expect_eq(watched_type(&one, 6)->nodes[0].bytes, 8);
	type = type_of(1);
	cr_assert_eq(watched_type_take(&one, 6, &type), 0);
	cr_expect_eq(watched_type(&one, 6)->nodes[0].bytes, 1);
	watched_spec_release(&one);
}

Test(watched, results_are_of_the_specs_that_were_armed)
{
	struct watched_list list = { 0 };
	struct spec_list specs = { 0 };
	struct wm_session session = { .watched = &list, .specs = &specs };
	struct watch_expr expr = { .words = (char *)"a", .kind = WATCH_EXECUTE };
	struct spec all[3] = { { .text = (char *)"watch:a:x", .watch = &expr } };

	specs.all = all;
	specs.count = 1;
	cr_assert_not_null(watched_result(&session, 0));
	cr_expect_null(watches_of(&list, 0), "it was armed nowhere");
	cr_expect_null(watches_of(&list, 1));
	list.all[0].processes = 1;
	cr_expect_eq(watches_of(&list, 0), &list.all[0]);
	cr_expect(list.all[0].is_code);
	cr_expect_str_eq(list.all[0].text, "watch:a:x");
	all[2] = all[0];
	specs.count = 3;
	cr_assert_not_null(watched_result(&session, 2));
	cr_expect_eq(list.count, 3);
	cr_expect_null(list.all[1].text);
	cr_expect_null(watches_of(&list, 2));
	watched_list_release(&list);
}
