/* SPDX-License-Identifier: MIT */
/*
 * filters [within]: system calls that are refused, by filters that were there before the program,
 * or that it makes itself.
 */
#include "seen.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

static void trapped(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	printf("%d code %d call %d errno %d, at the call's end %d, rax %lld\n", number,
	       info->si_code, info->si_syscall, info->si_errno,
	       (uintptr_t)info->si_call_addr == (uintptr_t)context->uc_mcontext.gregs[REG_RIP],
	       context->uc_mcontext.gregs[REG_RAX]);
	context->uc_mcontext.gregs[REG_RAX] = 4242;
}

static volatile long ticks;
static void tick(int number, siginfo_t *info, void *data)
{
	(void)number, (void)info, (void)data;
	ticks++;
}

static void refuse(int number, unsigned int with)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, with),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		printf("no filter: %d\n", errno);
}

static void run(void)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	volatile unsigned int sum = 0;

	seen_ask(SIGSYS, 0, trapped, 0);
	seen_ask(SIGALRM, 0, tick, 0);
	printf("getppid %ld\n", syscall(SYS_getppid));
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < 300)
		for (int i = 0; i < 1000; i++)
			sum = sum * 31 + (unsigned int)i;
	setitimer(ITIMER_REAL, &never, NULL);
	printf("ticks\n");
}

int main(int words, char **word)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (words > 1 && !strcmp(word[1], "within")) {
		refuse(SYS_getppid, SECCOMP_RET_TRAP | 77);
		refuse(SYS_rt_tgsigqueueinfo, SECCOMP_RET_KILL_PROCESS);
		run();
		return 0;
	}
	run();
	return 0;
}
