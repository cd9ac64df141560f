/* SPDX-License-Identifier: MIT */
/*
 * How long arming takes in a running program: arm SITES, the program of sites.c.
 *
 *	marker.arm_batch_10000_ms      from the request's arrival to the last site being live
 *	marker.disarm_batch_10000_ms
 *	marker.arm_one_us              from sending the request to the one site being live
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/traced.h"
#include "session/ticks.h"
#include <waymark/error.h>

static int fail(const char *what, int err)
{
	fprintf(stderr, "arm: %s: %s (%d)\n", what, wm_error_text(err), err);
	return 1;
}

static int measure_batches(struct traced *traced, unsigned int runs)
{
	static double arm[MEASURE_RUNS_MAX], disarm[MEASURE_RUNS_MAX];
	struct control_done done;
	int err;

	for (unsigned int run = 0; run < runs; run++) {
		err = traced_rule(traced, CONTROL_ARM, "many:*", 0, &done);
		if (err || done.sites != 10000)
			return fail("arm many", err);
		arm[run] = (double)done.batch_ns / 1e6;
		usleep(2000);
		err = traced_rule(traced, CONTROL_DISARM, "many:*", 0, &done);
		if (err || done.sites != 10000)
			return fail("disarm many", err);
		disarm[run] = (double)done.batch_ns / 1e6;
		usleep(2000);
	}
	measure_print("marker.arm_batch_10000_ms", measure_median(arm, runs), "ms");
	measure_print("marker.disarm_batch_10000_ms", measure_median(disarm, runs), "ms");
	return 0;
}

static int measure_one(struct traced *traced, unsigned int runs)
{
	static double live[MEASURE_RUNS_MAX], inside[MEASURE_RUNS_MAX];
	uint32_t clock = traced->store->clock;
	double hz = (double)ticks_hz(clock);
	struct control_done done;
	struct ticks_point sent;
	int err;

	for (unsigned int run = 0; run < runs; run++) {
		ticks_now(clock, &sent);
		err = traced_rule(traced, CONTROL_ARM, "one:site", 0, &done);
		if (err || done.sites != 1)
			return fail("arm one", err);
		live[run] = (double)(int64_t)(done.ticks - sent.ticks) / hz * 1e6;
		inside[run] = (double)done.batch_ns / 1e3;
		err = traced_rule(traced, CONTROL_DISARM, "one:site", 0, &done);
		if (err)
			return fail("disarm one", err);
		usleep(1000);
	}
	measure_print("marker.arm_one_us", measure_median(live, runs), "us");
	measure_print("marker.arm_one_us.inside", measure_median(inside, runs), "us");
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int runs = measure_runs(15);
	struct traced traced;
	int input[2], err, status;

	if (argc != 2 || pipe(input))
		return 2;
	dup2(input[0], 0);
	close(input[0]);
	err = traced_launch(&traced, argv + 1, 16 << 20, STORE_CYCLIC);
	if (!err)
		err = traced_request(&traced, CONTROL_GO, NULL);
	if (err)
		return fail("launch", err);
	usleep(100000);
	status = measure_batches(&traced, runs) || measure_one(&traced, runs * 2);
	traced_request(&traced, CONTROL_LEAVE, NULL);
	traced_release(&traced);
	close(input[1]);
	waitpid(traced.pid, NULL, 0);
	return status;
}
