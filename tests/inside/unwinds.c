/* SPDX-License-Identifier: MIT */
/*
 * The stack can be unwound at every instruction of a hit: of the marker, of what it enters, and of
 * the agent. The program steps through hits by the processor's trap flag; a handler of SIGTRAP
 * unwinds at each instruction, or lets the thread be cancelled there. Functions have no frame
 * pointer, so that a marker's are found by the stack pointer alone.
 */
#include "inside.h"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#define FRAMES_MAX 64
#define TRAP_FLAG 0x100
#define MARKED __attribute__((noinline, section("marked")))
#define CALLER __attribute__((noinline, section("callers")))

extern const char __start_marked[], __stop_marked[], __start_callers[], __stop_callers[];

static __thread volatile int is_over;
static __thread int steps_left; /* until the thread is cancelled; 0: it is not */
static void *expected[FRAMES_MAX];
static int expected_count;
static volatile int sink;

/* ---- what is stepped through ---- */

MARKED static int leaf(int a, long b)
{
	WAYMARK(in, leaf, count_one(), a, b);
	return a * 3 + (int)b;
}

MARKED static int scoped(int a, long b)
{
	WAYMARK_SCOPE(in, scope, (count_one(), count_one()), a); /* its end is an event too */
	sink = (int)b;
	return a;
}

MARKED static int asked(int a, long b)
{
	WAYMARK_IF(in, asked)
	{
		count_one();
		sink = a;
	}
	return (int)b;
}

/* A frame that is found by another register than the stack pointer. */
MARKED __attribute__((optimize("no-omit-frame-pointer"))) static int framed(int a, long b)
{
	volatile char room[a + 8];

	room[b] = 1;
	WAYMARK(in, framed, count_one(), (const char *)"of a name", b);
	return room[b];
}

static int (*const functions[])(int a, long b) = { leaf, scoped, asked, framed };

#define FUNCTIONS (int)(sizeof functions / sizeof *functions)

/* An unwinder that takes a word below the stack for a return address faults. */
static __attribute__((noinline)) void dirty_stack(void)
{
	char room[1024];

	memset(room, 0x5a, sizeof room);
	__asm__ volatile("" : : "r"(room) : "memory");
}

CALLER static int step_through(int which)
{
	int result;

	dirty_stack();
	is_over = 0;
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" : : : "cc", "memory");
	result = functions[which](which, 2);
	is_over = 1;
	return result;
}

CALLER static void step_knowing_callers(int which)
{
	expected_count = backtrace(expected, FRAMES_MAX);
	sink = step_through(which); /* behind the call: it is no jump */
}

/* ---- at each instruction ---- */

static int is_between(const void *at, const char *start, const char *stop)
{
	return (uintptr_t)at >= (uintptr_t)start && (uintptr_t)at < (uintptr_t)stop;
}

static void wrong(const char *what, void *const *frames, int count)
{
	char line[64];
	int bytes = snprintf(line, sizeof line, "wrong: %s\n", what);

	bytes = (int)write(STDOUT_FILENO, line, (size_t)bytes);
	backtrace_symbols_fd(frames, count, STDERR_FILENO);
	_exit(bytes > 0 ? 99 : 98);
}

/* Whoever was interrupted, below it are the marked function, step_through(), and its callers. */
static void check(const void *pc)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX), at = count - expected_count;

	if (is_between(pc, __start_callers, __stop_callers))
		return;
	if (at < 2 ||
	    memcmp(frames + at + 1, expected + 1, (size_t)(expected_count - 1) * sizeof *frames))
		wrong("callers", frames, count);
	if (!is_between(frames[at], __start_callers, __stop_callers) ||
	    !is_between(frames[at - 1], __start_callers, __stop_callers))
		wrong("step_through's frames", frames, count);
	if (!is_between(frames[at - 2], __start_marked, __stop_marked))
		wrong("the marked function's frame", frames, count);
}

static void on_trap(int signal, siginfo_t *info, void *data)
{
	greg_t *registers = ((ucontext_t *)data)->uc_mcontext.gregs;

	(void)signal;
	(void)info;
	if (is_over) {
		registers[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	if (!steps_left)
		check((const void *)registers[REG_RIP]);
	else if (!--steps_left)
		pthread_cancel(pthread_self());
}

static void on_traps(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	void *frames[2];

	backtrace(frames, 2); /* loads libgcc_s */
	sigaction(SIGTRAP, &action, NULL);
}

static int run_backtraces(void)
{
	on_traps();
	for (int i = 0; i < FUNCTIONS; i++) {
		functions[i](i, 2); /* the thread's first page */
		step_knowing_callers(i);
	}
	return 3;
}

/* ---- cancelled ---- */

static int cleaned_up, which_marked, steps_wanted;

static void clean_up(void *data)
{
	++*(int *)data;
}

static void *thread_main(void *data)
{
	int type;

	functions[which_marked](1, 2);
	pthread_cleanup_push(clean_up, data);
	steps_left = steps_wanted;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	step_through(which_marked);
	pthread_setcanceltype(type, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

/* A thread for each instruction of a hit: it is cancelled there. */
static int run_cancelled(void)
{
	void *result = PTHREAD_CANCELED;

	on_traps();
	for (which_marked = 0; which_marked < FUNCTIONS; which_marked++) {
		for (steps_wanted = 1; result == PTHREAD_CANCELED; steps_wanted++) {
			pthread_t thread;

			cleaned_up = 0;
			want(!pthread_create(&thread, NULL, thread_main, &cleaned_up), "a thread");
			pthread_join(thread, &result);
			want(cleaned_up == (result == PTHREAD_CANCELED), "it cleaned up");
		}
		want(steps_wanted > 5, "a function has instructions");
		result = PTHREAD_CANCELED;
	}
	return 4;
}

static const struct inside_case cases[] = {
	{ "backtraces", run_backtraces },
	{ "cancelled", run_cancelled },
	{ 0 },
};

int main(int argc, char **argv)
{
	return inside_main(argc, argv, cases);
}
