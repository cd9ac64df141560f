/* SPDX-License-Identifier: MIT */
/* Files that a target sends as the table of its watches. */
#include "record/watch/watch_state.h"

#include "abi/watch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>

#define TABLE sizeof(struct watch_table)

static struct watch_state state;

static int table_file(size_t bytes, int seals)
{
	int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int map(int fd, uint64_t bytes)
{
	int err = watch_state_map(&state, fd, bytes);

	close(fd);
	return err;
}

Test(watch_state, sealed_table_is_mapped_beside_those_before)
{
	struct watch_table *first;

	cr_assert_eq(map(table_file(TABLE, F_SEAL_SHRINK | F_SEAL_GROW), TABLE), 0);
	first = state.table;
	first->rows[WATCH_ROWS_MAX - 1].taken = 7;
	for (int i = 0; i < 20; i++)
		cr_assert_eq(map(table_file(TABLE, F_SEAL_SHRINK), TABLE), 0);
	cr_expect_neq(state.table, first);
	cr_expect_eq(state.earlier_count, 20);
	cr_expect_eq(state.earlier[0], first);
	cr_expect_eq(first->rows[WATCH_ROWS_MAX - 1].taken, 7,
		     "the watches before read the old one");
	state.next = 9;
	watch_state_release(&state);
	cr_expect_null(state.table);
	cr_expect_eq(state.earlier_count, 0);
	cr_expect_eq(state.next, 9, "its numbers are not used again at once");
}

/* The target could cut it while it is mapped, or it is no table. */
Test(watch_state, any_other_file_is_refused)
{
	static const size_t sizes[] = { 0, 1, TABLE - 1, TABLE + 1, TABLE - 4096, 2 * TABLE };
	int ends[2];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_expect_eq(map(table_file(sizes[i], F_SEAL_SHRINK), TABLE), -WM_E_PROTOCOL, "%zu",
			     sizes[i]);
		cr_expect_eq(map(table_file(sizes[i], F_SEAL_SHRINK), sizes[i]), -WM_E_PROTOCOL);
		cr_expect_eq(map(table_file(TABLE, F_SEAL_SHRINK), sizes[i]), -WM_E_PROTOCOL);
	}
	cr_expect_eq(map(table_file(TABLE, F_SEAL_SHRINK), UINT64_MAX), -WM_E_PROTOCOL);
	cr_expect_eq(map(table_file(TABLE, F_SEAL_GROW), TABLE), -WM_E_PROTOCOL);
	cr_expect_eq(watch_state_map(&state, -1, TABLE), -WM_E_PROTOCOL);
	cr_expect_eq(map(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), TABLE), -WM_E_PROTOCOL);
	cr_expect_eq(map(open("/", O_RDONLY | O_CLOEXEC), TABLE), -WM_E_PROTOCOL);
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	cr_expect_eq(map(ends[0], TABLE), -WM_E_PROTOCOL);
	cr_expect_eq(map(ends[1], TABLE), -WM_E_PROTOCOL);
	cr_expect_null(state.table);
	watch_state_release(&state);
}

Test(watch_state, table_that_may_not_be_written_is_refused)
{
	cr_expect_lt(map(table_file(TABLE, F_SEAL_SHRINK | F_SEAL_WRITE), TABLE), 0);
	cr_expect_null(state.table);
}

Test(watch_state, modules_are_noted_in_order)
{
	for (uint64_t base = 1; base <= 100; base++) {
		cr_assert_eq(watch_state_note_module(&state, base), 0);
		cr_assert_eq(watch_state_note_gone(&state, base * 2), 0);
	}
	cr_assert_eq(state.module_count, 100);
	cr_assert_eq(state.gone_count, 100);
	for (uint64_t i = 0; i < 100; i++) {
		cr_expect_eq(state.modules[i], i + 1);
		cr_expect_eq(state.gone[i], 2 * i + 2);
	}
	watch_state_release(&state);
	cr_expect_eq(state.module_count, 0);
}
