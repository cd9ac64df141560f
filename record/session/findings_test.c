/* SPDX-License-Identifier: MIT */
/* What each room of a session reports. */
#include "record/session/findings.h"

#include "record/handler/handler_file.h"
#include "record/kernel/kernel_own.h"
#include "record/probe/probes.h"
#include "record/session/patience.h"
#include "record/session/session.h"
#include "record/session/unrecorded.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/trail/trail_request.h"
#include "record/watch/watches.h"
#include "target/claim/ledger.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

static struct kernel kernel = { .cgroup_fd = -1 }; /* it has ended */
static struct watched_spec all[2];
static struct watched_list watches = { .all = all, .count = 2 };
static struct watch_expr expr;
static struct spec specs_of[2] = { { .text = (char *)"watch:a", .watch = &expr },
				   { .text = (char *)"watch:b", .watch = &expr } };
static struct spec_list specs = { .all = specs_of, .count = 2 };
static struct live live;
static struct probes probes;
static struct patience patience;
static struct unrecorded programs[] = {
	{ .program = (char *)"/bin/still", .error = -WM_E_STATIC_PROGRAM, .processes = 2 },
	{ .program = (char *)"/bin/other",
	  .detail = (char *)"pid 7",
	  .error = -WM_E_FOREIGN_ARCH,
	  .processes = 1 },
};
static struct unrecorded_list unrecorded;
static struct handlers handlers;
static struct wm_session session = {
	.kernel = &kernel,
	.watched = &watches,
	.specs = &specs,
	.live = &live,
	.probes = &probes,
	.patience = &patience,
	.unrecorded = &unrecorded,
	.handlers = &handlers,
};
static struct findings list;
static char text[8192];

/* All findings as lines "KIND COUNT SUBJECT: TEXT (DETAIL)". */
static const char *lines(void)
{
	FILE *to = fmemopen(memset(text, 0, sizeof(text)), sizeof(text), "w");

	for (size_t i = 0; i < list.count; i++) {
		const struct finding *one = &list.all[i];

		fprintf(to, "%s%s %llu", one->is_part ? "  " : "", one->kind,
			(unsigned long long)one->count);
		if (one->subject)
			fprintf(to, " %s", one->subject);
		fprintf(to, ": %s%s%s%s\n", one->text, one->detail ? " (" : "",
			one->detail ? one->detail : "", one->detail ? ")" : "");
	}
	fclose(to);
	findings_release(&list);
	return text;
}

Test(findings, kernel_begin_names_what_a_privilege_would_give)
{
	kernel_findings(&session, 0, &list);
	kernel.coverage = (struct kernel_coverage){ .has_switches = 1, .has_wakes = 1 };
	kernel_findings(&session, 0, &list);
	kernel.coverage.excludes_kernel = 1;
	kernel_findings(&session, 0, &list);
	cr_assert_str_eq(lines(), "kernel-excluded 0: kernel.perf_event_paranoid allows user space "
				  "alone: what happens in the kernel is left out\n");
}

Test(findings, kernel_end_counts_what_the_kernel_left_out)
{
	kernel_findings(&session, 1, &list);
	kernel.coverage = (struct kernel_coverage){ .throttled = 1,
						    .cpus_back = 2,
						    .privileged = 1 };
	kernel_findings(&session, 1, &list);
	kernel.coverage = (struct kernel_coverage){ .throttled = UINT64_MAX, .cpus_back = 1 };
	kernel_findings(&session, 1, &list);
	cr_assert_str_eq(
		lines(),
		"kernel-throttled 1: 1 time the kernel stopped an event for a while, as it came too often: take a lower freq, or a larger period\n"
		"kernel-privileged 1: 1 process executed a program with more privileges (setuid): the kernel ended the events there; -a records them\n"
		"kernel-cpus 2: 2 CPUs came online meanwhile\n"
		"kernel-throttled 18446744073709551615: 18,446,744,073,709,551,615 times the kernel stopped an event for a while, as it came too often: take a lower freq, or a larger period\n"
		"kernel-cpus 1: 1 CPU came online meanwhile\n");
}

Test(findings, watch_armed_nowhere_is_failure)
{
	all[0].processes = 1;
	all[1].error = -WM_E_WATCH_NULL;
	watch_findings(&session, 1, &list);
	cr_assert(findings_failure(&list));
	cr_expect_str_eq(findings_failure(&list)->subject, "watch:b");
	findings_release(&list);
	all[1].processes = 1;
	watch_findings(&session, 1, &list);
	cr_expect_null(findings_failure(&list));
	watches.count = 0; /* the session has none at all */
	watch_findings(&session, 1, &list);
	lines();
	cr_expect(
		strstr(text,
		       "unwatched 0 watch:a: was armed nowhere: the program ended before, or went on without\n"
		       "unwatched 0 watch:b: was armed nowhere"),
		"%s", text);
}

Test(findings, watch_reports_kernel_stores_where_it_does_not_see_them)
{
	all[0].processes = all[1].processes = 1;
	all[0].is_code = all[1].sees_kernel = 1;
	watch_findings(&session, 1, &list);
	cr_expect_str_empty(lines());
	all[1].sees_kernel = 0;
	watch_findings(&session, 1, &list);
	cr_expect(strstr(lines(), "what the kernel itself writes"));
}

Test(findings, watch_begin_names_other_ways_than_asked_for)
{
	all[0].processes = all[1].processes = 1;
	all[0].waits = 1;
	strcpy(all[0].waits_for, "p");
	all[1].outside = 1; /* as asked */
	watch_findings(&session, 0, &list);
	cr_expect_str_eq(lines(), "watch-waits 0 watch:a: waiting for p\n");
	all[1].why = -WM_E_STATIC_PROGRAM;
	all[0].waits = 0;
	expr.options.signal = SIGSTOP;
	watches.count = 2;
	watch_findings(&session, 0, &list);
	cr_expect_str_eq(
		lines(),
		"watch-stops 0 watch:a: stops the program at each hit\n"
		"watch-outside 0 watch:b: watched from outside: the program is statically linked, so the agent can't be loaded into it\n"
		"watch-stops 0 watch:b: stops the program at each hit\n");
}

Test(findings, session_counts_programs_that_ran_unrecorded)
{
	specs.count = 0;
	session_findings(&session, 1, &list);
	cr_expect_str_empty(lines());
	unrecorded = (struct unrecorded_list){ .all = programs, .count = 2, .unnamed = 4 };
	session_findings(&session, 1, &list);
	cr_assert_str_eq(
		lines(),
		"unrecorded 7: 7 processes ran unrecorded, wholly or in part\n"
		"  unrecorded-program 2 /bin/still: the program is statically linked, so the agent can't be loaded into it\n"
		"  unrecorded-program 1 /bin/other: the program is not x86-64 (pid 7)\n"
		"  unrecorded-program 4: programs whose names were not kept\n");
}

Test(findings, trail_begin_names_origin_that_was_chosen)
{
	struct trail_request request = { .is_auto = 1 };

	specs_of[0] = (struct spec){ .text = (char *)"trail", .trail = &request };
	trail_findings(&session, 0, &list); /* none yet */
	live.has_origin = 1;
	live.origin = ORIGIN_SOFT;
	live.origins[ORIGIN_PT].error = -WM_E_NO_FUNCTION;
	strcpy(live.origins[ORIGIN_PT].detail, "why");
	request.is_auto = 0;
	trail_findings(&session, 0, &list); /* the user's choice */
	request.is_auto = 1;
	trail_findings(&session, 0, &list);
	cr_expect_str_eq(lines(),
			 "origin 0: the trail's origin is soft, a translation of the program\n"
			 "  not-origin 0 not pt: there is no such function (why)\n");
}

Test(findings, trail_end_names_what_went_on_natively)
{
	live.natives.counts[ENGINE_NATIVE_GS] = 1;
	live.natives.pids[ENGINE_NATIVE_GS] = 7;
	live.natives.counts[ENGINE_NATIVE_FILTER] = 2;
	live.natives.after_ns[ENGINE_NATIVE_FILTER] = 1500000000;
	strcpy(live.losses, "x");
	trail_findings(&session, 1, &list);
	cr_expect_str_eq(
		lines(),
		"native 2: 2 processes went on natively (a seccomp filter), the first after 1.50 s: nothing is recorded from then on\n"
		"native 1: process 7 went on natively (the gs segment, which it set) after 0.00 s: nothing is recorded from then on\n"
		"trail-losses 0: the trail is not all that was asked for: x\n");
}

Test(findings, spec_without_match_is_failure_with_near_names)
{
	const char *names[] = { "shop:order", "shop:older" };
	struct name_list near = { .all = (char **)names, .count = 2 };

	specs_of[0] = (struct spec){ .text = (char *)"shop:ordr", .glob = (char *)"shop:ordr" };
	specs_of[1] = (struct spec){ .text = (char *)"func:same",
				     .placed = 2,
				     .matches = 2,
				     .names = { .all = (char **)names, .count = 2 } };
	spec_findings(&specs, &near, 1, &list);
	cr_assert(findings_failure(&list));
	cr_expect_str_eq(
		lines(),
		"unmatched 0 shop:ordr: no marker matches (did you mean shop:order or shop:older?)\n"
		"ambiguous 2 func:same: 2 functions have this name, and all are recorded (shop:order, shop:older)\n");
}

Test(findings, session_reports_unwritable_ledger_once)
{
	struct claim claim = { .resource = CLAIM_SIGTRAP, .scope = CLAIM_OF_USER, .count = 1 };
	uint64_t id;
	char folder[] = "/tmp/waymark-outcome-XXXXXX", path[64], reported[256];
	struct rlimit limit = { 1, RLIM_INFINITY };

	/* no file may be so large */
	cr_assert(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
	snprintf(path, sizeof(path), "%s/waymark", folder);
	specs.count = 0;
	session_findings(&session, 0, &list);
	cr_expect_null(strstr(lines(), "ledger"), "%s", text);
	cr_assert(!setrlimit(RLIMIT_FSIZE, &limit));
	cr_assert_eq(ledger_claim(session_ledger(&session), &claim, 1, &id), 0);
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	snprintf(reported, sizeof(reported),
		 "ledger 0: what this takes is not in the ledger of claims: File too large: %s\n",
		 path);
	session_findings(&session, 0, &list);
	cr_expect(strstr(lines(), reported), "%s", text);
	session_findings(&session, 0, &list);
	cr_expect_null(strstr(lines(), "ledger"), "%s", text);
	ledger_free(session.ledger);
	rmdir(path);
	rmdir(folder);
}
