/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/hardware_fixture.h"

#include "record/trail/hardware/weave.h"
#include "record/trail/launch_gate.h"
#include "target/process/testing/folder.h"
#include "trace/testing/packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char root[64], detail[TRACING_DETAIL_BYTES];
struct sample_sink sink;
struct tracing_how how;
struct tracing_result result;
struct pt_item *items;
size_t count;
int may_begin_late;

void fixture_begin(void)
{
	sample_folder(root);
	put("/proc/cpuinfo", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n");
	put("/proc/sys/kernel/perf_event_paranoid", "1\n");
	put("/sys/bus/event_source/devices/intel_pt/type", "8\n");
	put("/sys/bus/event_source/devices/intel_bts/type", "9\n");
	sample_sink_init(&sink);
	folder_make();
	how = (struct tracing_how){ .machine = { root, &sample_perf_calls, 0, NULL } };
}

void fixture_end(void)
{
	sample_sink_release(&sink);
	folder_remove();
	sample_folder_remove(root);
}

int launch_into(struct tracing **hardware, struct trail_sink *to, enum origin origin,
		char *const argv[])
{
	int gate, err;
	pid_t pid;

	*hardware = NULL;
	pid = gate_fork(&gate, gate_become, argv[0], argv, NULL);
	if (pid < 0)
		return pid;
	how.origin = origin;
	err = tracing_hardware.take(hardware, to, &how, pid, gate, detail);
	close(gate);
	/* if the gate was never opened, the process has ended by itself */
	if (err)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	return err;
}

int launch(enum origin origin, char *const argv[])
{
	struct tracing *hardware;
	int err = launch_into(&hardware, &sink.sink, origin, argv);

	if (err) {
		cr_assert_null(hardware);
		return err;
	}
	while ((err = tracing_hardware.run(hardware, 1000)) > 0)
		;
	tracing_hardware.result(hardware, &result, detail);
	cr_assert_eq(err, 0, "%s", strerror(-err));
	cr_assert(result.is_over);
	cr_assert_eq(hardware_close(hardware), 0);
	hardware = NULL;
	cr_assert_eq(perf.opened, perf.closed - 2, "each of two is tried, each thread's closed");
	cr_assert_eq(perf.mapped, perf.unmapped);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	return 0;
}

int branch_behind(size_t i, uint64_t *from, uint64_t *to, int *is_kernel)
{
	const struct trail_entry *entry = &items[i].entry;
	uint64_t next = entry->start + entry->bytes;
	size_t j = i + 1;

	while (j < count && !items[j].entry.instructions)
		j++;
	if (!entry->instructions || j == count)
		return 0;
	*from = entry->start + entry->last;
	*to = items[j].entry.start;
	*is_kernel = j > i + 1 || entry->kind == TRAIL_SYSCALL;
	if (entry->kind == TRAIL_FALL && j > i + 1)
		*from = next;
	return *to != next || *is_kernel ||
	       (entry->kind != TRAIL_FALL && entry->kind != TRAIL_BRANCH);
}

void store_branches(void (*put_branch)(uint64_t from, uint64_t to), int has_kernel)
{
	uint64_t from, to;
	int is_kernel;

	for (size_t i = 0; i < count; i++) {
		if (!branch_behind(i, &from, &to, &is_kernel))
			continue;
		if (!is_kernel) {
			put_branch(from, to);
		} else if (has_kernel) {
			put_branch(from, KERNEL);
			put_branch(KERNEL + 64, to);
		}
	}
}

void put_bts(uint64_t from, uint64_t to)
{
	memcpy(perf.area + perf.area_bytes, (uint64_t[]){ from, to, 0 }, BTS_RECORD_BYTES);
	perf.area_bytes += BTS_RECORD_BYTES;
	cr_assert_lt(perf.area_bytes, sizeof(perf.area));
}

void is_the_same(int gaps)
{
	size_t got = 0;

	for (size_t i = 0; i < count; i++) {
		if (!items[i].entry.instructions)
			continue;
		while (got < sink.count && !sink.items[got].entry.instructions)
			got++;
		cr_assert_lt(got, sink.count, "block %zu is missing:\n%s", i,
			     sample_sink_text(&sink));
		cr_assert(!memcmp(&sink.items[got].entry, &items[i].entry, sizeof(items[i].entry)),
			  "block %zu is another:\n%s", i, sample_sink_text(&sink));
		got++;
	}
	cr_assert_eq(got, sink.count - 1, "more than ran:\n%s", sample_sink_text(&sink));
	cr_expect_eq(sink.items[got].between.event, TRAIL_END);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_GAP), gaps);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), may_begin_late, "%s",
		     sample_sink_text(&sink));
}

void is_over(enum trail_ending reason, uint64_t number)
{
	const struct trail_between *last = &sink.items[sink.count - 1].between;

	cr_expect_eq(last->event, TRAIL_END);
	cr_expect_eq(last->values[0], (uint64_t)reason);
	cr_expect_eq(last->values[1], number);
	cr_expect(sink.is_over);
}

void pt_store(int compresses)
{
	struct pt_encode_options encode = { .compresses_returns = compresses, .tsc = 1000 };
	uint8_t *bytes;
	size_t size;

	cr_assert_eq(pt_encode(&bytes, &size, items, count, &encode), 0);
	cr_assert_lt(size, sizeof(perf.area));
	memcpy(perf.area, bytes, size);
	perf.area_bytes = size;
	perf.area_head = size;
	free(bytes);
}
