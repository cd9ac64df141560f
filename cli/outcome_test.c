/* SPDX-License-Identifier: MIT */
#include "cli/outcome.h"

#include "cli/watch_counts.h"
#include "record/probe/probes.h"
#include "record/session/patience.h"
#include "record/session/unrecorded.h"
#include "record/watch/watches.h"
#include "target/claim/ledger.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

static struct probe_refusal refused[] = {
	{ "m:a", "/lib/m.so", "why \"this\"", 16, -WM_E_NO_FUNCTION, 0 },
	{ "m:b", "", "", 0, -WM_E_NO_FUNCTION, 0 },
};
static struct probe_foreign foreign[] = {
	{ .name = (char *)"m:c", .pid = 9, .begin_ns = 1000000000, .end_ns = 2500000000 },
	{ .name = (char *)"m:d", .pid = 9, .begin_ns = 1000000000 },
};
static const struct probes probes = {
	.wanted = 7,
	.unarmed = 3,
	.foreign = foreign,
	.foreign_count = 2,
	.unsafe = 5,
	.late = 2,
	.late_starts = 4,
	.refusals = { .all = refused, .count = 2 },
};

Test(outcome, programs_are_told_of_each_place_that_is_not_recorded)
{
	static struct out out;
	struct json json = { &out, 0 };

	out_init(&out, -1);
	outcome_json(&json, &probes);
	out_char(&out, 0);
	cr_assert_str_eq(
		out.bytes,
		"\"held\":[{\"name\":\"m:c\",\"pid\":9,\"seconds\":1.500000},"
		"{\"name\":\"m:d\",\"pid\":9,\"seconds\":null}],\"unstoppable\":[],\"unsafe\":5,"
		"\"places\":7,\"unarmed\":3,\"late_modules\":2,\"late_processes\":4,"
		"\"refusals\":["
		"{\"name\":\"m:a\",\"module\":\"/lib/m.so\",\"address\":16,"
		"\"reason\":\"there is no such function\",\"detail\":\"why \\\"this\\\"\"},"
		"{\"name\":\"m:b\",\"module\":\"\",\"address\":0,"
		"\"reason\":\"there is no such function\",\"detail\":\"\"}]");
}

Test(outcome, people_are_told_of_each_place_that_is_not_recorded, .init = cr_redirect_stderr)
{
	struct probes all = probes;
	struct wm_session session = { .probes = &all,
				      .patience = &(struct patience){ .has_given_up = 0 } };

	outcome_refusals(&session, 1);
	cr_assert_stderr_eq_str(
		"waymark: 3 places were not armed: their process or the recording ended first\n"
		"waymark: 4 processes were kept waiting for too long, and ran unrecorded at first\n"
		"waymark: 2 modules took so long that their code ran unrecorded at first\n"
		"waymark: 2 of 7 places were refused:\n"
		"  2: there is no such function\n"
		"    (see what there is: waymark list --func, or wm_list_process(); of a stripped file only what it exports has a name)\n"
		"    m:a at 0x10 in /lib/m.so: why \"this\"\n"
		"    m:b\n");
}

Test(outcome, people_are_told_when_another_tool_stood_there, .init = cr_redirect_stderr)
{
	outcome_foreign(&probes, 0);
	cr_assert_stderr_eq_str(
		"waymark: hits are missing: another tool's breakpoint was there, or the program changed the place:\n"
		"  m:c in process 9: for 1.500 s\n"
		"  m:d in process 9: until the end\n");
}

Test(outcome, what_can_be_done_is_told_on_request_and_where_nothing_was_armed,
     .init = cr_redirect_stderr)
{
	struct probes bare = { .wanted = 7, .refusals = probes.refusals };

	struct wm_session session = { .probes = &bare,
				      .patience = &(struct patience){ .has_given_up = 0 },
				      .sites = 5 };

	outcome_refusals(&session, 0);
	session.sites = 0;
	outcome_refusals(&session, 0);
	cr_assert_stderr_eq_str(
		"waymark: 2 of 7 places were refused (-v names all):\n"
		"  2: there is no such function: m:a, m:b\n"
		"waymark: 2 of 7 places were refused (-v names all):\n"
		"  2: there is no such function: m:a, m:b\n"
		"    (see what there is: waymark list --func, or wm_list_process(); of a stripped file only what it exports has a name)\n");
}

Test(outcome, processes_that_cannot_stop_their_threads_are_named, .init = cr_redirect_stderr)
{
	struct probe_unstoppable all[12] = {
		{ .pid = 5, .comm = "httpd", .places = 1 },
		{ .pid = 6, .comm = "other", .is_dumpable = 1, .places = 3 }
	};
	struct probes many = { .unstoppable = all, .unstoppable_count = 2 };

	outcome_unstoppable(&(struct probes){ 0 }, 0);
	outcome_unstoppable(&many, 0);
	many.unstoppable_count = 12;
	for (int i = 2; i < 12; i++)
		all[i] = all[0];
	outcome_unstoppable(&many, 0);
	cr_assert_stderr_eq_str(
#define FIRST                                                                                      \
	"waymark: process 5 (httpd) is not dumpable, so it may not stop its own threads: 1 place was refused there\n"
#define SECOND                                                                                     \
	"waymark: process 6 (other) may not stop its own threads: 3 places were refused there\n"
#define HINT                                                                                       \
	"  record it as root, or let it be dumpable (CoreDumpDirectory of Apache, process.dumpable of php-fpm, set-dumpable of HAProxy), with no seccomp filter and kernel.yama.ptrace_scope at most 1; waymark doctor -p PID shows which it is\n"
		FIRST SECOND HINT FIRST SECOND FIRST FIRST FIRST FIRST FIRST FIRST FIRST FIRST
		"  and in 2 more processes (-v lists them)\n" HINT);
}

static struct unrecorded programs[] = {
	{ .program = "/bin/still", .error = -WM_E_STATIC_PROGRAM, .processes = 2 },
	{ .program = "/bin/other", .detail = "pid 7", .error = -WM_E_FOREIGN_ARCH, .processes = 1 },
};
static const struct unrecorded_list unrecorded = { .all = programs, .count = 2, .unnamed = 4 };

Test(outcome, people_are_told_of_programs_that_ran_unrecorded, .init = cr_redirect_stderr)
{
	outcome_unrecorded(&(struct unrecorded_list){ 0 });
	outcome_unrecorded(&unrecorded);
	cr_assert_stderr_eq_str(
		"waymark: 7 processes ran unrecorded, wholly or in part:\n"
		"  2: /bin/still: the program is statically linked, so the agent can't be loaded into it\n"
		"  1: /bin/other: the program is not x86-64: pid 7\n"
		"  4: programs whose names were not kept\n"
		"  others that ended within some 20 ms may be missing here (waymark-limits(7))\n");
}

Test(outcome, programs_are_told_of_programs_that_ran_unrecorded)
{
	static struct out out;
	struct json json = { &out, 0 };

	out_init(&out, -1);
	outcome_unrecorded_json(&json, &unrecorded);
	out_char(&out, 0);
	cr_assert_str_eq(
		out.bytes,
		"\"unrecorded\":[{\"program\":\"/bin/still\",\"processes\":2,\"reason\":"
		"\"the program is statically linked, so the agent can't be loaded into it\",\"detail\":\"\","
		"\"remedy\":\"link it with libwaymark-agent.a and call wm_agent_listen()\"},"
		"{\"program\":\"/bin/other\",\"processes\":1,\"reason\":"
		"\"the program is not x86-64\",\"detail\":\"pid 7\",\"remedy\":\"build it for x86-64\"}],\"unrecorded_unnamed\":4");
}

Test(outcome, a_ledger_that_can_t_be_had_is_told_once, .init = cr_redirect_stderr)
{
	struct wm_session session = { 0 };
	struct claim claim = { .resource = CLAIM_SIGTRAP, .scope = CLAIM_OF_USER, .count = 1 };
	uint64_t id;

	char folder[] = "/tmp/waymark-outcome-XXXXXX", path[64], reported[256];

	struct rlimit limit = { 1, RLIM_INFINITY };

	/* no file may be so large */
	cr_assert(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
	snprintf(path, sizeof(path), "%s/waymark", folder);
	outcome_unclaimed(&session);
	cr_assert(!setrlimit(RLIMIT_FSIZE, &limit));
	cr_assert_eq(ledger_claim(session_ledger(&session), &claim, 1, &id), 0);
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	outcome_unclaimed(&session);
	outcome_unclaimed(&session);
	ledger_free(session.ledger);
	snprintf(reported, sizeof(reported),
		 "waymark: what this takes is not in the ledger of claims: File too large: %s\n"
		 "  it is recorded all the same; others do not see who has it\n",
		 path);
	cr_assert_stderr_eq_str(reported);
	rmdir(path);
	rmdir(folder);
}

Test(outcome, missed_hits_of_a_lost_watch_blame_no_thread, .init = cr_redirect_stderr)
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
