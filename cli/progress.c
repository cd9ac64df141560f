/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "base/name_match.h"
#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/flight.h"
#include "cli/json.h"
#include "cli/origins.h"
#include "cli/outcome.h"
#include "cli/outcome_watch.h"
#include "record/trail/live.h"
#include "target/process/ticks.h"

#include <stdio.h>
#include <string.h>
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

static void sum_up_trail(const struct progress *progress, const struct wm_session_status *status)
{
	char blocks[32], instructions[32], lost[32], before[32], unwritten[32];

	fprintf(stderr, "waymark: recorded %s block%s, %s instruction%s, of %u thread%s",
		quantity_show_count(status->trail_blocks, blocks, sizeof(blocks)),
		status->trail_blocks == 1 ? "" : "s",
		quantity_show_count(status->trail_instructions, instructions, sizeof(instructions)),
		status->trail_instructions == 1 ? "" : "s", status->trail_threads,
		status->trail_threads == 1 ? "" : "s");
	if (status->trail_processes > 1)
		fprintf(stderr, " of %u processes", status->trail_processes);
	fprintf(stderr, " %s in %.2f s", progress->trail_way,
		(double)progress_elapsed_ns(progress) / 1e9);
	if (status->trail_lost)
		fprintf(stderr, "; of these blocks %s%s were overwritten",
			progress->live->keeps ? "" : "the first ",
			quantity_show_count(status->trail_lost, lost, sizeof(lost)));
	if (progress->live->overwritten)
		fprintf(stderr, "; %s blocks before them were overwritten",
			quantity_show_count(progress->live->overwritten, before, sizeof(before)));
	if (status->trail_unwritten)
		fprintf(stderr, "; of these blocks %s are not in the trace",
			quantity_show_count(status->trail_unwritten, unwritten, sizeof(unwritten)));
	if (status->trail_unwritten_threads)
		fprintf(stderr, ", and nothing of %u thread%s", status->trail_unwritten_threads,
			status->trail_unwritten_threads == 1 ? "" : "s");
	fputc('\n', stderr);
	if (progress->live->keeps)
		sum_up_kept(progress->live);
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
		     const char *dir, enum wm_policy policy, uint64_t crowded_out)
{
	if (status->trail_processes)
		sum_up_trail(progress, status);
	if (!status->trail_processes || status->processes_ever)
		sum_up_events(progress, status, policy, crowded_out);
	complain_words("waymark: the trace is in %s", dir);
	fputc('\n', stderr);
}

int progress_sum_up_json(const struct progress *progress, const struct wm_session_status *status,
			 const char *dir, int exit_status, const char *error,
			 const struct probes *probes, const struct unrecorded_list *unrecorded,
			 const struct watched_list *watched, const struct flight *flight)
{
	static struct out out;
	struct json json = { &out, 0 };

	out_init(&out, STDOUT_FILENO);
	json_open(&json, NULL, '{');
	json_string(&json, "dir", dir);
	json_number(&json, "recorded", status->recorded);
	json_number(&json, "discarded", status->discarded);
	json_number(&json, "bytes", status->bytes);
	json_decimal(&json, "seconds", (double)progress_elapsed_ns(progress) / 1e9, 6);
	json_number(&json, "processes", status->processes_ever);
	json_number(&json, "markers", status->markers);
	json_number(&json, "sites", status->sites);
	json_number(&json, "refused", status->refused);
	if (status->trail_processes) {
		json_open(&json, "trail", '{');
		origins_json(&json, &flight->live);
		json_number(&json, "blocks", status->trail_blocks);
		json_number(&json, "overwritten", status->trail_lost);
		json_number(&json, "unwritten", status->trail_unwritten);
		json_number(&json, "unwritten_threads", status->trail_unwritten_threads);
		json_number(&json, "overwritten_before", flight->live.overwritten);
		json_number(&json, "instructions", status->trail_instructions);
		json_number(&json, "threads", status->trail_threads);
		json_number(&json, "processes", status->trail_processes);
		json_number(&json, "unfollowed", status->trail_unfollowed);
		json_number(&json, "kept", flight->live.kept);
		json_number(&json, "unkept", flight->live.unkept);
		json_number(&json, "words_bytes", status->trail_words_bytes);
		json_close(&json, '}');
	}
	flight_json(&json, flight);
	json_number(&json, "status", (uint64_t)exit_status);
	json_words(&json, "error", error);
	outcome_json(&json, probes);
	outcome_unrecorded_json(&json, unrecorded);
	outcome_watches_json(&json, watched);
	json_close(&json, '}');
	out_char(&out, '\n');
	return out_flush(&out);
}
