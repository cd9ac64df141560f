/* SPDX-License-Identifier: MIT */
#include "trace/trail/table.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct trail_table table;

static void end(void)
{
	trail_table_release(&table);
}

TestSuite(trail_table, .fini = end);

static const struct trail_entry good = {
	.start = 0x1000,
	.target = 0x2000,
	.bytes = 6,
	.last = 4,
	.instructions = 3,
	.kind = TRAIL_BRANCH,
};

static int define(uint32_t id, struct trail_entry entry)
{
	return trail_table_define(&table, id, (const uint8_t *)&entry, sizeof(entry));
}

Test(trail_table, refuses_blocks_that_cannot_be)
{
	struct trail_entry bad;

#define REFUSED(...)                                                                               \
	do {                                                                                       \
		bad = good;                                                                        \
		__VA_ARGS__;                                                                       \
		cr_expect_eq(define(0, bad), -EINVAL, "%s", #__VA_ARGS__);                         \
	} while (0)
	REFUSED(bad.kind = TRAIL_KINDS);
	REFUSED(bad.instructions = 0);
	REFUSED(bad.instructions = 65, bad.bytes = 100, bad.last = 99);
	REFUSED(bad.bytes = 0);
	REFUSED(bad.bytes = 961);
	REFUSED(bad.last = 6);
	REFUSED(bad.last = 1);
	REFUSED(bad.instructions = 7);
	REFUSED(bad.start = UINT64_MAX - 2);
	REFUSED(bad.flags = TRAIL_HAS_CODE);
	cr_expect_eq(define(TRAIL_BLOCKS_MAX, good), -EINVAL);
	cr_expect_eq(define(TRAIL_BLOCKS_MAX - 1, good), -EINVAL, "it would take gigabytes");
	cr_expect_eq(trail_table_define(&table, 0, (const uint8_t *)&good, 23), -EINVAL);
	cr_expect_eq(table.defined, 0);
	cr_expect_eq(define(0, good), 0);
}

Test(trail_table, keeps_what_an_id_means)
{
	struct trail_entry other = good;

	other.target++;
	cr_expect_eq(define(1000, good), 0);
	cr_expect_eq(define(1000, good), 0);
	cr_expect_eq(define(1000, other), -EEXIST);
	cr_expect_eq(trail_table_block(&table, 1000)->target, good.target);
	cr_expect_null(trail_table_block(&table, 999));
	cr_expect_null(trail_table_block(&table, 1001));
	cr_expect_null(trail_table_block(&table, UINT32_MAX));
	cr_expect_eq(table.defined, 1);
}

Test(trail_table, takes_a_run_up_to_what_is_wrong_in_it)
{
	uint8_t run[3 * sizeof(good) + 12];
	struct trail_entry with_code = good, bad = good;
	uint8_t *at = run;

	with_code.flags = TRAIL_HAS_CODE;
	bad.kind = 200;
	at = mempcpy(at, &with_code, sizeof(with_code));
	at = mempcpy(at, "abcdef", 6);
	at = mempcpy(at, &good, sizeof(good));
	at = mempcpy(at, &bad, sizeof(bad));
	cr_expect_eq(trail_table_define(&table, 5, run, (size_t)(at - run)), -EINVAL);
	cr_expect_eq(table.defined, 2);
	cr_expect_arr_eq(trail_table_code(&table, trail_table_block(&table, 5)), "abcdef", 6);
	cr_expect_null(trail_table_code(&table, trail_table_block(&table, 6)));
}

Test(trail_table, knows_what_may_follow_each_kind)
{
	struct trail_block block = { .start = 0x1000, .bytes = 6, .target = 0x2000 };
	static const struct {
		uint8_t kind, on, to_target, elsewhere;
	} rules[] = {
		{ TRAIL_FALL, 1, 0, 0 },	  { TRAIL_JUMP, 0, 1, 0 },
		{ TRAIL_BRANCH, 1, 1, 0 },	  { TRAIL_CALL, 0, 1, 0 },
		{ TRAIL_JUMP_INDIRECT, 1, 1, 1 }, { TRAIL_CALL_INDIRECT, 1, 1, 1 },
		{ TRAIL_RETURN, 1, 1, 1 },	  { TRAIL_SYSCALL, 1, 0, 0 },
		{ TRAIL_STOP, 0, 0, 0 },	  { TRAIL_FAR, 1, 1, 1 },
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		block.kind = rules[i].kind;
		cr_expect_eq(trail_block_leads(&block, 0x1006), rules[i].on, "kind %zu", i);
		cr_expect_eq(trail_block_leads(&block, 0x2000), rules[i].to_target, "kind %zu", i);
		cr_expect_eq(trail_block_leads(&block, 0x3000), rules[i].elsewhere, "kind %zu", i);
	}
}

/* ---- paths ---- */

/* Blocks 0 and 1 lead to each other, 2 leads nowhere. */
static void define_blocks(void)
{
	struct trail_entry block = good;

	block.target = good.start + good.bytes;
	cr_assert_eq(define(0, block), 0);
	block.start = block.target;
	block.target = good.start;
	cr_assert_eq(define(1, block), 0);
	block.kind = TRAIL_STOP;
	cr_assert_eq(define(2, block), 0);
}

static int define_path(uint32_t id, struct trail_entry entry, const uint32_t *ids, size_t bytes)
{
	uint8_t run[sizeof(entry) + 4096];

	memcpy(run, &entry, sizeof(entry));
	memcpy(run + sizeof(entry), ids, bytes);
	return trail_table_define(&table, id, run, sizeof(entry) + bytes);
}

static struct trail_entry path_of(uint16_t count)
{
	return (struct trail_entry){ .bytes = (uint16_t)(4 * count),
				     .instructions = count,
				     .kind = TRAIL_PATH,
				     .flags = TRAIL_HAS_CODE };
}

Test(trail_table, keeps_what_a_path_is_of)
{
	static const uint32_t ids[] = { 0, 1, 0, 2 }, others[] = { 0, 1, 0, 1 };
	const struct trail_block *path;

	define_blocks();
	cr_assert_eq(define_path(3, path_of(4), ids, sizeof(ids)), 0);
	cr_expect_eq(define_path(3, path_of(4), ids, sizeof(ids)), 0);
	cr_expect_eq(define_path(3, path_of(4), others, sizeof(others)), -EEXIST);
	cr_expect_eq(define_path(3, path_of(3), ids, 12), -EEXIST);
	cr_expect_eq(define_path(0, path_of(4), ids, sizeof(ids)), -EEXIST, "it is a block");
	cr_expect_eq(define(3, good), -EEXIST, "it is a path");
	cr_expect_null(trail_table_block(&table, 3));
	cr_expect_null(trail_table_path(&table, 0));
	cr_expect_null(trail_table_path(&table, 4));
	cr_expect_null(trail_table_path(&table, UINT32_MAX));
	path = trail_table_path(&table, 3);
	cr_assert_not_null(path);
	cr_expect_eq(path->instructions, 4);
	cr_expect_eq(path->start, good.start);
	cr_expect_eq(path->target, 2);
	cr_expect_arr_eq(trail_table_path_ids(&table, path), ids, sizeof(ids));
	cr_expect_eq(table.paths, 1);
	cr_expect_eq(table.defined, 4);
}

Test(trail_table, refuses_paths_that_cannot_be)
{
	static const uint32_t fine[] = { 0, 1 }, self[] = { 0, 4 }, path[] = { 0, 3 },
			      none[] = { 0, 9 }, far_out[] = { 0, UINT32_MAX },
			      nowhere[] = { 1, 2 }, stopped[] = { 2, 0 };
	uint32_t many[241];
	struct trail_entry bad;

	for (uint32_t i = 0; i < 241; i++)
		many[i] = i % 2;
	define_blocks();
	cr_assert_eq(define_path(3, path_of(2), fine, sizeof(fine)), 0);
	cr_expect_eq(define_path(4, path_of(2), self, sizeof(self)), -EINVAL);
	cr_expect_eq(define_path(4, path_of(2), path, sizeof(path)), -EINVAL);
	cr_expect_eq(define_path(4, path_of(2), none, sizeof(none)), -EINVAL);
	cr_expect_eq(define_path(4, path_of(2), far_out, sizeof(far_out)), -EINVAL);
	cr_expect_eq(define_path(4, path_of(2), nowhere, sizeof(nowhere)), -EINVAL);
	cr_expect_eq(define_path(4, path_of(2), stopped, sizeof(stopped)), -EINVAL);
	cr_expect_eq(define_path(4, path_of(241), many, sizeof(many)), -EINVAL, "too long");
	cr_expect_eq(define_path(4, path_of(0), fine, 0), -EINVAL);
	cr_expect_eq(define_path(4, path_of(2), fine, 7), -EINVAL, "cut");
#define NO_PATH(...)                                                                               \
	do {                                                                                       \
		bad = path_of(2);                                                                  \
		__VA_ARGS__;                                                                       \
		cr_expect_eq(define_path(4, bad, fine, sizeof(fine)), -EINVAL, "%s",               \
			     #__VA_ARGS__);                                                        \
	} while (0)
	NO_PATH(bad.kind = TRAIL_PATH + 1);
	NO_PATH(bad.flags = 0);
	NO_PATH(bad.bytes = 7);
	NO_PATH(bad.bytes = 4);
	NO_PATH(bad.instructions = 1);
	NO_PATH(bad.instructions = 3);
	NO_PATH(bad.start = 1);
	NO_PATH(bad.target = 1);
	NO_PATH(bad.last = 1);
	cr_expect_null(trail_table_path(&table, 4));
	cr_expect_eq(table.paths, 1);
	cr_expect_eq(define_path(4, path_of(240), many, 960), 0);
}
