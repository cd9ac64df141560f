/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "base/name_match.h"
#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/flight.h"
#include "cli/findings.h"
#include "cli/folder_plan.h"
#include "cli/output.h"
#include "cli/watch_counts.h"
#include "record/probe/probes.h"
#include "record/session/session.h"
#include "record/trail/live.h"
#include "record/watch/watches.h"
#include "target/process/ticks.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SHOW_NS 250000000u

void progress_begin(struct progress *progress)
{
	*progress = (struct progress){
		.wanted = isatty(STDERR_FILENO),
		.began_ns = ticks_monotonic_ns(),
	};
	progress->last_ns = progress->began_ns;
}

uint64_t progress_elapsed_ns(const struct progress *progress)
{
	return ticks_monotonic_ns() - progress->began_ns;
}

static void show_trail(struct progress *progress, const struct wm_session_status *status)
{
	char blocks[32], instructions[32];

	progress->shown = 1;
	fprintf(stderr, "\r%.1f s  %s blocks  %s instructions  %u thread%s\033[K",
		(double)progress_elapsed_ns(progress) / 1e9,
		quantity_show_count(status->trail_blocks, blocks, sizeof(blocks)),
		quantity_show_count(status->trail_instructions, instructions, sizeof(instructions)),
		status->trail_threads, status->trail_threads == 1 ? "" : "s");
	fflush(stderr);
}

void progress_show(struct progress *progress, const struct wm_session_status *status, uint64_t held)
{
	uint64_t now = ticks_monotonic_ns(), events = status->recorded + status->discarded + held;
	char rate[32], bytes[32], lost[32];
	double fresh;

	if (!progress->wanted || now - progress->last_ns < SHOW_NS)
		return;
	if (status->trail_processes && !status->processes_ever) {
		progress->last_ns = now;
		show_trail(progress, status);
		return;
	}
	/* a page that is overwritten just now may be in neither count */
	if (events < progress->last_events)
		events = progress->last_events;
	fresh = (double)(events - progress->last_events) * 1e9 / (double)(now - progress->last_ns);
	progress->rate = progress->shown ? progress->rate * 0.5 + fresh * 0.5 : fresh;
	progress->last_ns = now;
	progress->last_events = events;
	progress->shown = 1;
	fprintf(stderr, "\r%.1f s  %s events/s  %s  %s lost  %u process%s\033[K",
		(double)(now - progress->began_ns) / 1e9,
		quantity_show_count((uint64_t)progress->rate, rate, sizeof(rate)),
		quantity_show_bytes(status->bytes, bytes, sizeof(bytes)),
		quantity_show_count(status->discarded, lost, sizeof(lost)), status->processes,
		status->processes == 1 ? "" : "es");
	fflush(stderr);
}

void progress_plan(struct progress *progress, const struct session_progress *plan)
{
	const char *name = plan->path ? name_last_part(plan->path) : NULL;
	char done[32], total[32];

	if (!progress->wanted)
		return;
	progress->shown = 1;
	if (!plan->total) {
		fputs("\rreading ", stderr);
		complain_words("%s", name ? name : "");
	} else {
		quantity_show_count(plan->done, done, sizeof(done));
		quantity_show_count(plan->total, total, sizeof(total));
		fprintf(stderr, "\r%s %s of %s %s", name ? "planning" : "arming", done, total,
			name ? "functions in " : "places");
		complain_words("%s", name ? name : "");
	}
	fputs("\033[K", stderr);
	fflush(stderr);
}

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = 0;
}

static void sum_up_kept(const struct live *live)
{
	char kept[32], unkept[32];

	fprintf(stderr, "waymark: the trail up to %s hit%s was kept",
		live->kept ? quantity_show_count(live->kept, kept, sizeof(kept)) : "no",
		live->kept == 1 ? "" : "s");
	if (live->unkept)
		fprintf(stderr, "; up to %s more it was not",
			quantity_show_count(live->unkept, unkept, sizeof(unkept)));
	fputc('\n', stderr);
}

static void sum_up_trail(const struct progress *progress, const struct wm_session_status *status,
			 const struct live *live)
{
	static const char *const ways[] = {
		[ORIGIN_PT] = "by Intel PT",
		[ORIGIN_BTS] = "by branch trace store",
		[ORIGIN_SOFT] = "by translation",
		[ORIGIN_ORACLE] = "by single steps",
	};
	char blocks[32], instructions[32], lost[32], before[32], unwritten[32];

	fprintf(stderr, "waymark: recorded %s block%s, %s instruction%s, of %u thread%s",
		quantity_show_count(status->trail_blocks, blocks, sizeof(blocks)),
		status->trail_blocks == 1 ? "" : "s",
		quantity_show_count(status->trail_instructions, instructions, sizeof(instructions)),
		status->trail_instructions == 1 ? "" : "s", status->trail_threads,
		status->trail_threads == 1 ? "" : "s");
	if (status->trail_processes > 1)
		fprintf(stderr, " of %u processes", status->trail_processes);
	fprintf(stderr, " %s in %.2f s", ways[live->origin],
		(double)progress_elapsed_ns(progress) / 1e9);
	if (status->trail_lost)
		fprintf(stderr, "; of these blocks %s%s were overwritten",
			live->keeps ? "" : "the first ",
			quantity_show_count(status->trail_lost, lost, sizeof(lost)));
	if (live->overwritten)
		fprintf(stderr, "; %s blocks before them were overwritten",
			quantity_show_count(live->overwritten, before, sizeof(before)));
	if (status->trail_unwritten)
		fprintf(stderr, "; of these blocks %s are not in the trace",
			quantity_show_count(status->trail_unwritten, unwritten, sizeof(unwritten)));
	if (status->trail_unwritten_threads)
		fprintf(stderr, ", and nothing of %u thread%s", status->trail_unwritten_threads,
			status->trail_unwritten_threads == 1 ? "" : "s");
	fputc('\n', stderr);
	if (live->keeps)
		sum_up_kept(live);
}

static void sum_up_events(const struct progress *progress, const struct wm_session_status *status,
			  enum wm_policy policy, uint64_t crowded_out)
{
	char count[32], bytes[32], lost[32];

	fprintf(stderr, "waymark: recorded %s event%s, %s, from %u process%s in %.2f s",
		quantity_show_count(status->recorded, count, sizeof(count)),
		status->recorded == 1 ? "" : "s",
		quantity_show_bytes(status->bytes, bytes, sizeof(bytes)), status->processes_ever,
		status->processes_ever == 1 ? "" : "es",
		(double)progress_elapsed_ns(progress) / 1e9);
	if (!status->discarded && status->held)
		fputs("; lost none, except those listed below as missing\n", stderr);
	else if (!status->discarded)
		fputs("; lost none\n", stderr);
	else if (policy == WM_POLICY_CYCLIC)
		fprintf(stderr, "; the %s before them were overwritten\n",
			quantity_show_count(status->discarded, lost, sizeof(lost)));
	else
		fprintf(stderr, "; lost %s%s\n",
			quantity_show_count(status->discarded, lost, sizeof(lost)),
			!crowded_out ? ""
			: policy == WM_POLICY_BLOCK
				? " (a larger --buffer loses fewer)"
				: " (a larger --buffer or --policy block loses fewer)");
	/* no processor runs two markers in a nanosecond */
	if ((double)status->recorded + (double)status->discarded >
	    ((double)progress_elapsed_ns(progress) + 1e9) * (double)sysconf(_SC_NPROCESSORS_CONF))
		fputs("waymark: this machine cannot produce so many events: a process has changed its counts\n",
		      stderr);
}

void progress_sum_up(const struct progress *progress, const struct wm_session_status *status,
		     const struct live *live, const char *dir, enum wm_policy policy,
		     uint64_t crowded_out)
{
	if (status->trail_processes)
		sum_up_trail(progress, status, live);
	if (!status->trail_processes || status->processes_ever)
		sum_up_events(progress, status, policy, crowded_out);
	if (dir)
		complain_words("waymark: the trace is in %s\n", dir);
}

/* ---- for programs ---- */

static struct out out;
static struct rows rows;
static struct text kept; /* of the object, what `out` has no room for */

static const struct row_column recording_columns[] = {
	{ "dir", ROW_TEXT, ROW_PLAIN, 0, "the trace's folder" },
	{ "recorded", ROW_U64, ROW_COUNT, 0, "events in the trace; with --last all that came" },
	{ "discarded", ROW_U64, ROW_COUNT, 0, "events that were lost" },
	{ "bytes", ROW_U64, ROW_BYTES, 0, "of events" },
	{ "seconds", ROW_DOUBLE, ROW_PLAIN, 0, "how long it took" },
	{ "processes", ROW_U64, ROW_COUNT, 0, "that took part" },
	{ "markers", ROW_U64, ROW_COUNT, 0, "markers, functions and probes that were armed" },
	{ "sites", ROW_U64, ROW_COUNT, 0, "that were armed" },
	{ "refused", ROW_U64, ROW_COUNT, 0, "sites that were refused" },
	{ "places", ROW_U64, ROW_COUNT, 0, "in code that the specs named, also refused ones" },
	{ "unwatched", ROW_U64, ROW_COUNT, 0, "processes that came later, and lack a watch" },
};
static ROW_TABLE(recording_table, "recording", "What waymark record --json begins with.",
		 recording_columns);

static const struct row_column trail_columns[] = {
	{ "origin", ROW_TEXT, ROW_PLAIN, 0, "pt, bts, soft or step" },
	{ "blocks", ROW_U64, ROW_COUNT, 0, "recorded" },
	{ "instructions", ROW_U64, ROW_COUNT, 0, "in them" },
	{ "threads", ROW_U64, ROW_COUNT, 0, "with a trail" },
	{ "processes", ROW_U64, ROW_COUNT, 0, "with a trail" },
	{ "overwritten", ROW_U64, ROW_COUNT, 0, "of the blocks, by a flight recorder" },
	{ "overwritten_before", ROW_U64, ROW_COUNT, 0, "others before them, by trail/soft/" },
	{ "unwritten", ROW_U64, ROW_COUNT, 0, "of the blocks, that the folder did not take" },
	{ "unwritten_threads", ROW_U64, ROW_COUNT, 0, "of which the folder has nothing" },
	{ "unfollowed", ROW_U64, ROW_COUNT, 0, "children that went on unrecorded" },
	{ "kept", ROW_U64, ROW_COUNT, 0, "hits of watches up to which it was kept, at most" },
	{ "unkept", ROW_U64, ROW_COUNT, 0, "further hits, up to which it was not" },
	{ "words", ROW_U64, ROW_BYTES, 0, "that trail/soft/ wrote for the blocks" },
};
static ROW_TABLE(recorded_trail_table, "recorded_trail", "The trail of a recording.",
		 trail_columns);

static const struct row_column end_columns[] = {
	{ "status", ROW_U64, ROW_PLAIN, 0, "the exit status" },
	{ "error", ROW_TEXT, ROW_PLAIN, 0, "why the recording failed; null: it did not" },
};
static ROW_TABLE(recording_end_table, "recording_end", "What waymark record --json ends with.",
		 end_columns);

static void trail_rows(const struct wm_session_status *status, const struct live *live)
{
	rows_open(&rows, &recorded_trail_table, NULL);
	ROWS_PUT(&rows, trail_columns, row_text(origin_name(live->origin)),
		 row_u64(status->trail_blocks), row_u64(status->trail_instructions),
		 row_u64(status->trail_threads), row_u64(status->trail_processes),
		 row_u64(status->trail_lost), row_u64(live->overwritten),
		 row_u64(status->trail_unwritten), row_u64(status->trail_unwritten_threads),
		 row_u64(status->trail_unfollowed), row_u64(live->kept), row_u64(live->unkept),
		 row_u64(status->trail_words_bytes));
	rows_close(&rows);
}

void progress_json(const struct progress *progress, const struct wm_session_status *status,
		   const struct wm_session *session, const char *dir, const struct flight *flight,
		   const struct folder_plan *plan, const struct findings *findings)
{
	static const struct watched_list none;
	const struct watched_list *watched = session ? session->watched : &none;
	const struct row_value recording[] = {
		row_text(dir),
		row_u64(status->recorded),
		row_u64(status->discarded),
		row_u64(status->bytes),
		row_double((double)progress_elapsed_ns(progress) / 1e9),
		row_u64(status->processes_ever),
		row_u64(status->markers),
		row_u64(status->sites),
		row_u64(status->refused),
		row_u64(session ? session->probes->wanted : 0),
		row_u64(watched->unwatched),
	};

	output_to_text(&out, &kept);
	rows_begin(&rows, &out, ROWS_JSON);
	rows_record(&rows, &recording_table, recording);
	if (status->trail_processes)
		trail_rows(status, session->live);
	flight_rows(&rows, flight);
	folder_plan_rows(&rows, plan);
	findings_rows(&rows, findings);
	watches_rows(&rows, watched);
}

int progress_json_end(int exit_status, const char *error)
{
	const struct row_value end[] = { row_u64((uint64_t)exit_status), row_words(error) };
	int err;

	rows_record(&rows, &recording_end_table, end);
	err = rows_end(&rows);
	if (err)
		return err;
	out_init(&out, STDOUT_FILENO);
	out_text(&out, kept.at, kept.bytes);
	text_release(&kept);
	return out_flush(&out);
}
