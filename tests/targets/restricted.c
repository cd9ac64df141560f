/* SPDX-License-Identifier: MIT */
/* restricted [HOW]: restricts itself, prints "ready", and calls work() until it is killed. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

volatile int counter;
static char block[64], is_blocking; /* 0: system calls are allowed */
static volatile int is_ready;

__attribute__((noipa)) int work(int value)
{
	counter = value;
	return value + 1;
}

static int filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int gs(void)
{
	return (int)syscall(SYS_arch_prctl, ARCH_SET_GS, block);
}

static void *thread(void *data)
{
	is_ready = ((int (*)(void))data)() ? -1 : 1;
	for (;;)
		pause();
	return NULL;
}

static int in_thread(int (*how)(void))
{
	pthread_t other;

	if (pthread_create(&other, NULL, thread, (void *)how))
		return -1;
	while (!is_ready)
		usleep(1000);
	return is_ready < 0;
}

static int restrict_as(const char *how)
{
	if (!strcmp(how, "undumpable"))
		return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (!strcmp(how, "gs"))
		return gs();
	if (!strcmp(how, "gs_thread"))
		return in_thread(gs);
	if (!strcmp(how, "filter_thread"))
		return in_thread(filter);
	if (!strcmp(how, "mlockall"))
		return mlockall(MCL_CURRENT | MCL_FUTURE);
	if (!strcmp(how, "dispatch"))
		return prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &is_blocking);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && restrict_as(argv[1])) {
		perror(argv[1]);
		return 77;
	}
	puts("ready");
	fflush(stdout);
	for (int value = 0;; value = work(value))
		usleep(2000);
}
