/* SPDX-License-Identifier: MIT */
/* Whether int $0x80 makes a system call. */
#include "target/trial/simulate.h"
#include "target/trial/trial_groups.h"

#include <signal.h>
#include <unistd.h>

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
