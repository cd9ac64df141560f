/* SPDX-License-Identifier: MIT */
/* Where a stopped thread goes on that stands in a span, or on a relay. */
#define _GNU_SOURCE
#include "agent/detour/stop.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define SPAN UINT64_C(0x10000100) /* nothing of it is read */
#define SPAN_BYTES 7
#define SECOND 3 /* in it, the second instruction */
#define RELAY (SPAN + 64)
#define CODE UINT64_C(0x20000000)
#define SECOND_MOVED 11

static struct control_detour record = {
	.address = SPAN,
	.span_bytes = SPAN_BYTES,
	.tier = TIER_SEVERAL,
	.move_count = 2,
};
static const struct detour_move moves[] = { { 0 }, { .from = SECOND, .to = SECOND_MOVED } };
static struct detour detour = { .record = &record, .moves = moves, .code = CODE, .relay = RELAY };
static struct janitor_site site = { .detour = &detour };
static struct stopped thread = { .is_stopped = 1 };
static pid_t child;

/* A child that stands still, on a stack that holds nothing. */
static void begin(void)
{
	int status;

	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	if (!WIFSTOPPED(status))
		cr_skip_test("nothing may be traced here");
	thread.tid = child;
}

static void end(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Where the thread goes on that stood there. */
static uintptr_t goes_on_at(uintptr_t pc, int arm)
{
	static struct stop_job job;
	struct user_regs_struct regs;

	cr_assert_eq(ptrace(PTRACE_GETREGS, child, 0, &regs), 0);
	regs.rip = pc;
	regs.rsp = PAGE_BYTES; /* where nothing is mapped */
	regs.orig_rax = (unsigned long long)-1;
	cr_assert_eq(ptrace(PTRACE_SETREGS, child, 0, &regs), 0);
	job = (struct stop_job){
		.self = child,
		.arm = arm,
		.sites = &site,
		.count = 1,
		.threads = &thread,
		.thread_count = 1,
		.first = SPAN - 16, /* another site's */
		.last = RELAY + DETOUR_RELAY_BYTES,
		.has_relays = 1,
	};
	spans_clear(&job);
	cr_assert_eq(ptrace(PTRACE_GETREGS, child, 0, &regs), 0);
	return regs.rip;
}

TestSuite(spans, .init = begin, .fini = end);

Test(spans, a_thread_in_the_middle_goes_on_in_the_trampoline)
{
	cr_assert_eq(goes_on_at(SPAN + SECOND, 1), CODE + SECOND_MOVED);
	cr_assert_eq(site.error, 0);
	/* where no instruction begins it is waited for */
	cr_assert_eq(goes_on_at(SPAN + SECOND + 1, 1), SPAN + SECOND + 1);
	cr_assert_eq(site.error, -WM_E_DETOUR_BUSY);
	/* and is gone at the next try */
	cr_assert_eq(goes_on_at(SPAN + SPAN_BYTES, 1), SPAN + SPAN_BYTES);
	cr_assert_eq(site.error, 0);
}

Test(spans, a_thread_at_either_end_stays)
{
	cr_assert_eq(goes_on_at(SPAN, 1), SPAN, "the jump is for it, too");
	cr_assert_eq(site.error, 0);
	cr_assert_eq(goes_on_at(SPAN + SPAN_BYTES, 1), SPAN + SPAN_BYTES);
	cr_assert_eq(site.error, 0);
}

Test(spans, a_thread_in_the_middle_stays_where_nothing_is_stored)
{
	site.is_done = 1;
	cr_assert_eq(goes_on_at(SPAN + SECOND, 1), SPAN + SECOND);
	site.is_done = 0;
	cr_assert_eq(goes_on_at(SPAN + SECOND, 0), SPAN + SECOND);
	cr_assert_eq(site.error, 0);
}

Test(spans, a_thread_on_a_relay_goes_on_before_that_is_filler_again)
{
	cr_assert_eq(goes_on_at(RELAY, 0), CODE);
	cr_assert_eq(goes_on_at(RELAY, 1), RELAY);
	cr_assert_eq(goes_on_at(RELAY + 1, 0), RELAY + 1, "it can't be there by our jump");
}
