/* SPDX-License-Identifier: MIT */
/* Fields of tracepoints, by the text of their formats. */
#include "record/perf/tracepoint.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker/field.h>

static const char text[] = "name: sched_switch\nID: 314\nformat:\n"
			   "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
			   "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
			   "\n"
			   "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
			   "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
			   "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
			   "\tfield:const void * caller;\toffset:40;\tsize:8;\tsigned:0;\n"
			   "\tfield:__data_loc char[] name;\toffset:48;\tsize:4;\tsigned:0;\n"
			   "\tfield:unsigned char raw[3];\toffset:52;\tsize:3;\tsigned:0;\n"
			   "\tfield:bool is_done;\toffset:55;\tsize:1;\tsigned:0;\n"
			   "\nprint fmt: \"\tfield:ignored\"\n";

static struct tracepoint tracepoint;

Test(tracepoint, fields_have_types_and_places)
{
	static const struct {
		const char *name;
		uint8_t type;
		uint32_t offset;
	} rows[] = {
		{ "prev_comm", WM_TYPE_STR, 8 },   { "prev_pid", WM_TYPE_I32, 24 },
		{ "prev_state", WM_TYPE_I64, 32 }, { "caller", WM_TYPE_PTR, 40 },
		{ "name", WM_TYPE_STR, 48 },	   { "raw", WM_TYPE_BYTES, 52 },
		{ "is_done", WM_TYPE_BOOL, 55 },
	};
	char whole[sizeof(text)];

	strcpy(whole, text);
	*strstr(whole, "\nprint fmt") = '\0';
	cr_assert_eq(tracepoint_parse(&tracepoint, whole), 0);
	cr_assert_eq(tracepoint.count, sizeof(rows) / sizeof(rows[0]));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct tracepoint_field *field = tracepoint_find(&tracepoint, rows[i].name);

		cr_assert_not_null(field, "%s", rows[i].name);
		cr_assert_eq(field->type, rows[i].type, "%s", rows[i].name);
		cr_assert_eq(field->offset, rows[i].offset, "%s", rows[i].name);
	}
	cr_assert_null(tracepoint_find(&tracepoint, "common_pid"));
}

Test(tracepoint, arguments_of_system_calls_have_the_size_of_their_types)
{
	static const char call[] = "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
				   "\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n"
				   "\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n"
				   "\tfield:unsigned int fd;\toffset:32;\tsize:8;\tsigned:0;\n"
				   "\tfield:unsigned int count;\toffset:40;\tsize:8;\tsigned:0;\n"
				   "\tfield:umode_t mode;\toffset:48;\tsize:8;\tsigned:0;\n"
				   "\tfield:unsigned long off;\toffset:56;\tsize:8;\tsigned:0;\n"
				   "\tfield:const clockid_t which;\toffset:64;\tsize:8;\tsigned:0;\n"
				   "\tfield:unsigned long fd;\toffset:32;\tsize:8;\tsigned:0;\n"
				   "\tfield:loff_t offset;\toffset:56;\tsize:8;\tsigned:0;\n"
				   "\tfield:long pid;\toffset:56;\tsize:8;\tsigned:0;\n"
				   "\tfield:key_t key;\toffset:16;\tsize:8;\tsigned:0;\n"
				   "\tfield:enum kind * kinds;\toffset:24;\tsize:8;\tsigned:0;\n";
	static const struct {
		uint8_t type;
		int64_t value;
	} rows[] = {
		{ WM_TYPE_I32, 0 },	 { WM_TYPE_I32, -100 }, { WM_TYPE_PTR, 0x7fff },
		{ WM_TYPE_I32, -1 },	 { WM_TYPE_U32, -2 },	{ WM_TYPE_U16, 0644 },
		{ WM_TYPE_U64, -3 },	 { WM_TYPE_I32, -4 },	{ WM_TYPE_I32, -1 },
		{ WM_TYPE_I64, -3 },	 { WM_TYPE_I64, -3 },	{ WM_TYPE_I32, -100 },
		{ WM_TYPE_PTR, 0x7fff },
	};
	uint64_t raw[9] = { 0,
			    0,
			    0xffffff9c,
			    0x7fff,
			    0xffffffff,
			    0xfffffffe,
			    0xabcd000001a4ull,
			    -3,
			    0x123fffffffcull };

	cr_assert_eq(tracepoint_parse(&tracepoint, call), 0);
	cr_assert_eq(tracepoint.count, sizeof(rows) / sizeof(rows[0]));
	for (unsigned int i = 0; i < tracepoint.count; i++) {
		const struct tracepoint_field *field = &tracepoint.fields[i];

		cr_expect_eq(field->type, rows[i].type, "%s: %u", field->name, field->type);
		cr_expect_eq(tracepoint_number(field, raw, sizeof(raw)), rows[i].value, "%s: %ld",
			     field->name, tracepoint_number(field, raw, sizeof(raw)));
	}
}

Test(tracepoint, the_print_line_is_no_field)
{
	cr_assert_eq(tracepoint_parse(&tracepoint, text), 0);
	cr_assert_eq(tracepoint.count, 7);
}

Test(tracepoint, values_are_within_the_record)
{
	uint8_t raw[64] = {
		[24] = 0xfe, 0xff, 0xff, 0xff, [48] = 56, 0, 4, 0, [56] = 'a', 'b', 'c'
	};
	struct tracepoint_field number = { .type = WM_TYPE_I32, .offset = 24, .bytes = 4 };
	struct tracepoint_field loc = { .offset = 48, .bytes = 4, .is_dynamic = 1 };
	size_t bytes;

	cr_assert_eq(tracepoint_number(&number, raw, sizeof(raw)), -2);
	cr_assert_eq(tracepoint_number(&number, raw, 27), 0);
	cr_assert_eq(tracepoint_number(NULL, raw, sizeof(raw)), 0);
	cr_assert_str_eq(tracepoint_bytes(&loc, raw, sizeof(raw), &bytes), "abc");
	cr_assert_eq(bytes, 4);
	raw[50] = 9; /* nine bytes from 56 on */
	cr_assert_null(tracepoint_bytes(&loc, raw, sizeof(raw), &bytes));
	raw[48] = 0xff;
	cr_assert_null(tracepoint_bytes(&loc, raw, sizeof(raw), &bytes));
	cr_assert_null(tracepoint_bytes(&loc, raw, 50, &bytes));
}

Test(tracepoint, damaged_formats_are_refused)
{
	static const char *const wrong[] = {
		"\tfield:int a;\toffset:x;\tsize:4;\tsigned:1;\n",
		"\tfield:int a",
		"\tfield:a;\toffset:0;\tsize:4;\tsigned:1;\n",
		"\tfield:int a;\toffset:99999;\tsize:4;\tsigned:1;\n",
		"\tfield:__data_loc char[] a;\toffset:0;\tsize:8;\tsigned:1;\n",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(tracepoint_parse(&tracepoint, wrong[i]), -EBADMSG, "%s", wrong[i]);
}

Test(tracepoint, more_fields_than_fit_are_counted)
{
	char many[4096] = "";

	for (int i = 0; i < TRACEPOINT_FIELDS_MAX + 3; i++)
		sprintf(many + strlen(many), "\tfield:int f%d;\toffset:%d;\tsize:4;\tsigned:1;\n",
			i, 8 + 4 * i);
	cr_assert_eq(tracepoint_parse(&tracepoint, many), 0);
	cr_assert_eq(tracepoint.count, TRACEPOINT_FIELDS_MAX);
	cr_assert_eq(tracepoint.left_out, 3);
}

Test(tracepoint, of_this_kernel)
{
	char words[256];
	int err = tracepoint_read(&tracepoint, "sched:sched_switch",
				  (struct detail){ words, sizeof(words) });

	if (err == -EACCES)
		cr_skip("%s", words);
	cr_assert_eq(err, 0, "%s", words);
	cr_assert_not_null(tracepoint_find(&tracepoint, "prev_state"));
	cr_assert_eq(tracepoint_read(&tracepoint, "sched:none", (struct detail){ words, 256 }),
		     -WM_E_COUNT_EVENT);
}
