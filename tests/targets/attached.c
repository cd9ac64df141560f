/* SPDX-License-Identifier: MIT */
/*
 * Threads that do what is easily broken by somebody who takes them over and gives them back, and
 * check that it is not: `attached SECONDS`, or until there is a file ./stop. It says "ready" once
 * each thread does its work. Ends with 0 and "right", or with 1 and what was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <linux/futex.h>
#include <time.h>
#include <unistd.h>

/* a sleep may be so much late; if each attach restarted it, it would never end */
#define SLACK_NS 3000000000LL

static volatile int is_over, is_wrong;
static int pipe_fds[2];
static volatile uint64_t counts[16];

static void wrong(const char *form, ...) __attribute__((format(printf, 1, 2)));

static void wrong(const char *form, ...)
{
	va_list arguments;
	char words[200];
	int bytes;

	va_start(arguments, form);
	bytes = vsnprintf(words, sizeof(words), form, arguments);
	va_end(arguments);
	is_wrong = 1;
	(void)!write(1, words, (size_t)bytes);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void lasted(const char *what, int64_t began, int64_t want_ns)
{
	int64_t took = now_ns() - began;

	if (took < want_ns || took > want_ns + SLACK_NS)
		wrong("%s took %lld us, not %lld\n", what, (long long)took / 1000,
		      (long long)want_ns / 1000);
}

/* ---- those that run ---- */

__attribute__((noinline, noclone)) static uint64_t mix(uint64_t value)
{
	for (int i = 0; i < 2000; i++)
		value = value * UINT64_C(6364136223846793005) + (uint64_t)i;
	return value;
}

/* No call at all, for a while: registers, flags, vectors. */
__attribute__((noinline, noclone)) static double turn(double angle)
{
	double sum = 0;

	for (int i = 1; i < 500; i++)
		sum += sqrt(angle + i) / i;
	return sum;
}

static void *busy(void *unused)
{
	uint64_t want = mix(42);
	double sum = turn(0.5);

	(void)unused;
	for (; !is_over; counts[0]++)
		if (mix(42) != want || turn(0.5) != sum)
			wrong("busy: wrong sum\n");
	return NULL;
}

/* All of xmm15 and ymm15, over loops without a call. */
static void *vectors(void *unused)
{
	uint64_t in[4] = { 0x1111, 0x2222, 0x3333, 0x4444 }, out[4];
	int wide = __builtin_cpu_supports("avx");

	(void)unused;
	for (; !is_over; counts[1]++) {
		if (wide)
			__asm__ volatile("vmovdqu %1, %%ymm15\n mov $200000, %%ecx\n"
					 "1: dec %%ecx\n jnz 1b\n vmovdqu %%ymm15, %0\n vzeroupper"
					 : "=m"(out)
					 : "m"(in)
					 : "ecx", "cc", "xmm15");
		else
			memcpy(out, in, sizeof(out));
		if (memcmp(in, out, sizeof(in)))
			wrong("vectors: ymm15 is %llx %llx %llx %llx\n", (unsigned long long)out[0],
			      (unsigned long long)out[1], (unsigned long long)out[2],
			      (unsigned long long)out[3]);
		in[0]++;
		in[3]++;
	}
	return NULL;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shared[2];

static void *locks(void *unused)
{
	(void)unused;
	for (; !is_over; counts[2]++) {
		pthread_mutex_lock(&mutex);
		shared[0]++;
		if (shared[0] != shared[1] + 1)
			wrong("locks: not alone\n");
		if (shared[0] % 1000 == 0)
			sched_yield();
		shared[1]++;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

/* ---- those that sleep: each as long as it asked for, and never broken off ---- */

static void *sleeps(void *unused)
{
	(void)unused;
	for (; !is_over; counts[3]++) {
		struct timespec want = { 4, 0 }, left;
		int64_t began = now_ns();

		if (nanosleep(&want, &left))
			wrong("nanosleep: %s\n", strerror(errno));
		lasted("nanosleep", began, 4000000000);
	}
	return NULL;
}

static void *polls(void *unused)
{
	(void)unused;
	for (; !is_over; counts[4]++) {
		struct pollfd none = { .fd = pipe_fds[0], .events = POLLPRI };
		int64_t began = now_ns();
		int got = poll(&none, 1, 3500);

		if (got)
			wrong("poll: %d, %s\n", got, strerror(errno));
		lasted("poll", began, 3500000000);
	}
	return NULL;
}

static void *waits(void *unused)
{
	uint32_t word = 7;

	(void)unused;
	for (; !is_over; counts[5]++) {
		struct timespec want = { 2, 500000000 };
		int64_t began = now_ns();
		long got = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &want, NULL, 0);

		if (got != -1 || errno != ETIMEDOUT)
			wrong("futex: %ld, %s\n", got, strerror(errno));
		lasted("futex", began, 2500000000);
	}
	return NULL;
}

/* A byte now and then; read(2) never returns anything else. */
static void *reads(void *unused)
{
	unsigned char want = 0, got;

	(void)unused;
	for (; !is_over; counts[6]++, want++) {
		ssize_t bytes = read(pipe_fds[0], &got, 1);

		if (bytes != 1 || got != want)
			wrong("read: %zd, %d for %d, %s\n", bytes, got, want, strerror(errno));
	}
	return NULL;
}

static void *writes(void *unused)
{
	unsigned char byte = 0;

	(void)unused;
	for (; !is_over; counts[7]++, byte++) {
		usleep(20000);
		if (write(pipe_fds[1], &byte, 1) != 1)
			wrong("write: %s\n", strerror(errno));
	}
	(void)!write(pipe_fds[1], &byte, 1); /* who reads sees that it is over */
	return NULL;
}

/* ---- signals ---- */

static char signal_stack[65536];
static volatile uint64_t handled;

static void on_signal(int number, siginfo_t *info, void *context)
{
	char here;

	(void)context;
	if (number != SIGUSR1 || info->si_value.sival_int != 77)
		wrong("handler: signal %d with %d\n", number, info->si_value.sival_int);
	if (&here < signal_stack || &here > signal_stack + sizeof(signal_stack))
		wrong("handler: not on its stack\n");
	if (mix(handled % 7) != mix(handled % 7))
		wrong("handler: wrong sum\n");
	/* some of them take long: an attach interrupts them */
	if (handled % 16 == 0)
		usleep(30000);
	handled++;
}

/* Signals to itself on a stack of its own, while errno and the mask stay. */
static void *signals(void *unused)
{
	const stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	union sigval value = { .sival_int = 77 };
	stack_t now;

	(void)unused;
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (; !is_over; counts[8]++) {
		uint64_t before = handled;
		struct sigaction is;
		sigset_t mask;

		pthread_sigqueue(pthread_self(), SIGUSR1, value);
		if (handled != before + 1)
			wrong("signals: %llu came of 1\n", (unsigned long long)(handled - before));
		pthread_sigmask(SIG_BLOCK, NULL, &mask);
		if (!sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGUSR1))
			wrong("signals: the mask is another\n");
		sigaltstack(NULL, &now);
		if (now.ss_sp != stack.ss_sp || now.ss_size != stack.ss_size || now.ss_flags)
			wrong("signals: the stack is another\n");
		sigaction(SIGUSR1, NULL, &is);
		if (is.sa_sigaction != on_signal || !(is.sa_flags & SA_ONSTACK))
			wrong("signals: the handler is another\n");
	}
	return NULL;
}

/*
 * The same with hardly a pause, so that attaches and leaves meet a signal: one thread raises them,
 * the other gets them from a timer while it makes no call.
 */
static char raise_stacks[2][65536];
static volatile uint64_t raised[2];

static void on_raised(int number)
{
	int which = number != SIGRTMIN + 1;
	char here;

	if (&here < raise_stacks[which] || &here > raise_stacks[which] + sizeof(raise_stacks[0]))
		wrong("handler %d: not on its stack\n", which);
	raised[which]++;
}

static void raise_stack_set(int which)
{
	const stack_t stack = { .ss_sp = raise_stacks[which], .ss_size = sizeof(raise_stacks[0]) };
	struct sigaction action = { .sa_handler = on_raised, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGRTMIN + 1 + which, &action, NULL);
}

static void *raises(void *unused)
{
	(void)unused;
	raise_stack_set(0);
	for (; !is_over; counts[13]++) {
		uint64_t before = raised[0];

		pthread_kill(pthread_self(), SIGRTMIN + 1);
		if (raised[0] != before + 1)
			wrong("raises: %llu came of 1\n", (unsigned long long)(raised[0] - before));
		if (counts[13] % 256 == 0)
			usleep(1000); /* time is the subject: else it keeps its CPU */
	}
	return NULL;
}

static void *ticks(void *unused)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 2 };
	struct itimerspec every = { { 0, 200000 }, { 0, 200000 } };
	uint64_t want = mix(42);
	timer_t timer;

	(void)unused;
	event._sigev_un._tid = gettid();
	raise_stack_set(1);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &every, NULL);
	for (; !is_over; counts[14]++)
		if (mix(42) != want)
			wrong("ticks: wrong sum\n");
	timer_delete(timer);
	return NULL;
}

static void *accepts(void *thread)
{
	uint64_t number = 0;
	sigset_t set;

	(void)thread;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	for (;; counts[9]++) {
		int got = 0, err = sigwait(&set, &got);

		if (err || got != SIGUSR2)
			wrong("sigwait: %d, %s\n", got, strerror(err));
		number++;
		if (is_over)
			break;
	}
	return NULL;
}

/* Nothing but SIGALRM's handler breaks a pause off; it is not SA_RESTART: EINTR each time. */
static void on_alarm(int number)
{
	(void)number;
	counts[11]++;
}

static void *alarms(void *unused)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
	struct itimerspec every = { { 0, 70000000 }, { 0, 70000000 } };
	timer_t timer;

	(void)unused;
	event._sigev_un._tid = gettid();
	sigaction(SIGRTMIN, &action, NULL);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &every, NULL);
	for (; !is_over; counts[10]++) {
		/*
		 * So long that it can't be over, too, when we come to run: then it is, whatever
		 * came before.
		 */
		struct timespec want = { 60, 0 }, left = { 0 };
		int64_t began = now_ns();

		errno = 0;
		if (nanosleep(&want, &left) != -1 || errno != EINTR)
			wrong("alarms: not broken off in %lld us: %s\n",
			      (long long)(now_ns() - began) / 1000, strerror(errno));
		if (left.tv_sec > 60 || (!left.tv_sec && left.tv_nsec <= 0))
			wrong("alarms: %ld.%09ld are left\n", left.tv_sec, left.tv_nsec);
		lasted("alarms", began, 0);
	}
	timer_delete(timer);
	return NULL;
}

/* Threads that come and go, each with a stack and a name of its own. */
static void *leaf(void *value)
{
	return (void *)(mix((uint64_t)value) | 1);
}

static void *makes(void *unused)
{
	(void)unused;
	for (; !is_over; counts[12]++) {
		pthread_t thread;
		void *got = NULL;

		if (pthread_create(&thread, NULL, leaf, (void *)counts[12]))
			wrong("threads: none can be had\n");
		else if (pthread_join(thread, &got) || (uint64_t)got != (mix(counts[12]) | 1))
			wrong("threads: another's result\n");
		usleep(5000);
	}
	return NULL;
}

/*
 * Each has come by, but those that sleep for seconds; and one that came and went has left its
 * stack.
 */
static int all_work(void)
{
	for (int i = 0; i < 3; i++)
		if (!counts[i])
			return 0;
	for (int i = 6; i < 12; i++)
		if (!counts[i])
			return 0;
	return counts[12] > 1 && counts[13] && counts[14];
}

int main(int argc, char **argv)
{
	static void *(*const all[])(void *) = { busy,	vectors, locks,	 locks,	 sleeps,
						polls,	waits,	 reads,	 writes, signals,
						alarms, makes,	 raises, ticks };
	enum { COUNT = sizeof(all) / sizeof(all[0]) };
	int seconds = argc > 1 ? atoi(argv[1]) : 5;
	pthread_t threads[COUNT], waiter;
	int is_ready = 0;
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	if (pipe(pipe_fds))
		return 2;
	for (int i = 0; i < COUNT; i++)
		pthread_create(&threads[i], NULL, all[i], NULL);
	pthread_create(&waiter, NULL, accepts, NULL);
	for (int64_t end = now_ns() + seconds * 1000000000LL;
	     now_ns() < end && access("stop", F_OK);) {
		pthread_kill(waiter, SIGUSR2);
		if (!is_ready && all_work())
			is_ready = write(1, "ready\n", 6) == 6;
		usleep(50000);
	}
	is_over = 1;
	pthread_kill(waiter, SIGUSR2);
	pthread_join(waiter, NULL);
	for (int i = 0; i < COUNT; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i <= 14; i++)
		if (!counts[i])
			wrong("number %d did nothing\n", i);
	puts(is_wrong ? "wrong" : "right");
	return is_wrong;
}
