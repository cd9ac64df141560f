/* SPDX-License-Identifier: MIT */
/*
 * Recordings by hardware, the hardware being made up: real programs run, and a perf_event_open() of ours has in
 * its buffers what a processor would have stored, by a trail that `step` made before. What really needs a
 * processor is tried where there is one, and skipped with the reason where there is none.
 */
#include "session/trail/bts.h"
#include "session/trail/files.h"
#include "session/trail/hardware.h"
#include "session/trail/pt_encode.h"
#include "session/trail/sample_perf.h"
#include "session/trail/sample_sink.h"
#include "session/trail/step.h"
#include "trace/sample.h"
#include "trace/trail/path.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define KERNEL UINT64_C(0xffffffff81000000)
#define BUFFER SAMPLE_AREA_BYTES
#define perf sample_perf
#define put(path, text) sample_machine_put(root, path, text)
#define record sample_perf_record
#define area_record sample_perf_area
#define switch_record sample_perf_switch

static char root[64];
static struct sample_sink sink;
static struct hardware_options options;
static struct hardware_result result;
static char detail[160];

static void begin(void)
{
	sample_folder(root);
	put("/proc/cpuinfo", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n");
	put("/proc/sys/kernel/perf_event_paranoid", "1\n");
	put("/sys/bus/event_source/devices/intel_pt/type", "8\n");
	put("/sys/bus/event_source/devices/intel_bts/type", "9\n");
	put("/sys/bus/event_source/devices/cpu/type", "4\n");
	sample_sink_init(&sink);
	options = (struct hardware_options){ .buffer_bytes = BUFFER,
					     .machine = { root, &sample_perf_calls } };
}

static void end(void)
{
	char command[128];

	sample_sink_release(&sink);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(hardware, .init = begin, .fini = end, .timeout = 120);

static int launch(enum origin origin, char *const argv[])
{
	struct hardware *hardware;
	int err = hardware_launch(&hardware, &sink.sink, origin, &options, argv[0], argv, detail,
				  sizeof(detail));

	if (err) {
		cr_assert_null(hardware);
		return err;
	}
	while ((err = hardware_run(hardware, 1000)) > 0)
		;
	hardware_result(hardware, &result);
	cr_assert_eq(err, 0, "%s", strerror(-err));
	cr_assert(result.is_over);
	cr_assert_eq(hardware_close(hardware), 0);
	hardware = NULL;
	cr_assert_eq(perf.opened, perf.closed - 4, "each of four is tried, each thread's closed");
	cr_assert_eq(perf.mapped, perf.unmapped);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	return 0;
}

/* ---- what a processor would have stored ---- */

static struct pt_item *items;
static size_t count;
static int may_begin_late; /* what was before the oldest is lost, and said to be */

/* Whether the next thing is another place than straight on, and which. */
static int branch_behind(size_t i, uint64_t *from, uint64_t *to, int *is_kernel)
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

/* All branches, as BTS stores them: those into the kernel and out of it too, or neither. */
static void store_branches(void (*put_branch)(uint64_t from, uint64_t to), int has_kernel)
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

static void put_bts(uint64_t from, uint64_t to)
{
	memcpy(perf.area + perf.area_bytes, (uint64_t[]){ from, to, 0 }, BTS_RECORD_BYTES);
	perf.area_bytes += BTS_RECORD_BYTES;
	cr_assert_lt(perf.area_bytes, sizeof(perf.area));
}

/* PERF_SAMPLE_IP, TID, TIME, ADDR. */
static void put_sample(uint64_t from, uint64_t to)
{
	record(PERF_RECORD_SAMPLE, 2, (uint64_t[]){ from, 0, 1, to }, 32);
}

/* The same blocks, and the end. `gaps`: what came of ways through the kernel. */
static void is_the_same(int gaps)
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

static void is_over(enum trail_ending reason, uint64_t number)
{
	const struct trail_between *last = &sink.items[sink.count - 1].between;

	cr_expect_eq(last->event, TRAIL_END);
	cr_expect_eq(last->values[0], (uint64_t)reason);
	cr_expect_eq(last->values[1], number);
	cr_expect(sink.is_over);
}

/* ---- Branch Trace Store ---- */

static void bts_of(char mode, int gaps)
{
	char *argv[] = { PROGRAM, (char[]){ mode, '\0' }, NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	area_record(0, perf.area_bytes, 0);
	perf.area_head = perf.area_bytes;
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0, "%s", detail);
	is_the_same(gaps);
	cr_expect_eq(perf.attr.type, 9);
	cr_expect_eq(perf.enabled, 1);
}

Test(hardware, records_loops_by_bts)
{
	bts_of('l', 0);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware, records_calls_by_bts)
{
	bts_of('c', 0);
}

Test(hardware, records_signals_by_bts)
{
	bts_of('s', 2); /* to the handler, and out of it */
}

Test(hardware, records_up_to_a_fault_by_bts)
{
	bts_of('f', 0);
	is_over(TRAIL_KILLED, SIGSEGV);
}

Test(hardware, takes_an_area_in_pieces_that_go_round)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };
	uint8_t all[BUFFER];
	uint64_t start = 5 * (uint64_t)BUFFER - 7 * BTS_RECORD_BYTES, half;

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	memcpy(all, perf.area, sizeof(all));
	for (size_t i = 0; i < perf.area_bytes; i++)
		perf.area[(start + i) % BUFFER] = all[i];
	half = perf.area_bytes / BTS_RECORD_BYTES / 2 * BTS_RECORD_BYTES;
	switch_record(1, 500);
	area_record(start, half, 0);
	switch_record(0, 600);
	area_record(start + half, perf.area_bytes - half, 0);
	perf.area_head = start + perf.area_bytes;
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	is_the_same(0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_DEPART), 1);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_ARRIVE), 1);
}

/* Which flags say that something is missing. */
static void flag(uint64_t flags, int losses)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	area_record(0, 5 * BTS_RECORD_BYTES, flags);
	area_record(5 * BTS_RECORD_BYTES, perf.area_bytes - 5 * BTS_RECORD_BYTES, 0);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), losses, "%s", sample_sink_text(&sink));
	cr_expect_eq(result.losses, (uint64_t)losses);
}

Test(hardware, says_lost_where_the_area_was_full)
{
	flag(PERF_AUX_FLAG_TRUNCATED, 1);
}

Test(hardware, says_lost_where_the_area_has_gaps)
{
	flag(PERF_AUX_FLAG_PARTIAL, 1);
}

Test(hardware, says_lost_where_records_collided)
{
	flag(PERF_AUX_FLAG_COLLISION, 1);
}

Test(hardware, keeps_the_newest_of_an_area)
{
	char *argv[] = { PROGRAM, (char *)"l", NULL };
	size_t used = PAGE - PAGE % BTS_RECORD_BYTES, skipped;
	static uint8_t all[BUFFER];

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	memcpy(all, perf.area, sizeof(all));
	memset(perf.area, 0, sizeof(perf.area));
	cr_assert_gt(perf.area_bytes, used);
	/* goes round in an area of one page */
	for (size_t i = 0; i < perf.area_bytes; i++)
		perf.area[i % used] = all[i];
	perf.area_head = perf.area_bytes % used;
	options.buffer_bytes = PAGE;
	options.keeps_newest = 1;
	area_record(0, 0, PERF_AUX_FLAG_OVERWRITE);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_eq(perf.is_area_writable, 0);
	skipped = (perf.area_bytes - used) / BTS_RECORD_BYTES;
	cr_expect_gt(skipped, 0);
	/* a block for each branch; one more where the loop ends, and the way out */
	cr_expect_eq(sink.items[sink.count - 1].between.event, TRAIL_END);
	cr_expect_eq(result.blocks, used / BTS_RECORD_BYTES + 2, "%lu",
		     (unsigned long)result.blocks);
	cr_expect_eq(result.losses, 1);
}

/* ---- branch-instructions ---- */

static void branches_of(char mode, int gaps)
{
	char *argv[] = { PROGRAM, (char[]){ mode, '\0' }, NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_sample, 0);
	cr_assert_eq(launch(ORIGIN_BRANCHES, argv), 0);
	is_the_same(gaps);
	cr_expect_eq(perf.attr.type, PERF_TYPE_HARDWARE);
	cr_expect_eq(perf.attr.config, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
	cr_expect_eq(perf.attr.sample_period, 1);
	cr_expect_eq(perf.mapped, 1);
}

Test(hardware, records_loops_by_samples_of_branches)
{
	branches_of('l', 0);
}

Test(hardware, records_calls_by_samples_of_branches)
{
	branches_of('c', 0);
}

Test(hardware, says_lost_where_samples_were)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	put_sample(0x1000, 0x2000);
	record(PERF_RECORD_LOST, 0, (uint64_t[]){ 1, 12, 0, 1 }, 32);
	record(PERF_RECORD_THROTTLE, 0, (uint64_t[]){ 1, 1, 1, 0, 1 }, 40);
	record(PERF_RECORD_SAMPLE, 0, (uint64_t[]){ 1 }, 8); /* too short to be one */
	record(99, 0, (uint64_t[]){ 0, 1 }, 16);	     /* of a kernel to come */
	cr_assert_eq(launch(ORIGIN_BRANCHES, argv), 0);
	/* where nothing leads there from the program's beginning; then each of three */
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 4, "%s", sample_sink_text(&sink));
}

/* Nor an event that it has no buffer either. */
Test(hardware, writes_nothing_of_a_thread_that_there_is_no_room_for)
{
	char *argv[] = { PROGRAM, NULL };

	sink.has_no_room = 1;
	perf.refuses_map = -ENOMEM;
	cr_expect_eq(launch(ORIGIN_BRANCHES, argv), -ENOMEM);
	cr_expect_eq(sink.count, 0);
}

/* ---- last branches ---- */

Test(hardware, records_pieces_by_last_branches)
{
	char *argv[] = { PROGRAM, (char *)"l", NULL };
	uint64_t loop = 0, stack[4 + 3 * 3] = { 0, 0, 1, 3 };

	items = sample_stepped(argv, &count);
	for (size_t i = 0; i < count; i++)
		if (items[i].entry.kind == TRAIL_BRANCH)
			loop = items[i].entry.start; /* the last is in the loop */
	for (int i = 0; i < 3; i++)
		memcpy(&stack[4 + 3 * i], (uint64_t[]){ loop + 2, loop, 0 }, 24);
	stack[0] = loop + 2;
	record(PERF_RECORD_SAMPLE, 2, stack, sizeof(stack));
	record(PERF_RECORD_SAMPLE, 2, stack, sizeof(stack));
	cr_assert_eq(launch(ORIGIN_LBR, argv), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 3, "%s", sample_sink_text(&sink));
	cr_expect_eq(result.blocks, 8, "%s", sample_sink_text(&sink));
	is_over(TRAIL_EXITED, 7);
}

/* ---- Processor Trace ---- */

static void pt_store(int compresses)
{
	struct pt_encode_options how = { .compresses_returns = compresses, .tsc = 1000 };
	uint8_t *bytes;
	size_t size;

	cr_assert_eq(pt_encode(&bytes, &size, items, count, &how), 0);
	cr_assert_lt(size, sizeof(perf.area));
	memcpy(perf.area, bytes, size);
	perf.area_bytes = size;
	perf.area_head = size;
	free(bytes);
}

static void pt_of(char mode, int gaps)
{
	char *argv[] = { PROGRAM, (char[]){ mode, '\0' }, NULL };

	items = sample_stepped(argv, &count);
	pt_store(1);
	area_record(0, 20, 0);
	area_record(20, perf.area_bytes - 20, 0);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_eq(result.errors, 0, "%s", result.detail);
	is_the_same(gaps);
	cr_expect_eq(perf.attr.type, 8);
}

Test(hardware, records_loops_by_pt)
{
	pt_of('l', 0);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware, records_signals_by_pt)
{
	pt_of('s', 2);
}

Test(hardware, records_a_fault_by_pt)
{
	pt_of('f', 0);
	is_over(TRAIL_KILLED, SIGSEGV);
}

Test(hardware, decodes_what_is_too_much_to_be_held)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };
	size_t half;

	items = sample_stepped(argv, &count);
	pt_store(0);
	half = perf.area_bytes * 3 / 4;
	options.held_bytes = half;
	area_record(0, half, 0);
	area_record(half, perf.area_bytes - half, 0);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	/* what lies behind the seam has no place to begin at; what lies before it is there */
	cr_expect_gt(result.blocks, 3);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware, keeps_the_newest_packets)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	pt_store(0);
	/* as if it had gone round: the beginning is at the area's end */
	memmove(perf.area + BUFFER - 40, perf.area, 40);
	memmove(perf.area, perf.area + 40, perf.area_bytes - 40);
	memset(perf.area + perf.area_bytes - 40, 0, 40);
	perf.area_head = perf.area_bytes - 40;
	options.keeps_newest = may_begin_late = 1;
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_eq(result.errors, 0, "%s", result.detail);
	is_the_same(0);
}

Test(hardware, says_what_packets_were_not_understood)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	pt_store(0);
	memset(perf.area + perf.area_bytes / 2, 0xff, perf.area_bytes / 2);
	area_record(0, perf.area_bytes, 0);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_eq(result.errors, 1);
	cr_expect_eq(result.losses, 1);
	cr_expect(strstr(result.detail, "at byte") != NULL, "%s", result.detail);
}

Test(hardware, says_lost_where_packets_had_no_room)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	pt_store(0);
	area_record(0, perf.area_bytes, PERF_AUX_FLAG_TRUNCATED);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_eq(result.losses, 1);
}

/* ---- threads, and what goes wrong ---- */

static struct trace_reader *reader;
static struct trails trails;
static char folder[64];

/* The threads' trails, in a trace. */
static void threads_of(enum origin origin, char *const argv[])
{
	struct trace_writer *writer;
	struct trail_files files;
	struct hardware *hardware;
	int err;

	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	trail_files_init(&files, writer);
	err = hardware_launch(&hardware, &files.sink, origin, &options, argv[0], argv, detail,
			      sizeof(detail));
	cr_assert_eq(err, 0, "%s", detail);
	while ((err = hardware_run(hardware, 1000)) > 0)
		;
	cr_assert_eq(err, 0);
	hardware_result(hardware, &result);
	cr_assert_eq(hardware_close(hardware), 0);
	trail_files_release(&files);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
}

static int events(enum trail_event kind)
{
	int found = 0;

	for (size_t i = 0; i < trails.path_count; i++) {
		struct trail_cursor cursor = { .path = &trails.paths[i] };
		struct trail_item item;

		while (trail_next(&cursor, &item))
			found += item.between && item.between->event == kind;
	}
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_folder_remove(folder);
	return found;
}

Test(hardware, misses_no_thread)
{
	char *argv[] = { THREADS, (char *)"again", NULL };

	threads_of(ORIGIN_BTS, argv);
	cr_expect(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 5, "%#x",
		  (unsigned int)result.status);
	cr_expect_eq(perf.opened, 1 + 2 * 3);
	cr_expect_eq(perf.mapped, perf.unmapped);
	cr_expect_eq(trails.path_count, 1 + 2 * 3);
	cr_expect_eq(trails.paths[0].origin, TRAIL_BTS);
	cr_expect_eq(events(TRAIL_END), 1 + 2 * 3);
}

Test(hardware, tells_another_program_from_the_first)
{
	char *argv[] = { THREADS, (char *)"again", NULL };

	threads_of(ORIGIN_PT, argv);
	cr_expect_eq(events(TRAIL_EXEC), 1);
}

Test(hardware, says_which_threads_it_had_no_buffer_for)
{
	char *argv[] = { THREADS, NULL };

	perf.refuses_open = -EMFILE;
	threads_of(ORIGIN_BRANCHES, argv);
	cr_expect(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 5);
	cr_expect_eq(result.unrecorded, 3);
	cr_expect(strstr(result.detail, "is not recorded: ") != NULL, "%s", result.detail);
	cr_expect_eq(trails.path_count, 1 + 3);
	cr_expect_eq(events(TRAIL_GAP), 3);
}

Test(hardware, says_why_it_can_not_be_had)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	cr_expect_eq(launch(ORIGIN_STEP, argv), -EINVAL);
	perf.refuses_map = -EPERM;
	cr_expect_eq(launch(ORIGIN_PT, argv), -WM_E_PERF_MEMORY);
	perf.refuses_map = 0;
	options.buffer_bytes = 5000;
	cr_expect_eq(launch(ORIGIN_PT, argv), -EINVAL);
	options.buffer_bytes = BUFFER;
	argv[0] = (char *)"/nonexistent/program";
	cr_expect_eq(launch(ORIGIN_PT, argv), -ENOENT);
	put("/proc/sys/kernel/perf_event_paranoid", "3\n");
	cr_expect_eq(launch(ORIGIN_PT, argv), -WM_E_PERF_PARANOID);
	cr_expect_str_eq(detail, "it is 3, and at most 2 is needed");
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "nobody is left");
}

Test(hardware, lets_a_process_go_as_it_was)
{
	struct hardware *hardware;
	pid_t pid = fork();
	int status, err;

	if (!pid) {
		execl(WAITS, WAITS, "poll", NULL);
		_exit(127);
	}
	usleep(200000);
	for (int i = 0; i < 5; i++) {
		sample_sink_release(&sink);
		sample_sink_init(&sink);
		err = hardware_attach(&hardware, &sink.sink, ORIGIN_BTS, &options, pid, detail,
				      sizeof(detail));
		cr_assert_eq(err, 0, "%d %s: %s", i, strerror(-err), detail);
		cr_assert_eq(hardware_run(hardware, 50), 1);
		cr_assert_eq(hardware_close(hardware), 0);
		usleep(20000);
		cr_assert_eq(waitpid(pid, &status, WNOHANG), 0, "it ended: %#x",
			     (unsigned int)status);
		is_over(TRAIL_DETACHED, 0);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	cr_expect_eq(hardware_attach(&hardware, &sink.sink, ORIGIN_BTS, &options, pid, detail,
				     sizeof(detail)),
		     -ESRCH);
}

/* ---- a processor ---- */

/* The blocks that step tells of, but for what the program does not do twice in the same way. */
static void by_the_processor(enum origin origin)
{
	char *argv[] = { PROGRAM, (char *)"l", NULL };
	struct origin_state states[ORIGINS];

	origins_look(states, NULL);
	if (states[origin].error) {
		char why[320];

		snprintf(why, sizeof(why), "%s: %s%s%s", origin_name(origin),
			 wm_error_text(states[origin].error), states[origin].detail[0] ? ": " : "",
			 states[origin].detail);
		cr_skip_test("%s", why);
	}
	items = sample_stepped(argv, &count);
	options = (struct hardware_options){ .buffer_bytes = 0 };
	perf.closed = 4;
	cr_assert_eq(launch(origin, argv), 0, "%s", detail);
	if (origin == ORIGIN_LBR)
		return;
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 0, "%s", result.detail);
	cr_expect_geq(result.blocks, count / 2);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware, pt_of_this_processor)
{
	by_the_processor(ORIGIN_PT);
}

Test(hardware, bts_of_this_processor)
{
	by_the_processor(ORIGIN_BTS);
}

Test(hardware, branches_of_this_processor)
{
	by_the_processor(ORIGIN_BRANCHES);
}

Test(hardware, last_branches_of_this_processor)
{
	by_the_processor(ORIGIN_LBR);
}
