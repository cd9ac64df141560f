/* SPDX-License-Identifier: MIT */
#include "cli/flight.h"

#include "base/signal_name.h"
#include "cli/cli.h"
#include "cli/trail.h"
#include "record/trail/live.h"
#include "record/session/session.h"
#include "record/spec/spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LAST_BRANCHES 16
#define CALLED_BLOCKS_MAX 64

static const char marker[] = "marker:", of_signal[] = "signal:";

static int complain_signal(const char *name)
{
	const char *names[NSIG];
	size_t count = 0;

	for (int i = 1; i < SIGRTMIN; i++)
		if (sigabbrev_np(i))
			names[count++] = sigabbrev_np(i);
	complain_usage("record",
		       "--on signal:NAME takes a signal, such as SEGV, RTMIN+1 or 11, not %s",
		       name);
	complain_meant(strncasecmp(name, "SIG", 3) ? name : name + 3, names, count);
	return CLI_USAGE;
}

int flight_parse(struct flight *flight, const char *text)
{
	static const char *const names[] = { "exit", "crash", "signal", "marker:SUBSYSTEM:EVENT" };

	*flight = (struct flight){ .text = text };
	for (unsigned int i = 0; i < 3; i++)
		if (!strcmp(text, names[i]))
			flight->trigger = (enum live_trigger)(TRIGGER_EXIT + i);
	if (!strncmp(text, of_signal, strlen(of_signal))) {
		flight->trigger = TRIGGER_SIGNAL;
		flight->signal = signal_name_read(text + strlen(of_signal));
		return flight->signal ? 0 : complain_signal(text + strlen(of_signal));
	}
	if (!strncmp(text, marker, strlen(marker)))
		flight->trigger = TRIGGER_CALL;
	if (flight->trigger)
		return 0;
	complain_usage("record", "--on: there is no trigger %s", text);
	complain_meant(text, names, sizeof(names) / sizeof(names[0]));
	return CLI_USAGE;
}

int flight_check(const struct flight *flight, const char *const *specs, size_t count)
{
	const char *other = NULL;
	int has_last = 0;

	if (!flight->trigger)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct spec spec;

		if (spec_read(&spec, specs[i], (struct detail){ 0 }))
			return 0; /* it is complained of where it is added */
		if (!spec.trail)
			other = specs[i];
		has_last |= spec.trail && spec.trail->last_bytes;
		spec_release(&spec);
	}
	if (!has_last)
		return complain_usage("record",
				      "--on %s is for a flight recorder: -e trail/last=64M/",
				      flight->text);
	return other ? complain_usage("record", "with --on a trail alone is recorded: leave out %s",
				      other)
		     : 0;
}

/* ---- a marker that is awaited ---- */

static int watch_open(struct flight *flight)
{
	struct wm_session_options options = { .size = sizeof(options),
					      .follow = WM_FOLLOW_NONE,
					      .allow_unmatched = 1 };
	int err = flight->watch ? 0 : wm_session_open(&flight->watch, &options);

	if (err || flight->watch->specs->count)
		return err;
	return wm_session_add(flight->watch, flight->text);
}

int flight_attach(struct flight *flight, pid_t pid)
{
	int err = watch_open(flight);

	return err ? err : wm_session_attach(flight->watch, pid);
}

int flight_launch(struct flight *flight, char *const argv[])
{
	int err = watch_open(flight);

	if (err)
		return err;
	flight->watch->live->is_elsewhere = 1;
	return wm_session_launch(flight->watch, argv);
}

void flight_set(const struct flight *flight, struct wm_session *session)
{
	session->live->trigger = flight->trigger;
	session->live->signal = flight->signal;
}

int flight_start(struct flight *flight)
{
	return flight->watch ? wm_session_start(flight->watch) : 0;
}

struct awaited {
	const struct ticks_point *base; /* the watch's */
	struct wm_session *session;
};

static int on_marker(const struct wm_event *event, void *data)
{
	const struct awaited *awaited = data;
	uint64_t since_ns = event->realtime_ns - awaited->base->realtime_ns;

	live_fire(awaited->session,
		  &(struct live_fired){ .pid = (pid_t)event->pid, .tid = (pid_t)event->tid },
		  awaited->base->monotonic_ns + since_ns);
	return 1;
}

int flight_poll(struct flight *flight, struct wm_session *session)
{
	struct awaited awaited = { .session = session };
	int got;

	if (!flight->watch)
		return 0;
	awaited.base = &flight->watch->began;
	got = wm_session_wait(flight->watch, 0);
	if (got >= 0)
		got = wm_session_read(flight->watch, on_marker, &awaited);
	return got < 0 ? got : 0;
}

void flight_release(struct flight *flight)
{
	wm_session_close(flight->watch);
	flight->watch = NULL;
}

/* ---- printed ---- */

static int is_agents(struct image *image, const struct trail_block *block)
{
	const struct image_place *place = image_place(image, block->start);

	return place && place->module && strstr(place->module->name, "libwaymark-agent");
}

/*
 * The agent takes a marker's time after it was entered, and may have called libc by then: the
 * printed path ends where the program entered the agent.
 */
static void leave_agent_out(struct trail_show *show, const struct trail_path *path)
{
	struct image *image = trail_view_image(&show->view, path);
	struct trail_cursor cursor = { .path = path };
	uint64_t index = path->blocks, entered = 0, others = 0;
	struct trail_item item;

	trail_seek_end(&cursor);
	while (image && others < CALLED_BLOCKS_MAX && trail_previous(&cursor, &item)) {
		if (!item.block)
			continue;
		index--;
		others++;
		if (is_agents(trail_item_image(image, &item), item.block)) {
			entered = index;
			others = 0;
		}
	}
	if (entered)
		show->options.bounds.to = (struct trail_bound){ TRAIL_BOUND_BLOCK, entered };
}

/* A marker has no backtrace: its thread is inside the agent then. */
static int show_way(struct trail_show *show, int is_marker)
{
	int err = instruction_format_open(&show->format, INSTRUCTION_ATT);

	for (size_t i = 0; i < show->view.trails.path_count && !err; i++) {
		const struct trail_path *path = &show->view.trails.paths[i];

		if (!trail_is_wanted(show, path))
			continue;
		if (is_marker)
			leave_agent_out(show, path);
		else
			err = trail_backtrace(show, path);
	}
	if (!err)
		err = trail_branches(show);
	instruction_format_close(show->format);
	return err;
}

/* The way there: the last branches of that thread. */
static void tell_way(const struct flight *flight, const char *dir)
{
	static struct out out;
	struct trail_show show = { .options = { .dir = dir,
						.last = LAST_BRANCHES,
						.tid = (uint32_t)flight->fired.tid,
						.pid = (uint32_t)flight->fired.pid },
				   .out = &out };
	int status, err;

	out_init(&out, STDERR_FILENO);
	status = trail_view_open(&show.view, dir, &show.options.image);
	if (status == CLI_FINE) {
		err = show_way(&show, flight->trigger == TRIGGER_CALL);
		out_flush(&out);
		if (err)
			complain(err, "%s", dir);
	}
	trail_view_close(&show.view, status);
}

int flight_end(struct flight *flight, const struct wm_session *session)
{
	flight->fired = session->live->fired;
	return !flight->trigger || flight->fired.has;
}

void flight_tell(const struct flight *flight, const char *dir)
{
	const struct live_fired *fired = &flight->fired;
	char name[32];

	if (!flight->trigger)
		return;
	if (!fired->has) {
		complain_words("waymark: --on %s: it did not come to that; no trace was written",
			       flight->text);
		fputc('\n', stderr);
		return;
	}
	complain_words("waymark: --on %s: in thread %d of process %d", flight->text,
		       (int)fired->tid, (int)fired->pid);
	if (fired->signal)
		fprintf(stderr, ", by signal %s", signal_name_show((uint64_t)fired->signal, name));
	fputs("; the last instructions:\n", stderr);
	tell_way(flight, dir);
}

static const struct row_column columns[] = {
	{ "trigger", ROW_TEXT, ROW_PLAIN, 0, "as given" },
	{ "fired", ROW_BOOL, ROW_PLAIN, 0, "it came to that" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "in which process" },
	{ "tid", ROW_U64, ROW_PLAIN, 0, "in which thread" },
	{ "signal", ROW_S64, ROW_PLAIN, 0, "by which signal; 0: none" },
};
const struct row_table flight_table = ROW_TABLE("on", "What --on waited for, and whether it came.",
						columns);

void flight_rows(struct rows *rows, const struct flight *flight)
{
	const struct live_fired *fired = &flight->fired;

	if (!flight->trigger)
		return;
	rows_open(rows, &flight_table, NULL);
	ROWS_PUT(rows, columns, row_text(flight->text), row_bool(fired->has),
		 row_u64((uint64_t)fired->pid), row_u64((uint64_t)fired->tid),
		 row_s64(fired->signal));
	rows_close(rows);
}
