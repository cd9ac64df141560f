/* SPDX-License-Identifier: MIT */
/*
 * How fast a trace is read: summed up, and made text of; babeltrace2 on the same trace beside it. A
 * million events of int + uint64, and as many with a string, in packets of 64 KiB from four
 * threads.
 */
#include "read/pass/format.h"
#include "read/pass/summary.h"
#include "trace/testing/packets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS 7
#define EVENTS 1000000u
#define THREADS 4u
#define PACKET_BYTES 65000u

enum shape { SHAPE_NUMBERS, SHAPE_STRING, SHAPE_SPANS };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void must(int err, const char *what)
{
	if (err < 0) {
		fprintf(stderr, "reader_bench: %s: %d\n", what, err);
		exit(1);
	}
}

static void put_event(struct sample *sample, enum shape shape, uint32_t number)
{
	sample_event(sample, shape == SHAPE_SPANS ? 2 + number % 2 : shape, sample->ticks + 150, 0);
	if (shape == SHAPE_SPANS)
		return;
	sample_u32(sample, number);
	if (shape == SHAPE_NUMBERS)
		sample_u64(sample, number * 0x9e3779b97f4a7c15ull);
	else
		sample_string(sample, "select_customer0");
}

static void make_trace(const char *dir, enum shape shape)
{
	const struct trace_process about = {
		.pid = 1000, .exe = "/usr/bin/bench", .hostname = "here", .ticks_hz = 2400000000
	};
	struct trace_writer *writer;
	struct sample sample = { 0 };
	int process;

	must(trace_writer_open(&writer, dir), "open");
	must(process = trace_process_add(writer, &about), "process");
	must(trace_event_add(writer, process, 0, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_U64),
			     "mj\nbench\nnumbers\nbench.c\n1\nnumber, word"),
	     "event");
	must(trace_event_add(writer, process, 1, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_STR),
			     "mj\nbench\nstring\nbench.c\n2\nnumber, name"),
	     "event");
	must(trace_event_add(writer, process, 2, SAMPLE_TYPES(0), "bj\nbench\nspan\nbench.c\n3\n"),
	     "event");
	must(trace_event_add(writer, process, 3, SAMPLE_TYPES(0), "ej\nbench\nspan\nbench.c\n4\n"),
	     "event");
	must(trace_clock_set(writer, about.ticks_hz, 0, 1700000000000000000), "clock");
	for (uint32_t thread = 0; thread < THREADS; thread++) {
		sample.head = (struct wm_packet){
			.instance = thread, .pid = 1000, .tid = 1000 + thread, .comm = "bench"
		};
		sample_begin(&sample, 1000000 + thread * 7);
		for (uint32_t i = 0; i < EVENTS / THREADS; i++) {
			put_event(&sample, shape, i);
			if (sample.bytes < PACKET_BYTES && i + 1 < EVENTS / THREADS)
				continue;
			must(sample_write(&sample, writer, process), "packet");
			sample_begin(&sample, sample.ticks);
		}
	}
	sample_release(&sample);
	must(trace_writer_close(writer), "close");
}

static double report_once(const char *dir)
{
	struct trace_reader *reader;
	struct summary *summary;
	double start = now();

	must(trace_reader_open(&reader, dir), "read");
	must(summary_make(&summary, reader), "sum up");
	if (summary->total != EVENTS)
		must(-1, "count");
	summary_free(summary);
	trace_reader_close(reader);
	return now() - start;
}

static double dump_once(const char *dir, int json)
{
	static struct out out;
	struct trace_reader *reader;
	struct merge_event event;
	struct format format;
	struct merge *merge;
	double start = now();

	must(trace_reader_open(&reader, dir), "read");
	must(merge_open(&merge, reader, 0, NULL, NULL), "merge");
	must(format_init(&format, reader), "format");
	out_init(&out, open("/dev/null", O_WRONLY | O_CLOEXEC));
	while (merge_next(merge, &event) > 0) {
		if (json)
			format_json(&format, &out, &event);
		else
			format_text(&format, &out, &event);
	}
	out_flush(&out);
	close(out.fd);
	format_release(&format);
	merge_close(merge);
	trace_reader_close(reader);
	return now() - start;
}

static double text_once(const char *dir)
{
	return dump_once(dir, 0);
}

static double json_once(const char *dir)
{
	return dump_once(dir, 1);
}

/* Negative when babeltrace2 is not there. */
static double babeltrace_once(const char *dir)
{
	double start = now();
	int status;
	pid_t pid = fork();

	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 1);
		dup2(null, 2);
		execlp("babeltrace2", "babeltrace2", dir, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return -1;
	return now() - start;
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void figure(const char *name, const char *dir, double (*once)(const char *dir))
{
	double seconds[RUNS];

	for (int i = 0; i < RUNS; i++)
		seconds[i] = once(dir);
	qsort(seconds, RUNS, sizeof(*seconds), by_value);
	if (seconds[0] < 0)
		printf("skip %s babeltrace2 is not installed\n", name);
	else
		printf("figure %s %.0f events/s\n", name, EVENTS / seconds[RUNS / 2]);
	fflush(stdout);
}

int main(void)
{
	char numbers[64], strings[64], spans[64];

	sample_folder(numbers);
	sample_folder(strings);
	sample_folder(spans);
	make_trace(numbers, SHAPE_NUMBERS);
	make_trace(strings, SHAPE_STRING);
	make_trace(spans, SHAPE_SPANS);
	figure("report.events_s", numbers, report_once);
	figure("report.string_events_s", strings, report_once);
	figure("report.span_events_s", spans, report_once);
	figure("dump.events_s", numbers, text_once);
	figure("dump.string_events_s", strings, text_once);
	figure("dump.json_events_s", numbers, json_once);
	figure("dump.babeltrace2_events_s", numbers, babeltrace_once);
	figure("dump.babeltrace2_string_events_s", strings, babeltrace_once);
	sample_folder_remove(numbers);
	sample_folder_remove(strings);
	sample_folder_remove(spans);
	return 0;
}
