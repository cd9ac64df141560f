/* SPDX-License-Identifier: MIT */
/*
 * The hardware origins as users call them: by a session that writes a folder, as `waymark record`
 * does, and by waymark/trail.h. The hardware is simulated (sample_perf.h).
 */
#include "record/session/session.h"
#include "record/trail/hardware/weave.h"
#include "record/trail/live.h"
#include "record/trail/testing/perf.h"
#include "record/trail/trail.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

static char root[64], folder[64];
static struct origin_machine machine;
static char *argv[] = { PROGRAM, (char *)"l", NULL };
static uint64_t stepped; /* blocks */

/* Fill in what BTS would store for the loop, with one change of the CPU. */
static void put_branches(void)
{
	size_t count, half;
	struct pt_item *items = sample_stepped(argv, &count);

	for (size_t i = 0; i + 1 < count; i++) {
		const struct trail_entry *entry = &items[i].entry;
		uint64_t to = items[i + 1].entry.start;

		stepped += !!entry->instructions;
		if (!entry->instructions || !items[i + 1].entry.instructions ||
		    to == entry->start + entry->bytes)
			continue;
		memcpy(sample_perf.area + sample_perf.area_bytes,
		       (uint64_t[]){ entry->start + entry->last, to, 0 }, BTS_RECORD_BYTES);
		sample_perf.area_bytes += BTS_RECORD_BYTES;
		cr_assert_lt(sample_perf.area_bytes, SAMPLE_AREA_BYTES);
	}
	free(items);
	half = sample_perf.area_bytes / BTS_RECORD_BYTES / 2 * BTS_RECORD_BYTES;
	sample_perf_switch(1, 500);
	sample_perf_area(0, half, 0);
	sample_perf_switch(0, 600);
	sample_perf_area(half, sample_perf.area_bytes - half, 0);
	sample_perf.area_head = sample_perf.area_bytes;
}

static void begin(void)
{
	setenv("WAYMARK_ENGINE", "/nowhere", 1);
	sample_folder(root);
	sample_folder(folder);
	sample_machine_put(root, "/proc/cpuinfo",
			   "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n");
	sample_machine_put(root, "/proc/sys/kernel/perf_event_paranoid", "1\n");
	sample_machine_put(root, "/sys/bus/event_source/devices/intel_bts/type", "9\n");
	machine = (struct origin_machine){ .root = root, .perf = &sample_perf_calls };
}

static void end(void)
{
	sample_folder_remove(root);
	sample_folder_remove(folder);
}

TestSuite(origin_choice, .init = begin, .fini = end, .timeout = 120);

/* ---- by a session, as record does ---- */

static struct wm_session *session;
static char losses[400]; /* of record() */

static int launch(const char *spec)
{
	int err;

	cr_assert_eq(wm_session_open(&session, NULL), 0);
	session->live->machine = machine;
	err = wm_session_add(session, spec);
	cr_assert_eq(err, 0, "%s: %s", spec, wm_error_text(err));
	cr_assert_eq(wm_session_output(session, folder), 0);
	return wm_session_launch(session, argv);
}

/* How many such events the first thread's trail has; kind -1: how many blocks. */
static int found_in_folder(int kind, enum trail_origin origin)
{
	struct trace_reader *reader;
	struct trails trails;
	struct trail_item item;
	int found = 0;

	cr_assert_eq(trace_reader_open(&reader, folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
	cr_assert_eq(trails.path_count, 1);
	cr_expect_eq(trails.paths[0].origin, origin);
	for (struct trail_cursor at = { .path = trails.paths }; trail_next(&at, &item);)
		found += kind < 0 ? !!item.block : item.between && item.between->event == kind;
	trails_release(&trails, reader);
	trace_reader_close(reader);
	return found;
}

static void record(const char *spec, enum origin origin)
{
	pid_t pid = launch(spec);

	cr_assert_gt(pid, 0, "%s: %s: %s", spec, wm_error_text(pid), wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0);
	cr_expect_eq(session->live->origin, origin);
	while (wm_session_wait(session, 20) > 0)
		;
	cr_expect_eq(wm_session_stop(session), 0, "%s", wm_session_detail(session));
	snprintf(losses, sizeof(losses), "%s", session->live->losses);
	wm_session_close(session);
}

Test(origin_choice, session_with_bts_writes_trail)
{
	put_branches();
	record("trail/bts/", ORIGIN_BTS);
	cr_expect_eq(found_in_folder(-1, TRAIL_BTS), (int)stepped);
	cr_expect_eq(found_in_folder(TRAIL_DEPART, TRAIL_BTS), 1);
	cr_expect_eq(found_in_folder(TRAIL_ARRIVE, TRAIL_BTS), 1);
	cr_expect_eq(found_in_folder(TRAIL_LOST, TRAIL_BTS), 0);
	cr_expect_eq(found_in_folder(TRAIL_END, TRAIL_BTS), 1);
}

Test(origin_choice, session_without_origin_takes_best)
{
	put_branches();
	record("trail", ORIGIN_BTS);
	cr_expect_eq(found_in_folder(-1, TRAIL_BTS), (int)stepped);
}

Test(origin_choice, session_with_invalid_packets_reports_loss)
{
	sample_machine_put(root, "/sys/bus/event_source/devices/intel_pt/type", "8\n");
	memset(sample_perf.area, 0xff, 64);
	/* a start, then invalid bytes */
	for (int i = 0; i < 16; i += 2)
		memcpy(sample_perf.area + i, (uint8_t[]){ 0x02, 0x82 }, 2);
	sample_perf_area(0, 64, 0);
	record("trail/pt/", ORIGIN_PT);
	cr_expect_eq(found_in_folder(TRAIL_LOST, TRAIL_PT), 1);
	cr_expect_not_null(strstr(losses, "at byte"), "%s", losses);
}

Test(origin_choice, session_with_signal_trigger_leaves_hardware_out)
{
	cr_assert_eq(wm_session_open(&session, NULL), 0);
	session->live->machine = machine;
	session->live->trigger = TRIGGER_SIGNAL;
	cr_assert_eq(wm_session_add(session, "trail/last=64K/"), 0);
	cr_assert_eq(wm_session_output(session, folder), 0);
	cr_expect_eq(wm_session_launch(session, argv), -WM_E_NO_ENGINE);
	cr_expect_eq(session->live->origins[ORIGIN_BTS].error, -WM_E_TRAIL_ASKED);
	wm_session_close(session);
}

static void refused(const char *spec, int error, const char *words)
{
	int err = launch(spec);

	cr_expect_eq(err, error, "%s: %d", spec, err);
	cr_expect_not_null(strstr(wm_session_detail(session), words), "%s: %s", spec,
			   wm_session_detail(session));
	wm_session_close(session);
	sample_folder_remove(folder);
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

Test(origin_choice, session_without_hardware_returns_error_with_detail)
{
	refused("trail/pt/", -WM_E_TRAIL_NO_UNIT, "intel_pt");
	sample_perf.refuses_map = -EPERM; /* seen only when recording begins */
	refused("trail/bts/", -WM_E_MEMORY_LIMIT, "steps");
	sample_perf.refuses_map = 0;
	sample_machine_put(root, "/proc/sys/kernel/perf_event_paranoid", "3\n");
	sample_machine_put(root, "/proc/self/status", "CapEff:\t0\n");
	refused("trail/bts/", -WM_E_PERF_DENIED,
		"kernel.perf_event_paranoid is 3, and at most 1 is needed");
}

/* ---- waymark/trail.h ---- */

static struct wm_trail *trail;

static int events_of(enum wm_trail_event event)
{
	struct wm_branch branch = { .size = sizeof(branch) };
	int found = 0;

	for (uint64_t i = 0; wm_trail_get(trail, 0, i, &branch) > 0; i++)
		found += branch.flags & WM_BRANCH_EVENT && branch.event == (uint32_t)event;
	return found;
}

static enum wm_trail_origin run(const struct wm_trail_options *options)
{
	struct wm_trail_status status = { .size = sizeof(status) };
	int pid = trail_launch_on(&trail, argv, options, &machine);

	cr_assert_gt(pid, 0, "%s: %s", wm_error_text(pid), wm_trail_detail(NULL));
	cr_assert_eq(wm_trail_wait(trail, 60000), 1);
	cr_assert_eq(wm_trail_status_get(trail, &status), 0);
	cr_expect_eq(status.state, WM_TRAIL_STATE_OVER);
	waitpid(pid, NULL, 0);
	return status.origin;
}

Test(origin_choice, trail_has_switches_only_with_flag)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .flags = WM_TRAIL_FLAG_SWITCHES };

	put_branches();
	cr_expect_eq(run(&options), WM_TRAIL_ORIGIN_BTS);
	cr_expect_not_null(strstr(wm_trail_detail(trail), "not pt: "), "%s",
			   wm_trail_detail(trail));
	cr_expect_eq(events_of(WM_TRAIL_EVENT_DEPART), 1);
	cr_expect_eq(events_of(WM_TRAIL_EVENT_ARRIVE), 1);
	cr_expect_eq(events_of(WM_TRAIL_EVENT_LOST), 0);
	wm_trail_close(trail);
	options.flags = 0;
	options.origin = WM_TRAIL_ORIGIN_BTS;
	sample_perf.opened = 0;
	cr_expect_eq(run(&options), WM_TRAIL_ORIGIN_BTS);
	cr_expect_eq(events_of(WM_TRAIL_EVENT_DEPART), 0);
	wm_trail_close(trail);
}

Test(origin_choice, trail_without_options_takes_best)
{
	put_branches();
	cr_expect_eq(run(NULL), WM_TRAIL_ORIGIN_BTS);
	wm_trail_close(trail);
}

static void trail_refused(const struct wm_trail_options *options, int error, const char *words)
{
	int err = trail_launch_on(&trail, argv, options, &machine);

	cr_expect_eq(err, error, "%s: %d", words, err);
	cr_expect_null(trail);
	cr_expect_not_null(strstr(wm_trail_detail(NULL), words), "%s: %s", words,
			   wm_trail_detail(NULL));
}

Test(origin_choice, trail_without_origin_for_its_flags_is_refused)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .flags = WM_TRAIL_FLAG_SIGNALS };

	trail_refused(&options, -WM_E_NO_ENGINE, "options.origin: soft: /nowhere");
	options = (struct wm_trail_options){ .size = sizeof(options), .policy = WM_POLICY_BLOCK };
	trail_refused(&options, -WM_E_NO_ENGINE, "options.origin: soft: /nowhere");
}

Test(origin_choice, trail_refuses_flags_that_origin_lacks)
{
	struct wm_trail_options options = { .size = sizeof(options), .origin = WM_TRAIL_ORIGIN_PT };

	trail_refused(&options, -WM_E_TRAIL_NO_UNIT, "options.origin: pt: there is no /sys");
	options.origin = WM_TRAIL_ORIGIN_BTS;
	options.flags = WM_TRAIL_FLAG_SYSCALLS;
	trail_refused(&options, -WM_E_TRAIL_ASKED, "the origin bts has no WM_TRAIL_FLAG_SYSCALLS");
	options.flags = 0;
	options.policy = WM_POLICY_BLOCK;
	trail_refused(&options, -WM_E_TRAIL_ASKED, "WM_POLICY_BLOCK");
	options = (struct wm_trail_options){ .size = sizeof(options),
					     .origin = TRAIL_ORIGIN_ORACLE };
	trail_refused(&options, -EINVAL, "options.origin: 1");
}

Test(origin_choice, trail_detail_says_why_kernel_is_a_gap)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .flags = WM_TRAIL_FLAG_KERNEL };

	put_branches();
	cr_assert_gt(trail_launch_on(&trail, argv, &options, &machine), 0);
	cr_expect(strstr(wm_trail_detail(trail), "in the kernel is a gap: /proc/kcore: ") != NULL,
		  "%s", wm_trail_detail(trail));
	cr_expect_eq(wm_trail_wait(trail, 20000), 1);
	wm_trail_close(trail);
}

Test(origin_choice, trail_of_kernel_without_privileges_is_refused)
{
	struct wm_trail_options options = { .size = sizeof(options),
					    .origin = WM_TRAIL_ORIGIN_PT,
					    .flags = WM_TRAIL_FLAG_KERNEL };

	sample_machine_put(root, "/sys/bus/event_source/devices/intel_pt/type", "8\n");
	sample_machine_put(root, "/proc/sys/kernel/perf_event_paranoid", "2\n");
	trail_refused(&options, -WM_E_PERF_DENIED,
		      "kernel.perf_event_paranoid is 2, and at most 1 is needed");
}
