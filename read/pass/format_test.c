/* SPDX-License-Identifier: MIT */
#include "read/pass/format.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/marker.h>

static struct out out;

/* The output since out_init(). */
static const char *written(void)
{
	static char text[1 << 20];
	ssize_t count;

	out_flush(&out);
	count = pread(out.fd, text, sizeof(text) - 1, 0);
	text[count > 0 ? count : 0] = '\0';
	(void)!ftruncate(out.fd, 0);
	lseek(out.fd, 0, SEEK_SET);
	return text;
}

static void begin(void)
{
	setenv("TZ", "UTC", 1);
	out_init(&out, memfd_create("out", 0));
}

#define EXPECT(call, text)                                                                         \
	do {                                                                                       \
		const char *is;                                                                    \
		call;                                                                              \
		is = written();                                                                    \
		cr_assert_str_eq(is, text, "%s is %s", #call, is);                                 \
	} while (0)

Test(out, numbers_are_as_printf_has_them)
{
	uint64_t seed = 3;

	begin();
	EXPECT(out_u64(&out, 0), "0");
	EXPECT(out_u64(&out, UINT64_MAX), "18446744073709551615");
	EXPECT(out_i64(&out, INT64_MIN), "-9223372036854775808");
	EXPECT(out_hex(&out, 0), "0x0");
	EXPECT(out_hex(&out, UINT64_MAX), "0xffffffffffffffff");
	EXPECT(out_nine(&out, 0), "000000000");
	EXPECT(out_nine(&out, 999999999), "999999999");
	EXPECT(out_nine(&out, 123456789), "123456789");
	for (int i = 0; i < 1000; i++) {
		uint64_t value = sample_random(&seed) >> (sample_random(&seed) % 64);
		char text[32];

		snprintf(text, sizeof(text), "%lu", value);
		EXPECT(out_u64(&out, value), text);
	}
}

Test(out, floats_read_back_as_they_were)
{
	uint64_t seed = 9;

	begin();
	EXPECT(out_f64(&out, 1.5), "1.5");
	EXPECT(out_f64(&out, 0.1), "0.1");
	EXPECT(out_f32(&out, 0.1f), "0.1");
	EXPECT(out_f64(&out, -0.0), "-0");
	EXPECT(out_f64(&out, (double)NAN), "nan");
	EXPECT(out_f64(&out, -(double)NAN), "nan");
	EXPECT(out_f64(&out, -(double)INFINITY), "-inf");
	for (int i = 0; i < 1000; i++) {
		uint64_t word = sample_random(&seed);
		double value;

		memcpy(&value, &word, sizeof(value));
		if (isnan(value))
			continue;
		out_f64(&out, value);
		cr_assert_eq(strtod(written(), NULL), value);
	}
}

Test(out, what_is_not_text_is_escaped)
{
	begin();
	EXPECT(out_escaped(&out, "a\"b\\c\n\t\r\x01\x7f", 10), "a\\\"b\\\\c\\n\\t\\r\\x01\\x7f");
	EXPECT(out_escaped(&out, "caf\xc3\xa9 \xff \xc2\x9b", 10), "caf\xc3\xa9 \\xff \\xc2\\x9b");
	/*
	 * right-to-left override, isolate, mark; line separator; byte order mark; cut in a sequence
	 */
	EXPECT(out_escaped(&out, "\u202e\u2066\u200f\u2028\ufeff\xe2\x80", 17),
	       "\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xe2\\x80\\xa8\\xef\\xbb\\xbf\\xe2\\x80");
	EXPECT(out_json(&out, "\u202e\xc2\x9b\x9b\xe2\x82\xac", 9),
	       "\\u202e\\u009b\\ufffd\xe2\x82\xac");
	EXPECT(out_json(&out, "a\"b\\c\n\x01\x7f", 8), "a\\\"b\\\\c\\n\\u0001\\u007f");
	EXPECT(out_json(&out, "\xc3\xa9 \xff \xc3", 6), "\xc3\xa9 \\ufffd \\ufffd");
	EXPECT(out_json(&out, "\xed\xa0\x80", 3), "\\ufffd\\ufffd\\ufffd"); /* a surrogate */
	EXPECT(out_json(&out, "\xc0\xaf", 2), "\\ufffd\\ufffd");	    /* too long a form */
	EXPECT(out_json(&out, "\xf0\x9f\x98\x80", 4), "\xf0\x9f\x98\x80");
}

Test(out, long_text_passes_whole)
{
	static char text[600001];
	size_t count;
	char *back;

	begin();
	memset(text, 'x', sizeof(text) - 1);
	out_text(&out, text, 300000);
	out_escaped(&out, text, 300000);
	out_flush(&out);
	count = (size_t)lseek(out.fd, 0, SEEK_END);
	cr_assert_eq(count, 600000);
	back = mmap(NULL, count, PROT_READ, MAP_SHARED, out.fd, 0);
	cr_assert_arr_eq(back, text, count);
}

Test(out, a_failed_write_is_remembered)
{
	out_init(&out, open("/dev/full", O_WRONLY));
	for (int i = 0; i < 300; i++)
		out_text(&out, "0123456789", 10);
	cr_assert_eq(out_flush(&out), -ENOSPC);
	out_text(&out, "more", 4);
	cr_assert_eq(out_flush(&out), -ENOSPC);
}

static void put_array(struct sample *sample, uint8_t state, uint32_t count, const void *elements,
		      size_t bytes)
{
	sample_u8(sample, state);
	sample_u32(sample, count);
	sample_put(sample, elements, bytes);
}

static void put_arrays(struct sample *sample)
{
	const int32_t numbers[] = { -1, 2 };
	const uint16_t wide = 0xabcd;

	put_array(sample, FIELD_WHOLE, 2, numbers, sizeof(numbers));
	put_array(sample, FIELD_CUT, 1, &wide, sizeof(wide));
	put_array(sample, FIELD_WHOLE, 3, "a\0\"", 3);
	put_array(sample, FIELD_NULL, 0, "", 0);
	put_array(sample, FIELD_WHOLE, 2, "\1\0", 2);
	sample_u8(sample, 0xfe);
	sample_u64(sample, 255);
	sample_u32(sample, 1);
	sample_u8(sample, 8);
}

/* A trace with one event of each type, cut strings, losses. */
static void make_trace(const char *dir)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};
	struct sample sample = { .head = { .pid = 10, .tid = 11, .comm = "w\"\n" } };
	struct trace_writer *writer;
	double real = -0.0;
	float narrow = -0.1f;

	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(0), "mj\nnet\nup\na.c\n1\n");
	trace_event_add(writer, 0, 1,
			SAMPLE_TYPES(WM_TYPE_I8, WM_TYPE_U8, WM_TYPE_I16, WM_TYPE_U16, WM_TYPE_I32,
				     WM_TYPE_U32, WM_TYPE_I64, WM_TYPE_U64, WM_TYPE_BOOL,
				     WM_TYPE_F32, WM_TYPE_F64, WM_TYPE_PTR, WM_TYPE_CHAR,
				     WM_TYPE_CHAR),
			"bj\nnet\nall\na.c\n2\na, b, c, d, e, f, g, h, i, j, k, l, m, n");
	trace_event_add(writer, 0, 2,
			SAMPLE_TYPES(WM_TYPE_STR, WM_TYPE_STR, WM_TYPE_BYTES, WM_TYPE_STR),
			"md\nnet\ntext\na.c\n3\ns, t, r, u");
	trace_event_add(
		writer, 0, 3,
		SAMPLE_TYPES(WM_TYPE_I32 | WM_TYPE_ARRAY, WM_TYPE_U16 | WM_TYPE_ARRAY,
			     WM_TYPE_CHAR | WM_TYPE_ARRAY, WM_TYPE_F64 | WM_TYPE_ARRAY,
			     WM_TYPE_BOOL | WM_TYPE_ARRAY, WM_TYPE_I8, WM_TYPE_U64, WM_TYPE_I32,
			     WM_TYPE_U8),
		"mj\nnet\nrow\na.c\n4\nWM_ARRAY(a, 2), WM_FIELD(b, WM_HEX(WM_ARRAY(p, 1))), c, "
		"d, e, WM_HEX(f), WM_HEX(g), WM_ENUM(h, LOW = -1, ZERO, State::one), "
		"WM_FIELD(i, WM_ENUM(x, A, B = 7, C))");
	trace_clock_set(writer, 1000000000, 0, 1700000000000000000);
	sample_begin(&sample, 5);
	sample_event(&sample, 0, 5, 0);
	sample_event(&sample, 1, 1000000006, 0);
	sample_put(&sample, "\xff\xff\xfe\xff\xfe\xff", 6);
	sample_u32(&sample, -3u);
	sample_u32(&sample, -3u);
	sample_u64(&sample, -4ull);
	sample_u64(&sample, -4ull);
	sample_u8(&sample, 1);
	sample_put(&sample, &narrow, sizeof(narrow));
	sample_put(&sample, &real, sizeof(real));
	sample_u64(&sample, 0xbeef);
	sample_put(&sample, "c\xe9", 2);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	sample.head.discarded = 7;
	sample.head.seq++;
	sample_begin(&sample, 1000000007);
	sample_event(&sample, 2, 1000000007, 0);
	sample_string(&sample, NULL);
	sample_u8(&sample, FIELD_CUT);
	sample_put(&sample, "he\"", 4);
	sample_u8(&sample, FIELD_CUT);
	sample_u32(&sample, 2);
	sample_put(&sample, "\x01\xab", 2);
	sample_u8(&sample, FIELD_UNREADABLE);
	sample_u8(&sample, 0);
	sample_event(&sample, 3, 1000000007, 0);
	put_arrays(&sample);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	sample.head.discarded = 9; /* an empty packet that only reports losses */
	sample_begin(&sample, 1000000008);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

static const char *formatted(int json)
{
	struct trace_reader *reader;
	struct merge_event event;
	struct format format;
	struct merge *merge;
	char dir[64];

	begin();
	sample_folder(dir);
	make_trace(dir);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(merge_open(&merge, reader, 0, NULL, NULL), 0);
	cr_assert_eq(format_init(&format, reader), 0);
	while (merge_next(merge, &event) > 0)
		(json ? format_json : format_text)(&format, &out, &event);
	cr_assert_eq(reader->damages_ever, 0);
	format_release(&format);
	merge_close(merge);
	trace_reader_close(reader);
	sample_folder_remove(dir);
	return written();
}

Test(format, text_shows_every_type)
{
	const char *is = formatted(0);

	cr_assert_str_eq(
		is,
		"[22:13:20.000000005] (+?.?????????\x29 w\"?-11 10 net:up\n"
		"[22:13:21.000000006] (+1.000000001) w\"?-11 10 net:all:begin: { a = -1, b = 255, "
		"c = -2, d = 65534, e = -3, f = 4294967293, g = -4, h = 18446744073709551612, "
		"i = true, j = -0.1, k = -0, l = 0xbeef, m = 'c', n = '\\xe9' }\n"
		"[22:13:21.000000007] (+0.000000001) w\"?-11 10 (7 events lost, 1 packets missing)\n"
		"[22:13:21.000000007] (+0.000000000) w\"?-11 10 net:text: { s = NULL, t = "
		"\"he\\\"\"..., r = [01ab]..., u = (unreadable) }\n"
		"[22:13:21.000000007] (+0.000000000) w\"?-11 10 net:row: { a = [-1, 2], b = "
		"[0xabcd]..., c = \"a\\x00\\\"\", d = NULL, e = [true, false], f = 0xfe, g = 0xff, "
		"h = one, i = C }\n"
		"[22:13:21.000000008] (+0.000000001) w\"?-11 10 (2 events lost)\n",
		"%s", is);
}

Test(format, json_has_one_object_a_line)
{
	const char *is = formatted(1);

#define START "\"pid\":10,\"tid\":11,\"comm\":\"w\\\"\\n\","
	cr_assert_str_eq(
		is,
		"{\"time_ns\":1700000000000000005," START "\"name\":\"net:up\",\"fields\":{}}\n"
		"{\"time_ns\":1700000001000000006," START "\"name\":\"net:all:begin\",\"fields\":{"
		"\"a\":-1,\"b\":255,\"c\":-2,\"d\":65534,\"e\":-3,\"f\":4294967293,\"g\":-4,"
		"\"h\":18446744073709551612,\"i\":true,\"j\":-0.1,\"k\":-0.0,\"l\":\"0xbeef\","
		"\"m\":\"c\",\"n\":\"\\u00e9\"}}\n"
		"{\"time_ns\":1700000001000000007," START "\"lost\":7,\"missing_packets\":1}\n"
		"{\"time_ns\":1700000001000000007," START "\"name\":\"net:text\",\"fields\":{"
		"\"s\":null,\"t\":\"he\\\"\",\"r\":\"01ab\",\"u\":null},\"cut\":[\"t\",\"r\"],"
		"\"unreadable\":[\"u\"]}\n"
		"{\"time_ns\":1700000001000000007," START "\"name\":\"net:row\",\"fields\":{"
		"\"a\":[-1,2],\"b\":[43981],\"c\":\"a\\u0000\\\"\",\"d\":null,\"e\":[true,false],"
		"\"f\":-2,\"g\":255,\"h\":1,\"i\":8},\"names\":{\"h\":\"one\",\"i\":\"C\"},"
		"\"cut\":[\"b\"]}\n"
		"{\"time_ns\":1700000001000000008," START "\"lost\":2,\"missing_packets\":0}\n",
		"%s", is);
#undef START
}
