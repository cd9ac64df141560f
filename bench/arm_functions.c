/* SPDX-License-Identifier: MIT */
/*
 * How long it takes to arm a probe on each of a thousand functions of a process with a hundred
 * threads, and how long one of its threads stops for that: arm_functions FUNCTIONS, the program
 * of functions.c.
 *
 *	probe.arm_1000_functions_ms        wm_session_start(), again and again in one process
 *	probe.arm_1000_functions_ms.first  the first time, when its files are read
 *	probe.disarm_1000_functions_ms
 *	probe.arm_longest_stop_ms          of the watching thread, beyond its sleep, in an arming
 *	probe.arm_longest_stop_ms.idle     in as long a time when nothing is armed
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

#include "bench/functions.h"
#include "bench/measure.h"

struct program {
	pid_t pid;
	struct watched *watched;
};

static int program_start(struct program *program, const char *path)
{
	char shared[] = "/tmp/waymark-bench-XXXXXX";
	int fd = mkstemp(shared);

	if (fd < 0 || ftruncate(fd, sizeof(*program->watched)))
		return -errno;
	program->watched = mmap(NULL, sizeof(*program->watched), PROT_READ | PROT_WRITE, MAP_SHARED,
				fd, 0);
	close(fd);
	program->pid = fork();
	if (!program->pid) {
		execl(path, path, shared, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 1000 && !__atomic_load_n(&program->watched->ready, __ATOMIC_ACQUIRE);
	     i++)
		usleep(10000);
	unlink(shared);
	return program->watched->ready ? 0 : -ETIMEDOUT;
}

/* All its results must have been right. */
static int program_end(struct program *program)
{
	int status = -1;

	__atomic_store_n(&program->watched->stop, 1, __ATOMIC_SEQ_CST);
	waitpid(program->pid, &status, 0);
	return status;
}

static uint64_t longest_ns(struct program *program)
{
	return __atomic_exchange_n(&program->watched->longest_ns, 0, __ATOMIC_RELAXED);
}

struct times {
	double arm_ms, disarm_ms, stop_ms, idle_ms;
};

static int arm_once(struct wm_session *session, struct program *program, struct times *times)
{
	struct wm_session_status before = { .size = sizeof(before) }, after = before;
	uint64_t start;
	int err = wm_session_status_get(session, &before);

	longest_ns(program);
	start = measure_ns();
	if (!err)
		err = wm_session_start(session);
	times->arm_ms = (double)(measure_ns() - start) / 1e6;
	times->stop_ms = (double)longest_ns(program) / 1e6;
	if (!err)
		err = wm_session_status_get(session, &after);
	if (!err && after.sites - before.sites != MANY_COUNT && after.sites != MANY_COUNT) {
		fprintf(stderr, "arm_functions: %llu sites\n", (unsigned long long)after.sites);
		err = -WM_E_NO_MARKER;
	}
	usleep(30000);
	start = measure_ns();
	if (!err)
		err = wm_session_stop(session);
	times->disarm_ms = (double)(measure_ns() - start) / 1e6;
	usleep(30000);
	longest_ns(program);
	usleep((unsigned int)(times->arm_ms * 1000) + 1000);
	times->idle_ms = (double)longest_ns(program) / 1e6;
	return err;
}

static int measure(struct wm_session *session, struct program *program)
{
	static double arm[MEASURE_RUNS_MAX], disarm[MEASURE_RUNS_MAX], stop[MEASURE_RUNS_MAX];
	static double idle[MEASURE_RUNS_MAX];
	unsigned int runs = measure_runs(9);
	struct times times;
	int err = wm_session_add(session, "func:many_*/arg1,arg2/");

	if (!err)
		err = wm_session_attach(session, program->pid);
	if (!err)
		err = arm_once(session, program, &times);
	if (err)
		return err;
	measure_print("probe.arm_1000_functions_ms.first", times.arm_ms, "ms");
	for (unsigned int run = 0; run < runs && !err; run++) {
		err = arm_once(session, program, &times);
		arm[run] = times.arm_ms;
		disarm[run] = times.disarm_ms;
		stop[run] = times.stop_ms;
		idle[run] = times.idle_ms;
	}
	if (err)
		return err;
	measure_print("probe.arm_1000_functions_ms", measure_median(arm, runs), "ms");
	measure_print("probe.disarm_1000_functions_ms", measure_median(disarm, runs), "ms");
	measure_print("probe.arm_longest_stop_ms", measure_median(stop, runs), "ms");
	measure_print("probe.arm_longest_stop_ms.idle", measure_median(idle, runs), "ms");
	return 0;
}

int main(int argc, char **argv)
{
	/* no reader drains */
	struct wm_session_options options = { .size = sizeof(options), .policy = WM_POLICY_CYCLIC };
	struct wm_session *session = NULL;
	struct program program = { 0 };
	int err, status;

	if (argc != 2)
		return 2;
	err = program_start(&program, argv[1]);
	if (!err)
		err = wm_session_open(&session, &options);
	if (!err)
		err = measure(session, &program);
	if (err)
		fprintf(stderr, "arm_functions: %s: %s\n", wm_error_text(err),
			session ? wm_session_detail(session) : "");
	wm_session_close(session);
	status = program.pid ? program_end(&program) : 0;
	if (status)
		fprintf(stderr, "arm_functions: the program ended with status %x\n",
			(unsigned int)status);
	return err || status;
}
