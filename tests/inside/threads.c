/* SPDX-License-Identifier: MIT */
/* Threads that come, go and end in every way, while markers are being hit. */
#include "inside.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

static int over, started;

static void *hit_for_ever(void *unused)
{
	(void)unused;
	hits(1);
	__atomic_add_fetch(&started, 1, __ATOMIC_RELEASE);
	for (;;)
		hits(100);
	return NULL;
}

static void *hit_until_over(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		hits(10);
		sleep_ms(1);
	}
	return NULL;
}

static void start(pthread_t *thread, void *(*main)(void *))
{
	want(!pthread_create(thread, NULL, main, NULL), "pthread_create");
}

static int run_leaf(void)
{
	hits(50);
	return 18;
}

static void *cancelled(void *async)
{
	pthread_setcanceltype(async ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, NULL);
	for (;;) {
		hits(5);
		if (!async)
			pthread_testcancel();
	}
	return NULL;
}

static int cancel(int async)
{
	int sum = 0;

	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		void *result;

		want(!pthread_create(&thread, NULL, cancelled, async ? &over : NULL),
		     "pthread_create");
		for (int j = 0; j < i * 100; j++)
			__asm__ volatile("");
		pthread_cancel(thread);
		pthread_join(thread, &result);
		sum += result == PTHREAD_CANCELED;
	}
	hits(10);
	return sum;
}

static int run_cancel(void)
{
	return cancel(0);
}

static int run_cancel_async(void)
{
	return cancel(1);
}

static void *leave_by_syscall(void *unused)
{
	(void)unused;
	hits(5);
	__atomic_add_fetch(&over, 1, __ATOMIC_RELEASE);
	syscall(SYS_exit, 0);
	return NULL;
}

static int run_exit_syscall(void)
{
	pthread_t thread;

	for (int i = 0; i < 100; i++)
		start(&thread, leave_by_syscall);
	while (__atomic_load_n(&over, __ATOMIC_ACQUIRE) < 100)
		sleep_ms(1);
	hits(5);
	return 7;
}

static void *outlive(void *ms)
{
	for (intptr_t i = 0; i < (intptr_t)ms; i++) {
		hits(5);
		sleep_ms(1);
	}
	return NULL;
}

static void say_goodbye(void)
{
	hits(1);
	printf("goodbye\n");
}

static int run_main_leaves(void)
{
	pthread_t thread;

	atexit(say_goodbye);
	for (intptr_t i = 1; i <= 3; i++) {
		want(!pthread_create(&thread, NULL, outlive, (void *)(i * 50)), "pthread_create");
		pthread_detach(thread);
	}
	hits(10);
	pthread_exit(NULL);
}

static int end_by(int signal)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		start(&thread, hit_for_ever);
	while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < 4) /* they may be long in coming */
		sleep_ms(1);
	sleep_ms(20);
	if (!signal)
		exit(33);
	if (signal == SIGSEGV)
		*(volatile int *)inside_words[1] = 1; /* 0 */
	kill(getpid(), signal);
	pause();
	return 1;
}

static int run_exit(void)
{
	return end_by(0);
}

static int run_abort(void)
{
	return end_by(SIGABRT);
}

static int run_segv(void)
{
	return end_by(SIGSEGV);
}

static int run_kill(void)
{
	return end_by(SIGKILL);
}

static void *hit_now_and_then(void *unused)
{
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		hits(1);
		sleep_ms(50);
	}
	return unused;
}

static int run_many(void)
{
	static pthread_t threads[1000];
	pthread_attr_t attributes;
	int made = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN) + 8192);
	for (; made < 1000; made++)
		if (pthread_create(&threads[made], &attributes, hit_now_and_then, NULL))
			break;
	inside_wait();
	sleep_ms(100);
	over = 1;
	for (int i = 0; i < made; i++)
		pthread_join(threads[i], NULL);
	return made / 10;
}

static void *hit_with_large(void *unused)
{
	static char text[8192];

	memset(text, 'x', sizeof text - 1);
	for (int i = 0; i < 50; i++) {
		WAYMARK(in, large, count_one(), text, WM_BYTES(text, sizeof text), text + 100, 1.5,
			i);
		hits(2);
	}
	return unused;
}

static int run_tiny_stacks(void)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	for (int i = 0; i < 20; i++) {
		pthread_t thread;

		want(!pthread_create(&thread, &attributes, hit_with_large, NULL), "pthread_create");
		pthread_join(thread, NULL);
	}
	return 5;
}

/* ---- coroutines that go from thread to thread ---- */

#define COROUTINES 8

static struct coroutine {
	ucontext_t own, back;
	char stack[65536];
	int done, running;
} coroutines[COROUTINES];

static void coroutine_main(int number)
{
	struct coroutine *self = &coroutines[number];

	for (int i = 0; i < 200; i++) {
		hits(3);
		swapcontext(&self->own, &self->back);
	}
	self->done = 1;
	for (;;)
		swapcontext(&self->own, &self->back);
}

static void *drive(void *unused)
{
	for (int left = 1; left;) {
		left = 0;
		for (int i = 0; i < COROUTINES; i++) {
			struct coroutine *it = &coroutines[i];

			if (__atomic_exchange_n(&it->running, 1, __ATOMIC_ACQUIRE)) {
				left = 1;
				continue;
			}
			if (!it->done) {
				left = 1;
				swapcontext(&it->back, &it->own);
				hits(1);
			}
			__atomic_store_n(&it->running, 0, __ATOMIC_RELEASE);
		}
	}
	return unused;
}

static int run_coroutines(void)
{
	pthread_t threads[3];

	for (int i = 0; i < COROUTINES; i++) {
		struct coroutine *it = &coroutines[i];

		getcontext(&it->own);
		it->own.uc_stack.ss_sp = it->stack;
		it->own.uc_stack.ss_size = sizeof it->stack;
		makecontext(&it->own, (void (*)(void))coroutine_main, 1, i);
	}
	for (int i = 0; i < 3; i++)
		start(&threads[i], drive);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 6;
}

/* As long as standard input lasts: for tools that come and go. */
static int run_load(void)
{
	pthread_t threads[2];
	char byte;

	for (int i = 0; i < 2; i++)
		start(&threads[i], hit_until_over);
	while (read(0, &byte, 1) > 0)
		;
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 2;
}

static const struct inside_case cases[] = {
	{ "leaf", run_leaf },
	{ "cancel", run_cancel },
	{ "cancel_async", run_cancel_async },
	{ "exit_syscall", run_exit_syscall },
	{ "main_leaves", run_main_leaves },
	{ "exit", run_exit },
	{ "abort", run_abort },
	{ "segv", run_segv },
	{ "kill", run_kill },
	{ "tiny_stacks", run_tiny_stacks },
	{ "coroutines", run_coroutines },
	{ "load", run_load },
	{ 0 },
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "many")) { /* the threads are there before the tool */
		inside_map();
		return run_many();
	}
	return inside_main(argc, argv, cases);
}
