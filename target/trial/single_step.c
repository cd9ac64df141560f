/* SPDX-License-Identifier: MIT */
/*
 * Where a single step ends. A hypervisor that emulates an instruction may drop its trap: the next
 * one comes an instruction late.
 */
#include "target/trial/simulate.h"
#include "target/trial/trial_groups.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each instruction has two nops behind it. */
__asm__(".pushsection .text\n"
	"trial_step_cpuid: cpuid\n"
	"trial_step_cpuid_end: nop; nop\n"
	"trial_step_rdtsc: rdtsc\n"
	"trial_step_rdtsc_end: nop; nop\n"
	"trial_step_syscall: syscall\n"
	"trial_step_syscall_end: nop; nop\n"
	"trial_step_pushf: pushf\n"
	"trial_step_pushf_end: nop; nop\n"
	"trial_step_mov_ss: mov %eax, %ss\n"
	"trial_step_mov_ss_end: nop; nop\n"
	".popsection");

#define LABELS(name) extern const char trial_step_##name[], trial_step_##name##_end[];
LABELS(cpuid)
LABELS(rdtsc)
LABELS(syscall)
LABELS(pushf)
LABELS(mov_ss)

/* Stopped, for the tracer, which ends it. */
static _Noreturn void be_stepped(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(1);
	kill(getpid(), SIGSTOP);
	_exit(0);
}

static int await_stop(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSTOPPED(status) ? 0 : -ECANCELED;
}

static int step_once(pid_t pid, struct user_regs_struct *regs)
{
	int err;

	if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL))
		return -errno;
	err = await_stop(pid);
	if (!err && ptrace(PTRACE_GETREGS, pid, NULL, regs))
		err = -errno;
	return err;
}

/* `late` is how many of the nops behind it run before the trap, by the manual. */
static void try_step(struct trial_answer *answer, pid_t pid, const char *from, const char *end,
		     unsigned int late)
{
	struct user_regs_struct regs;
	long long over;
	int err = ptrace(PTRACE_GETREGS, pid, NULL, &regs) ? -errno : 0;

	regs.rip = (uintptr_t)from;
	regs.orig_rax = (unsigned long long)-1; /* or a system call would be restarted */
	regs.rax = from == trial_step_syscall ? SYS_getpid : regs.ss;
	if (!err && ptrace(PTRACE_SETREGS, pid, NULL, &regs))
		err = -errno;
	if (!err)
		err = step_once(pid, &regs);
	if (!err && from == trial_step_cpuid && simulate_is_on(SIMULATED_STEP_TRAP))
		err = step_once(pid, &regs);
	if (err) {
		trial_unknown(answer, err);
		return;
	}
	over = (long long)(regs.rip - (uintptr_t)end);
	if (over == late)
		trial_says(answer, 1, "%s", "");
	else
		trial_says(answer, 0, "it stopped %lld byte(s) behind the next instruction's begin",
			   over);
}

void trial_group_step(struct trial_answer answers[TRIAL_COUNT])
{
	pid_t parent = getpid(), pid = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	int err;

	if (!pid)
		be_stepped(parent);
	err = pid < 0 ? -errno : await_stop(pid);
	for (int i = TRIAL_STEP_CPUID; err && i <= TRIAL_STEP_MOV_SS; i++)
		trial_unknown(&answers[i], err);
	if (!err) {
#define TRY(id, name, late)                                                                        \
	try_step(&answers[TRIAL_STEP_##id], pid, trial_step_##name, trial_step_##name##_end, late)
		TRY(CPUID, cpuid, 0);
		TRY(RDTSC, rdtsc, 0);
		TRY(SYSCALL, syscall, 0);
		TRY(PUSHF, pushf, 0);
		TRY(MOV_SS, mov_ss,
		    1); /* Intel SDM vol. 3, 6.8.3: traps wait for one instruction */
#undef TRY
	}
	if (pid > 0)
		kill(pid, SIGKILL);
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

static struct trial_answer *fallen;

static void on_fault(int signal)
{
	trial_says(fallen, 0, "%s", signal == SIGSEGV ? "SIGSEGV" : "a signal");
	_exit(0);
}

void trial_group_int80(struct trial_answer answers[TRIAL_COUNT])
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP };
	struct sigaction action = { .sa_handler = on_fault };
	long result = 20; /* __NR_getpid of 32-bit code: arch/x86/entry/syscalls/syscall_32.tbl */

	fallen = &answers[TRIAL_INT80];
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigaction(faults[i], &action, NULL);
	if (simulate_is_on(SIMULATED_INT80))
		raise(SIGSEGV);
	__asm__ volatile("int $0x80" : "+a"(result)::"r8", "r9", "r10", "r11", "memory");
	if (result == getpid())
		trial_says(fallen, 1, "%s", "");
	else
		trial_says(fallen, 0, "getpid returned %ld", result);
}
