/* SPDX-License-Identifier: MIT */
/* Rows of Waymark's own mechanisms: armed, timed and checked through a session as any tool's. */
#include <errno.h>
#include <math.h>
#include <time.h>

#include "bench/mechanisms/child.h"
#include "bench/mechanisms/row.h"
#include <waymark/error.h>

#define BUFFER_BYTES (4u << 20)
#define CHECK_HITS 1000
#define ARM_RUNS 9

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

struct check {
	uint64_t events, wrong;
};

/* The leaf is called with the numbers from 0 on; an event of a return has its value alone. */
static int on_event(const struct wm_event *event, void *data)
{
	struct check *check = data;

	if (event->kind == 'e')
		return 0;
	if (event->field_count < 2 || event->fields[0].value.u != check->events)
		check->wrong++;
	check->events++;
	return 0;
}

static int start_all(struct wm_session *session)
{
	struct wm_session_status status = { .size = sizeof(status) };
	int err = wm_session_start(session);

	if (!err)
		err = wm_session_status_get(session, &status);
	return err ? err : status.sites ? 0 : -WM_E_NO_MARKER;
}

/* A few hits, which must arrive unchanged. */
static int check_hits(struct wm_session *session, struct child *child, struct row *row,
		      enum target_way way)
{
	struct check check = { 0 };
	uint64_t before = 1;
	int err;

	if (child_run(child, way, 0, CHECK_HITS) < 0)
		return -WM_E_GONE;
	err = wm_session_stop(session);
	while (!err && before != check.events + check.wrong) {
		before = check.events + check.wrong;
		err = wm_session_read(session, on_event, &check);
	}
	if (err || (check.events == CHECK_HITS && !check.wrong))
		return err;
	row_skip(row, ROW_WRONG ": of %d hits %llu were recorded, %llu with wrong fields",
		 CHECK_HITS, (unsigned long long)check.events, (unsigned long long)check.wrong);
	return 1;
}

static int measure_arming(struct wm_session *session, struct row *row)
{
	double arm_us[ARM_RUNS];

	for (unsigned int run = 0; run < ARM_RUNS; run++) {
		double start = now_us();
		int err = wm_session_start(session);

		arm_us[run] = now_us() - start;
		if (!err)
			err = wm_session_stop(session);
		if (err)
			return err;
	}
	row->arm_us = row_median(arm_us, ARM_RUNS);
	return 0;
}

static int measure(struct wm_session *session, struct child *child, struct row *row,
		   const struct base_line *base, enum target_way way)
{
	int err = child_start(child, session);

	if (!err)
		err = check_hits(session, child, row, way);
	if (!err)
		err = measure_arming(session, row);
	if (!err)
		err = start_all(session);
	if (!err)
		err = row_measure_hits(row, child, base, way, TARGET_LAYOUTS, base->count);
	return err ? err : wm_session_stop(session);
}

void row_measure_spec(struct row *row, const struct base_line *base, enum target_way way,
		      const char *spec)
{
	/* no reader drains: the bench times the hits, not the disk */
	struct wm_session_options options = { .size = sizeof(options),
					      .buffer_bytes = BUFFER_BYTES,
					      .policy = WM_POLICY_CYCLIC };
	struct child child = { .fd = -1 };
	struct wm_session *session;
	const char *detail;
	int err = wm_session_open(&session, &options);

	if (err) {
		row_skip(row, "%s", wm_error_text(err));
		return;
	}
	base_line_fill(base, way, row);
	err = wm_session_add(session, spec);
	if (!err)
		err = measure(session, &child, row, base, way);
	detail = wm_session_detail(session);
	if (err < 0) {
		row->hit_ns = row->arm_us = NAN;
		row_skip(row, "%s%s%s", wm_error_text(err), detail[0] ? ": " : "", detail);
	}
	wm_session_close(session);
	child_release(&child);
}
