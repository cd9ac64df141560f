/* SPDX-License-Identifier: MIT */
/*
 * For tests/trail_children.sh and trail_inherit_test.c: a program without a library that makes
 * processes in every way, and reports how each of them ended: offspring MODE [NUMBER]. That test
 * builds its own.
 */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STACK_BYTES 16384
#define ENDS_WITH 9 /* mode e */

static inline __attribute__((always_inline)) long call(long number, long a, long b, long c, long d)
{
	register long fourth __asm__("r10") = d;
	register long fifth __asm__("r8") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
			 : "rcx", "r11", "memory");
	return result;
}

static char *executed; /* by a child: this program again, or that of mode q */
static char **environment;
static volatile int is_done;
static char stacks[2][STACK_BYTES] __attribute__((aligned(16)));

static __attribute__((noreturn)) void leave(int status)
{
	for (;;)
		call(SYS_exit_group, status, 0, 0, 0);
}

static void print(const char *word, long number)
{
	char text[64], digits[24];
	int used = 0, count = 0;

	while (*word)
		text[used++] = *word++;
	text[used++] = ' ';
	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (count)
		text[used++] = digits[--count];
	text[used++] = '\n';
	call(SYS_write, 1, (long)text, used, 0);
}

static void spin(int count)
{
	for (volatile int i = 0; i < count; i++)
		;
}

/* As wait(2) has it. Returns 0 where no child is left. */
static int await(long pid, int options)
{
	int status = 0;
	long got = call(SYS_wait4, pid, (long)&status, options, 0);

	if (got <= 0)
		return 0;
	if (WIFEXITED(status))
		print("exited", WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		print("killed", WTERMSIG(status));
	else if (WIFSTOPPED(status))
		print("stopped", WSTOPSIG(status));
	else if (WIFCONTINUED(status))
		print("continued", 0);
	return 1;
}

static void execute(void)
{
	char *words[] = { executed, (char *)"e", (char *)0 };

	call(SYS_execve, (long)executed, (long)words, (long)environment, 0);
	leave(99);
}

/*
 * A process or a thread with a stack of its own, that runs `work` and does not come back from it.
 */
static long begin(unsigned long flags, char *stack, void (*work)(void))
{
	void **top = (void **)(stack + STACK_BYTES - 16);
	register long fourth __asm__("r10") = 0;
	register long fifth __asm__("r8") = 0;
	long result;

	*top = (void *)work;
	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "call *(%%rsp)\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"(flags), "S"(top), "d"(0), "r"(fourth), "r"(fifth)
			 : "rcx", "r11", "memory");
	return result;
}

static void leave_soon(void)
{
	spin(20);
	leave(6);
}

static void forks_in_thread(void)
{
	if (!call(SYS_fork, 0, 0, 0, 0))
		leave(5);
	await(-1, 0);
	is_done = 1;
	for (;;)
		call(SYS_exit, 0, 0, 0, 0);
}

static void run_threads(void)
{
	begin(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
	      stacks[0], forks_in_thread);
	while (!is_done)
		call(SYS_sched_yield, 0, 0, 0, 0);
	leave(8);
}

/* So many processes; held, none ends before the last was made. */
static void storm(long count, int is_held)
{
	long ended = 0, sum = 0;
	int pipe[2];
	char byte;

	call(SYS_pipe, (long)pipe, 0, 0, 0);
	for (long i = 0; i < count; i++)
		if (!call(SYS_fork, 0, 0, 0, 0)) {
			call(SYS_close, pipe[1], 0, 0, 0);
			if (is_held)
				call(SYS_read, pipe[0], (long)&byte, 1, 0);
			leave((int)(i % 100));
		}
	call(SYS_close, pipe[1], 0, 0, 0);
	for (int status = 0; call(SYS_wait4, -1, (long)&status, 0, 0) > 0; status = 0) {
		ended++;
		sum += WEXITSTATUS(status);
	}
	print("ended", ended);
	print("sum", sum);
}

/* Outlives its parent, which has ended by itself, and says so. */
static void outlive(long parent)
{
	while (call(SYS_getppid, 0, 0, 0, 0) == parent)
		call(SYS_sched_yield, 0, 0, 0, 0);
	spin(50);
	print("orphan", 1);
	leave(7);
}

/* Stopped, continued, and then ended: the parent waits for each. */
static void job(void)
{
	long pid = call(SYS_fork, 0, 0, 0, 0);

	if (!pid) {
		call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGSTOP, 0, 0);
		call(SYS_pause, 0, 0, 0, 0);
	}
	await(pid, WUNTRACED);
	call(SYS_kill, pid, SIGCONT, 0, 0);
	await(pid, WCONTINUED);
	call(SYS_kill, pid, SIGTERM, 0, 0);
	await(pid, 0);
}

static void die(char how)
{
	if (how == 'k')
		call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGKILL, 0, 0);
	*(volatile int *)8 = 1;
}

static void make(char mode, long number)
{
	uint64_t with[11] = { [4] = SIGCHLD };
	long self_pid = call(SYS_getpid, 0, 0, 0, 0), pid = -1;

	if (mode == 'v')
		pid = call(SYS_vfork, 0, 0, 0, 0);
	else if (mode == '3')
		pid = call(SYS_clone3, (long)with, sizeof(with), 0, 0);
	else if (mode == 'p')
		begin(CLONE_VM | CLONE_VFORK | SIGCHLD, stacks[1], execute);
	else if (mode == 'u')
		begin(CLONE_UNTRACED | SIGCHLD, stacks[1], leave_soon);
	else
		pid = call(SYS_fork, 0, 0, 0, 0);
	if (pid)
		return;
	if (mode == 'v' || mode == 'x' || mode == 'q')
		execute();
	if (mode == 'k' || mode == 's')
		die(mode);
	if (mode == 't')
		run_threads();
	if (mode == 'o')
		outlive(self_pid);
	if (mode == 'n' && number) /* each makes the next, which ends first */
		make('n', number - 1);
	while (mode == 'n' && await(-1, 0))
		;
	while (mode == 'w' && call(SYS_getppid, 0, 0, 0, 0) == self_pid)
		spin(100);
	spin(30);
	leave(3);
}

void begin_here(uintptr_t *stack);

__asm__(".globl _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call begin_here\n");

void begin_here(uintptr_t *stack)
{
	uintptr_t count = stack[0];
	char mode = count > 1 ? *(char *)stack[2] : 'e';
	long number = 0;

	executed = mode == 'q' ? (char *)"./rights" : (char *)stack[1];
	environment = (char **)(stack + count + 2);
	for (const char *at = count > 2 ? (char *)stack[3] : ""; *at; at++)
		number = number * 10 + (*at - '0');
	if (mode == 'e')
		leave(ENDS_WITH);
	while (mode == 'r') { /* until it is ended */
		make('f', 0);
		await(-1, 0);
	}
	if (mode == 'g' || mode == 'h')
		storm(number, mode == 'h');
	else if (mode == 'j')
		job();
	else
		make(mode, number);
	while (mode != 'o' && mode != 'w' && await(-1, 0))
		;
	if (mode == 'w') {
		print("waiting", 1);
		call(SYS_pause, 0, 0, 0, 0);
	}
	leave(4);
}
