/* SPDX-License-Identifier: MIT */
#include "read/history/callers.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/syscall.h>

enum {
	CALLS,
	CALLS_BY_REGISTER,
	RETURNS,
	JUMPS,
	ENTERS,
	KERNEL_CALLS,
	KERNEL_RETURNS,
	LEAVES,
	BLOCKS
};

#define KERNEL UINT64_C(0xffffffff81000000)

static const struct trail_block blocks[BLOCKS] = {
	[CALLS] = { .start = 0x100, .last = 3, .bytes = 8, .instructions = 2, .kind = TRAIL_CALL },
	[CALLS_BY_REGISTER] = { .start = 0x200,
				.last = 5,
				.bytes = 8,
				.instructions = 2,
				.kind = TRAIL_CALL_INDIRECT },
	[RETURNS] = { .start = 0x300, .bytes = 1, .instructions = 1, .kind = TRAIL_RETURN },
	[JUMPS] = { .start = 0x400, .bytes = 2, .instructions = 1, .kind = TRAIL_JUMP },
	[ENTERS] = { .start = 0x500, .bytes = 2, .instructions = 1, .kind = TRAIL_SYSCALL },
	[KERNEL_CALLS] = { .start = KERNEL, .bytes = 5, .instructions = 1, .kind = TRAIL_CALL },
	[KERNEL_RETURNS] = { .start = KERNEL + 9,
			     .bytes = 1,
			     .instructions = 1,
			     .kind = TRAIL_RETURN },
	[LEAVES] = { .start = KERNEL + 5, .bytes = 3, .instructions = 1, .kind = TRAIL_FAR },
};
static struct trail_table table;
static struct trail_part parts[32];
static uint32_t ids[32];
static struct trail_path path;

static void ran(uint32_t id)
{
	struct trail_part *part = &parts[path.count++];

	memcpy(&table.blocks, &(const struct trail_block *){ blocks }, sizeof(table.blocks));
	ids[path.count] = id;
	*part = (struct trail_part){ .ids = (const uint8_t *)&ids[path.count],
				     .count = 1,
				     .table = &table,
				     .before = path.blocks++ };
}

static void event(enum trail_event kind, uint64_t at, uint64_t first, uint64_t second)
{
	parts[path.count++] = (struct trail_part){
		.before = path.blocks,
		.between = { .at = at, .event = (uint8_t)kind, .values = { first, second } },
	};
}

/* The calls at the end, innermost first. */
static void expect(size_t count, const struct caller *callers)
{
	struct trail_cursor cursor = { .path = &path };
	struct caller found[8];

	path.parts = parts;
	trail_seek_end(&cursor);
	cr_assert_eq(callers_find(cursor, found, 8), count);
	for (size_t i = 0; i < count; i++) {
		cr_expect_eq(found[i].at, callers[i].at, "%zu: %lx", i, found[i].at);
		cr_expect_eq(found[i].signal, callers[i].signal);
	}
}

Test(callers, are_calls_without_a_return)
{
	ran(CALLS);
	ran(CALLS_BY_REGISTER);
	ran(CALLS);
	ran(RETURNS);
	ran(JUMPS);
	expect(2, (struct caller[]){ { .at = 0x205 }, { .at = 0x103 } });
}

Test(callers, are_told_through_signals)
{
	ran(CALLS);
	event(TRAIL_SIGNAL, 0x77, 10, 0x300); /* this one has returned */
	ran(CALLS);
	ran(CALLS);
	event(TRAIL_SYSCALLED, 0x77, SYS_rt_sigreturn, 0);
	ran(CALLS_BY_REGISTER);
	event(TRAIL_SIGNAL, 0x88, 14, 0x300); /* and this one not */
	ran(JUMPS);
	expect(3,
	       (struct caller[]){ { .at = 0x88, .signal = 14 }, { .at = 0x205 }, { .at = 0x103 } });
}

/* A system call, and an interrupt, that have come back; then one of each that has not. */
static void through_the_kernel(void)
{
	ran(CALLS);
	ran(ENTERS);
	ran(KERNEL_CALLS);
	ran(KERNEL_RETURNS);
	ran(LEAVES);
	event(TRAIL_SIGNAL, 0x77, 0, KERNEL + 5);
	ran(LEAVES);
	ran(CALLS_BY_REGISTER);
}

Test(callers, are_told_through_the_kernel)
{
	through_the_kernel();
	expect(2, (struct caller[]){ { .at = 0x205 }, { .at = 0x103 } });
}

Test(callers, of_the_kernel_are_the_system_call_and_the_interrupt)
{
	through_the_kernel();
	ran(ENTERS);
	ran(KERNEL_CALLS);
	event(TRAIL_SIGNAL, KERNEL + 9, 0, KERNEL + 5);
	expect(5, (struct caller[]){ { .at = KERNEL + 9 },
				     { .at = KERNEL },
				     { .at = 0x500 },
				     { .at = 0x205 },
				     { .at = 0x103 } });
}

Test(callers, end_where_blocks_are_missing)
{
	ran(CALLS);
	event(TRAIL_LOST, 0, 0, 0);
	ran(CALLS_BY_REGISTER);
	expect(1, (struct caller[]){ { .at = 0x205 } });
}

Test(callers, are_no_more_than_one_asks_for)
{
	struct trail_cursor cursor = { .path = &path };
	struct caller found[2] = { 0 };

	ran(CALLS);
	ran(CALLS);
	ran(CALLS_BY_REGISTER);
	path.parts = parts;
	trail_seek_end(&cursor);
	cr_assert_eq(callers_find(cursor, found, 1), 1);
	cr_expect_eq(found[0].at, 0x205);
	cr_expect_eq(found[1].at, 0);
}
