/* SPDX-License-Identifier: MIT */
/* An hour in which the kernel changes the rate of CLOCK_MONOTONIC, as NTP has it do. */
#include "target/process/ticks.h"

#include "abi/page.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#define TSC_HZ ((double)ticks_hz(STORE_CLOCK_TSC))
#define HOUR_S 3600
#define STEPS 10  /* points in a second: a drain takes one */
#define EVENTS 20 /* in a step */
#define NOISE_NS 50
#define BETWEEN_NS 100 /* from a marker to the event, and from that to the next marker */

/* From -1 to 1 and back. */
static double wave(unsigned int second, unsigned int period_s)
{
	return fabs(second % period_s * 4.0 / period_s - 2) - 1;
}

/*
 * CLOCK_MONOTONIC's rate: two waves by temperature, and a step at each of the daemon's looks, once
 * in 64 s. Parts of 1.
 */
static double rate_error(unsigned int second)
{
	unsigned int look = second / 64;

	return 20e-6 * wave(second, 3600) + 3e-6 * wave(second, 200) +
	       ((int)(look * 2654435761u >> 24) - 128) / 128.0 * 10e-6;
}

static int by_size(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

Test(ticks, a_track_follows_a_clock_whose_rate_changes)
{
	const size_t all = (size_t)HOUR_S * STEPS * EVENTS;
	double *errors = calloc(all, sizeof(*errors)), straight = 0;
	double tsc = 1e12, mono = 5e9, first_tsc = tsc, first_mono = mono;
	struct ticks_track track = { 0 };
	unsigned int seed = 1;
	size_t count = 0;

	cr_assert_not_null(errors);
	for (unsigned int step = 0; step < HOUR_S * STEPS; step++) {
		const double step_ticks = TSC_HZ / STEPS, begin_tsc = tsc, begin_mono = mono;
		const double ns_per_tick = 1e9 / TSC_HZ * (1 + rate_error(step / STEPS));
		struct ticks_point point;

		tsc += step_ticks;
		mono += step_ticks * ns_per_tick;
		point = (struct ticks_point){
			.ticks = (uint64_t)tsc,
			.monotonic_ns = (uint64_t)mono + (uint64_t)(rand_r(&seed) % NOISE_NS),
		};
		ticks_track_add(&track, &point);
		for (unsigned int i = 0; i < EVENTS && step; i++) {
			double at = begin_tsc + step_ticks * (i + 0.5) / EVENTS;
			double ns = begin_mono + (at - begin_tsc) * ns_per_tick;
			double got = (double)ticks_track_ticks(&track, (uint64_t)ns);
			double error_ns = fabs(got - at) / TSC_HZ * 1e9 - BETWEEN_NS;
			double line = fabs(first_tsc + (ns - first_mono) * TSC_HZ / 1e9 - at);

			errors[count++] = error_ns > 0 ? error_ns : 0;
			straight = line > straight ? line : straight;
		}
	}
	qsort(errors, count, sizeof(*errors), by_size);
	cr_log_info("p99 %.0f ns, at most %.0f ns; a straight line: %.0f ns",
		    errors[count * 99 / 100], errors[count - 1], straight / TSC_HZ * 1e9);
	cr_expect_leq(errors[count * 99 / 100], 1000);
	cr_expect_leq(errors[count - 1], 1000);
	cr_expect_gt(straight / TSC_HZ * 1e9, 100000, "the simulated clocks hardly part");
	free(errors);
}

#define MS 1000000u
#define BEGIN UINT64_C(1000000000000)

/* The track has a point at `ms`, and so many ticks more than the TSC's rate gives it. */
static void add(struct ticks_track *track, double ms, double ahead)
{
	ticks_track_add(track,
			&(struct ticks_point){
				.ticks = (uint64_t)((double)BEGIN + ms * TSC_HZ / 1000 + ahead),
				.monotonic_ns = (uint64_t)(ms * MS) + 1,
			});
}

/* What the track makes of that time is as far ahead, to 100 ns. */
static void expect_ahead(const struct ticks_track *track, double ms, double ahead)
{
	uint64_t got = ticks_track_ticks(track, (uint64_t)(ms * MS) + 1);
	double off = (double)(int64_t)(got - BEGIN) - ms * TSC_HZ / 1000 - ahead;

	cr_expect(fabs(off) < TSC_HZ / 1e7, "at %.1f ms: %.0f ticks off", ms, off);
}

Test(ticks, a_time_before_the_last_stretch_has_the_rate_of_the_one_before)
{
	/* from 30 ms on 4 ticks in 1,000 more */
	const double more = TSC_HZ / 1e6 * 4;
	struct ticks_track track = { 0 };

	add(&track, 0, 0);
	add(&track, 30, 0);
	add(&track, 60, 30 * more);
	expect_ahead(&track, 45, 15 * more);
	expect_ahead(&track, 29, 0);
	/* too near for a rate of its own: the last point is moved */
	add(&track, 61, 31 * more);
	add(&track, 63, 33 * more);
	expect_ahead(&track, 61.5, 31.5 * more);
	expect_ahead(&track, 59, 29 * more);
}

/* Asleep at 300 ms, or at once, for an hour in which the TSC runs on, or begins again. */
static void suspended(double first_ms, double gap)
{
	struct ticks_track track = { 0 };

	for (double ms = 0; ms <= first_ms; ms += 50)
		add(&track, ms, 0);
	add(&track, first_ms + 300, gap);
	expect_ahead(&track, first_ms + 150, 0);
	expect_ahead(&track, first_ms + 220, gap);
	expect_ahead(&track, first_ms + 310, gap);
	/* the rate is what it was */
	add(&track, first_ms + 350, gap);
	add(&track, first_ms + 400, gap);
	expect_ahead(&track, first_ms + 301, gap);
	expect_ahead(&track, first_ms + 370, gap);
	expect_ahead(&track, first_ms + 399, gap);
	expect_ahead(&track, first_ms + 401, gap);
}

Test(ticks, a_suspended_machine_moves_no_event)
{
	suspended(200, 3600 * TSC_HZ);
	suspended(200, -(double)BEGIN / 2);
	suspended(0, 3600 * TSC_HZ);
	suspended(0, 3 * TSC_HZ / 1000);
}

Test(ticks, a_track_takes_points_of_its_own)
{
	struct ticks_track track = { 0 };
	struct ticks_point now;

	for (int i = 0; i < 100; i++) {
		uint64_t got;

		ticks_now(0, &now);
		got = ticks_track_at(&track, now.monotonic_ns);
		cr_assert(llabs((long long)(got - now.ticks)) < 1000000, "%lld ticks apart",
			  (long long)(got - now.ticks));
	}
}
