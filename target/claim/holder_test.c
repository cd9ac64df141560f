/* SPDX-License-Identifier: MIT */
#include "target/claim/holder.h"
#include "target/claim/testing/fixture.h"

#include <criterion/criterion.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(claim_holder, .init = fixture_setup, .fini = fixture_teardown, .timeout = 60);

static uint64_t ids[3];

static void hold_two_want_one(struct ledger *ledger)
{
	struct claim claims[3];
	pid_t of = getppid();

	claims[0] = fixture_claim(of, 1, 1, "watch:counter");
	claims[1] = fixture_claim(of, 2, 2, "watch:total");
	claims[2] = fixture_claim(of, 1, 3, "watch:next");
	ledger_claim(ledger, claims, 3, ids);
	ledger_confirm(ledger, ids, 2);
}

Test(claim_holder, ours_are_told_with_what_for)
{
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, getpid(), -1 };
	pid_t owner = fixture_owner(hold_two_want_one);
	char text[512], is[128];

	claim_holder_text(&wanted, text, sizeof(text));
	snprintf(is, sizeof(is), "claim_holder_te %d holds 3 (watch:counter, watch:total)", owner);
	cr_expect(strstr(text, is), "%s", text);
	snprintf(is, sizeof(is), "claim_holder_te %d is about to take 1 (watch:next)", owner);
	cr_expect(strstr(text, is), "%s", text);
	/* another resource, another process */
	wanted.resource = CLAIM_SIGTRAP;
	claim_holder_text(&wanted, text, sizeof(text));
	cr_expect(!strstr(text, "watch:"), "%s", text);
	wanted = (struct claim_wanted){ CLAIM_DEBUG_REGISTER, owner, -1 };
	claim_holder_text(&wanted, text, sizeof(text));
	cr_expect(!strstr(text, "watch:"), "%s", text);
	fixture_kill(owner);
}

Test(claim_holder, what_this_request_only_wants_is_not_in_its_way)
{
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, getpid(), -1 };
	struct claim claims[2] = { fixture_claim(getpid(), 1, 1, "watch:mine"),
				   fixture_claim(getpid(), 1, 2, "watch:wish") };
	struct ledger *ledger;
	char text[512];

	cr_assert_eq(ledger_new(&ledger), 0);
	ledger_claim(ledger, claims, 2, ids);
	ledger_confirm(ledger, ids, 1);
	claim_holder_text(&wanted, text, sizeof(text));
	cr_expect(strstr(text, "holds 1 (watch:mine)"), "%s", text);
	cr_expect(!strstr(text, "wish"), "%s", text);
	ledger_free(ledger);
}

static pid_t waiting_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

Test(claim_holder, the_tracer_is_named)
{
	pid_t child = waiting_child();
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, child, -1 };
	char text[512], is[128];

	cr_assert_eq(ptrace(PTRACE_SEIZE, child, 0, 0), 0);
	claim_holder_text(&wanted, text, sizeof(text));
	snprintf(is, sizeof(is), "claim_holder_te %d traces it", getpid());
	cr_expect(strstr(text, is), "%s", text);
	fixture_kill(child);
}

static int breakpoint(pid_t tid, uint64_t *word)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT,
					.size = sizeof(attr),
					.bp_type = HW_BREAKPOINT_W,
					.bp_addr = (uintptr_t)word,
					.bp_len = HW_BREAKPOINT_LEN_8,
					.disabled = 1,
					.exclude_kernel = 1,
					.exclude_hv = 1 };

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t word;

static void open_two(struct ledger *ledger)
{
	(void)ledger; /* it writes nothing down */
	if (breakpoint(0, &word) < 0 || breakpoint(0, &word) < 0)
		_exit(1);
}

static void open_and_claim(struct ledger *ledger)
{
	open_two(ledger);
	hold_two_want_one(ledger);
}

static int may_have_breakpoints(void)
{
	int fd = breakpoint(0, &word);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

Test(claim_holder, who_writes_nothing_down_is_named_by_his_descriptors)
{
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, getpid(), -1 };
	struct claim_holders holders;
	pid_t owner, writer;
	size_t found = 0;
	char text[16384], is[128];

	if (!may_have_breakpoints())
		fixture_skip("no breakpoints may be opened here");
	owner = fixture_owner(open_two);
	writer = fixture_owner(open_and_claim);
	cr_assert_eq(claim_holders_find(&holders, &wanted), 0);
	for (size_t i = 0; i < holders.perf_count; i++) {
		cr_expect_neq(holders.perf[i].pid, writer, "it is named by the ledger");
		if (holders.perf[i].pid != owner)
			continue;
		found++;
		cr_expect_eq(holders.perf[i].descriptors, 2);
		cr_expect_str_eq(holders.perf[i].comm, "claim_holder_te");
	}
	cr_expect_eq(found, 1);
	claim_holders_words(&holders, text, sizeof(text));
	snprintf(is, sizeof(is), "claim_holder_te %d has 2 perf events open", owner);
	cr_expect(strstr(text, is), "%s", text);
	claim_holders_release(&holders);
	fixture_kill(owner);
	fixture_kill(writer);
}

/* As user nobody: the text counts the processes that are not shown. */
Test(claim_holder, processes_that_may_not_be_looked_into_are_counted)
{
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, getpid(), -1 };
	struct claim_holders holders;
	int status;
	pid_t pid;

	if (geteuid())
		fixture_skip("there may be none");
	pid = fork();
	if (!pid) {
		if (setgid(BED_NOBODY) || setuid(BED_NOBODY) ||
		    claim_holders_find(&holders, &wanted))
			_exit(1);
		_exit(holders.unreadable ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(WEXITSTATUS(status), 0);
}

Test(claim_holder, words_are_cut_where_there_is_no_room)
{
	struct claim_holders holders = { .tracer_pid = 17, .tracer_comm = "gdb", .unreadable = 1 };
	char text[16];

	cr_expect_eq(claim_holders_words(&holders, NULL, 0),
		     strlen("gdb 17 traces it; 1 process of others can't be looked into"));
	claim_holders_words(&holders, text, sizeof(text));
	cr_expect_str_eq(text, "gdb 17 traces i");
}
