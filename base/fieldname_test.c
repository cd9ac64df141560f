/* SPDX-License-Identifier: MIT */
#include "base/fieldname.h"

#include <criterion/criterion.h>
#include <string.h>

static char names[16][FIELDNAME_BYTES];

static void expect(const char *text, int count, const char *const *want)
{
	cr_assert_eq(fieldname_list(text, count, names), count, "%s", text);
	for (int i = 0; i < count; i++)
		cr_assert_str_eq(names[i], want[i], "%s: field %d is %s", text, i, names[i]);
}

#define EXPECT(text, ...)                                                                          \
	do {                                                                                       \
		const char *const want[] = { __VA_ARGS__ };                                        \
		expect(text, sizeof(want) / sizeof(*want), want);                                  \
	} while (0)

Test(fieldname, a_bare_identifier_stays)
{
	EXPECT("len, peer", "len", "peer");
	EXPECT("_private_, __x", "_private_", "__x");
}

Test(fieldname, a_given_name_is_taken)
{
	EXPECT("WM_FIELD(size, p->n(1, 2)), WM_FIELD( other ,x)", "size", "other");
	EXPECT("WM_FIELDS(a, b)", "WM_FIELDS_a_b");
}

Test(fieldname, an_expression_becomes_an_identifier)
{
	EXPECT("p->len, a + b, *(q)", "p_len", "a_b", "q");
	EXPECT("-1, 1'000'000, \"a, b\", ','", "_1", "_1_000_000", "a_b", "field4");
	EXPECT("\"\\\",\", x", "field1", "x");
	EXPECT("f(g(1, 2), ')'), y", "f_g_1_2", "y");
}

Test(fieldname, a_byte_run_is_called_what_its_pointer_is)
{
	EXPECT("WM_BYTES(p->buf, n)", "p_buf");
	EXPECT("WM_BYTES( buf , f(1, 2)), WM_BYTES (buf, 3), buf", "buf", "buf_2", "buf_3");
	EXPECT("WM_BYTES(at(p, 1), n), WM_BYTES(\"a,b\", 3)", "at_p_1", "a_b");
	EXPECT("WM_FIELD(run, WM_BYTES(p, n)), WM_BYTES(stream, 4)", "run", "stream_");
	EXPECT("WM_BYTES(, n), WM_BYTES_OF(p, n)", "field1", "WM_BYTES_OF_p_n");
}

Test(fieldname, a_repeated_name_is_counted)
{
	EXPECT("x, x, x, x_2", "x", "x_2", "x_3", "x_2_2");
}

Test(fieldname, a_reserved_word_gets_an_underscore)
{
	EXPECT("stream, WM_FIELD(event, 1)", "stream_", "event_");
}

Test(fieldname, long_names_are_cut_and_stay_unique)
{
	char text[300];

	memset(text, 'a', sizeof(text));
	text[140] = ',';
	text[299] = '\0';
	cr_assert_eq(fieldname_list(text, 2, names), 2);
	cr_assert_eq(strlen(names[0]), FIELDNAME_BYTES - 1);
	cr_assert_eq(strlen(names[1]), FIELDNAME_BYTES - 1);
	cr_assert_str_neq(names[0], names[1]);
}

Test(fieldname, text_that_does_not_fit_still_names_every_field)
{
	cr_assert_eq(fieldname_list("a", 3, names), 1);
	cr_assert_str_eq(names[2], "field3");
	cr_assert_eq(fieldname_list("", 1, names), 0);
	cr_assert_str_eq(names[0], "field1");
	cr_assert_eq(fieldname_list("a, b, c", 1, names), 3);
	fieldname_list("((\"", 2, names);
	fieldname_list("'\\", 2, names);
	cr_assert_eq(fieldname_list("a, field1, ", 3, names), 3);
	cr_assert_str_eq(names[2], "field3");
}
