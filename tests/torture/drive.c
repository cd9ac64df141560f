/* SPDX-License-Identifier: MIT */
#include "drive.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_S 60 /* nothing went on for so long: it hangs */

pid_t drive_victim;
int drive_failed;
const char *drive_way = "at first";
const char *drive_phase = "start";

double drive_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The first line of a file of one of its threads, if there is one. */
static void show_line(const char *thread, const char *file)
{
	char path[128], line[256] = "";
	FILE *from;

	snprintf(path, sizeof path, "/proc/%d/task/%s/%s", drive_victim, thread, file);
	from = fopen(path, "r");
	if (from && fgets(line, sizeof line, from))
		line[strcspn(line, "\n")] = 0;
	if (from)
		fclose(from);
	fprintf(stderr, "\t%s", line);
}

void drive_show_threads(void)
{
	char command[160];
	struct dirent *entry;
	DIR *tasks;

	snprintf(command, sizeof command, "/proc/%d/task", drive_victim);
	tasks = drive_victim > 0 ? opendir(command) : NULL;
	while (tasks && (entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		fprintf(stderr, "torture: thread %s", entry->d_name);
		show_line(entry->d_name, "comm");
		show_line(entry->d_name, "wchan");
		show_line(entry->d_name, "syscall");
		fputc('\n', stderr);
	}
	if (tasks)
		closedir(tasks);
	snprintf(command, sizeof command,
		 "timeout 30 gdb -p %d -batch -ex 'thread apply all bt 8' 2>&1 |"
		 " grep -E '^(Thread|#)' | cut -c1-150 >&2",
		 drive_victim);
	if (drive_victim > 0)
		(void)!system(command);
}

/* It hangs: say where, and make an end of it. */
static void on_silence(int signal_number)
{
	(void)signal_number;
	fprintf(stderr, "torture: nothing went on for %d s; last: %s, %s\n", SILENCE_S, drive_way,
		drive_phase);
	drive_show_threads();
	kill(drive_victim, SIGABRT);
	_exit(1);
}

void drive_enter(const char *phase)
{
	static int talks = -1;

	drive_phase = phase;
	if (talks < 0)
		talks = getenv("WAYMARK_TORTURE_TALK") != NULL;
	if (talks)
		fprintf(stderr, "%.3f %s: %s\n", drive_now_s(), drive_way, phase);
	alarm(SILENCE_S);
}

int drive_victim_is_alive(void)
{
	int status;

	if (!drive_victim || waitpid(drive_victim, &status, WNOHANG) != drive_victim)
		return drive_victim > 0;
	fprintf(stderr, "torture: %s: the victim ended in %s, status %x\n", drive_way, drive_phase,
		(unsigned int)status);
	drive_victim = 0;
	drive_failed = 1;
	return 0;
}

void *drive_start(char **argv, size_t bytes, size_t ready_at)
{
	char path[] = "/tmp/waymark-torture-XXXXXX";
	int fd = mkstemp(path);
	unsigned char *shared;
	uint32_t *ready;

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		return NULL;
	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (shared == MAP_FAILED)
		return NULL;
	signal(SIGALRM, on_silence);
	drive_victim = fork();
	if (!drive_victim) {
		execl(argv[0], argv[0], path, argv[1], (char *)NULL);
		_exit(127);
	}
	drive_enter("starting");
	ready = (uint32_t *)(void *)(shared + ready_at);
	while (!__atomic_load_n(ready, __ATOMIC_ACQUIRE) && drive_victim_is_alive())
		usleep(1000);
	unlink(path);
	return drive_victim > 0 ? shared : NULL;
}

void drive_end(void)
{
	int status;

	if (!drive_victim)
		return;
	drive_enter("ending");
	if (waitpid(drive_victim, &status, 0) == drive_victim && status) {
		fprintf(stderr, "torture: the victim ended with status %x\n", (unsigned int)status);
		drive_failed = 1;
	}
}
