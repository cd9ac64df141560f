/* SPDX-License-Identifier: MIT */
/*
 * record.drain_mb_s: how fast full buffers go into a trace on a file system in memory. The program
 * (this one, with an argument) fills 256 MiB and waits; then the session drains.
 */
#include <dirent.h>
#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/session.h>

#define BUFFER_BYTES (256u << 20)

static int program(void)
{
	char byte;

	for (uint64_t i = 0; i < BUFFER_BYTES / 16; i++)
		WAYMARK(bench, fill, (int)i, i);
	if (write(1, "x", 1) != 1)
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}

static int fail(struct wm_session *session, const char *what, int err)
{
	fprintf(stderr, "drain: %s: %s: %s\n", what, wm_error_text(err),
		wm_session_detail(session));
	return -1;
}

/* A trace folder without folders in it. */
static void remove_trace(const char *dir)
{
	DIR *open = opendir(dir);
	struct dirent *entry;
	char path[512];

	while (open && (entry = readdir(open))) {
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		unlink(path);
	}
	if (open)
		closedir(open);
	rmdir(dir);
}

/* Start the program and wait until its buffer is full. */
static int fill(struct wm_session *session, char **argv, const char *dir, int filled)
{
	char byte;
	int err = wm_session_add(session, "marker:bench:fill");

	if (!err)
		err = wm_session_output(session, dir);
	if (err)
		return err;
	err = wm_session_launch(session, argv);
	if (err < 0)
		return err;
	err = wm_session_start(session);
	if (!err && read(filled, &byte, 1) != 1)
		err = -WM_E_GONE;
	return err;
}

/* One run: MB/s, or negative. */
static double run(char **argv, const char *dir)
{
	struct wm_session_options options = { .size = sizeof(options),
					      .buffer_bytes = BUFFER_BYTES,
					      .policy = WM_POLICY_DISCARD };
	struct wm_session_status status = { .size = sizeof(status) };
	struct wm_session *session;
	int input[2], output[2],
		keep[2] = { fcntl(0, F_DUPFD_CLOEXEC, 3), fcntl(1, F_DUPFD_CLOEXEC, 3) }, err;
	double mb_s = -1;
	uint64_t start;

	if (pipe2(input, O_CLOEXEC) || pipe2(output, O_CLOEXEC))
		return -1;
	dup2(input[0], 0);
	dup2(output[1], 1);
	close(input[0]);
	close(output[1]);
	err = wm_session_open(&session, &options);
	if (!err)
		err = fill(session, argv, dir, output[0]);
	dup2(keep[0], 0);
	dup2(keep[1], 1);
	close(keep[0]);
	close(keep[1]);
	if (err)
		return fail(session, "start", err);

	start = measure_ns();
	err = wm_session_stop(session);
	start = measure_ns() - start;
	if (!err)
		err = wm_session_status_get(session, &status);
	if (err)
		fail(session, "stop", err);
	else
		mb_s = (double)status.bytes / 1e6 / ((double)start / 1e9);
	close(input[1]);
	close(output[0]);
	wm_session_close(session);
	while (waitpid(-1, NULL, 0) > 0)
		;
	if (status.bytes < BUFFER_BYTES / 2) {
		fprintf(stderr, "drain: only %llu bytes came\n", (unsigned long long)status.bytes);
		return -1;
	}
	return mb_s;
}

int main(int argc, char **argv)
{
	char *again[] = { argv[0], "program", NULL };
	unsigned int runs = measure_runs(7);
	static double all[MEASURE_RUNS_MAX];
	char dir[64];

	if (argc == 2)
		return program();
	signal(SIGPIPE, SIG_IGN);
	snprintf(dir, sizeof(dir), "/dev/shm/waymark-bench-%d", (int)getpid());
	for (unsigned int i = 0; i < runs; i++) {
		all[i] = run(again, dir);
		remove_trace(dir);
		if (all[i] < 0)
			return 1;
	}
	measure_print("record.drain_mb_s", measure_median(all, runs), "MB/s");
	return 0;
}
