/* SPDX-License-Identifier: MIT */
#include "cli/watch_writers.h"

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/findings.h"
#include "cli/output.h"
#include "cli/watch_counts.h"
#include "base/quantity.h"
#include "cli/targets.h"
#include "cli/watch_hit.h"
#include "cli/watch_where.h"
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "record/watch/watches.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define POLL_MS 50
#define SHOW_NS 250000000u
#define HISTORY_DEFAULT 10
#define HISTORY_MAX 1000000
#define LINES_MAX 20   /* of a table on a terminal */
#define BESIDE_ROWS 3u /* lines: its two titles, and what is left out */
#define ROWS_DEFAULT 20
#define ROWS_MAX 1000000

static const char help[] =
	"Usage: waymark watch [OPTION]... EXPR[:w|rw|x] -p PID [-p PID]...\n"
	"       waymark watch [OPTION]... EXPR[:w|rw|x] [--] CMD [ARG]...\n"
	"\n"
	"Show who writes a variable: which function and line, how often, which values, in how many threads. EXPR\n"
	"is as in C: counter, table.c::count, list->head, grid[2].x, *pointer,\n"
	"((struct node *)p)->next, or ADDRESS/BYTES. In C++ also pointer->x and vector[3] of the\n"
	"standard library's classes.\n"
	"\n"
	"  -e, --expr EXPR     one more, as many as the processor has registers for\n" TARGETS_HELP
	"  -t, --by-thread     a row for each thread of a line of source, not one for each line\n"
	"  --rows N            how many rows of each EXPR the table has at most (default 20; 0: all)\n"
	"  -f, --follow        each hit, as it comes\n"
	"  -n, --history N     how many of the last hits are shown at the end (default 10)\n"
	"  --for TIME          stop after this time, as 500ms, 10s, 2m\n"
	"  --hex               numbers in hexadecimal\n"
	"  --json              all of it on stdout, as one JSON object\n"
	"  --help              this text\n";

struct options {
	struct targets targets;
	struct command_texts exprs;
	uint64_t history, rows, for_ns;
	int by_thread, each, json, hex;
};

static const struct command_option options_table[] = {
	{ "expr", 'e', COMMAND_TEXTS, COMMAND_TO(options, exprs) },
	TARGETS_ROWS(options),
	{ "follow", 'f', COMMAND_FLAG, COMMAND_TO(options, each), .min = 1 },
	{ "history", 'n', COMMAND_NUMBER, COMMAND_TO(options, history), .max = HISTORY_MAX },
	{ "by-thread", 't', COMMAND_FLAG, COMMAND_TO(options, by_thread), .min = 1 },
	{ "rows", 0, COMMAND_NUMBER, COMMAND_TO(options, rows), .max = ROWS_MAX },
	{ "for", 0, COMMAND_TIME, COMMAND_TO(options, for_ns), .min = 1 },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(options, json), .min = 1 },
	{ "hex", 0, COMMAND_FLAG, COMMAND_TO(options, hex), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "watch", help, options_table, 1 };

struct watching {
	const struct options *options;
	struct wm_session *session;
	struct watch_wheres *wheres;
	struct writers *table;
	struct watch_hits *hits;
	struct child child;
	uint64_t began_ns, shown_ns;
	unsigned int shown_lines; /* of a table that is on the terminal */
	int is_live;		  /* stdout is one */
	int error;
	int unwritten; /* the error by which standard output takes no more; 0: it does */
	char why[1200];
	struct findings findings;
};

/* Options may come before EXPR and behind it; behind the command they are the command's. */
static int options_read(struct options *options, int argc, char **argv)
{
	int status = command_line_read(&line, argc, argv, options);

	if (status < 0 && !options->exprs.count && optind < argc &&
	    strcmp(argv[optind - 1], "--")) {
		argc -= optind;
		argv += optind;
		status = command_line_text(argv[0], &options->exprs);
		if (!status)
			status = command_line_read(&line, argc, argv, options);
	}
	if (status >= 0)
		return status;
	if (!options->exprs.count)
		return complain_usage("watch", "what is to be watched?");
	return targets_check(&options->targets, "watch", argv + optind);
}

/* ---- hits ---- */

static void each_hit(const struct writers *table, const struct watch_hit *hit, void *data)
{
	const struct watching *watching = data;

	writers_line(table, hit, watching->began_ns, stdout);
}

/* Flush to the reader. A closed pipe or a full disk ends the watch. */
static void push_out(struct watching *watching)
{
	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && !watching->unwritten)
		watching->unwritten = errno ? -errno : -EIO;
	clearerr(stdout); /* finish() complains */
}

/* ---- the terminal ---- */

#define TABLE_CLEAR "\033[%uA\033[J" /* that many lines */

/* Take the table away that is on the terminal. */
static void table_clear(struct watching *watching, FILE *to)
{
	if (watching->shown_lines)
		fprintf(to, TABLE_CLEAR, watching->shown_lines);
	watching->shown_lines = 0;
}

/* The table as text, `shown` rows of each watch at most (0: all); `columns` 0: any. */
static void table_put(const struct watching *watching, size_t shown, size_t columns,
		      struct text *to)
{
	static struct out out;
	struct rows rows;

	output_to_text(&out, to);
	rows_begin(&rows, &out, ROWS_TEXT);
	rows.columns = columns;
	writers_rows(watching->table, watching->options->by_thread, shown, &rows);
	(void)rows_end(&rows);
}

/* In one piece, or it would be seen to go and to come. */
static void table_show(struct watching *watching)
{
	struct winsize size = { 0 };
	unsigned int lines = LINES_MAX;
	size_t shown, room, at = 0;
	struct text text = { 0 };

	if (!watching->is_live || ticks_clock_ns(CLOCK_MONOTONIC) - watching->shown_ns < SHOW_NS)
		return;
	watching->shown_ns = ticks_clock_ns(CLOCK_MONOTONIC);
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row > 2 && size.ws_row - 2u < lines)
		lines = size.ws_row - 2u;
	room = lines > BESIDE_ROWS ? lines - BESIDE_ROWS : 1;
	shown = watching->options->rows;
	shown = shown && shown < room ? shown : room;
	if (watching->shown_lines)
		text_format(&text, TABLE_CLEAR, watching->shown_lines);
	watching->shown_lines = 0;
	table_put(watching, shown, size.ws_col, &text);
	/* what goes out of sight could not be taken away again */
	for (; at < text.bytes && watching->shown_lines < lines; at++)
		watching->shown_lines += text.at[at] == '\n';
	fwrite(text.at, 1, at, stdout);
	text_release(&text);
	push_out(watching);
}

/* ---- a stop ---- */

/* Whether the watch that an event is of has `signal=STOP`. */
static int is_stop(const struct spec_list *specs, const struct wm_event *event)
{
	const char *words = !strncmp(event->name, "watch:", 6) ? event->name + 6 : event->name;

	for (size_t i = 0; i < specs->count; i++) {
		const struct watch_expr *watch = specs->all[i].watch;

		if (watch && watch->options.signal == SIGSTOP && !strcmp(watch->words, words))
			return 1;
	}
	return 0;
}

/* The function's name, if a shell and gdb take it as it is; else "". */
static const char *plain_function(const struct where *where)
{
	const char *name = where->spot.count ? where->spot.frames[0].function : NULL;

	return name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_:")]
		       ? name
		       : "";
}

/* Where the program was stopped, and how to look at its variables and continue it. */
static void stop_complain(const struct wm_event *event, const struct where *where)
{
	const char *function = plain_function(where);
	char text[WATCH_WHERE_BYTES];

	complain_words("waymark: %s stopped process %u in %s", event->name, event->pid,
		       watch_where_text(where, text, sizeof(text)));
	fprintf(stderr, "\n  variables and registers there: gdb -p %u", event->pid);
	if (*function)
		fprintf(stderr, " -ex 'frame function %s' -ex 'info locals'", function);
	else
		fputs(", in the frame behind <signal handler called>", stderr);
	fprintf(stderr, "\n  continue it: kill -CONT %u\n", event->pid);
}

/* Printed at once: the program is stopped until its user continues it. */
static void tell_stop(struct watching *watching, const struct wm_event *event)
{
	struct where_backtrace backtrace = { .frames = { NULL } };

	if (!is_stop(watching->session->specs, event) ||
	    watch_backtrace_event(watching->wheres, watching->session->told_process, event,
				  &backtrace) ||
	    !backtrace.frames[0])
		return;
	table_clear(watching, stdout);
	fflush(stdout);
	stop_complain(event, backtrace.frames[0]);
}

static int on_event(const struct wm_event *event, void *data)
{
	struct watching *watching = data;
	int err = watch_hits_add(watching->hits, event);

	if (!err)
		tell_stop(watching, event);
	return err;
}

/* Take what there is, and show it. 0 or a negative error. */
static int hits_take(struct watching *watching, int is_last)
{
	int err = wm_session_read(watching->session, on_event, watching);

	if (!err)
		err = watch_hits_settle(watching->hits, is_last);
	if (err)
		return err;
	if (watching->options->each && !watching->options->json) {
		writers_settle(watching->table, each_hit, watching);
		push_out(watching);
	} else {
		writers_settle(watching->table, NULL, NULL);
		table_show(watching);
	}
	return 0;
}

/* ---- watching ---- */

/* Keep the reason, say it. Returns the error. */
static int fail(struct watching *watching, int error)
{
	const char *detail = wm_session_detail(watching->session);

	detail = detail[0] ? detail : "while watching";
	table_clear(watching, stdout);
	fflush(stdout);
	if (!watching->error)
		snprintf(watching->why, sizeof(watching->why), "%s%s%s", wm_error_text(error),
			 detail[0] ? ": " : "", detail);
	watching->error = watching->error ? watching->error : error;
	complain(error, "%s", detail);
	return error;
}

static int expr_add(struct watching *watching, const char *expr)
{
	char *spec;
	int err;

	if (asprintf(&spec, "%s%s", strncmp(expr, "watch:", 6) ? "watch:" : "", expr) < 0)
		return -ENOMEM;
	err = wm_session_add(watching->session, spec);
	free(spec);
	return err;
}

static int set_up(struct watching *watching)
{
	const struct options *options = watching->options;
	int err = wm_session_open(&watching->session, &options->targets.session);

	if (!err)
		err = watch_wheres_new(&watching->wheres, watching->session);
	if (!err)
		err = writers_new(&watching->table, options->history);
	if (!err)
		err = watch_hits_new(&watching->hits, watching->session, watching->table,
				     watching->wheres, options->hex);
	if (err)
		return watching->error = complain(err, "preparing to watch");
	for (size_t i = 0; i < options->exprs.count && !err; i++)
		err = expr_add(watching, options->exprs.all[i]);
	if (!err)
		err = targets_take_in(&options->targets, watching->session, &watching->child);
	watching->began_ns = ticks_clock_ns(CLOCK_REALTIME);
	if (!err)
		err = wm_session_start(watching->session);
	if (err)
		return fail(watching, err);
	watch_findings(watching->session, 0, &watching->findings);
	findings_print(&watching->findings, 0, 0);
	return 0;
}

/* Until the program or the time is over, the reader has gone, Ctrl-C, or an error. */
static void watch(struct watching *watching)
{
	const struct options *options = watching->options;
	uint64_t began = ticks_clock_ns(CLOCK_MONOTONIC);

	for (;;) {
		int alive = wm_session_wait(watching->session, POLL_MS);
		uint64_t now = ticks_clock_ns(CLOCK_MONOTONIC);
		int err = alive < 0 ? alive : hits_take(watching, 0);

		if (err) {
			fail(watching, err);
			return;
		}
		if (watching->unwritten)
			return;
		if (options->targets.command ? child_reap(&watching->child, WNOHANG) : alive == 0)
			return;
		if (options->for_ns && now - began >= options->for_ns)
			return;
		if (child_is_interrupted(&watching->child, now))
			return;
	}
}

static const struct row_column watching_columns[] = {
	{ "hits", ROW_U64, ROW_COUNT, 0, "null: not measured" },
	{ "discarded", ROW_U64, ROW_COUNT, 0, "hits that found no room in the buffer" },
	{ "status", ROW_U64, ROW_PLAIN, 0, "the command's exit status" },
	{ "error", ROW_TEXT, ROW_PLAIN, 0, "what failed; null: nothing" },
};
static ROW_TABLE(watch_run_table, "watching", "What waymark watch --json begins with.",
		 watching_columns);

static int sum_up_json(const struct watching *watching, const struct wm_session_status *status,
		       int result)
{
	struct rows *rows = output_rows(ROWS_JSON);
	uint64_t hits = watching->table ? writers_hits(watching->table) : 0;
	int is_unproven = !hits && watching->session && watching->session->watched->unproven;
	const struct row_value row[] = { is_unproven ? row_null() : row_u64(hits),
					 row_u64(status->discarded), row_u64((uint64_t)result),
					 row_words(watching->why) };

	rows_record(rows, &watch_run_table, row);
	if (watching->table) {
		writers_rows(watching->table, 0, 0, rows);
		writers_history_rows(watching->table, watching->began_ns, rows);
	}
	if (watching->session)
		watches_rows(rows, watching->session->watched);
	findings_rows(rows, &watching->findings);
	return output_rows_end(result);
}

static void sum_up(struct watching *watching, const struct wm_session_status *status)
{
	struct text table = { 0 };
	char lost[32];

	table_clear(watching, stdout);
	table_put(watching, watching->options->rows, 0, &table);
	fwrite(table.at, 1, table.bytes, stdout);
	text_release(&table);
	if (watching->options->history && !watching->options->each &&
	    writers_hits(watching->table)) {
		printf("\nthe last, with seconds since the beginning:\n");
		writers_history(watching->table, watching->began_ns, stdout);
	}
	push_out(watching);
	watches_print(watching->session->watched);
	if (status->discarded)
		fprintf(stderr, "waymark: %s hits found no room in the buffer, and are lost\n",
			quantity_show_count(status->discarded, lost, sizeof(lost)));
}

static int finish(struct watching *watching)
{
	struct wm_session_status status = { .size = sizeof(status) };
	int err = wm_session_stop(watching->session), result = CLI_FINE;
	size_t first;

	if (!err)
		err = hits_take(watching, 1);
	if (err && err != watching->error)
		fail(watching, err);
	wm_session_status_get(watching->session, &status);
	if (!watching->options->json)
		sum_up(watching, &status);
	if (watching->unwritten &&
	    watching->unwritten != -EPIPE) /* else the reader has closed the pipe */
		result = complain(watching->unwritten, "standard output");
	first = watching->findings.count;
	watch_findings(watching->session, 1, &watching->findings);
	findings_print(&watching->findings, first, 0);
	if (watching->error || findings_failure(&watching->findings))
		result = CLI_FAILED;
	child_wait(&watching->child);
	if (watching->child.status && result == CLI_FINE)
		result = watching->child.status;
	return watching->options->json ? sum_up_json(watching, &status, result) : result;
}

static int run(const struct options *options)
{
	struct watching watching = { .options = options,
				     /* what is typed would be in the table */
				     .is_live = !options->json && !options->each &&
						isatty(STDOUT_FILENO) };
	int status = CLI_FAILED;

	child_catch_signals();
	if (set_up(&watching)) {
		struct wm_session_status none = { .size = sizeof(none) };

		child_kill(&watching.child); /* no program may be left behind */
		if (options->json)
			status = sum_up_json(&watching, &none, CLI_FAILED);
	} else {
		watch(&watching);
		status = finish(&watching);
	}
	watch_hits_free(watching.hits);
	writers_free(watching.table);
	watch_wheres_free(watching.wheres);
	wm_session_close(watching.session);
	findings_release(&watching.findings);
	return status;
}

int cmd_watch(int argc, char **argv)
{
	struct options options = { .targets.session = WM_SESSION_OPTIONS_INIT,
				   .history = HISTORY_DEFAULT,
				   .rows = ROWS_DEFAULT };
	int status = options_read(&options, argc, argv);

	if (status < 0)
		status = run(&options);
	free(options.exprs.all);
	free(options.targets.pids.all);
	return status;
}
