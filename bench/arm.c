/* SPDX-License-Identifier: MIT */
/*
 * How long arming takes in a running program: arm SITES [SUFFIX]. SITES is the program of sites.c;
 * the suffix, for batches alone, is put to the figures' names.
 *
 *	marker.arm_batch_10000_ms      from the request's arrival to the last site being live; again
 *	                               and again in one process
 *	marker.arm_batch_10000_ms.first  the first time in a process
 *	marker.disarm_batch_10000_ms
 *	marker.arm_one_us              from sending the request to the one site being live
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/traced.h"
#include "target/process/ticks.h"
#include <waymark/error.h>

static const char *suffix = "";

static void print_batch(const char *name, const char *which, double ms)
{
	char whole[128];

	snprintf(whole, sizeof(whole), "%s%s%s", name, suffix, which);
	measure_print(whole, ms, "ms");
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "arm: %s: %s\n", what,
		err ? wm_error_text(err) : "other sites than expected");
	return 1;
}

/* One arming of all, and disarming; milliseconds. */
static int batch(struct traced *traced, double *arm_ms, double *disarm_ms)
{
	struct control_done done;
	int err;

	err = traced_rule(traced, CONTROL_ARM, "many:*", 0, &done);
	if (err || done.sites != 10000)
		return fail("arm many", err);
	*arm_ms = (double)done.batch_ns / 1e6;
	usleep(2000);
	err = traced_rule(traced, CONTROL_DISARM, "many:*", 0, &done);
	if (err || done.sites != 10000)
		return fail("disarm many", err);
	*disarm_ms = (double)done.batch_ns / 1e6;
	usleep(2000);
	return 0;
}

static int measure_batches(struct traced *traced, unsigned int runs)
{
	static double arm[MEASURE_RUNS_MAX], disarm[MEASURE_RUNS_MAX];

	for (unsigned int run = 0; run < runs; run++)
		if (batch(traced, &arm[run], &disarm[run]))
			return -1;
	print_batch("marker.arm_batch_10000_ms", "", measure_median(arm, runs));
	print_batch("marker.disarm_batch_10000_ms", "", measure_median(disarm, runs));
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

struct program {
	struct traced traced;
	int input; /* it ends when this is closed */
};

static int program_start(struct program *program, char **argv)
{
	int input[2], err;

	if (pipe2(input, O_CLOEXEC))
		return -1;
	dup2(input[0], 0);
	close(input[0]);
	program->input = input[1];
	err = traced_launch(&program->traced, argv, 16 << 20, STORE_CYCLIC);
	if (!err)
		err = traced_request(&program->traced, CONTROL_GO, NULL);
	usleep(50000);
	return err ? fail("launch", err) : 0;
}

static void program_end(struct program *program)
{
	pid_t pid = program->traced.pid;

	traced_request(&program->traced, CONTROL_LEAVE, NULL);
	traced_release(&program->traced);
	close(program->input);
	waitpid(pid, NULL, 0);
}

/* The first batch in a process, when no page of its code was written to and no event has an id. */
static int measure_first(char **argv, unsigned int runs)
{
	static double arm[MEASURE_RUNS_MAX];
	struct program program;
	double disarm;

	for (unsigned int run = 0; run < runs; run++) {
		if (program_start(&program, argv) || batch(&program.traced, &arm[run], &disarm))
			return -1;
		program_end(&program);
	}
	print_batch("marker.arm_batch_10000_ms", ".first", measure_median(arm, runs));
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int runs = measure_runs(15);
	char *program_argv[] = { argc > 1 ? argv[1] : NULL, NULL };
	struct program program;
	int status;

	if (argc != 2 && argc != 3)
		return 2;
	if (argc == 3)
		suffix = argv[2];
	if (program_start(&program, program_argv))
		return 1;
	status = measure_batches(&program.traced, runs);
	if (!status && argc == 2)
		status = measure_one(&program.traced, runs * 2);
	program_end(&program);
	return status || measure_first(program_argv, (runs + 1) / 2);
}
