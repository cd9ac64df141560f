/* SPDX-License-Identifier: MIT */
/* A handler that leaves by a jump, from one instruction after the other of a thread's first hit. */
#include "inside/detour/testing/fixture.h"
#include "inside/marker/testing/fixture.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#define STRIDE 31 /* of some two thousand instructions */
#define DEEP_BYTES 8192

static __thread sigjmp_buf way_out;
static __thread long steps_left;

static void count_down(int number)
{
	(void)number;
	if (!--steps_left)
		siglongjmp(way_out, 1);
}

/* Every instruction from here on raises SIGTRAP; a handler begins without that. */
static inline __attribute__((always_inline)) void single_step(void)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "orq $0x100, (%%rsp)\n\t"
			 "popfq\n\t"
			 "lea 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}

static inline __attribute__((always_inline)) void run_on(void)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "andq $~0x100, (%%rsp)\n\t"
			 "popfq\n\t"
			 "lea 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}

/* Grows with each event that this thread's lanes were given, whatever the depth. */
static uint64_t recorded(void)
{
	uint64_t words = 0;

	if (!writer_self)
		return 0;
	words = writer_self->lanes.of[TRIAL_LANE].word;
	for (int i = 0; i < DEPTH_MAX - 1; i++) {
		if (writer_self->deeper[i])
			words += writer_self->deeper[i]->of[TRIAL_LANE].word;
	}
	return words;
}

static __attribute__((noinline)) void call_deep(void)
{
	volatile char frame[DEEP_BYTES];

	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = 1;
	frame[0] = (char)trial_victim(frame[0]); /* no tail call */
}

struct outcome {
	long steps, steps_left;
	int is_lost; /* a later event */
};

static void *leave_after(void *data)
{
	struct outcome *outcome = data;
	uint64_t before;

	steps_left = outcome->steps;
	if (!sigsetjmp(way_out, 1)) {
		single_step();
		trial_victim(0);
		run_on();
	}
	outcome->steps_left = steps_left;
	for (int i = 0; i < 2; i++) {
		before = recorded();
		call_deep();
		outcome->is_lost |= recorded() == before;
	}
	before = recorded();
	trial_victim(2);
	outcome->is_lost |= recorded() == before;
	return NULL;
}

static void run_thread(struct outcome *outcome)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, leave_after, outcome), 0);
	pthread_join(thread, NULL);
}

Test(left, a_jump_out_of_a_threads_first_hit_loses_no_later_event, .timeout = 120)
{
	struct sigaction action = { .sa_handler = count_down };
	struct outcome outcome = { .steps = LONG_MAX };
	long steps;

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	sigaction(SIGTRAP, &action, NULL);
	run_thread(&outcome);
	steps = LONG_MAX - outcome.steps_left;
	cr_assert_gt(steps, 100);
	for (outcome.steps = 1; outcome.steps < steps; outcome.steps += STRIDE) {
		run_thread(&outcome);
		cr_assert_not(outcome.is_lost, "after %ld steps", outcome.steps);
		cr_assert_eq(store_quiesce(1000, 0), 0, "after %ld steps", outcome.steps);
		fixture_drain(TRIAL_LANE);
	}
}
