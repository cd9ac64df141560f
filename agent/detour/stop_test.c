/* SPDX-License-Identifier: MIT */
/* Threads of all kinds while detours come and go. */
#include "agent/detour/trial.h"

#include "agent/control/lock.h"
#include "agent/store/store.h"
#include "agent/store/writer.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS 8

static const struct trial_wish victim = {
	.function = (void (*)(void))trial_victim,
	.span = TRIAL_VICTIM_SPAN,
	.steps = trial_victim_steps,
	.step_count = 2,
	.argument = 1,
	.name = "victim",
};

static int stop_all;
static uint64_t wrong;

static void *run_through(void *data)
{
	uint64_t calls = 0;

	(void)data;
	while (!__atomic_load_n(&stop_all, __ATOMIC_RELAXED)) {
		for (long i = 0; i < 1000; i++) {
			if (trial_victim(i) != i + 1)
				__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
		}
		calls += 1000;
	}
	return (void *)calls;
}

Test(stop, threads_run_through_the_span_while_it_changes, .timeout = 60)
{
	uint64_t longest_ns = 0, sum_ns = 0;
	pthread_t threads[THREADS];
	struct detour_result result;
	union trial_record record;
	int rounds = 200;

	trial_begin();
	trial_compose(&record, &victim);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, run_through, NULL), 0);
	for (int i = 0; i < rounds; i++) {
		cr_assert_eq(trial_place(&record), 0);
		cr_assert_eq(trial_commit(&result), 0);
		cr_assert_eq(result.markers, 1);
		sum_ns += result.stopped_ns;
		longest_ns = result.stopped_ns > longest_ns ? result.stopped_ns : longest_ns;
		cr_assert_eq(trial_let_go(), 0);
	}
	__atomic_store_n(&stop_all, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(wrong, 0);
	cr_log_info("stopped %lu us on average, %lu us at most", sum_ns / 1000 / (uint64_t)rounds,
		    longest_ns / 1000);
	cr_assert_arr_eq((void *)trial_victim, record.head.original, TRIAL_VICTIM_SPAN);
}
