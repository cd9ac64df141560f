/* SPDX-License-Identifier: MIT */
#include "inside/store/clock.c" /* anchors of any values */

#include <criterion/criterion.h>
#include <signal.h>
#include <ucontext.h>

#define AHEAD 1000000007u /* of the wall clock */
#define TRAP_FLAG 0x100
#define STEPS_MAX 4000

static int steps, renewed_at;
static uint64_t published;

static void publish_next(void)
{
	uint64_t ns = ++published * 1000;

	publish(&(struct clock_readings){ ns, ns, ns, ns + AHEAD });
}

/* Two ticks pass between two instructions of the reader: both anchors are written. */
static void on_step(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (steps++ == renewed_at) {
		publish_next();
		publish_next();
	}
	if (steps > STEPS_MAX)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void flag_set(uint64_t flag)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "andq $~0x100, (%%rsp)\n\t"
			 "orq %0, (%%rsp)\n\t"
			 "popfq\n\t"
			 "lea 128(%%rsp), %%rsp"
			 :
			 : "r"(flag)
			 : "cc", "memory");
}

/* All anchors say the same of the clocks' distance; parts of two of them do not. */
Test(clock, readings_are_of_one_anchor)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	struct clock_readings now;

	cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
	publish_next();
	do {
		steps = 0;
		flag_set(TRAP_FLAG);
		clock_at(STORE_CLOCK_MONOTONIC, 5000, &now);
		flag_set(0);
		cr_expect_eq(now.realtime_ns - now.monotonic_ns, AHEAD,
			     "renewed after step %d of %d", renewed_at, steps);
		cr_expect_eq(now.monotonic_ns, 5000);
	} while (renewed_at++ < steps);
	cr_expect(steps > 10 && steps < STEPS_MAX, "%d steps", steps);
}
