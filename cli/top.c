/* SPDX-License-Identifier: MIT */
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/findings.h"
#include "cli/top_screen.h"
#include "cli/top_session.h"
#include "cli/top_show.h"
#include "cli/top_sums.h"
#include "record/kernel/kernel_events.h"
#include "record/perf/rings.h"
#include "record/session/process.h"
#include "target/process/ticks.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define STEP_NS 20000000u /* between two reads, at rest */
/* A read has all switches up to so long before it. */
#define SWITCH_LATE_NS (RINGS_SETTLE_NS + 10000000u)
#define ROWS_PLAIN 10u
#define HEAP_KEPT_BYTES (128 << 20)
#define INTERVAL_NS 1000000000u
#define INTERVAL_NS_MIN 50000000u /* what threads do is known a little later: SWITCH_LATE_NS */
#define ROWS_MAX 1000000u
#define TOP_SUMS_MAX 4096u

/* ---- options ---- */

static const char usage[] =
	"Usage: waymark top [OPTION]... -p PID [-p PID]...\n"
	"       waymark top [OPTION]... {-a | -C LIST} [[--] CMD [ARG]...]\n"
	"       waymark top [OPTION]... [--] CMD [ARG]...\n"
	"\n"
	"Show live what a program reports and does: markers by rate, spans by time, functions by\n"
	"samples, threads by state, and what was lost. On a terminal: q quits, s shows the next\n"
	"table alone, p pauses, h helps. Elsewhere one table comes after each interval.\n"
	"\n"
	"  -e, --event SPEC    what to record, as waymark record takes it; may be given again\n"
	"                      (default: marker:*:*, sample:cpu-clock/freq=100/ and switch, without\n"
	"                      those that are not permitted)\n" TARGETS_HELP TARGETS_CPU_HELP
	"  -o, --output FILE   the program's output goes there (default: it is thrown away)\n"
	"  -I, --interval TIME how often, as 500ms (default 1s)\n"
	"  --for TIME          stop after this time, as 10s, 2m\n"
	"  -n, --count N       N lines of each table (default: what the terminal has room for, or 10)\n"
	"  -j, --json          on stdout one JSON object for each interval\n"
	"  -h, --help          this text\n";

static const struct command_option table[] = {
	{ "event", 'e', COMMAND_TEXTS, COMMAND_TO(top_options, specs) },
	TARGETS_ROWS(top_options),
	TARGETS_CPU_ROWS(top_options),
	{ "output", 'o', COMMAND_TEXT, COMMAND_TO(top_options, output) },
	{ "interval", 'I', COMMAND_TIME, COMMAND_TO(top_options, interval_ns),
	  .min = INTERVAL_NS_MIN },
	{ "for", 0, COMMAND_TIME, COMMAND_TO(top_options, for_ns), .min = 1 },
	{ "count", 'n', COMMAND_NUMBER, COMMAND_TO(top_options, row_max), 1, ROWS_MAX },
	{ "json", 'j', COMMAND_FLAG, COMMAND_TO(top_options, json), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "top", usage, table, 1 };

static int options_read(struct top_options *options, int argc, char **argv)
{
	int status = command_line_read(&line, argc, argv, options);

	if (status < 0)
		status = targets_check(&options->targets, "top", argv + optind);
	if (status < 0 && options->output && !options->targets.command)
		return complain_usage("top", "--output is for a program that is started");
	return status;
}

/* ---- an interval ---- */

struct top {
	const struct top_options *options;
	struct top_session recorded;
	struct top_count count;
	struct top_sums sums;
	struct top_symbols *symbols;
	struct top_screen screen;
	struct text texts[TOP_SECTIONS]; /* of the last interval, for each choice of tables */
	enum top_section section;
	int is_paused, shows_help, is_over, has_drawn;
	int has_output_failed;	     /* an error is not the session's */
	uint64_t begin_ns, shown_ns; /* when it began, and when the last interval ended */
	uint64_t busy_ns;	     /* CPU time of the last pass */
	uint64_t lost_ever, lost_shown;
	unsigned int sampled_pid;
	int error;
};

static const char
	help[] = "  q  quit\n"
		 "  s  the next table alone; then all again\n"
		 "  p  pause: the tables stay as they are; what comes meanwhile is not shown\n"
		 "  h  this text; any key returns\n"
		 "\n"
		 "  EVENT     markers, probes and kernel events by how many came\n"
		 "  SPAN      between a begin and its end: those that ended, and those still open\n"
		 "  SUM       sums in place of events: count, sum=, hist= and by= of a spec\n"
		 "  FUNCTION  where threads ran, by samples\n"
		 "  THREAD    the part of the interval in which a thread ran, was ready to run and\n"
		 "            waited for a CPU, or slept\n"
		 "  lost      events for which a buffer had no room\n";

/* The present time, as events have it. */
static uint64_t event_now_ns(const struct top *top)
{
	const struct ticks_point *began = &top->recorded.session->began;

	return began->realtime_ns + (ticks_monotonic_ns() - began->monotonic_ns);
}

/* ---- reading ---- */

static int on_event(const struct wm_event *event, void *data)
{
	struct top *top = data;
	int kind = top_count_take(&top->count, event);

	if (kind == TOP_SAMPLE && event->pid != top->sampled_pid) {
		top->sampled_pid = event->pid;
		top_symbols_see(top->symbols, (pid_t)event->pid);
	}
	if (kind == TOP_SUM)
		return top_sums_take(&top->sums, top->symbols, event);
	return kind < 0 ? kind : 0;
}

/* Take what has come. Returns how many processes there are, or a negative error. */
static int events_take(struct top *top)
{
	struct wm_session_status status = { .size = sizeof(status) };
	struct wm_session *session = top->recorded.session;
	uint64_t began_ns = ticks_clock_ns(CLOCK_THREAD_CPUTIME_ID), read_ns = event_now_ns(top);
	/* it does all that wm_session_wait() does; that would do it twice */
	int err = wm_session_read(session, on_event, top);

	err = err ? err : session->trace_error;
	wm_session_status_get(session, &status);
	if (status.discarded > top->lost_ever) {
		top->lost_ever = status.discarded;
		top_count_gap(&top->count);
	}
	if (top->count.has_switches) {
		top_threads_settle(&top->count.threads, read_ns - SWITCH_LATE_NS);
		top_threads_name(&top->count.threads);
	}
	top->busy_ns = ticks_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	return err < 0 ? err : session_awaited(session);
}

/* ---- showing ---- */

/* Account for threads up to the interval's end. */
static void threads_settle(struct top *top, int is_last)
{
	struct top_threads *threads = &top->count.threads;

	if (top->count.has_switches) {
		if (is_last)
			top_threads_settle(threads, event_now_ns(top));
		top_threads_name(threads);
		/* of processes, wakes by others are missing: kernel_events.c */
		top_threads_check(threads,
				  !top->count.has_wakes || !top->options->targets.session.cpus);
		return;
	}
	for (const struct process *p = top->recorded.session->processes; p; p = p->next)
		if (p->pid > 0 && process_is_usable(p))
			top_threads_times(threads, p->pid, event_now_ns(top));
}

static int draw(struct top *top)
{
	struct text text = { 0 };
	char footer[256];
	int err;

	snprintf(footer, sizeof(footer), " q quit  s next table  p %s  h help   %s%s",
		 top->is_paused ? "resume" : "pause",
		 top->recorded.says_output ? "its output: " : "",
		 top->recorded.says_output ? top->recorded.output : "");
	if (!top->shows_help)
		return top_screen_draw(&top->screen, &top->texts[top->section], footer);
	text_add(&text, help, strlen(help));
	err = text.error ? text.error : top_screen_draw(&top->screen, &text, footer);
	text_release(&text);
	return err;
}

/* All choices of tables, so that a key shows another at once. */
static int render(struct top *top, struct top_view *view)
{
	int sections = top->screen.is_on ? TOP_SECTIONS : 1, err = 0;

	for (int i = 0; i < sections; i++) {
		text_release(&top->texts[i]);
		top->texts[i] = (struct text){ 0 };
		view->section = (enum top_section)i;
		top_show(view, &top->texts[i]);
		err = top->texts[i].error ? top->texts[i].error : err;
	}
	return err;
}

static int print(struct top *top, struct top_view *view)
{
	int err;

	if (top->options->json)
		return top_show_json(view, top_screen_write);
	if (top->screen.is_on && view->is_last) {
		if (top->has_drawn)
			return 0;
		top_screen_end(&top->screen); /* it was all over before the first table */
	}
	if (top->screen.is_on) {
		view->lines = top->screen.lines - 1; /* the last is the footer */
		view->columns = top->screen.columns;
	} else if (!view->row_max) {
		view->row_max = ROWS_PLAIN;
	}
	if (top->screen.is_on && top->is_paused)
		return 0;
	err = render(top, view);
	if (err)
		return err;
	top->has_drawn = 1;
	return top->screen.is_on ? draw(top) : top_screen_print(&top->texts[TOP_ALL]);
}

/* Show the interval that ends now, and begin the next. */
static int show(struct top *top, int is_last)
{
	struct wm_session_status status = { .size = sizeof(status) };
	uint64_t now = ticks_monotonic_ns();
	struct top_view view = {
		.what = top->recorded.what,
		.left_out = top->recorded.left_out,
		.count = &top->count,
		.sums = &top->sums.lines,
		.at_s = (double)(now - top->begin_ns) / 1e9,
		.seconds = (double)(now - top->shown_ns + 1) / 1e9,
		.is_last = is_last,
		.lost = top->lost_ever - top->lost_shown,
		.lost_ever = top->lost_ever,
		.has_times_alone = !top->count.has_switches,
		.row_max = top->options->row_max,
	};
	int count, err;

	wm_session_status_get(top->recorded.session, &status);
	view.processes = status.processes - (uint32_t)kernel_is_of_cpus(top->recorded.session);
	threads_settle(top, is_last);
	sums_lines_sort(&top->sums.lines);
	count = top_symbols_functions(top->symbols, &top->count, &view.functions);
	view.function_count = count > 0 ? (size_t)count : 0;
	err = count < 0 ? count : top_view_sort(&view);
	if (!err)
		err = print(top, &view);
	top->has_output_failed |= err < 0;
	top_view_release(&view);
	top_count_next(&top->count);
	sums_lines_clear(&top->sums.lines);
	top->shown_ns = now;
	top->lost_shown = top->lost_ever;
	top->sampled_pid = 0; /* it is looked at once an interval */
	return err;
}

/* ---- the loop ---- */

/* Returns whether to draw. */
static int keys_take(struct top *top)
{
	int draws = 0;

	for (int key = top_screen_key(&top->screen); key; key = top_screen_key(&top->screen)) {
		draws = 1;
		if (key == 'q' || key == 'Q') {
			top->is_over = 1;
		} else if (top->shows_help || key == 'h' || key == '?') {
			top->shows_help = !top->shows_help;
		} else if (key == 's') {
			top->section = (enum top_section)((top->section + 1) % TOP_SECTIONS);
		} else if (key == 'p' || key == ' ') {
			top->is_paused = !top->is_paused;
		}
	}
	return draws;
}

/*
 * Until a key, news of a process, or the time. After a pass that took long, wait at least as long:
 * however fast events come, half of a CPU is left to those who make them. The rest is lost, and
 * counted.
 */
static void wait_briefly(struct top *top, uint64_t until_ns)
{
	struct pollfd fds[2] = { { .fd = top->screen.has_keys && top->screen.is_on ? STDIN_FILENO
										   : -1,
				   .events = POLLIN },
				 { .fd = top->recorded.session->epoll, .events = POLLIN } };
	uint64_t now = ticks_monotonic_ns(), wait_ns = STEP_NS;
	struct timespec left;
	int rests = top->busy_ns > STEP_NS / 8;

	if (until_ns < now + wait_ns)
		wait_ns = until_ns > now ? until_ns - now : 0;
	if (rests && wait_ns < top->busy_ns)
		wait_ns = top->busy_ns;
	left = (struct timespec){ (time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000) };
	ppoll(fds, rests ? 1 : 2, &left, NULL);
}

/* Whether the program has ended, or a signal ends the command. */
static int is_ended(struct top *top, int alive, uint64_t now)
{
	struct child *child = &top->recorded.child;

	return (top->options->targets.command ? child_reap(child, WNOHANG) : !alive) ||
	       child_is_interrupted(child, now);
}

static int watch(struct top *top)
{
	const struct top_options *options = top->options;
	uint64_t next_ns = top->begin_ns + options->interval_ns;
	uint64_t end_ns = options->for_ns ? top->begin_ns + options->for_ns : UINT64_MAX;
	int err = 0;

	while (!err) {
		uint64_t now;
		int alive, draws;

		wait_briefly(top, next_ns < end_ns ? next_ns : end_ns);
		draws = top_screen_suspend(&top->screen) | keys_take(top);
		alive = events_take(top);
		if (alive < 0)
			return alive;
		now = ticks_monotonic_ns();
		if (top->is_over || is_ended(top, alive, now) || now >= end_ns)
			return 0;
		draws |= top_screen_renew(&top->screen);
		if (now >= next_ns) {
			err = show(top, 0);
			while (next_ns <= now) /* those that we slept through are in this one */
				next_ns += options->interval_ns;
		} else if (draws && top->screen.is_on) {
			err = draw(top);
			top->has_output_failed |= err < 0;
		}
	}
	return err;
}

static void begin(struct top *top)
{
	struct top_threads *threads = &top->count.threads;
	uint64_t at_ns = event_now_ns(top);

	top->count.has_switches = top->recorded.has_switches;
	top->count.has_kernel = top->recorded.has_kernel;
	top->begin_ns = top->shown_ns = ticks_monotonic_ns();
	threads->begin_ns = threads->end_ns = at_ns;
	for (const struct process *p = top->recorded.session->processes; p; p = p->next) {
		if (p->pid <= 0 || !process_is_usable(p))
			continue;
		if (top->count.has_switches)
			top_threads_begin(threads, p->pid, at_ns);
		else
			top_threads_times(threads, p->pid, at_ns);
	}
	if (!top->options->json && top_screen_is_fit())
		top_screen_begin(&top->screen);
}

/* The session is over: show the rest, and say what came of it. Returns the exit status. */
static int finish(struct top *top, int err)
{
	struct wm_session *session = top->recorded.session;
	int stopped = wm_session_stop(session), result = CLI_FINE;
	const char *detail = wm_session_detail(session);
	int reads = !err;

	err = err ? err : stopped;
	if (reads) {
		int more = wm_session_read(session, on_event, top);
		struct wm_session_status status = { .size = sizeof(status) };

		wm_session_status_get(session, &status);
		top->lost_ever = status.discarded > top->lost_ever ? status.discarded
								   : top->lost_ever;
		more = more ? more : show(top, 1);
		err = err ? err : more;
	}
	top_screen_end(&top->screen);
	if (err)
		result = top->has_output_failed && !stopped
				 ? complain(err, "the output")
				 : complain(err, *detail ? "%s" : NULL, detail);
	else if (top->options->specs.count && findings_unmatched(session->specs, session->names, 1))
		result = CLI_FAILED;
	return top_session_end(&top->recorded, result);
}

static int run(struct top *top)
{
	int err = top_count_init(&top->count), status;

	if (!err)
		err = top_symbols_open(&top->symbols);
	if (err)
		return complain(err, NULL);
	child_catch_signals();
	/* a read takes as much memory as the last one: it need not come from the kernel again */
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
	status = top_session_begin(&top->recorded, top->options);
	if (status)
		return status;
	begin(top);
	return finish(top, watch(top));
}

int cmd_top(int argc, char **argv)
{
	struct top_options options = { .targets.session = WM_SESSION_OPTIONS_INIT,
				       .interval_ns = INTERVAL_NS };
	struct top top = { .options = &options, .sums.lines.most = TOP_SUMS_MAX };
	int status;

	options.targets.session.allow_unmatched = 1;
	status = options_read(&options, argc, argv);

	if (status < 0)
		status = run(&top);
	for (int i = 0; i < TOP_SECTIONS; i++)
		text_release(&top.texts[i]);
	top_symbols_close(top.symbols);
	top_count_release(&top.count);
	top_sums_release(&top.sums);
	free(options.specs.all);
	free(options.targets.pids.all);
	return status;
}
