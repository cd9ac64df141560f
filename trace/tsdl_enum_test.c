/* SPDX-License-Identifier: MIT */
/* Writes names of values into a trace; our reader and babeltrace2 read them. */
#include "trace/tsdl_enum.h"

#include "trace/testing/babeltrace.h"
#include "read/pass/format.h"
#include "trace/reader.h"
#include "trace/testing/packets.h"
#include "trace/tsdl.h"
#include "trace/writer.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
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

static char text[8192];

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
	count = read(fds[0], text, sizeof(text) - 1);
	cr_assert_gt(count, 0);
	text[count] = '\0';
	close(fds[0]);
}

static unsigned int count_of(const char *what)
{
	unsigned int count = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		count++;
	return count;
}

Test(tsdl_enum, written_names_are_read_back)
{
	write_trace();
	format(0);
	cr_assert_eq(count_of("a:b: { s = \"x\", a = \xc3\xa4, b = TOP, c = LOW, d = 1 }\n"), 3,
		     "%s", text);
	format(1);
	cr_assert_eq(count_of("\"fields\":{\"s\":\"x\",\"a\":-128,\"b\":18446744073709551615,"
			      "\"c\":-9223372036854775808,\"d\":1},"
			      "\"names\":{\"a\":\"\xc3\xa4\",\"b\":\"TOP\",\"c\":\"LOW\"}}\n"),
		     3, "%s", text);
	sample_folder_remove(dir);
}

Test(tsdl_enum, equal_enumerations_are_declared_once)
{
	char path[96];
	ssize_t count;
	int fd;

	write_trace();
	snprintf(path, sizeof(path), "%s/metadata", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	count = read(fd, text, sizeof(text) - 1);
	cr_assert_gt(count, 0);
	text[count] = '\0';
	close(fd);
	cr_assert_eq(count_of("} := wm_u8_enum_0;"), 1);
	cr_assert_eq(count_of("} := wm_i8_enum_1;"), 1);
	cr_assert_eq(count_of("} := wm_u64_enum_2;"), 1);
	cr_assert_eq(count_of("} := wm_i64_enum_3;"), 1);
	cr_assert_eq(count_of("wm_i64_enum_3 _c;"), 3);
	cr_assert_eq(count_of("wm_i32 _d;"), 3);
	sample_folder_remove(dir);
}

Test(tsdl_enum, babeltrace_reads_the_same_values)
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

/* Parse metadata with a declaration, and check a field of that type. */
static void expect(const char *declaration, const char *type, int field_type, const char *name,
		   int is_broken)
{
	struct text all = { 0 };
	struct tsdl tsdl;
	const struct trace_class *class;
	const struct enumeration *names;

	text_format(
		&all,
		"/* CTF 1.8 */\nenv {\ntracer_name = \"waymark\";\n};\n%s\nenv {\n};\n"
		"stream {\nid = 0;\nevent.header := struct { tsc_full t; };\n};\n"
		"event {\nname = \"a:b\";\nid = 1;\nstream_id = 0;\nmodel.emf.uri = \"c.c:1#m\";\n"
		"fields := struct {\n%s _f;\n};\n};\n",
		declaration, type);
	cr_assert_eq(tsdl_parse(&tsdl, all.at, all.bytes), 0, "%s", declaration);
	cr_assert_eq(tsdl.broken_line == 5, is_broken, "%s: %u", declaration, tsdl.broken_line);
	class = schema_find(tsdl.processes[0].schema, 1);
	if (!field_type) {
		cr_assert_null(class, "%s", declaration);
	} else {
		cr_assert_not_null(class, "%s", declaration);
		cr_assert_eq(class->types[0], field_type, "%s", declaration);
		names = class->names ? class->names[0] : NULL;
		cr_assert_eq(!!names, !!name, "%s", declaration);
		if (name)
			cr_assert_str_eq(enumeration_name(names, 7), name, "%s", declaration);
	}
	tsdl_release(&tsdl);
	text_release(&all);
}

Test(tsdl_enum, damaged_declaration_costs_only_the_names)
{
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_0;", "wm_u8_enum_0", WM_TYPE_U8,
	       "A", 0);
	expect("typealias enum : wm_u8 { A = 7, B = 8 } := wm_u8_enum_3;", "wm_u8_enum_3",
	       WM_TYPE_U8, "A", 0);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_0;", "wm_u8_enum_1", WM_TYPE_U8,
	       NULL, 0);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_0;", "wm_u16_enum_0",
	       WM_TYPE_U16, NULL, 0);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_0;", "wm_u8_enum_", 0, NULL, 0);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_0;", "wm_u8_enum_0x", 0, NULL,
	       0);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_0;", "wm_u9_enum_0", 0, NULL, 0);
	expect("typealias enum : wm_u8 { \"A \\\"\" = 7 } := wm_u8_enum_0;", "wm_u8_enum_0",
	       WM_TYPE_U8, NULL, 0);
	expect("typealias enum : wm_u8 { \"A\" = 263 } := wm_u8_enum_0;", "wm_u8_enum_0",
	       WM_TYPE_U8, NULL, 0);
	expect("typealias enum : wm_f64 { \"A\" = 7 } := wm_f64_enum_0;", "wm_f64_enum_0",
	       WM_TYPE_F64, NULL, 0);
	expect("typealias enum : string { \"A\" = 7 } := string_enum_0;", "string_enum_0",
	       WM_TYPE_STR, NULL, 0);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u16_enum_0;", "wm_u16_enum_0",
	       WM_TYPE_U16, NULL, 1);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_65536;", "wm_u8_enum_65536",
	       WM_TYPE_U8, NULL, 1);
	expect("typealias enum : wm_u8 { \"A\" = 7 } := wm_u8_enum_99999999999999999999;",
	       "wm_u8_enum_0", WM_TYPE_U8, NULL, 0);
	expect("typealias enum : wm_u8 { \"A\" = } := wm_u8_enum_0;", "wm_u8_enum_0", WM_TYPE_U8,
	       NULL, 1);
	expect("typealias enum : wm_u8 { \"A\" = 7 := wm_u8_enum_0;", "wm_u8_enum_0", WM_TYPE_U8,
	       NULL, 1);
	expect("typealias enum : wm_u8 { = 7 } := wm_u8_enum_0;", "wm_u8_enum_0", WM_TYPE_U8, NULL,
	       1);
	expect("typealias enum { \"A\" = 7 } := wm_u8_enum_0;", "wm_u8_enum_0", WM_TYPE_U8, NULL,
	       1);
}
