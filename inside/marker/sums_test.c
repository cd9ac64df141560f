/* SPDX-License-Identifier: MIT */
/* Sums inside: bound to fields, declared, and added up in pages. */
#include "inside/marker/marker.h"
#include "inside/marker/sums.h"
#include "inside/store/arena.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define KEYS 20000

static struct variant variant = {
	.name = "db:query",
	.fields = "id, sql, WM_FIELD(rows, q->n)",
	.types = { WM_TYPE_U64, WM_TYPE_STR, WM_TYPE_I32 },
};

struct payload {
	uint64_t id;
	const char *sql;
	int32_t rows;
	uint32_t beyond;
} __attribute__((packed));

static struct sum_field field(const char *name, enum sum_as as)
{
	struct sum_field field = { .as = (uint8_t)as };

	strcpy(field.name, name);
	return field;
}

/* ---- binding ---- */

Test(sums, fields_out_of_order_are_refused)
{
	struct sum_field fields[] = { field("rows", SUM_SUM), field("id", SUM_BY) };
	struct sum_field many[] = { field("a", SUM_BY), field("b", SUM_BY), field("c", SUM_BY),
				    field("d", SUM_BY) };

	cr_expect(!sums_are_sound(fields, 2));
	cr_expect(sums_are_sound(fields, 1));
	cr_expect(sums_are_sound(many, 3));
	cr_expect(!sums_are_sound(many, 4));
	many[1] = many[0];
	cr_expect(!sums_are_sound(many, 2), "a row would have it twice");
	memset(many[0].name, 'x', sizeof many[0].name);
	cr_expect(!sums_are_sound(many, 1));
}

Test(sums, fields_that_cannot_be_added_are_refused)
{
	struct sum_field text = field("sql", SUM_SUM), unknown = field("rowz", SUM_BY);
	struct sum_field chain = field(FIELD_CALLCHAIN, SUM_BY);
	struct plan_sums sums;

	cr_expect_eq(sums_bind(&variant, 0, &text, 1, &sums), -WM_E_FIELD_TYPE);
	cr_expect_eq(sums_bind(&variant, 0, &unknown, 1, &sums), -WM_E_NO_PARAMETER);
	cr_expect_eq(sums_bind(&variant, 0, &chain, 1, &sums), 0);
	cr_expect_eq(sums.callers, 0, "the session has none");
}

Test(sums, row_is_declared_with_count_behind_values)
{
	struct sum_field fields[] = { field("sql", SUM_BY), field("cpu", SUM_BY),
				      field("rows", SUM_HIST), field("rows", SUM_SUM),
				      field("id", SUM_MAX) };
	static const uint8_t wanted[16] = { WM_TYPE_STR, WM_TYPE_U32, WM_TYPE_I64,
					    WM_TYPE_U64, WM_TYPE_I64, WM_TYPE_U64 };
	static const char from[] = "mj\ndb\nquery\nshop.c\n3\nid, sql, WM_FIELD(rows, q->n)";
	char text[512];
	struct plan_sums sums;
	uint8_t types[16];

	cr_assert_eq(sums_bind(&variant, 0, fields, 5, &sums), 0);
	cr_expect_eq(sums_declare(&sums, fields, from, types, text), strlen(text) + 1);
	cr_expect_str_eq(text, "sj\ndb\nquery\nshop.c\n3\nWM_FIELD(sql, sql),cpu,hist_rows,count,"
			       "sum_rows,max_id");
	cr_expect_arr_eq(types, wanted, sizeof wanted);
}

/* So that readers print its values as they do those of an event. */
Test(sums, value_of_marker_keeps_its_labels_and_base)
{
	struct sum_field by[] = { field("rows", SUM_BY), field("id", SUM_BY) };
	char text[512];
	struct plan_sums sums;
	uint8_t types[16];

	cr_assert_eq(sums_bind(&variant, 0, by, 2, &sums), 0);
	sums_declare(&sums, by, "mj\ndb\nq\n\n3\nWM_HEX(id), sql, WM_FIELD(rows, WM_ENUM(n, A, B))",
		     types, text);
	cr_expect_str_eq(text, "sj\ndb\nq\n\n3\nWM_FIELD(rows, WM_ENUM(n, A, B)),"
			       "WM_FIELD(id, WM_HEX(id)),count");
	sums_declare(&sums, by, "md\ndb\nq\n\n3\nid, sql, rows", types, text);
	cr_expect_str_eq(text, "sd\ndb\nq\n\n3\nrows,id,count", "a probe's have none");
}

Test(sums, buckets_are_a_quarter_wide_at_most)
{
	for (uint64_t value = 1; value < UINT64_C(1) << 62; value += value / 3 + 1) {
		uint64_t least = sum_bucket(value), end = sum_bucket_end(least);

		cr_expect(least <= value && value < end, "%lu", value);
		cr_expect_leq(end - least, least / 4 + 1);
	}
	cr_expect_eq(sum_bucket(0), 0);
	cr_expect_eq(sum_bucket_end(sum_bucket(UINT64_MAX)), 0);
}

/* ---- adding up ---- */

static struct plan plan;
static struct plan_sums bound;
static struct plan_consumer consumer = { .event_id = 7, .sums = 1 };

/* Sum, least and greatest `rows` by `id`, in a store of so many pages. */
static void begin(uint64_t pages)
{
	struct store_options options = { .buffer_bytes = pages * STORE_PAGE_BYTES };
	struct sum_field fields[] = { field("id", SUM_BY), field("rows", SUM_SUM),
				      field("rows", SUM_MIN), field("rows", SUM_MAX) };
	int fd;

	cr_assert_eq(store_init(), 0);
	cr_assert_eq(store_open(0, &options, &fd), 0);
	close(fd);
	cr_assert_eq(arena_rows_prepare(), 0);
	cr_assert_eq(sums_bind(&variant, 0, fields, 4, &bound), 0);
	plan.sums = &bound;
}

static int add(int depth, uint64_t id, int32_t rows)
{
	struct payload payload = { .id = id, .rows = rows };
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);

	return sums_add(writer_find(sp), depth, &plan, &consumer, (const unsigned char *)&payload,
			sp, NULL);
}

struct row {
	uint64_t id, count;
	int64_t sum, least, greatest;
} __attribute__((packed));

static struct row got[KEYS];

/* Add up the rows of all pages by `id`. Returns how many rows there are. */
static unsigned int read_rows(void)
{
	const struct store *store = &stores[0];
	unsigned int count = 0;

	memset(got, 0, sizeof got);
	for (uint32_t i = 0; i < store->page_count; i++) {
		const unsigned char *at = store->data + (size_t)i * STORE_PAGE_BYTES;
		uint32_t end = store->pages[i].commit, events = store->pages[i].events;

		if (store->pages[i].state != PAGE_OPEN && store->pages[i].state != PAGE_FULL)
			continue;
		cr_assert_eq(store->pages[i].use, PAGE_ROWS);
		for (uint32_t from = PAGE_HEAD_BYTES; from < end; events--, count++) {
			struct row row;

			cr_assert_eq(at[from], EVENT_EXTENDED);
			memcpy(&row, at + from + EVENT_EXTENDED_BYTES, sizeof row);
			from += EVENT_EXTENDED_BYTES + (uint32_t)sizeof row;
			cr_assert_lt(row.id, KEYS);
			got[row.id].least = !got[row.id].count || row.least < got[row.id].least
						    ? row.least
						    : got[row.id].least;
			got[row.id].greatest = !got[row.id].count ||
							       row.greatest > got[row.id].greatest
						       ? row.greatest
						       : got[row.id].greatest;
			got[row.id].count += row.count;
			got[row.id].sum += row.sum;
		}
		cr_assert_eq(events, 0);
	}
	return count;
}

Test(sums, hits_of_one_value_are_one_row)
{
	begin(4);
	for (int i = -50; i < 50; i++)
		cr_assert_eq(add(0, 3, i), 0);
	cr_expect_eq(read_rows(), 1);
	cr_expect_eq(got[3].count, 100);
	cr_expect_eq(got[3].sum, -50);
	cr_expect_eq(got[3].least, -50);
	cr_expect_eq(got[3].greatest, 49);
}

/* A handler's hit comes in between the steps of another: it has rows of its own. */
Test(sums, each_depth_has_rows_of_its_own)
{
	begin(4);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(add(i % 2, 3, 1), 0);
	cr_expect_eq(read_rows(), 2);
	cr_expect_eq(got[3].count, 10);
}

Test(sums, more_values_than_a_page_has_rows_add_up)
{
	begin(1000);
	for (uint64_t i = 0; i < 3 * KEYS; i++)
		cr_assert_eq(add(0, i % KEYS, (int32_t)i), 0);
	cr_expect_eq(read_rows(), 3 * KEYS);
	for (uint64_t i = 0; i < KEYS; i++) {
		cr_assert_eq(got[i].count, 3);
		cr_assert_eq(got[i].sum, (int64_t)(3 * i + 3 * KEYS));
		cr_assert_eq(got[i].greatest, (int64_t)(i + 2 * KEYS));
	}
}

/* A store of one page, with more values than that has rows. How many hits are lost. */
static unsigned int fill(void)
{
	unsigned int lost = 0;

	begin(1);
	for (uint64_t i = 0; i < 1000; i++)
		lost += add(0, i, 1) != 0;
	cr_assert_gt(lost, 500);
	return lost;
}

Test(sums, new_value_without_a_page_is_counted_as_lost)
{
	unsigned int lost = fill();

	cr_expect_eq(stores[0].head->crowded_out, lost);
	cr_expect_eq(read_rows(), 1000 - lost);
}

Test(sums, known_value_counts_where_no_page_is_free)
{
	fill();
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(add(0, i, 1), 0);
	read_rows();
	cr_expect_eq(got[99].count, 2);
	cr_expect_eq(got[500].count, 0);
}

/* Turns take no page that the hits of others may need, however often they come. */
Test(sums, turns_leave_pages)
{
	begin(8);
	for (int i = 0; i < 100; i++) {
		cr_assert_eq(add(0, 3, 1), 0);
		store_rows_turn(1000);
	}
	cr_expect_lt(read_rows(), 8);
	cr_expect_eq(got[3].count, 100);
	cr_expect_neq(stores[0].pages[7].state, PAGE_FULL);
}

/*
 * A handler has jumped out while a page was changed: what the index says is of the page before.
 * Offsets lead into the middle of rows then, where zero bytes look like a row of the event 0.
 */
Test(sums, index_of_another_page_is_not_used)
{
	static unsigned char before[STORE_PAGE_BYTES];
	const unsigned char *data;
	struct rows_page *page;
	uint32_t end;

	begin(4);
	for (uint64_t i = 0; i < 50; i++)
		cr_assert_eq(add(0, i, 1), 0);
	page = &writer_rows(writer_self, 0, 0)->of[0];
	data = page->lane.base;
	end = (uint32_t)page->lane.word;
	memcpy(before, data, end);
	cr_assert_eq(sums_bind(&variant, 0, NULL, 0, &bound), 0);
	consumer.event_id = 0;
	for (unsigned int i = 0; i < ROWS_INDEX; i++)
		page->index[i] = PAGE_HEAD_BYTES + EVENT_EXTENDED_BYTES + 2;
	page->is_indexed = 0;
	cr_assert_eq(add(0, 0, 1), 0);
	cr_expect_arr_eq(data, before, end);
	cr_expect_gt((uint32_t)page->lane.word, end, "it has a row of its own");
}

Test(sums, page_is_closed_and_hits_continue_in_the_other)
{
	begin(8);
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(add(0, 3, 1), 0);
		cr_assert_eq(add(0, 3, 1), 0);
		store_rows_turn(1000);
		cr_expect_eq(stores[0].pages[i].state, PAGE_FULL, "%d", i);
	}
	cr_expect_eq(read_rows(), 5);
	cr_expect_eq(got[3].count, 10);
	cr_expect_eq(store_quiet(0, 1000), 0);
	cr_expect_eq(store_close(0), 0);
}
