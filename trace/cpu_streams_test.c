/* SPDX-License-Identifier: MIT */
/* The kernel's events: streams of CPUs, whose events say which thread they are about. */
#include "trace/testing/babeltrace.h"
#include "read/pass/format.h"
#include "read/pass/merge.h"
#include "read/pass/summary.h"
#include "read/pass/testing/canon.h"
#include "trace/compress.h"
#include "trace/decode.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/trace.h>

#define BASE_NS 1700000000000000000u
#define CHAIN_MAX 127u
#define CPUS 3

enum { DEPART, SAMPLE, COUNT, EVERY, CLASSES };

static char dir[64];
static struct trace_writer *writer;
static struct sample sample;

static const struct kernel_class {
	uint8_t types[16];
	const char *text;
} classes[CLASSES] = {
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_BOOL, WM_TYPE_CHAR, WM_TYPE_PTR },
	  "mj\nswitch\ndepart\nkernel\n0\npid, tid, is_preempted, state, place" },
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_PTR, WM_TYPE_ADDRESSES, WM_TYPE_U64 },
	  "mj\nsample\ncycles:u:end\nkernel\n0\npid, tid, ip, callchain, period" },
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U64 },
	  "mj\ncount\ncycles\nkernel\n0\npid, tid, count" },
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I8, WM_TYPE_U8, WM_TYPE_I16, WM_TYPE_U16, WM_TYPE_U32,
	    WM_TYPE_I64, WM_TYPE_F32, WM_TYPE_F64, WM_TYPE_STR, WM_TYPE_BYTES, WM_TYPE_ADDRESSES },
	  "mj\nsched\nall\nkernel\n0\npid, tid, a, b, c, d, e, f, g, h, i, j, k" },
};

static void put_thread(int32_t pid, int32_t tid)
{
	sample_u32(&sample, (uint32_t)pid);
	sample_u32(&sample, (uint32_t)tid);
}

static void put_addresses(uint32_t count)
{
	sample_u8(&sample, count == CHAIN_MAX ? FIELD_CUT : FIELD_WHOLE);
	sample_u32(&sample, count);
	for (uint32_t i = 0; i < count; i++)
		sample_u64(&sample, 0xffffffff81000000u + i);
}

static void put_sample(uint64_t ticks, int32_t pid, int32_t tid, uint32_t addresses)
{
	sample_event(&sample, SAMPLE, ticks, 0);
	put_thread(pid, tid);
	sample_u64(&sample, 0x401000);
	put_addresses(addresses);
	sample_u64(&sample, 1000);
}

static void put_depart(uint64_t ticks, int32_t pid, int32_t tid)
{
	sample_event(&sample, DEPART, ticks, 0);
	put_thread(pid, tid);
	sample_put(&sample, "\1R", 2);
	sample_u64(&sample, 0x401234);
}

static void put_every(uint64_t ticks)
{
	static const unsigned char numbers[34] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };

	sample_event(&sample, EVERY, ticks, 0);
	put_thread(10, 11);
	sample_put(&sample, numbers, sizeof(numbers) - 4);
	sample_string(&sample, "bash");
	sample_run(&sample, "\0x", 2);
	put_addresses(2);
}

static void put_count(uint64_t ticks)
{
	sample_event(&sample, COUNT, ticks, 0);
	put_thread(-1, -1);
	sample_u64(&sample, 77);
}

static void put_packet(int process)
{
	cr_assert_eq(sample_write(&sample, writer, process), 0);
}

static void begin_cpu(uint32_t cpu, uint64_t instance, uint64_t ticks)
{
	sample.head = (struct wm_packet){ .tid = cpu, .instance = instance };
	snprintf(sample.head.comm, sizeof(sample.head.comm),
		 cpu == PACKET_NO_CPU ? "cpus" : "cpu%u", cpu);
	sample_begin(&sample, ticks);
}

static int add_process(uint32_t pid, const char *exe)
{
	const struct trace_process about = {
		.pid = pid, .exe = exe, .hostname = "here", .ticks_hz = 1000000000
	};

	return trace_process_add(writer, &about);
}

static void begin_trace(uint32_t kernel_pid)
{
	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(add_process(10, "/bin/x"), 0);
	cr_assert_eq(add_process(kernel_pid, "kernel"), 1);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_U32), "mj\ndb\nrow\na.c\n1\nn");
	for (uint32_t i = 0; i < CLASSES; i++)
		cr_assert_eq(trace_event_add(writer, 1, i, classes[i].types, classes[i].text), 0);
	trace_clock_set(writer, 1000000000, 0, BASE_NS);
}

static void end_writing(void)
{
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

/* Events 1 to 9, of a thread, of CPUs 0 and 3, and of several. */
static void make_trace(void)
{
	begin_trace(0);
	sample.head = (struct wm_packet){ .pid = 10, .tid = 11, .instance = 1, .comm = "worker" };
	sample_begin(&sample, 1);
	sample_event(&sample, 0, 4, 0);
	sample_u32(&sample, 5);
	put_packet(0);
	begin_cpu(3, 1, 1);
	put_depart(1, 10, 11);
	put_sample(3, 10, 12, CHAIN_MAX);
	put_packet(1);
	sample.head.discarded = 6;
	sample_begin(&sample, 6);
	put_depart(6, 20, 20);
	put_every(7);
	put_packet(1);
	begin_cpu(0, 2, 1);
	put_sample(2, 10, 11, 0);
	put_depart(5, 0, 0);
	put_packet(1);
	begin_cpu(PACKET_NO_CPU, 3, 8);
	put_count(8);
	put_packet(1);
	end_writing();
}

static const struct expected {
	const char *name;
	uint32_t pid, tid;
	int32_t cpu;
} expected[] = {
	{ "switch:depart", 10, 11, 3 },	      { "sample:cycles:u:end", 10, 11, 0 },
	{ "sample:cycles:u:end", 10, 12, 3 }, { "db:row", 10, 11, -1 },
	{ "switch:depart", 0, 0, 0 },	      { "waymark:lost", 0, 0, 3 },
	{ "switch:depart", 20, 20, 3 },	      { "sched:all", 10, 11, 3 },
	{ "count:cycles", 0, 0, -1 },
};

#define EXPECTED (sizeof(expected) / sizeof(*expected))

Test(cpu_streams, events_come_in_order_of_time_with_thread_and_cpu)
{
	const struct wm_event *event;
	struct wm_trace *trace;
	uint64_t last = 0;

	make_trace();
	cr_assert_eq(wm_trace_open(&trace, dir, NULL), 0);
	for (size_t i = 0; i < EXPECTED; i++) {
		cr_assert_eq(wm_trace_next(trace, &event), 1, "%zu", i);
		cr_assert_str_eq(event->name, expected[i].name, "%zu: %s", i, event->name);
		cr_expect_eq(event->kind, strcmp(event->name, "waymark:lost") ? 'm' : 'l');
		cr_expect_eq(event->pid, expected[i].pid, "%zu: %u", i, event->pid);
		cr_expect_eq(event->tid, expected[i].tid, "%zu: %u", i, event->tid);
		cr_expect_eq(event->cpu, expected[i].cpu, "%zu: %d", i, event->cpu);
		cr_expect_geq(event->realtime_ns, last);
		last = event->realtime_ns;
	}
	cr_assert_eq(wm_trace_next(trace, &event), 0);
	wm_trace_close(trace);
	sample_folder_remove(dir);
}

Test(cpu_streams, addresses_are_whole_from_none_to_127)
{
	const struct wm_event_field *field;
	const struct wm_event *event;
	struct wm_trace *trace;
	uint64_t address, seen = 0;
	size_t count;

	make_trace();
	cr_assert_eq(wm_trace_open(&trace, dir, NULL), 0);
	while (wm_trace_next(trace, &event) > 0) {
		field = wm_event_field_find(event, "callchain");
		if (!field)
			continue;
		count = event->cpu == 3 ? CHAIN_MAX : 0;
		cr_assert_eq(field->type, WM_TYPE_ADDRESSES);
		cr_assert_eq(field->state, count ? FIELD_CUT : FIELD_WHOLE);
		cr_assert_eq(field->value.run.bytes, 8 * count);
		for (size_t i = 0; i < count; i++) {
			memcpy(&address, field->value.run.start + 8 * i, 8);
			cr_assert_eq(address, 0xffffffff81000000u + i);
		}
		cr_assert_eq(wm_event_field_u64(field, &address), -WM_E_FIELD_TYPE);
		cr_assert_eq(wm_event_field_u64(wm_event_field_find(event, "period"), &address), 0);
		cr_assert_eq(address, 1000);
		seen++;
	}
	cr_assert_eq(seen, 2);
	wm_trace_close(trace);
	sample_folder_remove(dir);
}

Test(cpu_streams, babeltrace_reads_the_same)
{
	struct babeltrace theirs;
	struct canon ours;

	make_trace();
	if (babeltrace_read(&theirs, dir))
		cr_skip_test("libbabeltrace2-dev is not installed");
	cr_assert_not(theirs.failed);
	cr_assert_eq(canon_read(&ours, dir), 0);
	cr_assert_eq(ours.count, EXPECTED - 1);
	cr_assert_eq(theirs.count, ours.count);
	for (uint32_t i = 0; i < ours.count; i++)
		cr_expect_str_eq(ours.lines[i], theirs.lines[i], "\n%s\n%s", ours.lines[i],
				 theirs.lines[i]);
	cr_assert_eq(theirs.discarded, 6);
	babeltrace_release(&theirs);
	canon_release(&ours);
	sample_folder_remove(dir);
}

static struct trace_reader *reader_of(uint64_t damages)
{
	struct trace_reader *reader;

	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(reader->damages_ever, damages, "%lu", reader->damages_ever);
	return reader;
}

Test(cpu_streams, streams_are_files_of_cpus)
{
	static const char *const names[] = { "10-11-0", "cpu0-2", "cpu3-1", "cpus-3" };
	struct trace_reader *reader;
	char path[128];

	make_trace();
	reader = reader_of(0);
	cr_assert_eq(reader->stream_count, 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_expect_str_eq(reader->streams[i].file, names[i], "%s", reader->streams[i].file);
	cr_expect_not(reader->meta.processes[0].is_kernel);
	cr_expect(reader->meta.processes[1].is_kernel);
	trace_reader_close(reader);
	snprintf(path, sizeof(path), "%s/cpu3-1", dir);
	cr_assert_eq(unlink(path), 0);
	reader = reader_of(1);
	cr_expect_str_eq(reader->damages[0].file, "cpu3-1");
	cr_expect_eq(reader->missing_events, 4);
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

static void expect_lines(const struct canon *first, uint64_t damages, uint32_t left_out)
{
	struct canon now;

	cr_assert_eq(canon_read(&now, dir), 0);
	cr_expect_eq(now.damages, damages, "%lu", now.damages);
	cr_assert_eq(now.count, first->count - left_out);
	for (uint32_t i = 0; !left_out && i < now.count; i++)
		cr_expect_str_eq(now.lines[i], first->lines[i]);
	canon_release(&now);
}

Test(cpu_streams, streams_are_compressed_and_repaired)
{
	struct canon first;
	char path[128];

	make_trace();
	cr_assert_eq(canon_read(&first, dir), 0);
	cr_assert_eq(trace_compress(dir, NULL), 4);
	snprintf(path, sizeof(path), "%s/cpu3-1.zst", dir);
	cr_expect_eq(access(path, F_OK), 0);
	expect_lines(&first, 0, 0);
	cr_assert_eq(trace_decompress(dir, NULL), 4);
	expect_lines(&first, 0, 0);
	path[strlen(path) - 4] = '\0';
	cr_assert_eq(truncate(path, PAGE_HEAD_BYTES + 10), 0); /* in the first of its packets */
	expect_lines(&first, 1, 4);
	cr_assert_eq(trace_repair(dir), 1);
	expect_lines(&first, 0, 4);
	canon_release(&first);
	sample_folder_remove(dir);
}

Test(cpu_streams, summary_counts_each_thread_once_and_no_cpu)
{
	struct trace_reader *reader;
	struct summary *summary;
	uint64_t found = 0;

	make_trace();
	reader = reader_of(0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_expect_eq(summary->threads, 3, "11 of a stream, 12 and 20 of the kernel's events");
	cr_expect_eq(summary->total, EXPECTED - 1);
	cr_expect_eq(summary->span_count, 0, "a name ends as one of a span does");
	for (uint32_t i = 0; i < summary->event_count; i++) {
		const struct summary_event *event = &summary->events[i];
		int is_sample = !strcmp(event->name, "sample:cycles:u:end");

		if (!is_sample && strcmp(event->name, "count:cycles") != 0)
			continue;
		cr_expect_eq(event->count, is_sample ? 2u : 1u);
		cr_expect_eq(event->threads, is_sample ? 2u : 0u);
		cr_expect_eq(event->processes, is_sample ? 1u : 0u);
		found++;
	}
	cr_expect_eq(found, 2);
	summary_free(summary);
	trace_reader_close(reader);
	sample_folder_remove(dir);
}

/* The trace's lines as text or JSON. */
static char *lines(int is_json)
{
	static struct out out;
	static char text[1 << 16];
	struct trace_reader *reader = reader_of(0);
	struct merge_event event;
	struct format format;
	struct merge *merge;
	FILE *file = tmpfile();
	size_t bytes;

	cr_assert_eq(merge_open(&merge, reader, 0, NULL, NULL), 0);
	cr_assert_eq(format_init(&format, reader), 0);
	out_init(&out, fileno(file));
	while (merge_next(merge, &event) > 0)
		(is_json ? format_json : format_text)(&format, &out, &event);
	cr_assert_eq(out_flush(&out), 0);
	rewind(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	text[bytes] = '\0';
	fclose(file);
	format_release(&format);
	merge_close(merge);
	trace_reader_close(reader);
	return text;
}

static void expect_line(const char *all, const char *line)
{
	cr_expect(strstr(all, line) != NULL, "no %s in\n%s", line, all);
}

Test(cpu_streams, lines_have_thread_and_cpu)
{
	const char *text;

	make_trace();
	text = lines(0);
	expect_line(text, ") worker-11 10 [0] sample:cycles:u:end: { pid = 10, tid = 11, "
			  "ip = 0x401000, callchain = [], period = 1000 }\n");
	expect_line(text, ") ?-12 10 [3] sample:cycles:u:end: ");
	expect_line(text, "0xffffffff8100007d 0xffffffff8100007e]..., period = 1000 }\n");
	expect_line(text, ") cpu0-0 0 [0] switch:depart: { pid = 0");
	expect_line(text, ") cpu3-0 0 [3] (6 events lost)\n");
	expect_line(text, ") cpus-0 0 count:cycles: { pid = -1, tid = -1, count = 77 }\n");
	text = lines(1);
	expect_line(text, "\"pid\":10,\"tid\":11,\"comm\":\"worker\",\"cpu\":0,\"name\":"
			  "\"sample:cycles:u:end\",\"fields\":{\"pid\":10,\"tid\":11,"
			  "\"ip\":\"0x401000\",\"callchain\":[],\"period\":1000}}\n");
	expect_line(text, "\"tid\":12,\"comm\":\"\",\"cpu\":3,");
	expect_line(text, "\"k\":[\"0xffffffff81000000\",\"0xffffffff81000001\"]}}\n");
	expect_line(text, "\"comm\":\"cpu3\",\"cpu\":3,\"lost\":6,");
	expect_line(text, "\"cut\":[\"callchain\"]}\n");
	expect_line(text, "\"comm\":\"cpus\",\"name\":\"count:cycles\"");
	sample_folder_remove(dir);
}

static int count_event(const struct wm_event *event, void *data)
{
	cr_expect_eq(event->cpu, 2);
	cr_expect_eq(event->tid, 11);
	++*(int *)data;
	return 0;
}

/* Decode the first bytes of what the sample holds, in memory of just that size. */
static int decode(const struct trace_schema *schema, size_t bytes, int *events)
{
	char *copy = malloc(bytes ? bytes : 1);
	int err;

	memcpy(copy, sample.content, bytes);
	*events = 0;
	err = trace_decode(schema, &sample.head, copy, bytes, 1000000000, 0, 0, count_event,
			   events);
	free(copy);
	return err;
}

Test(cpu_streams, cut_addresses_are_damage)
{
	struct trace_schema *schema;
	uint32_t huge[] = { 4, 0x20000001, UINT32_MAX };
	int events;

	cr_assert_eq(trace_schema_new(&schema), 0);
	cr_assert_eq(trace_schema_add(schema, SAMPLE, classes[SAMPLE].types, classes[SAMPLE].text),
		     0);
	begin_cpu(2, 1, 5);
	put_sample(5, 10, 11, 3);
	cr_assert_eq(decode(schema, sample.bytes, &events), 0);
	cr_assert_eq(events, 1);
	for (size_t bytes = 1; bytes < sample.bytes; bytes++) {
		cr_assert_eq(decode(schema, bytes, &events), -WM_E_TRACE_DAMAGED, "%zu", bytes);
		cr_assert_eq(events, 0);
	}
	for (size_t i = 0; i < 3; i++) {
		memcpy(sample.content + 4 + 8 + 8 + 1, &huge[i], 4);
		cr_assert_eq(decode(schema, sample.bytes, &events), -WM_E_TRACE_DAMAGED, "%zu", i);
	}
	trace_schema_free(schema);
	sample_release(&sample);
}

Test(cpu_streams, an_event_without_a_thread_is_refused)
{
	begin_trace(0);
	cr_expect_eq(trace_event_add(writer, 1, 90, SAMPLE_TYPES(0), "mj\na\nb\nk\n0\n"), -EINVAL);
	cr_expect_eq(trace_event_add(writer, 1, 91, SAMPLE_TYPES(WM_TYPE_I32),
				     "mj\na\nb\nk\n0\npid"),
		     -EINVAL);
	cr_expect_eq(trace_event_add(writer, 1, 92, SAMPLE_TYPES(WM_TYPE_U32, WM_TYPE_I32),
				     "mj\na\nb\nk\n0\npid, tid"),
		     -EINVAL);
	cr_expect_eq(trace_event_add(writer, 1, 93, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32),
				     "mj\na\nb\nk\n0\ntid, pid"),
		     -EINVAL);
	end_writing();
	sample_folder_remove(dir);
}

/* Make the second process, of pid 7, the kernel's. */
static void forge_cpus(void)
{
	static const uint32_t found[] = { 1, 7 }, forged[] = { 1, 0 };
	char path[128], facts[1 << 16], *at;
	FILE *file;
	size_t bytes;

	snprintf(path, sizeof(path), "%s/" FACTS_FILE, dir);
	file = fopen(path, "r+e");
	cr_assert_not_null(file);
	bytes = fread(facts, 1, sizeof(facts), file);
	at = memmem(facts, bytes, found, sizeof(found));
	cr_assert_not_null(at);
	memcpy(at, forged, sizeof(forged));
	rewind(file);
	cr_assert_eq(fwrite(facts, 1, bytes, file), bytes);
	fclose(file);
}

Test(cpu_streams, a_forged_stream_has_unknown_threads_and_cpu)
{
	static const uint32_t cpus[CPUS] = { UINT32_MAX, 0x80000000, INT32_MAX };
	const struct wm_event *event;
	struct trace_reader *reader;
	struct summary *summary;
	struct wm_trace *trace;
	uint64_t seen = 0;

	begin_trace(7);
	trace_event_add(writer, 1, 9, SAMPLE_TYPES(WM_TYPE_STR, WM_TYPE_I32),
			"bj\nk\nodd\nk\n0\npid, tid");
	for (uint32_t i = 0; i < CPUS; i++) {
		sample.head = (struct wm_packet){ .pid = 7, .tid = cpus[i], .instance = i };
		sample_begin(&sample, i + 1);
		sample_event(&sample, 9, i + 1, 0);
		sample_string(&sample, "ab"); /* as numbers these bytes would be a pid and a tid */
		sample_u32(&sample, 7);
		put_packet(1);
		sample_begin(&sample, i + 1);
		put_sample(i + 1, INT32_MIN, -1, 1);
		put_packet(1);
	}
	end_writing();
	forge_cpus();
	cr_assert_eq(wm_trace_open(&trace, dir, NULL), 0);
	while (wm_trace_next(trace, &event) > 0) {
		cr_assert_neq(event->kind, 'd', "%s", wm_trace_detail(trace));
		cr_expect_eq(event->pid, 0);
		cr_expect_eq(event->tid, 0);
		cr_expect(event->cpu == -1 || event->cpu == INT32_MAX);
		seen++;
	}
	cr_expect_eq(seen, 2 * CPUS);
	wm_trace_close(trace);
	reader = reader_of(0);
	cr_assert_eq(summary_make(&summary, reader), 0);
	cr_expect_eq(summary->threads, 0);
	summary_free(summary);
	trace_reader_close(reader);
	cr_expect_neq(*lines(0), '\0');
	cr_expect_neq(*lines(1), '\0');
	sample_folder_remove(dir);
}
