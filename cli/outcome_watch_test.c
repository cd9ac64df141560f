/* SPDX-License-Identifier: MIT */
/* A recording's last lines about its watches, by counts that a target may have made up. */
#include "cli/outcome_watch.h"

#include "cli/watch_counts.h"
#include "record/spec/spec.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

static struct watched_spec all[2] = { { .text = (char *)"watch:a", .words = (char *)"a" },
				      { .text = (char *)"watch:b", .words = (char *)"b" } };
static struct watched_list list = { .all = all, .count = 2 };
static struct watch_expr expr;
static struct spec specs_of[2] = { { .text = (char *)"watch:a", .watch = &expr },
				   { .text = (char *)"watch:b", .watch = &expr } };
static struct spec_list specs = { .all = specs_of, .count = 2 };
static struct wm_session session = { .watched = &list, .specs = &specs };
static char text[1 << 16];

static const char *counts_text(const struct watched_spec *watched, int unproven)
{
	FILE *to = fmemopen(text, sizeof(text), "w");

	watch_counts_text(watched, unproven, "  ", to);
	fclose(to);
	return text;
}

Test(outcome_watch, hits_are_printed_with_what_is_missing)
{
	all[0].counts = (struct watch_counts){ .hits = 1234, .missed = 3, .filtered = 4 };
	all[0].pieces = 2;
	counts_text(&all[0], 0);
	cr_expect(strstr(text, "watch:a: 1,234 hits; 4 did not meet the condition; 3 missed: "),
		  "%s", text);
	cr_expect(strstr(text, "or an instruction whose reach is unknown"));
	cr_expect(strstr(text, "\n    it takes 2 debug registers"));
	all[0].counts = (struct watch_counts){ 0 };
	cr_expect(strstr(counts_text(&all[0], -WM_E_BREAKPOINT_DEAD), "hits were not measured"));
	all[0].counts.hits = 1;
	cr_expect(strstr(counts_text(&all[0], -WM_E_BREAKPOINT_DEAD), "watch:a: 1 hit"));
}

/* Each line has its end, and no byte of a terminal's. */
Test(outcome_watch, counts_of_any_values_are_lines)
{
	static char words[] = "watch:a\x1b[2J\n";
	struct watched_spec one;
	uint64_t seed = 15;

	for (unsigned int i = 0; i < 2000; i++) {
		uint64_t *counts = (uint64_t *)&one.counts;
		size_t bytes;

		memset(&one, 0, sizeof(one));
		for (size_t j = 0; j < sizeof(one.counts) / sizeof(*counts); j++)
			if (sample_random(&seed) & 1)
				counts[j] = sample_random(&seed) >> sample_random(&seed) % 64;
		one.text = words;
		one.is_local = (int)(sample_random(&seed) & 1);
		one.outside = (unsigned int)sample_random(&seed) & 1;
		one.why = (int)(sample_random(&seed) & INT32_MAX);
		one.lost = (int)(sample_random(&seed) & INT32_MAX);
		one.unlooked = (int)(sample_random(&seed) & INT32_MAX);
		one.pointers = (unsigned int)sample_random(&seed) & 3;
		one.waits = (unsigned int)sample_random(&seed);
		one.pieces = (unsigned int)sample_random(&seed);
		one.gap_ns = one.until_realtime_ns = sample_random(&seed);
		one.uncovered_ns = sample_random(&seed);
		counts_text(&one, (int)(sample_random(&seed) & 1) * -WM_E_BREAKPOINT_DEAD);
		bytes = strlen(text);
		cr_assert_eq(text[bytes - 1], '\n');
		for (const char *at = text; *at; at++)
			cr_assert(*at == '\n' || (unsigned char)*at >= ' ');
	}
}

Test(outcome_watch, programs_have_results_from_before_a_change_first)
{
	static struct out out;
	struct json json = { &out, 0 };
	struct watched_spec before = { .text = (char *)"watch:old", .processes = 1 };
	const char *first, *second;

	all[0].processes = 1;
	all[0].earlier = &before;
	list.unwatched = 7;
	out_init(&out, -1);
	outcome_watches_json(&json, &list);
	out_char(&out, 0);
	first = strstr(out.bytes, "\"spec\":\"watch:old\"");
	second = strstr(out.bytes, "\"spec\":\"watch:a\"");
	cr_assert(first && second && first < second);
	cr_expect_null(strstr(out.bytes, "watch:b"), "it was armed nowhere");
	cr_expect(strstr(out.bytes, "],\"unwatched\":7"));
}

Test(outcome_watch, watch_that_was_armed_nowhere_is_printed, .init = cr_redirect_stderr)
{
	all[0].processes = 1;
	all[1].error = -WM_E_WATCH_NULL;
	cr_expect_eq(outcome_unwatched(&session), 1);
	list.count = 0; /* the session has none at all */
	cr_expect_eq(outcome_unwatched(&session), 2);
	specs_of[0].watch = NULL;
	cr_expect_eq(outcome_unwatched(&session), 1);
	fflush(stderr);
}

Test(outcome_watch, kernels_own_stores_are_mentioned_where_they_are_not_seen,
     .init = cr_redirect_stderr)
{
	FILE *printed = cr_get_redirected_stderr();
	char line[512];

	all[0].processes = all[1].processes = 1;
	all[0].is_code = all[1].sees_kernel = 1;
	outcome_watches(&list);
	all[1].sees_kernel = 0;
	outcome_watches(&list);
	fflush(stderr);
	for (int i = 0; i < 5 && fgets(line, sizeof(line), printed); i++)
		cr_expect_eq(strstr(line, "what the kernel itself writes there") != NULL, i == 4,
			     "%s", line);
}

Test(outcome_watch, other_ways_than_asked_for_are_printed, .init = cr_redirect_stderr)
{
	all[0].processes = all[1].processes = 1;
	all[0].waits = 1;
	strcpy(all[0].waits_for, "p\n");
	all[1].outside = 1; /* as asked */
	outcome_ways(&session);
	fflush(stderr);
	cr_assert_stderr_eq_str("waymark: watch:a: waiting for p\\x0a\n");
}
