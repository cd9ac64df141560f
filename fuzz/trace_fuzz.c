/* SPDX-License-Identifier: MIT */
/*
 * The trace reader against any bytes.
 *
 * An input is one file: a uint32 with the length of the metadata, the metadata, and the rest is a
 * stream. With -DLIBFUZZER this is a libFuzzer target. Else it runs by itself:
 *
 *	trace_fuzz [SECONDS [SEED]]	a good trace, changed at random (default 3 s, seed 1)
 *	trace_fuzz FILE...		these inputs
 */
#include "fuzz/folder.h"
#include "fuzz/run.h"
#include "trace/format.h"
#include "trace/sample.h"
#include "trace/summary.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	struct trace_reader *reader;
	struct summary *summary;
	uint32_t metadata;
	int err;

	if (bytes < sizeof(metadata))
		return 0;
	memcpy(&metadata, input, sizeof(metadata));
	input += sizeof(metadata);
	bytes -= sizeof(metadata);
	metadata = metadata < bytes ? metadata : (uint32_t)bytes;
	folder_store("metadata", input, metadata);
	folder_store("1-1-0", input + metadata, bytes - metadata);
	if (trace_reader_open(&reader, folder_path()))
		return 0;
	dump(reader, 0);
	dump(reader, 1);
	if (!summary_make(&summary, reader))
		summary_free(summary);
	trace_reader_close(reader);
	err = trace_repair(folder_path());
	if (err ==
	    -WM_E_NOT_A_TRACE) /* a part of the metadata can't be read: nothing was changed */
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

/* A good trace as an input. */
static size_t make_seed(uint8_t *to)
{
	const struct trace_process about = {
		.pid = 1, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	struct sample sample = { .head = { .pid = 1, .tid = 1, .comm = "x" } };
	struct trace_writer *writer;
	char path[128], trace[64];
	uint32_t metadata;
	size_t bytes;

	sample_folder(trace);
	if (trace_writer_open(&writer, trace) || trace_process_add(writer, &about) ||
	    trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_U32, WM_TYPE_STR),
			    "bj\ndb\nquery\na.c\n1\nn, sql") ||
	    trace_event_add(writer, 0, 1, SAMPLE_TYPES(WM_TYPE_BYTES, WM_TYPE_F64),
			    "mj\ndb\nrow\na.c\n2\nrow, f") ||
	    trace_event_add(writer, 0, 2, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n3\n") ||
	    trace_event_add(writer, 0, 3, SAMPLE_TYPES(0), "ij\ndb\nbusy\na.c\n4\n"))
		abort();
	put_packet(&sample, writer, 1000);
	put_packet(&sample, writer, 2000);
	trace_writer_close(writer);
	sample_release(&sample);
	snprintf(path, sizeof(path), "%s/metadata", trace);
	metadata = (uint32_t)run_load(path, to + 4, RUN_INPUT_MAX / 2);
	memcpy(to, &metadata, sizeof(metadata));
	bytes = 4 + metadata;
	snprintf(path, sizeof(path), "%s/1-1-0", trace);
	bytes += run_load(path, to + bytes, RUN_INPUT_MAX / 2);
	sample_folder_remove(trace);
	return bytes;
}

/* Change a few bytes, numbers or stretches. Returns the new length. */
static size_t change(uint8_t *input, size_t bytes, uint64_t *seed)
{
	uint64_t changes = 1 + run_random(seed) % 8;
	uint32_t metadata;

	memcpy(&metadata, input, sizeof(metadata));
	while (changes--) {
		/* As often in the stream, which is the smaller part, as in the metadata. */
		size_t low = run_random(seed) % 2 && metadata + 4 < bytes ? metadata + 4 : 4;
		size_t at = low + run_random(seed) % (bytes - low);
		size_t from = 4 + run_random(seed) % (bytes - 4);
		size_t count = 1 + run_random(seed) % 16;
		size_t most = bytes - (at > from ? at : from);

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
