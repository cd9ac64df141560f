/* SPDX-License-Identifier: MIT */
/* Facts as they are written and read; and facts of a hostile trace. */
#include "trace/facts.h"

#include "read/pass/format.h"
#include "trace/reader.h"
#include "trace/testing/babeltrace.h"
#include "trace/testing/packets.h"
#include "trace/writer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static char dir[64];
static struct enumeration_pool pool;

static const struct enumeration *make(uint8_t type, uint64_t value, const char *name)
{
	struct enumeration_draft draft = { .type = type };
	const struct enumeration *of;

	enumeration_draft_add(&draft, value, name);
	enumeration_draft_add(&draft, 1, "ONE");
	of = enumeration_pool_make(&pool, &draft);
	enumeration_draft_release(&draft);
	return of;
}

/* Three processes with the same names; the third inherits the event of the first. */
static void write_trace(void)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};
	static const uint8_t types[16] = { WM_TYPE_STR, WM_TYPE_I8, WM_TYPE_U64, WM_TYPE_I64,
					   WM_TYPE_I32 };
	struct sample sample = { .head = { .pid = 10, .tid = 11, .comm = "w" } };
	const struct enumeration *names[16] = { 0 };
	struct trace_writer *writer;

	names[0] = make(WM_TYPE_U8, 3, "of_another_type");
	names[1] = make(WM_TYPE_I8, (uint64_t)-128, "\xc3\xa4");
	names[2] = make(WM_TYPE_U64, UINT64_MAX, "TOP");
	names[3] = make(WM_TYPE_I64, (uint64_t)INT64_MIN, "LOW");
	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	for (int process = 0; process < 3; process++)
		cr_assert_eq(trace_process_add(writer, &about), process);
	cr_assert_eq(trace_event_add_named(writer, 0, 5, types, "md\na\nb\nc.c\n1\ns, a, b, c, d",
					   names),
		     0);
	cr_assert_eq(trace_event_add_named(writer, 1, 6, types, "md\na\nb\nc.c\n1\ns, a, b, c, d",
					   names),
		     0);
	enumeration_pool_release(&pool);
	cr_assert_eq(trace_events_inherit(writer, 2, 0, 6), 0);
	for (int process = 0; process < 3; process++) {
		uint32_t id = process == 1 ? 6 : 5;

		sample.head.instance = (uint64_t)process;
		sample.head.seq = 0;
		sample_begin(&sample, 100 + (uint64_t)process);
		sample_event(&sample, id, 100 + (uint64_t)process, 0);
		sample_string(&sample, "x");
		sample_u8(&sample, 0x80);
		sample_u64(&sample, UINT64_MAX);
		sample_u64(&sample, (uint64_t)INT64_MIN);
		sample_u32(&sample, 1);
		cr_assert_eq(sample_write(&sample, writer, process), 0);
	}
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

static char shown[32768];

static void format(int json)
{
	static struct out out;
	struct trace_reader *reader;
	struct merge_event event;
	struct format format;
	struct merge *merge;
	int fds[2];
	ssize_t count;

	cr_assert_eq(pipe(fds), 0);
	out_init(&out, fds[1]);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(merge_open(&merge, reader, 0, NULL, NULL), 0);
	cr_assert_eq(format_init(&format, reader), 0);
	while (merge_next(merge, &event) > 0)
		(json ? format_json : format_text)(&format, &out, &event);
	cr_assert_eq(reader->damages_ever, 0);
	format_release(&format);
	merge_close(merge);
	trace_reader_close(reader);
	cr_assert_eq(out_flush(&out), 0);
	close(fds[1]);
	count = read(fds[0], shown, sizeof(shown) - 1);
	cr_assert_gt(count, 0);
	shown[count] = '\0';
	close(fds[0]);
}

static unsigned int count_of(const char *what)
{
	unsigned int count = 0;

	for (const char *at = shown; (at = strstr(at, what)); at++)
		count++;
	return count;
}

Test(facts, names_of_values_are_read_back)
{
	write_trace();
	format(0);
	cr_assert_eq(count_of("a:b: { s = \"x\", a = \xc3\xa4, b = TOP, c = LOW, d = 1 }\n"), 3,
		     "%s", shown);
	format(1);
	cr_assert_eq(count_of("\"fields\":{\"s\":\"x\",\"a\":-128,\"b\":18446744073709551615,"
			      "\"c\":-9223372036854775808,\"d\":1},"
			      "\"names\":{\"a\":\"\xc3\xa4\",\"b\":\"TOP\",\"c\":\"LOW\"}}\n"),
		     3, "%s", shown);
	sample_folder_remove(dir);
}

Test(facts, equal_enumerations_are_declared_once)
{
	char path[96];
	ssize_t count;
	int fd;

	write_trace();
	snprintf(path, sizeof(path), "%s/metadata", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	count = read(fd, shown, sizeof(shown) - 1);
	cr_assert_gt(count, 0);
	shown[count] = '\0';
	close(fd);
	cr_assert_eq(count_of("} := wm_u8_enum_0;"), 1);
	cr_assert_eq(count_of("} := wm_i8_enum_1;"), 1);
	cr_assert_eq(count_of("} := wm_u64_enum_2;"), 1);
	cr_assert_eq(count_of("} := wm_i64_enum_3;"), 1);
	cr_assert_eq(count_of("wm_i64_enum_3 _c;"), 3);
	cr_assert_eq(count_of("wm_i32 _d;"), 3);
	sample_folder_remove(dir);
}

Test(facts, babeltrace_reads_the_same_values)
{
	struct babeltrace read;

	write_trace();
	if (babeltrace_read(&read, dir)) {
		sample_folder_remove(dir);
		cr_skip_test("no babeltrace2 is here");
	}
	cr_assert_eq(read.failed, 0);
	cr_assert_eq(read.count, 3);
	for (uint32_t i = 0; i < read.count; i++)
		cr_assert(strstr(read.lines[i],
				 " a=-128 b=18446744073709551615 c=-9223372036854775808 d=1"),
			  "%s", read.lines[i]);
	babeltrace_release(&read);
	sample_folder_remove(dir);
}

static struct facts facts;

/* Put a fact in a buffer of its own, so that a sanitizer sees what is read past it; and take it. */
static int take(enum fact fact, const union fact_value *values)
{
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct text put = { 0 };
	uint8_t *copy;
	int err;

	fact_put(&put, fact, 0, values);
	copy = malloc(put.bytes);
	memcpy(copy, put.at, put.bytes);
	trace_fields(fields, schema_find(facts.schema, fact), copy + EVENT_EXTENDED_BYTES);
	err = facts_take(&facts, fact, fields);
	free(copy);
	text_release(&put);
	return err;
}

#define TAKE(fact, ...) take(fact, (const union fact_value[]){ __VA_ARGS__ })
#define NUMBER(n)                                                                                  \
	{                                                                                          \
		.u = (n)                                                                           \
	}
#define BYTES(...)                                                                                 \
	{                                                                                          \
		.run = {(const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }) }     \
	}
#define NO_BYTES                                                                                   \
	{                                                                                          \
		.run = { "", 0 }                                                                   \
	}

static int take_process(uint64_t number, uint64_t clock)
{
	return TAKE(FACT_START, NUMBER(number), NUMBER(7), NUMBER(1), NUMBER(clock), NUMBER(0),
		    NUMBER(0), BYTES(0xab, 0x1), fact_string("/bin/x"));
}

static int take_class(uint64_t process, uint64_t id, const char *text)
{
	return TAKE(FACT_CLASS, NUMBER(process), NUMBER(id), BYTES(WM_TYPE_U8), fact_string(text),
		    NO_BYTES);
}

Test(facts, of_unknown_processes_are_refused)
{
	cr_assert_eq(facts_init(&facts), 0);
	cr_expect_eq(take_class(0, 1, "mj\na\nb\nc\n1\nx"), -EINVAL);
	cr_expect_eq(TAKE(FACT_END, NUMBER(0), NUMBER(5)), -EINVAL);
	cr_expect_eq(take_process(UINT32_MAX, 0), -EINVAL);
	cr_expect_eq(take_process(0, CLOCK_OF_FACTS), -EINVAL);
	cr_expect_eq(take_process(2, 0), 0);
	cr_expect_eq(take_process(2, 0), -EINVAL, "twice");
	cr_expect_eq(TAKE(FACT_END, NUMBER(1), NUMBER(5)), -EINVAL, "not declared");
	cr_expect_eq(TAKE(FACT_END, NUMBER(2), NUMBER(5)), 0);
	cr_expect_eq(facts.processes[2].end_ns, 5);
	cr_expect_str_eq(facts.processes[2].build_id, "ab01");
	facts_release(&facts);
}

Test(facts, of_hostile_counts_are_refused)
{
	static const uint8_t many[17] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

	cr_assert_eq(facts_init(&facts), 0);
	cr_assert_eq(take_process(0, 0), 0);
	cr_expect_eq(TAKE(FACT_CLASS, NUMBER(0), NUMBER(1), { .run = { many, sizeof(many) } },
			  fact_string("mj\na\nb\nc\n1\nx"), NO_BYTES),
		     -EINVAL);
	cr_expect_eq(TAKE(FACT_CLASS, NUMBER(0), NUMBER(1), BYTES(WM_TYPE_U8),
			  fact_string("mj\na\nb\nc\n1\nx"), BYTES(1, 2, 3)),
		     -EINVAL);
	cr_expect_eq(TAKE(FACT_CLASS, NUMBER(0), NUMBER(1), BYTES(WM_TYPE_U8, 0, WM_TYPE_U8),
			  fact_string("mj\na\nb\nc\n1\nx"), NO_BYTES),
		     -EINVAL);
	cr_expect_eq(TAKE(FACT_CLASS, NUMBER(0), NUMBER(1), BYTES(200),
			  fact_string("mj\na\nb\nc\n1\nx"), NO_BYTES),
		     -EINVAL);
	cr_expect_eq(take_class(0, 1, "mj\na\nb\nc\n1\nx"), 0);
	cr_expect_eq(take_class(0, 1, "mj\na\nb\nc\n1\nx"), 0, "the same once more");
	cr_expect_eq(take_class(0, 1, "mj\na\nother\nc\n1\nx"), -EINVAL);
	cr_expect_eq(take_class(0, 2, ""), 0, "a class of no words");
	cr_expect_eq(TAKE(FACT_CLOCK, NUMBER(CLOCK_OF_FACTS), NUMBER(1), NUMBER(0), NUMBER(0)),
		     -EINVAL);
	cr_expect_eq(TAKE(FACT_CLOCK, NUMBER(0), NUMBER(0), NUMBER(0), NUMBER(0)), -EINVAL);
	cr_expect_eq(TAKE(FACT_FIGURE, NUMBER(0), fact_string("hits"), NUMBER(3)), -EINVAL);
	cr_expect_eq(TAKE(FACT_WATCH, NUMBER(1), fact_string("watch:a")), -EINVAL);
	facts_release(&facts);
}

/* The name of value 7 of an enumeration of these bytes; the field's type is u8. */
static void expect_name(uint8_t type, uint64_t number, const char *values, size_t bytes, int err,
			const char *name)
{
	static const uint8_t types[] = { WM_TYPE_U8 };
	const struct enumeration *names;
	const uint32_t zero = 0;

	cr_assert_eq(facts_init(&facts), 0);
	cr_assert_eq(take_process(0, 0), 0);
	cr_expect_eq(TAKE(FACT_ENUM, NUMBER(number), NUMBER(type), { .run = { values, bytes } }),
		     err);
	cr_assert_eq(TAKE(FACT_CLASS, NUMBER(0), NUMBER(1), { .run = { types, 1 } },
			  fact_string("mj\na\nb\nc\n1\nf"), { .run = { &zero, sizeof(zero) } }),
		     0);
	names = schema_find(facts.processes[0].schema, 1)->names
			? schema_find(facts.processes[0].schema, 1)->names[0]
			: NULL;
	cr_expect_eq(!!names, !!name);
	if (name && names)
		cr_expect_str_eq(enumeration_name(names, 7), name);
	facts_release(&facts);
}

Test(facts, damaged_enumeration_costs_only_the_names)
{
	expect_name(WM_TYPE_U8, 0, "\7\0\0\0\0\0\0\0A", 10, 0, "A");
	expect_name(WM_TYPE_U8, 0, "\7\0\0\0\0\0\0\0A\0\1", 11, -EINVAL, "A");
	expect_name(WM_TYPE_U8, 0, "\7\0\0\0\0\0\0\0A", 9, -EINVAL, NULL);
	expect_name(WM_TYPE_U8, 0, "\7\0\0", 3, -EINVAL, NULL);
	expect_name(WM_TYPE_U8, 0, "", 0, 0, NULL);
	expect_name(WM_TYPE_U8, 0, "\7\0\0\0\0\0\0\0A \"", 12, 0, NULL);
	expect_name(WM_TYPE_U8, 0, "\7\1\0\0\0\0\0\0A", 10, 0, NULL);
	expect_name(WM_TYPE_U16, 0, "\7\0\0\0\0\0\0\0A", 10, 0, NULL);
	expect_name(WM_TYPE_F64, 0, "\7\0\0\0\0\0\0\0A", 10, 0, NULL);
	expect_name(200, 0, "\7\0\0\0\0\0\0\0A", 10, 0, NULL);
	expect_name(WM_TYPE_U8, 1, "\7\0\0\0\0\0\0\0A", 10, 0, NULL);
	expect_name(WM_TYPE_U8, UINT32_MAX, "\7\0\0\0\0\0\0\0A", 10, -EINVAL, NULL);
}
