/* SPDX-License-Identifier: MIT */
/*
 * The trace reader against any bytes.
 *
 * An input is a trace: three uint32 with the lengths of the metadata, of the index and of a stream,
 * these three, and the rest is a stream of the kernel's, compressed.
 *
 * With -DLIBFUZZER this is a libFuzzer target. Else it runs by itself:
 *
 *	trace_fuzz [SECONDS [SEED]]	a good trace, changed at random (default 3 s, seed 1)
 *	trace_fuzz FILE...		these inputs
 */
#include "fuzz/folder.h"
#include "fuzz/run.h"
#include "read/pass/format.h"
#include "read/pass/summary.h"
#include "read/states/switches.h"
#include "trace/compress.h"
#include "trace/index.h"
#include "trace/testing/packets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/trace.h>

#define HEAD_BYTES (3 * sizeof(uint32_t))

static void dump(struct trace_reader *reader, int json)
{
	static struct out out;
	struct merge_event event;
	struct format format;
	struct merge *merge;

	if (merge_open(&merge, reader, 0, NULL, NULL))
		return;
	if (!format_init(&format, reader)) {
		out_init(&out, open("/dev/null", O_WRONLY | O_CLOEXEC));
		while (merge_next(merge, &event) > 0)
			(json ? format_json : format_text)(&format, &out, &event);
		out_flush(&out);
		close(out.fd);
		format_release(&format);
	}
	merge_close(merge);
}

/* As programs read it. */
static void read_back(void)
{
	const struct wm_event *event;
	struct wm_trace *trace;
	int got = wm_trace_open(&trace, folder_path(), NULL);

	while (got >= 0 && (got = wm_trace_next(trace, &event)) > 0) {
		if (!event->id || event->size != sizeof(*event))
			abort();
		for (uint32_t i = 0; i < event->field_count; i++) {
			const struct wm_event_field *field = &event->fields[i];
			const char *string = NULL;
			double number;

			if (wm_event_field_double(field, &number) &&
			    wm_event_field_string(field, &string) >= 0 && string &&
			    strlen(string) != field->value.run.bytes)
				abort();
		}
	}
	wm_trace_close(trace);
}

enum { FACTS_PART, INDEX, STREAM, PACKED, PARTS };

static const char *const names[PARTS] = { FACTS_FILE, INDEX_NAME, "1-1-0", "cpu2-1.zst" };

/* Where an input's parts begin, and where the last one ends. */
static void parts_find(const uint8_t *input, size_t bytes, size_t starts[PARTS + 1])
{
	uint32_t lengths[PARTS - 1];

	memcpy(lengths, input, sizeof(lengths));
	starts[0] = sizeof(lengths);
	for (int i = 0; i < PARTS - 1; i++) {
		size_t left = bytes - starts[i];

		starts[i + 1] = starts[i] + (lengths[i] < left ? lengths[i] : left);
	}
	starts[PARTS] = bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	struct trace_reader *reader;
	struct pass_observer *observer;
	struct switches switches;
	struct summary *summary;
	size_t starts[PARTS + 1];
	int err;

	if (bytes < HEAD_BYTES)
		return 0;
	parts_find(input, bytes, starts);
	folder_clear();
	for (int i = 0; i < PARTS; i++)
		if (starts[i] < starts[i + 1])
			folder_store(names[i], input + starts[i], starts[i + 1] - starts[i]);
	if (trace_reader_open(&reader, folder_path()))
		return 0;
	read_back();
	dump(reader, 0);
	dump(reader, 1);
	if (!summary_make(&summary, reader)) {
		observer = &switches.observer;
		if (!switches_open(&switches, reader, summary) && !pass_read(reader, &observer, 1))
			switches_finish(&switches);
		switches_release(&switches);
		summary_free(summary);
	}
	trace_reader_close(reader);
	(void)trace_decompress(folder_path(), NULL);
	err = trace_repair(folder_path());
	/* a fact or a compressed stream can't be read: nothing was changed */
	if (err == -WM_E_NOT_A_TRACE || err == -WM_E_TRACE_PACKED)
		return 0;
	if (err < 0)
		abort();
	if (!trace_reader_open(&reader, folder_path())) {
		for (uint32_t i = 0; i < reader->stream_count; i++)
			if (reader->streams[i].bytes != reader->streams[i].file_bytes)
				abort(); /* not repaired */
		trace_reader_close(reader);
	}
	return 0;
}

#ifndef LIBFUZZER

static void put_packet(struct sample *sample, struct trace_writer *writer, uint64_t ticks)
{
	sample_begin(sample, ticks);
	for (uint64_t i = 1; i < 20; i++) {
		sample_event(sample, (uint32_t)(i % 4), ticks + i, i % 5 == 0);
		if (i % 4 == 0) {
			sample_u32(sample, 5);
			sample_string(sample, "select");
		} else if (i % 4 == 1) {
			sample_run(sample, "bytes", 5);
			sample_u64(sample, 6);
		}
	}
	if (sample_write(sample, writer, 0))
		abort();
}

enum {
	KERNEL_SAMPLE,
	KERNEL_NAME,
	KERNEL_DEPART,
	KERNEL_WAKE,
	KERNEL_ARRIVE,
	KERNEL_LOST,
	KERNEL_FORK,
	KERNEL_EXIT,
	KERNEL_RUNNABLE,
	KERNEL_COUNT,
	KERNEL_THROTTLED,
	KERNEL_EVENTS
};

static void put_kernel_packet(struct sample *sample, struct trace_writer *writer, uint64_t ticks)
{
	sample_begin(sample, ticks);
	for (uint32_t i = 0; i < 40; i++) {
		sample_event(sample, i % KERNEL_EVENTS, ticks + i, i % 5 == 0);
		sample_u32(sample, 1);
		sample_u32(sample, i % 3);
		switch (i % KERNEL_EVENTS) {
		case KERNEL_SAMPLE:
			sample_u8(sample, FIELD_WHOLE);
			sample_u32(sample, i % 3);
			for (uint32_t j = 0; j < i % 3; j++)
				sample_u64(sample, 0x401000 + j);
			break;
		case KERNEL_NAME:
		case KERNEL_THROTTLED:
			sample_string(sample, "name");
			break;
		case KERNEL_COUNT:
			sample_u64(sample, i);
			sample_u64(sample, i);
			sample_u64(sample, i / 2);
			break;
		case KERNEL_DEPART:
			sample_put(sample, i % 4 ? "\0S" : "\1R", 2);
			sample_u64(sample, 0x401000);
			break;
		case KERNEL_WAKE:
		case KERNEL_LOST: /* as many bytes */
		case KERNEL_FORK:
		case KERNEL_RUNNABLE:
			sample_u64(sample, 1);
			break;
		}
	}
	if (sample_write(sample, writer, 1))
		abort();
}

static int kernel_events_add(struct trace_writer *writer)
{
	static const struct {
		uint8_t types[16];
		const char *text;
	} events[KERNEL_EVENTS] = {
		[KERNEL_SAMPLE] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_ADDRESSES },
				    "mj\nsample\ncycles:u\nkernel\n0\npid, tid, callchain" },
		[KERNEL_NAME] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_STR },
				  "mj\ntask\nname\nkernel\n0\npid, tid, name" },
		[KERNEL_DEPART] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_BOOL, WM_TYPE_CHAR,
				      WM_TYPE_PTR },
				    "mj\nswitch\ndepart\nkernel\n0\npid, tid, p, s, place" },
		[KERNEL_WAKE] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32 },
				  "mj\nswitch\nwake\nkernel\n0\npid, tid, wp, wt" },
		[KERNEL_ARRIVE] = { { WM_TYPE_I32, WM_TYPE_I32 },
				    "mj\nswitch\narrive\nkernel\n0\npid, tid" },
		[KERNEL_LOST] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U64 },
				  "mj\nkernel\nlost\nkernel\n0\npid, tid, count" },
		[KERNEL_FORK] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32 },
				  "mj\ntask\nfork\nkernel\n0\npid, tid, pp, pt" },
		[KERNEL_EXIT] = { { WM_TYPE_I32, WM_TYPE_I32 },
				  "mj\ntask\nexit\nkernel\n0\npid, tid" },
		[KERNEL_RUNNABLE] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U64 },
				      "mj\nswitch\nrunnable\nkernel\n0\npid, tid, ns" },
		[KERNEL_COUNT] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U64, WM_TYPE_U64,
				     WM_TYPE_U64 },
				   "mj\ncount\ncycles\nkernel\n0\npid, tid, c, e, r" },
		[KERNEL_THROTTLED] = { { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_STR },
				       "mj\nkernel\nthrottled\nkernel\n0\npid, tid, event" },
	};

	for (uint32_t i = 0; i < KERNEL_EVENTS; i++)
		if (trace_event_add(writer, 1, i, events[i].types, events[i].text))
			return -1;
	return 0;
}

/* A good trace as an input. */
static size_t make_seed(uint8_t *to)
{
	uint32_t lengths[PARTS - 1];
	size_t bytes = HEAD_BYTES;
	const struct trace_process about = {
		.pid = 1, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	const struct trace_process kernel = { .exe = "kernel",
					      .hostname = "here",
					      .ticks_hz = 1000000000 };
	struct sample sample = { .head = { .pid = 1, .tid = 1, .comm = "x" } };
	static uint8_t stream[RUN_INPUT_MAX / PARTS];
	struct enumeration_draft draft = { .type = WM_TYPE_U32 };
	const struct enumeration *values[16] = { 0 };
	struct enumeration_pool pool = { 0 };
	struct trace_writer *writer;
	char path[128], trace[64];

	sample_folder(trace);
	enumeration_draft_add(&draft, 1, "ONE");
	enumeration_draft_add(&draft, 2, "TWO");
	values[0] = enumeration_pool_make(&pool, &draft);
	enumeration_draft_release(&draft);
	if (trace_writer_open(&writer, trace) || trace_process_add(writer, &about) ||
	    trace_event_add_named(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_U32, WM_TYPE_STR),
				  "bj\ndb\nquery\na.c\n1\nn, sql", values) ||
	    trace_event_add(writer, 0, 1, SAMPLE_TYPES(WM_TYPE_BYTES, WM_TYPE_F64),
			    "mj\ndb\nrow\na.c\n2\nrow, f") ||
	    trace_event_add(writer, 0, 2, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n3\n") ||
	    trace_event_add(writer, 0, 3, SAMPLE_TYPES(0), "ij\ndb\nbusy\na.c\n4\n") ||
	    trace_process_add(writer, &kernel) != 1 || kernel_events_add(writer))
		abort();
	put_packet(&sample, writer, 1000);
	put_packet(&sample, writer, 2000);
	sample.head = (struct wm_packet){ .tid = 2, .instance = 1, .comm = "cpu2" };
	put_kernel_packet(&sample, writer, 1500);
	trace_end_set(writer, &(struct trace_end){ .length_ns = 1000000, .discarded = 3 });
	trace_writer_close(writer);
	enumeration_pool_release(&pool);
	sample_release(&sample);
	snprintf(path, sizeof(path), "%s/1-1-0", trace);
	lengths[STREAM] = (uint32_t)run_load(path, stream, sizeof(stream));
	if (trace_compress(trace, NULL) != 2)
		abort();
	for (int i = 0; i < PARTS; i++) {
		size_t count = lengths[STREAM];

		snprintf(path, sizeof(path), "%s/%s", trace, names[i]);
		if (i == STREAM)
			memcpy(to + bytes, stream, count);
		else
			count = run_load(path, to + bytes, RUN_INPUT_MAX / PARTS);
		if (i < PACKED)
			lengths[i] = (uint32_t)count;
		bytes += count;
	}
	memcpy(to, lengths, sizeof(lengths));
	sample_folder_remove(trace);
	return bytes;
}

/* Change a few bytes, numbers or stretches. Returns the new length. */
static size_t change(uint8_t *input, size_t bytes, uint64_t *seed)
{
	uint64_t changes = 1 + run_random(seed) % 8;
	size_t starts[PARTS + 1];

	while (changes--) {
		/* As often in one part as in another, whatever its size. */
		size_t low, at, from, count, most;

		parts_find(input, bytes, starts);
		low = starts[run_random(seed) % PARTS];
		low = low < bytes ? low : HEAD_BYTES;
		at = low + run_random(seed) % (bytes - low);
		from = HEAD_BYTES + run_random(seed) % (bytes - HEAD_BYTES);
		count = 1 + run_random(seed) % 16;
		most = bytes - (at > from ? at : from);

		if (run_random(seed) % 5 == 0)
			memmove(input + at, input + from, count < most ? count : most);
		else
			bytes = run_damage(input, bytes, at, seed);
	}
	return bytes;
}

int main(int argc, char **argv)
{
	return run_main(argc, argv, make_seed, change);
}

#endif
