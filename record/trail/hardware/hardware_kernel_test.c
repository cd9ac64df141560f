/* SPDX-License-Identifier: MIT */
/*
 * Recordings by hardware that go through the kernel, whose code is in a core that is made up
 * (kcore.h).
 */
#include "record/trail/hardware/weave.h"
#include "record/trail/testing/hardware_fixture.h"
#include "record/trail/testing/kcore.h"
#include "target/code/testing/block_read.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

static void begin(void)
{
	fixture_begin();
	sample_kcore_put(root);
	how.has_kernel = 1;
}

TestSuite(hardware_kernel, .init = begin, .fini = fixture_end, .timeout = 120);

#define ENTRY (SAMPLE_KERNEL + SAMPLE_KERNEL_ENTRY)
#define DO (SAMPLE_KERNEL + SAMPLE_KERNEL_DO)
#define FAULT (SAMPLE_KERNEL + SAMPLE_KERNEL_FAULT)

/* A system call's way through the kernel, up to its return; an interrupt's. */
static void put_call(uint64_t from, uint64_t to)
{
	put_bts(from, ENTRY);
	put_bts(ENTRY + 3, DO);
	put_bts(DO + 1, ENTRY + 8);
	if (to)
		put_bts(ENTRY + 11, to);
}

static void put_fault(uint64_t from, uint64_t to)
{
	put_bts(from, FAULT);
	put_bts(FAULT + 1, to);
}

/*
 * All of the trail by BTS, from execve(2)'s return on; with interrupts before all blocks that are a
 * branch alone. How many.
 */
static int store_all(void)
{
	uint64_t from, to;
	int is_kernel, interrupts = 0;

	put_bts(ENTRY + 11, items[0].entry.start);
	for (size_t i = 0; i < count; i++) {
		int is_call = items[i].entry.instructions && items[i].entry.kind == TRAIL_SYSCALL;

		if (branch_behind(i, &from, &to, &is_kernel)) {
			if (!is_call && !items[i].entry.last) {
				put_fault(from, from);
				interrupts++;
			}
			if (is_kernel)
				put_call(from, to);
			else
				put_bts(from, to);
		} else if (is_call) {
			put_call(items[i].entry.start + items[i].entry.last, 0);
		}
	}
	area_record(0, perf.area_bytes, 0);
	perf.area_head = perf.area_bytes;
	return interrupts;
}

/* How many blocks of the kernel's, which are taken out of the sink, with the interrupts. */
static int kernel_taken_out(int *interrupts)
{
	size_t kept = 0;
	int found = 0;

	*interrupts = 0;
	for (size_t i = 0; i < sink.count; i++) {
		const struct sample_item *item = &sink.items[i];

		if (item->entry.instructions && item->entry.start >= TRAIL_KERNEL) {
			found++;
		} else if (!item->entry.instructions && item->between.event == TRAIL_SIGNAL) {
			cr_expect_eq(item->between.values[0], 0);
			cr_expect_eq(item->between.values[1], FAULT);
			++*interrupts;
		} else {
			sink.items[kept++] = *item;
		}
	}
	sink.count = kept;
	return found;
}

static int bts_of(char mode)
{
	char *argv[] = { PROGRAM, (char[]){ mode, '\0' }, NULL };
	int calls = 0, interrupts, stored;

	items = sample_stepped(argv, &count);
	for (size_t i = 0; i < count; i++)
		calls += items[i].entry.instructions && items[i].entry.kind == TRAIL_SYSCALL;
	stored = store_all();
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0, "%s", detail);
	cr_expect_eq(perf.attr.exclude_kernel, 0);
	cr_expect_str_empty(detail);
	/*
	 * of each call three blocks, of the last, which does not come back, two; execve(2)'s
	 * return; an interrupt's
	 */
	cr_expect_eq(kernel_taken_out(&interrupts), 3 * calls - 1 + 1 + stored);
	cr_expect_eq(interrupts, stored, "%s", sample_sink_text(&sink));
	is_the_same(0);
	return stored;
}

Test(hardware_kernel, shows_system_calls_by_bts)
{
	bts_of('s');
	is_over(TRAIL_EXITED, 7);
}

Test(hardware_kernel, shows_interrupts_by_bts)
{
	cr_expect_gt(bts_of('c'), 0);
}

Test(hardware_kernel, shows_system_calls_by_pt)
{
	char *argv[] = { PROGRAM, (char *)"s", NULL };
	static struct pt_item all[4096];
	struct pt_item *stepped;
	struct trail_entry parts[3];
	int interrupts;
	size_t user, used = 0;

	items = stepped = sample_stepped(argv, &count);
	user = count;
	cr_assert_eq(block_read(&parts[0], ENTRY, sample_kernel, 14, 64), 0);
	cr_assert_eq(block_read(&parts[1], DO, sample_kernel + 0x20, 2, 64), 0);
	cr_assert_eq(block_read(&parts[2], ENTRY + 8, sample_kernel + 8, 6, 64), 0);
	for (size_t i = 0; i < user; i++) {
		if (!stepped[i].entry.instructions)
			continue;
		all[used++] = stepped[i];
		for (size_t j = 0; j < 3 && stepped[i].entry.kind == TRAIL_SYSCALL; j++)
			all[used++].entry = parts[j];
		cr_assert_lt(used, 4000);
	}
	items = all;
	count = used;
	pt_store(1);
	area_record(0, perf.area_bytes, 0);
	items = stepped;
	count = user;
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_str_empty(detail);
	cr_expect_eq(perf.attr.exclude_kernel, 0);
	cr_expect_gt(kernel_taken_out(&interrupts), 2);
	is_the_same(0);
}

/* ---- where it can't be had ---- */

static void without(const char *why)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	perf.record_bytes = perf.area_bytes = 0;
	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	area_record(0, perf.area_bytes, 0);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_eq(perf.attr.exclude_kernel, 1);
	cr_expect(strstr(detail, "what ran in the kernel is a gap: ") != NULL, "%s", detail);
	cr_expect(strstr(detail, why) != NULL, "%s", detail);
	is_the_same(0);
}

Test(hardware_kernel, leaves_it_out_where_there_is_no_core)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/proc/kcore", root);
	cr_assert_eq(unlink(path), 0);
	without("this kernel, or container, has none");
}

Test(hardware_kernel, leaves_it_out_where_the_core_is_none)
{
	put("/proc/kcore", "locked down");
	without("CAP_SYS_RAWIO");
}

Test(hardware_kernel, is_refused_to_those_who_can_not_or_may_not)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	put("/proc/sys/kernel/perf_event_paranoid", "2\n");
	cr_expect_eq(launch(ORIGIN_PT, argv), -WM_E_PERF_DENIED);
	cr_expect_str_eq(
		detail,
		"kernel.perf_event_paranoid is 2, and at most 1 is needed for the kernel's branches");
}
