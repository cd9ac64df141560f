/* SPDX-License-Identifier: MIT */
/* The program that control_test.c launches. What it does is its first argument. */
#include <waymark/agent.h>
#include <waymark/marker.h>

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((constructor)) void first_of_all(void)
{
	WAYMARK(count, constructor);
}

static void *work(void *unused)
{
	for (unsigned int i = 0;; i++) {
		WAYMARK(work, one, i);
		WAYMARK(work, two, i, "text");
		WAYMARK_SCOPE(work, scope, i);
		usleep(50);
	}
	return unused;
}

/* Never run; it is there to be refused. */
void clash(int a, long b);
void clash(int a, long b)
{
	WAYMARK(clash, types, a);
	WAYMARK(clash, types, b);
}

static void *leave(void *unused)
{
	usleep(400000);
	fputs("last thread\n", stdout);
	return unused;
}

static void load(const char *path)
{
	for (int i = 0; i < 50; i++) {
		void *module = dlopen(path, RTLD_NOW);
		void (*function)(void);

		if (!module)
			exit(3);
		*(void **)&function = dlsym(module, "module_function");
		function();
		dlclose(module);
	}
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

/* Load once, with a signal every 20 ms; says how many came meanwhile, and counts beside it. */
static void *count_beside(void *unused)
{
	for (;;) {
		WAYMARK(work, beside, 1);
		usleep(1000);
	}
	return unused;
}

static void load_under_signals(const char *path)
{
	struct itimerval every = { { 0, 20000 }, { 0, 20000 } };
	pthread_t beside;
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	pthread_create(&beside, NULL, count_beside, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	alarms = 0;
	if (!dlopen(path, RTLD_NOW))
		exit(3);
	printf("%d\n", (int)alarms);
	fflush(stdout);
}

static void fork_some(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			for (int k = 0; k < 10; k++)
				WAYMARK(work, child, k);
			_exit(0);
		}
		waitpid(child, &status, 0);
		if (status)
			exit(4);
	}
}

/* Its argument + 1, by instructions whose bytes detours_test.c knows. */
long diverted(long value);
__asm__(".text\n.globl diverted\n.type diverted, @function\n.balign 16\n"
	"diverted:\n\tmov %rdi, %rax\n\tadd $1, %rax\n\tret\n"
	".size diverted, . - diverted\n");

/* Prints its address, and calls it for ever. */
static int call_diverted(void)
{
	printf("%p\n", (void *)diverted);
	fflush(stdout);
	for (long i = 0;; i++) {
		if (diverted(i) != i + 1)
			return 4;
		if (i % 1000 == 0)
			usleep(1000);
	}
}

static char *forbidden; /* an unreadable page */
static const char *after_fault;
static sigjmp_buf before_fault;

static void say_there(void)
{
	puts("there");
	fflush(stdout);
}

static volatile sig_atomic_t let_on;

static void on_let_on(int signal)
{
	let_on = signal;
}

static void on_fault(int signal)
{
	if (strcmp(after_fault, "wait"))
		siglongjmp(before_fault, signal);
	WAYMARK(work, beside, 2); /* so that this stack is known as the thread's own, too */
	say_there();
	while (!let_on)
		usleep(1000);
	mprotect(forbidden, 4096, PROT_READ | PROT_WRITE);
}

static __attribute__((noinline)) void read_forbidden(void)
{
	volatile char more[1000] = { 0 };

	WAYMARK(work, forbidden, (char *)forbidden + more[0]);
}

static __attribute__((noinline)) void go_deeper(int levels)
{
	volatile char more[1000];

	for (size_t i = 0; i < sizeof more; i++)
		more[i] = (char)levels;
	if (levels + more[0])
		go_deeper(levels - 1);
	else if (!strcmp(after_fault, "far"))
		read_forbidden();
	else
		sleep(60);
}

/*
 * A marker's own recording faults, near or 200 KB down the stack; the handler leaves it by a jump,
 * or mends it in time of its own.
 */
static void fault_in_a_hit(const char *after)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	char above[32768];
	stack_t stack = { .ss_sp = above, .ss_size = sizeof above };

	after_fault = after;
	forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(after, "wait"))
		sigaltstack(&stack, NULL);
	signal(SIGUSR1, on_let_on);
	sigaction(SIGSEGV, &action, NULL);
	if (!sigsetjmp(before_fault, 1)) {
		if (!strcmp(after, "far"))
			go_deeper(200);
		read_forbidden();
		return;
	}
	say_there();
	if (!strcmp(after, "deeper"))
		go_deeper(64);
	sleep(60);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	pthread_t threads[2];

	if (!strcmp(mode, "count")) {
		for (int i = atoi(argv[2]); i > 0; i--)
			WAYMARK(count, main, i);
		return 0;
	}
	if (!strcmp(mode, "load")) {
		load(argv[2]);
		return 0;
	}
	if (!strcmp(mode, "signals")) {
		load_under_signals(argv[2]);
		return 0;
	}
	if (!strcmp(mode, "fault")) {
		fault_in_a_hit(argv[2]);
		return 0;
	}
	if (!strcmp(mode, "divert"))
		return call_diverted();
	if (!strcmp(mode, "fork")) {
		fork_some();
		return 0;
	}
	if (!strcmp(mode, "leave")) {
		fputs("said by the ", stdout); /* to a pipe: not written yet */
		pthread_create(&threads[0], NULL, leave, NULL);
		pthread_exit(NULL);
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	if (!strcmp(mode, "close"))
		close_range(0, ~0u, 0);
	if (!strcmp(mode, "listen") && wm_agent_listen())
		return 5;
	sleep(60);
	return 0;
}
