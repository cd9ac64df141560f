/* SPDX-License-Identifier: MIT */
/* What a process asks for all its threads, and what it may not do any more: rights SCENE. */
#include "seen.h"

#include <asm/prctl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#define PR_SYS_DISPATCH_OFF 0
#endif

#define THREADS 6
static volatile int is_over, running;
static int pipes[2];
static long results[THREADS];

static long work(long rounds)
{
	long sum = 0;

	for (long i = 0; i < rounds; i++)
		sum += (i * 7) ^ (sum >> 2);
	return sum;
}

/*
 * Threads of each kind: in a call that lasts, in calls all the time, in none, asleep for a while.
 */
static void *other(void *data)
{
	long kind = (long)data;
	char byte;

	__atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
	while (!is_over) {
		if (kind % 4 == 0)
			results[kind] = read(pipes[0], &byte, 1);
		else if (kind % 4 == 1)
			results[kind] = syscall(SYS_getppid);
		else if (kind % 4 == 2)
			results[kind] = work(1000);
		else
			usleep(30000);
	}
	if (kind % 4 == 1)
		results[kind] = syscall(SYS_getppid);
	return NULL;
}

static pthread_t threads[THREADS];

static void begin(void)
{
	if (pipe(pipes))
		return;
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, other, (void *)i);
	while (running < THREADS)
		usleep(1000);
	usleep(20000);
}

static void finish(void)
{
	usleep(50000);
	is_over = 1;
	if (write(pipes[1], "xxxx", 4) != 4)
		printf("no write\n");
	for (long i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (long i = 0; i < 3; i++)
		printf("%ld: %ld\n", i, i == 1 && results[i] > 0 ? 1 : results[i]);
}

/* All but a few calls are the end: who has them in any thread, dies. */
static void filtered(int is_all)
{
	static const int allowed[] = { SYS_read,
				       SYS_write,
				       SYS_exit,
				       SYS_exit_group,
				       SYS_futex,
				       SYS_getppid,
				       SYS_clock_nanosleep,
				       SYS_newfstatat,
				       SYS_rt_sigreturn,
				       SYS_restart_syscall,
				       SYS_munmap,
				       SYS_madvise,
				       SYS_nanosleep,
				       SYS_rt_sigprocmask };
	struct sock_filter code[64] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { .filter = code };
	unsigned short at = 1;

	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  (unsigned int)allowed[i], 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K,
			allowed[i] == SYS_getppid ? SECCOMP_RET_ERRNO | 77 : SECCOMP_RET_ALLOW);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	program.len = at;
	begin();
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	printf("filter %ld\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				       is_all ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program));
	printf("parent %ld %d\n", syscall(SYS_getppid), errno);
	finish();
}

static void synced(void)
{
	filtered(1);
}

static void alone(void)
{
	filtered(0);
}

static volatile char selector;
static volatile int caught;
static void dispatched(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	(void)number;
	selector = 0;
	caught++;
	context->uc_mcontext.gregs[REG_RAX] = 1000 + info->si_syscall;
}

static void dispatch(void)
{
	long result;

	begin();
	seen_ask(SIGSYS, 0, dispatched, 0);
	result = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector);
	printf("dispatch %ld\n", result);
	if (!result) {
		selector = 1;
		result = syscall(SYS_getppid);
		printf("result %ld, caught %d\n", result, caught);
		prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
	}
	finish();
}

static volatile int faults;
static void mend(int number, siginfo_t *info, void *data)
{
	(void)number, (void)info;
	faults++;
	((ucontext_t *)data)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void own_gs(void)
{
	static uint64_t block[4] = { 0x1234, 0x5678 };
	uint64_t base = 1, value;

	begin();
	syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
	printf("gs %lx\n", base);
	printf("set %ld\n", syscall(SYS_arch_prctl, ARCH_SET_GS, block));
	syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
	__asm__ volatile("mov %%gs:8, %0" : "=r"(value));
	printf("gs is it %d, value %lx\n", base == (uint64_t)block, value);
	seen_ask(SIGILL, 0, mend, 0);
	seen_ask(SIGSEGV, 0, mend, 0);
	for (int i = 0; i < 100; i++)
		__asm__ volatile("ud2\n\t" ::: "memory");
	__asm__ volatile("movb %%al, (%%rdx)" : : "a"(1), "d"(8ul) : "memory");
	__asm__ volatile("mov %%gs:8, %0" : "=r"(value));
	printf("faults %d, value %lx\n", faults, value);
	syscall(SYS_arch_prctl, ARCH_SET_GS, 0xdead0000ul);
	__asm__ volatile("ud2");
	__asm__ volatile("movb %%al, (%%rdx)" : : "a"(1), "d"(8ul) : "memory");
	printf("faults %d\n", faults);
	finish();
	syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
	printf("gs %lx\n", base);
}

static void user(void)
{
	begin();
	if (geteuid()) {
		printf("no root\n");
	} else {
		printf("%d %d %d\n", setgroups(0, NULL), setresgid(65534, 65534, 65534),
		       setresuid(65534, 65534, 65534));
		printf("now %d %d\n", getuid(), geteuid());
	}
	printf("again %d\n", setuid(0) ? errno : 0);
	finish();
}

static void *cancelled(void *data)
{
	pthread_setcanceltype(data ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, NULL);
	for (;;)
		if (data)
			work(100);
		else
			usleep(500);
	return NULL;
}

static void barriers(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	void *result;
	int status;

	begin();
	printf("barriers %d", syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0) > 0);
	printf(" %ld", syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0));
	printf(" %ld", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0));
	printf(" %ld",
	       syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0));
	printf(" %ld\n", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0));
	for (long i = 0; i < 20; i++) {
		pthread_create(&thread, NULL, cancelled, (void *)(i & 1));
		if (i & 2)
			usleep(1000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED)
			printf("not cancelled\n");
	}
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(mutex, &attributes);
	if (!fork()) {
		pthread_mutex_lock(mutex);
		_exit(0);
	}
	wait(&status);
	status = pthread_mutex_lock(mutex);
	printf("owner died %d\n", status == EOWNERDEAD);
	finish();
}

static void dumpable(void)
{
	begin();
	printf("%d", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
	printf(" %d", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
	printf(" %d", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	printf(" %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	finish();
}

/* A tracer of its own child. */
static void tracer(void)
{
	pid_t pid;
	int status, steps = 0, stops = 0;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	printf("stopped %x\n", status);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL);
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	printf("executed %x\n", status);
	for (; steps < 500; steps++) {
		ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			break;
	}
	printf("stepped %d %x\n", steps, status);
	while (WIFSTOPPED(status)) {
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
		waitpid(pid, &status, 0);
		stops++;
	}
	printf("calls %d, ended %x\n", stops > 10, status);
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenes[] = {
		{ "synced", synced },	  { "alone", alone },	{ "dispatch", dispatch },
		{ "own_gs", own_gs },	  { "user", user },	{ "barriers", barriers },
		{ "dumpable", dumpable }, { "tracer", tracer },
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned int i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (count > 1 && !strcmp(words[1], scenes[i].name))
			scenes[i].run();
	return 0;
}
