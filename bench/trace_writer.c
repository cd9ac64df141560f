/* SPDX-License-Identifier: MIT */
/*
 * How fast packets go into a trace in memory, beside plain write() of the same bytes.
 */
#include "trace/testing/packets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RUNS 7
#define PACKETS 2000u
#define STREAMS 100u /* as many threads as a server has */
#define CONTENT_BYTES (STORE_PAGE_BYTES - PAGE_HEAD_BYTES)

static char content[CONTENT_BYTES];

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void must(int err, const char *what)
{
	if (err < 0) {
		fprintf(stderr, "writer_bench: %s: %d\n", what, err);
		exit(1);
	}
}

/* A folder in memory where there is one. */
static void folder(char path[64])
{
	strcpy(path, "/dev/shm/waymark-bench-XXXXXX");
	if (!mkdtemp(path))
		sample_folder(path);
}

static double trace_once(unsigned int streams)
{
	const struct trace_process about = {
		.pid = 1, .exe = "/bin/bench", .hostname = "here", .ticks_hz = 2400000000
	};
	struct wm_packet head = { .pid = 1, .tid = 1 };
	struct trace_writer *writer;
	char dir[64];
	double start;
	int process;

	folder(dir);
	start = now();
	must(trace_writer_open(&writer, dir), "open");
	must(process = trace_process_add(writer, &about), "process");
	for (uint32_t i = 0; i < PACKETS; i++) {
		head.instance = i % streams;
		must(trace_packet_write(writer, process, &head, content, sizeof(content), 0),
		     "packet");
	}
	must(trace_writer_close(writer), "close");
	start = now() - start;
	sample_folder_remove(dir);
	return start;
}

static double one_stream(void)
{
	return trace_once(1);
}

static double many_streams(void)
{
	return trace_once(STREAMS);
}

static double plain_write(void)
{
	char dir[64], path[80];
	double start;
	int fd;

	folder(dir);
	snprintf(path, sizeof(path), "%s/file", dir);
	start = now();
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (uint32_t i = 0; i < PACKETS; i++)
		must(write(fd, content, sizeof(content)) == sizeof(content) ? 0 : -1, "write");
	close(fd);
	start = now() - start;
	sample_folder_remove(dir);
	return start;
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void figure(const char *name, double (*once)(void))
{
	double seconds[RUNS];

	for (int i = 0; i < RUNS; i++)
		seconds[i] = once();
	qsort(seconds, RUNS, sizeof(*seconds), by_value);
	printf("figure %s %.0f MB/s\n", name,
	       (double)PACKETS * STORE_PAGE_BYTES / 1e6 / seconds[RUNS / 2]);
	fflush(stdout);
}

int main(void)
{
	memset(content, 0x55, sizeof(content));
	figure("writer.mb_s", one_stream);
	figure("writer.streams_100_mb_s", many_streams);
	figure("writer.plain_write_mb_s", plain_write);
	return 0;
}
