/* SPDX-License-Identifier: MIT */
/*
 * For trails: trailed MODE [COUNT] does one thing in few instructions, without a C library, since
 * each takes long when it is stepped through. Its exit status shows whether everything was right:
 * see main().
 */
#include "call.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define RESTORER 0x04000000

/* As the kernel has it. */
struct action {
	void (*handler)(int signal);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

static volatile int seen;

__asm__(".globl restore\nrestore: mov $15, %eax\nsyscall\n");
void restore(void);

static void on_signal(int signal)
{
	(void)signal;
	seen++;
}

static void handle(int signal)
{
	struct action action = { on_signal, RESTORER, restore, 0 };

	call(SYS_rt_sigaction, signal, (long)&action, 0, 8);
}

static void nap_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	call(SYS_nanosleep, (long)&time, (long)&time, 0, 0);
}

static void loop(int turns)
{
	for (volatile int i = 0; i < turns; i++)
		;
}

static int timers(int count)
{
	struct itimerval every = { { 0, 5000 }, { 0, 5000 } };

	handle(SIGALRM);
	call(SYS_setitimer, ITIMER_REAL, (long)&every, 0, 0);
	while (seen < count)
		call(SYS_pause, 0, 0, 0, 0);
	return 8;
}

/* The first SIGCONT counts: the waiting side sends one after the other. */
static int stops(void)
{
	struct action action = { on_signal, RESTORER | SA_RESETHAND, restore, 0 };

	call(SYS_rt_sigaction, SIGCONT, (long)&action, 0, 8);
	call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGSTOP, 0, 0);
	return seen == 1 ? 6 : 1;
}

/* vfork(2) by clone, so that no stack is shared by two returns. */
static int spawns(long flags)
{
	static char stack[4096] __attribute__((aligned(16)));
	register long r10 __asm__("r10") = 0;
	int status = 0;
	long child;

	__asm__ volatile("syscall\n test %%rax, %%rax\n jnz 1f\n"
			 " mov $100, %%ecx\n2: dec %%ecx\n jnz 2b\n"
			 " mov $3, %%edi\n mov $60, %%eax\n syscall\n1:"
			 : "=a"(child)
			 : "a"(SYS_clone), "D"(flags | SIGCHLD), "S"(stack + sizeof(stack)), "d"(0),
			   "r"(r10)
			 : "rcx", "r11", "memory");
	call(SYS_wait4, child, (long)&status, 0, 0);
	return status == 3 << 8 ? 11 : 1;
}

static int executes(char **argv, char **environment)
{
	call(SYS_execve, (long)argv[0], (long)argv, (long)environment, 0);
	return 1;
}

/* SIGTRAP, which a step needs for itself. */
static int ignores(void)
{
	struct action ignored = { SIG_IGN, RESTORER, restore, 0 }, now = { 0 };

	call(SYS_rt_sigaction, SIGTRAP, (long)&ignored, 0, 8);
	loop(3);
	call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGTRAP, 0, 0);
	call(SYS_rt_sigaction, SIGTRAP, 0, (long)&now, 8);
	return now.handler == SIG_IGN ? 12 : 1;
}

static long ignore_trap(void)
{
	struct action ignored = { SIG_IGN, RESTORER | SA_RESTART, restore, 1ul << (SIGUSR2 - 1) };

	return call(SYS_rt_sigaction, SIGTRAP, (long)&ignored, 0, 8);
}

/* A child ignores it too, and is not ended by one. */
static int bequeaths(void)
{
	struct action now = { 0 };
	int status = 0;
	long child;

	ignore_trap();
	loop(3);
	child = call(SYS_clone, SIGCHLD, 0, 0, 0);
	if (!child) {
		call(SYS_rt_sigaction, SIGTRAP, 0, (long)&now, 8);
		call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGTRAP, 0, 0);
		call(SYS_exit_group, now.handler == SIG_IGN && now.mask == 1ul << (SIGUSR2 - 1), 0,
		     0, 0);
	}
	call(SYS_wait4, child, (long)&status, 0, 0);
	return status == 1 << 8 ? 14 : 1;
}

/* A signal's data: siginfo_t, as far as it is looked at. */
struct said {
	int signal, error, code, pad;
	int pid, uid;
	long value, rest[12];
};

static struct said heard;

static void on_said(int signal, struct said *said)
{
	(void)signal;
	heard = *said;
	seen++;
}

static int is_heard(int code, int pid, long value)
{
	return heard.code == code && heard.pid == pid && (code != -1 || heard.value == value);
}

/*
 * SIGTRAP that is sent while it is blocked, by rt_sigqueueinfo(2) and kill(2), comes with what was
 * said.
 */
static int hears(void)
{
	struct action action = { (void (*)(int))on_said, RESTORER | SA_SIGINFO, restore, 0 };
	unsigned long mask = 1ul << (SIGTRAP - 1);
	struct timespec most = { 5, 0 };
	int self = (int)call(SYS_getpid, 0, 0, 0, 0);
	struct said said = { .code = -1, .pid = 11, .uid = 12, .value = 0x123456789abcdef };

	call(SYS_rt_sigaction, SIGTRAP, (long)&action, 0, 8);
	for (int by_kill = 0; by_kill < 2; by_kill++) {
		for (int waits = 0; waits < 2; waits++) {
			heard = (struct said){ 0 };
			call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, 8);
			if (by_kill)
				call(SYS_kill, self, SIGTRAP, 0, 0);
			else
				call(SYS_rt_sigqueueinfo, self, SIGTRAP, (long)&said, 0);
			loop(3);
			call(SYS_getpid, 0, 0, 0, 0);
			loop(3);
			if (waits)
				call(SYS_rt_sigtimedwait, (long)&mask, (long)&heard, (long)&most,
				     8);
			call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, 0, 8);
			if (by_kill ? !is_heard(0, self, 0) : !is_heard(-1, 11, said.value))
				return 1 + 2 * by_kill + waits;
		}
	}
	return seen == 2 ? 15 : 5;
}

/* The same, read from a descriptor. */
static int reads(void)
{
	struct said said = { .code = -1, .pid = 11, .uid = 12, .value = 0x123456789abcdef };
	unsigned long mask = 1ul << (SIGTRAP - 1);
	struct signalfd_siginfo info = { 0 };
	long fd;

	call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, 8);
	fd = call(SYS_signalfd4, -1, (long)&mask, 8, 0);
	call(SYS_rt_sigqueueinfo, call(SYS_getpid, 0, 0, 0, 0), SIGTRAP, (long)&said, 0);
	loop(3);
	call(SYS_read, fd, (long)&info, sizeof(info), 0);
	return info.ssi_code == -1 && info.ssi_pid == 11 && info.ssi_ptr == 0x123456789abcdef ? 18
											      : 1;
}

/* A SIGTRAP that is raised while it is blocked ends the program, also one that has a handler. */
static int raises(void)
{
	unsigned long mask = 1ul << (SIGTRAP - 1);

	handle(SIGTRAP);
	call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, 8);
	__asm__ volatile("int3");
	return 1;
}

static int awaits(void)
{
	unsigned long mask = 1ul << (SIGTRAP - 1), pending = 0;
	struct timespec most = { 5, 0 };

	call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, 8);
	call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGTRAP, 0, 0);
	loop(3);
	call(SYS_rt_sigpending, (long)&pending, 8, 0, 0);
	if (pending != mask)
		return 1;
	loop(3);
	if (call(SYS_rt_sigtimedwait, (long)&mask, 0, (long)&most, 8) != SIGTRAP)
		return 3;
	loop(3);
	call(SYS_rt_sigpending, (long)&pending, 8, 0, 0);
	return pending ? 4 : 13;
}

static int open_streams(void)
{
	int count = 0;

	for (int fd = 0; fd < 3; fd++)
		count += call(SYS_fcntl, fd, F_GETFD, 0, 0) >= 0;
	return count;
}

static long id(long number)
{
	return call(number, 0, 0, 0, 0);
}

/* Whether it has rights of root's, being somebody else's; and whether it ignores SIGTRAP. */
static int gains(void)
{
	struct action now = { 0 };

	if ((!id(SYS_getuid) || id(SYS_geteuid)) && (!id(SYS_getgid) || id(SYS_getegid)))
		return 17;
	call(SYS_rt_sigaction, SIGTRAP, 0, (long)&now, 8);
	return now.handler == SIG_IGN ? 18 : 16;
}

static int number_of(const char *text)
{
	int number = 0;

	while (text && *text)
		number = number * 10 + *text++ - '0';
	return number;
}

__attribute__((used)) int trailed(long *stack)
{
	char **argv = (char **)(stack + 1);
	int count = stack[0] > 2 ? number_of(argv[2]) : 0;

	switch (argv[1][0]) {
	case 'n': /* naps for so many milliseconds, with turns of 1 ms */
		for (int i = 0; i < count; i++)
			nap_ms(1);
		return 5;
	case 's':
		return stops();
	case 't':
		return timers(count);
	case 'l':
		loop(count);
		return 7;
	case 'v': /* CLONE_VM | CLONE_VFORK */
		return spawns(0x4100);
	case 'f':
		return spawns(0);
	case 'x':
		return executes(argv + 2, argv + stack[0] + 1);
	case 'i':
		return ignores();
	case 'b':
		return awaits();
	case 'g':
		return bequeaths();
	case 'G': /* naps as above, while it ignores SIGTRAP */
		ignore_trap();
		for (int i = 0; i < count; i++)
			nap_ms(1);
		return 5;
	case 'h':
		return hears();
	case 'r':
		return reads();
	case 'd':
		return raises();
	case 'u':
		return gains();
	case 'o': /* how many standard streams are open */
		return 20 + open_streams();
	case 'k': /* ended by the signal of that number */
		call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), count, 0, 0);
		return 1;
	default:
		return 2;
	}
}

__asm__(".globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall trailed\n"
	"mov %eax, %edi\nmov $231, %eax\nsyscall\n");
