/* SPDX-License-Identifier: MIT */
/*
 * Random schemas, random packets: babeltrace2 and our reader see the same events, to the nanosecond
 * and the byte.
 */
#include "base/text_buffer.h"
#include "read/pass/testing/canon.h"
#include "trace/testing/babeltrace.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <waymark/marker.h>

#define PROCESSES 3
#define CLASSES 40

struct made {
	struct trace_writer *writer;
	uint64_t seed;
	uint32_t ids[PROCESSES][CLASSES];
	uint8_t types[PROCESSES][CLASSES][16];
	uint64_t events;
	struct enumeration_pool names;
};

static uint64_t below(struct made *made, uint64_t bound)
{
	return sample_random(&made->seed) % bound;
}

/* Names for some of the type's values, with its minimum and maximum. */
static const struct enumeration *make_names(struct made *made, uint8_t type)
{
	struct enumeration_draft draft = { .type = type };
	const struct enumeration *of;
	int is_signed;
	unsigned int bits = 8 * enumeration_type_bytes(type, &is_signed);
	uint64_t end = bits ? UINT64_MAX >> (64 - bits + (unsigned int)is_signed) : 0;

	enumeration_draft_add(&draft, 0, "enum");
	enumeration_draft_add(&draft, end, "caf\xc3\xa9");
	enumeration_draft_add(&draft, is_signed ? ~end : 1, "low");
	enumeration_draft_add(&draft, below(made, 100), "A");
	of = enumeration_pool_make(&made->names, &draft);
	enumeration_draft_release(&draft);
	return of;
}

static uint8_t make_type(struct made *made)
{
	uint8_t type = (uint8_t)(1 + below(made, WM_TYPE_ADDRESSES));
	int is_array = !below(made, 3);

	if (is_array && site_type_bytes(type))
		type |= WM_TYPE_ARRAY;
	if ((type & WM_TYPE_MASK) <= WM_TYPE_U64 && !below(made, 4))
		type |= WM_TYPE_HEX;
	return type;
}

/* An event with 0 to 16 fields of any type, called by any bytes that a name may hold. */
static void make_class(struct made *made, int process, unsigned int number)
{
	static const char *const odd[] = { "plain",	  "qu\"ote", "back\\slash", "enum",
					   "caf\xc3\xa9", "a{};",    "/* no */",    "tab\t" };
	uint8_t *types = made->types[process][number];
	struct text text = { 0 };
	uint64_t count = number < 17 ? number : below(made, 17);
	const struct enumeration *names[16] = { 0 };

	text_format(&text, "%cj\nsys%d\n%s%u\n/src/%s.c\n%u\n", "mibe"[below(made, 4)], process,
		    odd[below(made, 8)], number, odd[below(made, 8)], number);
	for (uint64_t i = 0; i < count; i++) {
		types[i] = make_type(made);
		text_format(&text, "%s%s", i ? ", " : "",
			    i % 4 == 0	 ? "stream"
			    : i % 4 == 1 ? "p->len"
			    : i % 4 == 2 ? "_x"
					 : "9");
	}
	made->ids[process][number] = number < 30   ? number
				     : number < 35 ? number + 1
						   : (uint32_t)below(made, 1ull << 31) * 2;
	for (uint64_t i = 0; i < count; i++)
		names[i] = below(made, 2) ? make_names(made, types[i]) : NULL;
	cr_assert_eq(trace_event_add_named(made->writer, process, made->ids[process][number], types,
					   text.at, names),
		     0);
	text_release(&text);
}

static void make_field(struct made *made, struct sample *sample, uint8_t type)
{
	static const unsigned char sizes[] = { 0, 1, 1, 2, 2, 4, 4, 8, 8, 1, 4, 8, 8, 0, 0, 1 };
	uint8_t state = (uint8_t)below(made, type == WM_TYPE_STR ? 4 : 3);
	uint64_t word = sample_random(&made->seed);
	char bytes[300];
	size_t count = below(made, 4) ? below(made, 12) : below(made, sizeof(bytes));
	double real = (double)(int64_t)word / 1e9;
	float narrow = (float)real;

	for (size_t i = 0; i < count; i++)
		bytes[i] = (char)(1 + below(made, 255));
	if (type == WM_TYPE_STR) {
		sample_u8(sample, state);
		sample_put(sample, bytes,
			   state == FIELD_NULL || state == FIELD_UNREADABLE ? 0 : count);
		sample_u8(sample, 0);
	} else if (type == WM_TYPE_BYTES) {
		sample_u8(sample, state);
		sample_u32(sample, (uint32_t)count);
		sample_put(sample, bytes, count);
	} else if (schema_element_bytes(type)) {
		unsigned int each = schema_element_bytes(type);

		count = (type & WM_TYPE_MASK) >= WM_TYPE_F32 && each > 1 ? 0 : count / each * each;
		if (type == (WM_TYPE_BOOL | WM_TYPE_ARRAY))
			memset(bytes, 1, count);
		sample_u8(sample, state);
		sample_u32(sample, (uint32_t)(count / each));
		sample_put(sample, bytes, count);
	} else if (type == WM_TYPE_F64) {
		sample_put(sample, &real, sizeof(real));
	} else if (type == WM_TYPE_F32) {
		sample_put(sample, &narrow, sizeof(narrow));
	} else {
		word = type == WM_TYPE_BOOL ? word & 1 : word;
		sample_put(sample, &word, sizes[type & WM_TYPE_MASK]);
	}
}

/* Some packets of one stream; some empty, some after gaps. */
static void make_stream(struct made *made, int process, uint64_t instance)
{
	struct sample sample = { 0 };
	uint64_t ticks = 1000000000 + below(made, 1000000);

	sample.head = (struct wm_packet){ .instance = instance,
					  .pid = 100 + (uint32_t)process,
					  .tid = 200 + (uint32_t)instance,
					  .depth = instance % 5 == 4,
					  .comm = "sixteen letters" };
	for (int packet = 0; packet < 6; packet++) {
		uint64_t events = packet == 2 ? 0 : below(made, 60);

		sample_begin(&sample, ticks);
		for (uint64_t i = 0; i < events; i++) {
			unsigned int class = (unsigned int)below(made, CLASSES);
			uint64_t kind = below(made, 20);

			ticks += kind == 0   ? (1ull << 27) - 1
				 : kind == 1 ? 1ull << 27
				 : kind == 2 ? below(made, 1ull << 33)
					     : below(made, 5000);
			sample_event(&sample, made->ids[process][class], ticks, kind == 3);
			for (int i2 = 0; i2 < 16 && made->types[process][class][i2]; i2++)
				make_field(made, &sample, made->types[process][class][i2]);
			made->events++;
		}
		cr_assert_eq(sample_write(&sample, made->writer, process), 0);
		ticks += below(made, 3);
		if (packet == 3) {
			sample.head.seq += 2;
			sample.head.discarded += 7;
		}
	}
	sample_release(&sample);
}

static void make_trace(struct made *made, const char *dir, uint64_t seed)
{
	static const uint64_t rates[PROCESSES] = { 2399871234, 1000000000, 2399871234 };

	*made = (struct made){ .seed = seed };
	cr_assert_eq(trace_writer_open(&made->writer, dir), 0);
	for (int process = 0; process < PROCESSES; process++) {
		const struct trace_process about = { .pid = 100 + (uint32_t)process,
						     .exe = "/bin/x",
						     .hostname = "here",
						     .ticks_hz = rates[process] };

		cr_assert_eq(trace_process_add(made->writer, &about), process);
		for (unsigned int i = 0; i < CLASSES; i++)
			make_class(made, process, i);
	}
	trace_clock_set(made->writer, rates[0], 123456789, 1700000000123456789 + below(made, 1000));
	trace_clock_set(made->writer, rates[1], 987654321, 1700000000123456789);
	for (uint64_t instance = 0; instance < 12; instance++)
		make_stream(made, (int)(instance % PROCESSES), instance / PROCESSES);
	cr_assert_eq(trace_writer_close(made->writer), 0);
	enumeration_pool_release(&made->names);
}

static void compare(const char *dir, uint64_t events)
{
	struct babeltrace theirs;
	struct canon ours;

	if (babeltrace_read(&theirs, dir))
		cr_skip_test("libbabeltrace2-dev is not installed");
	cr_assert_eq(canon_read(&ours, dir), 0);
	cr_assert_not(theirs.failed);
	cr_assert_eq(ours.damages, 0);
	cr_assert_not(ours.disorder);
	cr_assert_eq(ours.count, events);
	cr_assert_eq(theirs.count, events);
	canon_sort(ours.lines, ours.count);
	canon_sort(theirs.lines, theirs.count);
	for (uint32_t i = 0; i < ours.count; i++)
		cr_assert_str_eq(ours.lines[i], theirs.lines[i], "\n%s\n%s", ours.lines[i],
				 theirs.lines[i]);
	cr_assert_eq(ours.lost, theirs.discarded);
	cr_assert_eq(ours.missing_packets, theirs.missing_packets);
	babeltrace_release(&theirs);
	canon_release(&ours);
}

Test(agree, random_traces_read_the_same, .timeout = 120)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct made made;
		char dir[64];

		sample_folder(dir);
		make_trace(&made, dir, seed);
		compare(dir, made.events);
		sample_folder_remove(dir);
	}
}
