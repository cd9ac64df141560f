/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "cli/quantity.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SHOW_NS 250000000u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void progress_begin(struct progress *progress)
{
	*progress = (struct progress){
		.wanted = isatty(STDERR_FILENO),
		.began_ns = now_ns(),
	};
	progress->last_ns = progress->began_ns;
}

uint64_t progress_elapsed_ns(const struct progress *progress)
{
	return now_ns() - progress->began_ns;
}

void progress_show(struct progress *progress, const struct wm_session_status *status)
{
	uint64_t now = now_ns(), events = status->recorded + status->discarded;
	char rate[32], bytes[32], lost[32];
	double fresh;

	if (!progress->wanted || now - progress->last_ns < SHOW_NS)
		return;
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

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = 0;
}

void progress_sum_up(const struct progress *progress, const struct wm_session_status *status,
		     const char *dir, enum wm_policy policy, int error)
{
	char count[32], bytes[32], lost[32];

	fprintf(stderr, "waymark: recorded %s event%s, %s, from %u process%s in %.2f s",
		quantity_show_count(status->recorded, count, sizeof(count)),
		status->recorded == 1 ? "" : "s",
		quantity_show_bytes(status->bytes, bytes, sizeof(bytes)), status->processes_ever,
		status->processes_ever == 1 ? "" : "es",
		(double)progress_elapsed_ns(progress) / 1e9);
	if (!status->discarded)
		fputs("; lost none\n", stderr);
	else if (policy == WM_POLICY_CYCLIC)
		fprintf(stderr, "; the %s before them were overwritten\n",
			quantity_show_count(status->discarded, lost, sizeof(lost)));
	else
		fprintf(stderr, "; lost %s%s\n",
			quantity_show_count(status->discarded, lost, sizeof(lost)),
			error ? "" : " (a larger --buffer or --policy block loses fewer)");
	fprintf(stderr, "waymark: the trace is in %s\n", dir);
}

static void put_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

void progress_sum_up_json(const struct progress *progress, const struct wm_session_status *status,
			  const char *dir, int exit_status, const char *error, const char *more)
{
	fputs("{\"dir\":", stdout);
	put_text(dir);
	printf(",\"recorded\":%llu,\"discarded\":%llu,\"bytes\":%llu,\"seconds\":%.6f,"
	       "\"processes\":%u,\"markers\":%llu,\"sites\":%llu,\"refused\":%llu,\"status\":%d,"
	       "\"error\":",
	       (unsigned long long)status->recorded, (unsigned long long)status->discarded,
	       (unsigned long long)status->bytes, (double)progress_elapsed_ns(progress) / 1e9,
	       status->processes_ever, (unsigned long long)status->markers,
	       (unsigned long long)status->sites, (unsigned long long)status->refused, exit_status);
	if (error[0])
		put_text(error);
	else
		fputs("null", stdout);
	printf("%s}\n", more ? more : "");
	fflush(stdout);
}
