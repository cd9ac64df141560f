/* SPDX-License-Identifier: MIT */
/*
 * A program is stepped through its start, from one system call to the next, and looked at each
 * time.
 */
#include "target/process/inject.h"
#include "target/process/testing/subject.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS_MAX 2000

struct steps {
	pid_t pid;
	enum startup phase;
	int reported[3]; /* how often of each phase */
};

static void look(struct steps *steps)
{
	struct glibc glibc;
	struct maps maps;
	char path[64];
	enum startup phase;
	int mem, err;

	snprintf(path, sizeof(path), "/proc/%d/mem", steps->pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(mem >= 0 && !maps_read(&maps, steps->pid));
	err = glibc_read(&glibc, steps->pid, &maps, mem, (struct detail){ 0 });
	if (!err) {
		phase = inject_startup_read(steps->pid, mem, &glibc);
		cr_assert_geq(phase, steps->phase, "back from %d to %d", steps->phase, phase);
		steps->phase = phase;
		steps->reported[phase]++;
	}
	maps_release(&maps);
	close(mem);
}

/* Up to its first byte on standard output. */
static void step_through(struct steps *steps)
{
	for (int i = 0; i < CALLS_MAX; i++) {
		struct user_regs_struct regs;
		int status;

		cr_assert_eq(ptrace(PTRACE_SYSCALL, steps->pid, NULL, NULL), 0);
		cr_assert_eq(waitpid(steps->pid, &status, __WALL), steps->pid);
		cr_assert(WIFSTOPPED(status), "it ended: %#x", (unsigned int)status);
		cr_assert_eq(ptrace(PTRACE_GETREGS, steps->pid, NULL, &regs), 0);
		look(steps);
		if (regs.orig_rax == SYS_write && regs.rdi == 1)
			return;
	}
	cr_assert_fail("it never began");
}

static void walk(struct steps *steps, const char *name)
{
	char path[PATH_MAX];
	int status;

	subject_file(path, name);
	steps->pid = fork();
	if (!steps->pid) {
		close(0);
		close(1);
		open("/dev/null", O_RDONLY);
		open("/dev/null", O_WRONLY);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(path, name, "0", NULL);
		_exit(127);
	}
	cr_assert_eq(waitpid(steps->pid, &status, __WALL), steps->pid);
	cr_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	step_through(steps);
	kill(steps->pid, SIGKILL);
	waitpid(steps->pid, NULL, __WALL);
}

/*
 * The loader says that all is loaded while it has yet to unmap its cache, and would do so once
 * more.
 */
Test(startup, the_loader_is_at_work_until_its_last_system_call, .timeout = 60)
{
	struct steps steps = { 0 };

	walk(&steps, "busy");
	cr_expect_gt(steps.reported[STARTUP_LOADING], 0);
	cr_expect_eq(steps.reported[STARTUP_CONSTRUCTING], 0);
	cr_expect_gt(steps.reported[STARTUP_OVER], 0);
}

Test(startup, a_librarys_constructor_runs_between, .timeout = 60)
{
	struct steps steps = { 0 };
	char path[PATH_MAX];

	subject_file(path, "libconstructs.so");
	setenv("LD_PRELOAD", path, 1);
	walk(&steps, "busy");
	cr_expect_gt(steps.reported[STARTUP_LOADING], 0);
	cr_expect_gt(steps.reported[STARTUP_CONSTRUCTING], 0);
	cr_expect_eq(steps.reported[STARTUP_OVER], 0);
}
