/* SPDX-License-Identifier: MIT */
/* Findings, printed; and watches by counts that a target may have made up. */
#include "cli/findings.h"

#include "cli/watch_counts.h"
#include "record/probe/probes.h"
#include "record/session/patience.h"
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

static struct probe_refusal refused[] = {
	{ "m:b", "", "", 0, -WM_E_NO_FUNCTION, 0 },
	{ "m:a", "/lib/m.so", "why \"this\"", 16, -WM_E_NO_FUNCTION, 0 },
};
static struct probe_foreign foreign[] = {
	{ .name = (char *)"m:c", .pid = 9, .begin_ns = 1000000000, .end_ns = 2500000000 },
	{ .name = (char *)"m:d", .pid = 9, .begin_ns = 1000000000 },
	{ .name = (char *)"m:e", .pid = 10, .begin_ns = 1000000000 },
};
static struct probes probes = {
	.wanted = 7,
	.unarmed = 3,
	.unsafe = 5,
	.late = 2,
	.late_ns = 12500000,
	.late_starts = 4,
	.foreign = foreign,
	.foreign_count = 3,
	.refusals = { .all = refused, .count = 2 },
};
static struct patience patience;
static struct spec_list specs;
static struct wm_session session = { .probes = &probes, .patience = &patience, .specs = &specs };
static struct findings list;

#define BEGIN                                                                                      \
	"waymark: 3 places not armed: their process or the recording ended first\n"                \
	"waymark: 4 processes kept waiting for too long, which ran unrecorded at first\n"          \
	"waymark: 2 modules came while the program ran, and ran unprobed at first, "               \
	"for 12.500 ms at most\n"                                                                  \
	"waymark: 2 of 7 places were refused:\n"
#define HINT                                                                                       \
	"    see what there is: waymark list --func, or wm_list_process(); of a stripped file only what it exports has a name\n"
#define MISSING                                                                                               \
	"waymark: hits are missing: another tool's breakpoint was there, or the program changed the place:\n" \
	"  m:c in process 9: for 1.500 s\n"

Test(findings, print_groups_parts_by_their_reason, .init = cr_redirect_stderr)
{
	probe_findings(&session, 1, &list);
	findings_print(&list, 0, 0);
	cr_assert_stderr_eq_str(BEGIN "  2: there is no such function: m:a, m:b\n" HINT MISSING
				      "  until the end: m:d in process 9, m:e in process 10\n");
}

Test(findings, print_verbose_names_each_place, .init = cr_redirect_stderr)
{
	probe_findings(&session, 1, &list);
	findings_print(&list, 0, 1);
	cr_assert_stderr_eq_str(
		BEGIN
		"  2: there is no such function\n" HINT
		"    m:a at 0x10 in /lib/m.so: why \"this\"\n    m:b\n"
		"waymark: 5 of 7 events are unsafe beside uprobes: one that is removed within 100 ms can crash the program (/safe/ refuses such places)\n" MISSING
		"  until the end\n    m:d in process 9\n    m:e in process 10\n");
}

Test(findings, print_from_number_leaves_earlier_out, .init = cr_redirect_stderr)
{
	finding_add(&list, "note", FINDING_NOTE, "first");
	finding_add(&list, "note", FINDING_NOTE, "a\x1b[2J\n")->subject = strdup("s\x1b");
	for (int i = 0; i < 7; i++)
		finding_part(&list, "part", "p", -WM_E_FOREIGN_ARCH, NULL)->count = 1000;
	findings_print(&list, 1, 0);
	cr_assert_stderr_eq_str(
		"waymark: s\\x1b: a\\x1b[2J\\x0a:\n"
		"  7,000: the program is not x86-64: p, p, p, p, p, and 2 more (-v names all)\n"
		"    build it for x86-64\n");
}

Test(findings, rows_have_all_members_of_each)
{
	static struct out out;
	struct rows rows;

	probe_findings(&session, 1, &list);
	out_init(&out, -1);
	rows_begin(&rows, &out, ROWS_JSON);
	findings_rows(&rows, &list);
	out_char(&out, 0);
	cr_expect(strstr(out.bytes, "{\"kind\":\"unarmed\",\"severity\":\"loss\",\"subject\":null,"
				    "\"text\":\"3 places not armed: their process or the "
				    "recording ended first\",\"detail\":null,\"remedy\":null,"
				    "\"count\":3,\"pid\":null,\"module\":null,\"address\":null}"),
		  "%s", out.bytes);
	cr_expect(strstr(out.bytes,
			 "{\"kind\":\"refusal\",\"severity\":\"loss\",\"subject\":\"m:a\","
			 "\"text\":\"there is no such function\","
			 "\"detail\":\"why \\\"this\\\"\",\"remedy\":\"see what "),
		  "%s", out.bytes);
	cr_expect(strstr(out.bytes,
			 "\"count\":1,\"pid\":null,\"module\":\"/lib/m.so\",\"address\":\"0x10\"}"),
		  "%s", out.bytes);
}

/* ---- watches ---- */

static struct watched_spec all[2] = { { .text = (char *)"watch:a", .words = (char *)"a" },
				      { .text = (char *)"watch:b", .words = (char *)"b" } };
static struct watched_list watches = { .all = all, .count = 2 };
static char text[1 << 16];

static const char *counts_text(const struct watched_spec *watched, int unproven)
{
	FILE *to = fmemopen(text, sizeof(text), "w");

	watch_counts_text(watched, unproven, "  ", to);
	fclose(to);
	return text;
}

Test(findings, watch_counts_print_hits_and_what_is_missing)
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
Test(findings, watch_counts_of_any_values_print_as_lines)
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
		one.uncovered_ns = sample_random(&seed);
		counts_text(&one, (int)(sample_random(&seed) & 1) * -WM_E_BREAKPOINT_DEAD);
		bytes = strlen(text);
		cr_assert_eq(text[bytes - 1], '\n');
		for (const char *at = text; *at; at++)
			cr_assert(*at == '\n' || (unsigned char)*at >= ' ');
	}
}

Test(findings, watches_rows_have_what_was_armed)
{
	static struct out out;
	struct rows rows;

	all[0].processes = 1;
	out_init(&out, -1);
	rows_begin(&rows, &out, ROWS_JSON);
	watches_rows(&rows, &watches);
	out_char(&out, 0);
	cr_assert(strstr(out.bytes, "\"spec\":\"watch:a\""));
	cr_expect_null(strstr(out.bytes, "watch:b"), "it was armed nowhere");
}

Test(findings, watch_counts_of_a_lost_watch_blame_no_thread, .init = cr_redirect_stderr)
{
	const struct watched_spec lost = { .text = (char *)"watch:a",
					   .pieces = 1,
					   .lost = -WM_E_PROTOCOL,
					   .counts = { .hits = 3, .missed = 2 } };

	watch_counts_text(&lost, 0, "", stderr);
	cr_assert_stderr_eq_str(
		"watch:a: 3 hits; 2 missed: the agent counted none after the watch was taken away"
		"; taken away before the end: the other side speaks another version of the protocol, or breaks it\n");
}
