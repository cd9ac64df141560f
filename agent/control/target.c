/* SPDX-License-Identifier: MIT */
/* The program that control_test.c launches. What it does is its first argument. */
#include <waymark/agent.h>
#include <waymark/marker.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Says where it lies, and calls it for ever. */
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
