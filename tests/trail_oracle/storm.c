/* SPDX-License-Identifier: MIT */
/*
 * A program in a storm, stepped for a moment again and again: trail-storm FOLDER CYCLES [--kill]
 * PROGRAM MODE.
 *
 * After each time it must continue as if nothing had happened, and the trail must be whole. With
 * --kill it is killed while it is stepped, and started again. The program is one of tests/targets:
 * it checks itself, and ends with standard input.
 */
#include "record/trail/testing/step/step.h"
#include "record/trail/trace_sink.h"
#include "tests/targets/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MOMENT_MS 40
#define PAUSE_US 3000
#define END_S 30

struct storm {
	char folder[256];
	char **argv;
	pid_t pid;
	int input; /* closed: it is to end */
	unsigned int seed;
	uint64_t blocks, threads;
};

static int failed(const char *what, int err)
{
	fprintf(stderr, "trail-storm: %s: %s\n", what, err < 0 ? strerror(-err) : "");
	return 1;
}

static void begin(struct storm *storm)
{
	int in[2], out[2];
	char byte;

	target_want(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC), "pipes");
	storm->pid = fork();
	if (!storm->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execv(storm->argv[0], storm->argv);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	target_want(read(out[0], &byte, 1) == 1, "the program is under way");
	close(out[0]);
	storm->input = in[1];
}

static void empty(const char *folder)
{
	char path[600];
	struct dirent *entry;
	DIR *list = opendir(folder);

	while (list && (entry = readdir(list))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	if (list)
		closedir(list);
	rmdir(folder);
}

/* Whether what was written is whole. */
static int is_whole(struct storm *storm)
{
	struct trace_reader *reader;
	struct trails trails;
	int err = trace_reader_open(&reader, storm->folder);

	if (err)
		return !failed("the trace", err);
	err = trails_read(&trails, reader);
	if (err || reader->damages_ever)
		return !failed(err ? "the trails" : reader->damages[0].what, err);
	for (size_t i = 0; i < trails.path_count; i++)
		storm->blocks += trails.paths[i].blocks;
	storm->threads += trails.path_count;
	trails_release(&trails, reader);
	trace_reader_close(reader);
	return 1;
}

/* Kill it in a moment, from outside. */
static pid_t killer(struct storm *storm)
{
	unsigned int us = (unsigned int)rand_r(&storm->seed) % (MOMENT_MS * 1000);
	pid_t pid = fork();

	if (!pid) {
		usleep(us);
		kill(storm->pid, SIGKILL);
		_exit(0);
	}
	return pid;
}

static int stepped(struct storm *storm, struct step *step, int kills)
{
	struct tracing_result result;
	pid_t helper = kills ? killer(storm) : 0;
	int err = step_run(step, 1 + (unsigned int)rand_r(&storm->seed) % MOMENT_MS);

	while (kills && err > 0)
		err = step_run(step, 1000);
	if (helper)
		waitpid(helper, NULL, 0);
	step_result(step, &result);
	if (kills && !err && !(WIFSIGNALED(result.status) && WTERMSIG(result.status) == SIGKILL))
		err = -EPROTO;
	return err < 0 ? err : step_close(step);
}

static int cycle(struct storm *storm, int kills)
{
	struct trace_writer *writer;
	struct trail_files files;
	struct step *step;
	int err;

	empty(storm->folder);
	err = trace_writer_open(&writer, storm->folder);

	if (err)
		return failed(storm->folder, err);
	trail_files_init(&files, writer);
	err = step_attach(&step, &files.sink, storm->pid, 0);
	if (err)
		return failed("attach", err);
	err = stepped(storm, step, kills);
	if (err)
		return failed("step", err);
	trail_files_release(&files);
	err = trace_writer_close(writer);
	if (err)
		return failed("writer", err);
	err = !is_whole(storm);
	empty(storm->folder);
	return err;
}

/* It is asked to end, and ends well. */
static int ends_well(struct storm *storm)
{
	int status = -1;
	pid_t got = 0;

	close(storm->input);
	for (int i = 0; i < END_S * 1000 && !got; i++) {
		got = waitpid(storm->pid, &status, WNOHANG);
		usleep(1000);
	}
	if (got == storm->pid && WIFEXITED(status) && !WEXITSTATUS(status))
		return 1;
	fprintf(stderr, "trail-storm: it ended with %#x\n", (unsigned int)status);
	kill(storm->pid, SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	int kills = argc > 3 && !strcmp(argv[3], "--kill");
	struct storm storm = { .argv = argv + 3 + kills, .seed = 1 };
	int err = 0;

	if (argc < 5 + kills)
		return failed("FOLDER CYCLES [--kill] PROGRAM MODE", -EINVAL);
	snprintf(storm.folder, sizeof(storm.folder), "%s", argv[1]);
	for (int i = 0, count = atoi(argv[2]); !err && i < count; i++) {
		int status;

		if (!storm.pid || kills)
			begin(&storm);
		err = cycle(&storm, kills);
		usleep(PAUSE_US);
		if (!kills && !err && waitpid(storm.pid, &status, WNOHANG)) {
			fprintf(stderr, "trail-storm: cycle %d: it ended with %#x\n", i,
				(unsigned int)status);
			return 1;
		}
	}
	if (!kills && !ends_well(&storm))
		err = 1;
	if (!err)
		printf("%llu blocks of %llu threads\n", (unsigned long long)storm.blocks,
		       (unsigned long long)storm.threads);
	return err;
}
