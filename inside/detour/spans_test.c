/* SPDX-License-Identifier: MIT */
/* What the janitor does with stopped threads: guards that wait, bytes that it stores. */
#include "inside/detour/janitor_process.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define GUARDED UINT64_C(0x10000100) /* never read */
#define GUARDED_BYTES 64
#define INSN_AT 4 /* behind an endbr64 */

/* ---- guards ---- */

static struct control_detour record = {
	.address = GUARDED + INSN_AT,
	.point = GUARDED,
	.guard_bytes = GUARDED_BYTES,
	.insn_bytes = 3,
	.flags = DETOUR_GUARD_MASK,
};
static struct detour detour = { .record = &record };
static struct janitor_site site = { .detour = &detour };
static struct halt_thread thread = { .is_stopped = 1 };
static pid_t child;

/* A child that waits, on a stack that holds nothing. */
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

/* Stop the thread at `pc` and look: the guard's error. The thread stays where it is. */
static int guard_error(uintptr_t pc)
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
		.sites = &site,
		.count = 1,
		.halt = { .threads = &thread, .count = 1 },
		.has_guards = 1,
	};
	janitor_spans_clear(&job);
	cr_assert_eq(ptrace(PTRACE_GETREGS, child, 0, &regs), 0);
	cr_assert_eq(regs.rip, pc);
	return site.error;
}

Test(spans, guard_waits_for_thread_in_function, .init = begin, .fini = end)
{
	cr_assert_eq(guard_error(GUARDED + INSN_AT + 1), -WM_E_DETOUR_BUSY);
	cr_assert_eq(guard_error(GUARDED + GUARDED_BYTES - 1), -WM_E_DETOUR_BUSY);
	/* behind the function */
	cr_assert_eq(guard_error(GUARDED + GUARDED_BYTES), 0);
	/* the thread will run the jump */
	cr_assert_eq(guard_error(GUARDED + INSN_AT), 0);
	cr_assert_eq(guard_error(GUARDED), 0);
	record.flags = 0;
	cr_assert_eq(guard_error(GUARDED + INSN_AT + 1), 0, "no guard");
}

/* ---- storing ---- */

static const uint8_t original[] = { 0x48, 0x89, 0xf8, 0x90 }, armed[] = { 0x48, 0xe9, 0x11, 0x90 };

/*
 * Arm or disarm with these bytes in the code; they become what is in the code then. Returns the
 * site's error.
 */
static int store(uint8_t bytes[static sizeof original], int arm)
{
	static struct stop_job job;
	uint8_t *text = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	cr_assert_neq(text, MAP_FAILED);
	memcpy(text, bytes, sizeof original);
	record = (struct control_detour){
		.address = (uintptr_t)text, .insn_bytes = 3, .kept_bytes = 1, .starts = 1
	};
	memcpy(record.original, original, sizeof original);
	detour.jump = (struct jump){ .form = FORM_BEHIND,
				     .kept = 1,
				     .bytes = { .at = 1, .count = 2, .bytes = { 0xe9, 0x11 } } };
	detour.prot = PROT_READ | PROT_WRITE;
	site.is_done = site.error = 0;
	job = (struct stop_job){
		.self = getpid(), .memory_fd = -1, .arm = arm, .sites = &site, .count = 1
	};
	janitor_spans_store(&job);
	memcpy(bytes, text, sizeof original);
	munmap(text, PAGE_BYTES);
	cr_assert_eq(site.is_done, !site.error);
	return site.error;
}

static void expect_store(const uint8_t *before, int arm, int error, const uint8_t *after)
{
	uint8_t bytes[sizeof original];

	memcpy(bytes, before, sizeof bytes);
	cr_assert_eq(store(bytes, arm), error);
	cr_assert_arr_eq(bytes, after, sizeof bytes);
}

Test(spans, behind_form_is_stored_and_removed)
{
	expect_store(original, 1, 0, armed);
	expect_store(armed, 1, 0, armed);
	expect_store(armed, 0, 0, original);
	expect_store(original, 0, 0, original);
}

Test(spans, foreign_bytes_are_kept)
{
	static const uint8_t held[] = { 0xcc, 0x89, 0xf8, 0x90 },
			     held_armed[] = { 0xcc, 0xe9, 0x11, 0x90 },
			     behind[] = { 0x48, 0x89, 0xf8, 0xcc },
			     other[] = { 0x48, 0x89, 0xf9, 0x90 },
			     other_kept[] = { 0x48, 0x89, 0xf8, 0x91 };

	for (int arm = 0; arm < 2; arm++) {
		expect_store(other, arm, -WM_E_SITE_CHANGED, other);
		expect_store(other_kept, arm, -WM_E_SITE_CHANGED, other_kept);
	}
	expect_store(held, 1, -WM_E_SITE_FOREIGN, held);
	expect_store(held_armed, 1, -WM_E_SITE_FOREIGN, held_armed);
	/* what is ours behind the other tool's byte would be a whole jump once that has gone */
	expect_store(held_armed, 0, 0, held);
	expect_store(held, 0, 0, held);
	/* a breakpoint in a kept byte has its own landing */
	expect_store(behind, 1, 0, (const uint8_t[]){ 0x48, 0xe9, 0x11, 0xcc });
}

Test(spans, unmapped_code_returns_efault)
{
	static struct stop_job job;

	record = (struct control_detour){ .address = PAGE_BYTES, .insn_bytes = 3 };
	job = (struct stop_job){ .self = getpid(), .memory_fd = -1, .sites = &site, .count = 1 };
	janitor_spans_store(&job);
	cr_assert_eq(site.error, -EFAULT);
}
