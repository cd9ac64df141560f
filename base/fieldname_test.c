/* SPDX-License-Identifier: MIT */
#include "base/enumeration.h"
#include "base/fieldname.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

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

Test(fieldname, what_is_done_to_a_value_is_not_in_its_name)
{
	EXPECT("WM_ARRAY(p->all, n), WM_HEX(flags), WM_NET(a.port), WM_ENUM(state, A, B)", "p_all",
	       "flags", "a_port", "state");
	EXPECT("WM_HEX(WM_ARRAY(q, 3)), WM_FIELD(x, WM_HEX(y)), WM_HEXES(z)", "q", "x",
	       "WM_HEXES_z");
}

Test(fieldname, hex_is_found_around_a_value_alone)
{
	const char *text = "a, WM_HEX(b), WM_FIELD(c, WM_HEX( WM_NET(d))), f(WM_HEX(e)), WM_HEX (g)";
	const int want[] = { 0, 1, 1, 0, 1, 0 };

	for (int i = 0; i < 6; i++)
		cr_expect_eq(fieldname_is_hex(text, i), want[i], "%d", i);
	cr_expect_not(fieldname_is_hex("", 0));
	cr_expect_not(fieldname_is_hex("WM_HEX(", 0));
}

static void add_label(uint64_t value, const char *name, void *draft)
{
	enumeration_draft_add(draft, value, name);
}

static void expect_labels(const char *text, int field, const char *want)
{
	struct enumeration_draft draft = { .type = WM_TYPE_I32 };
	char got[256] = "";

	fieldname_labels(text, field, add_label, &draft);
	for (size_t i = 0; i < draft.count; i++) {
		size_t used = strlen(got);

		snprintf(got + used, sizeof(got) - used, "%s=%lld ",
			 draft.names + draft.all[i].name, (long long)draft.all[i].value);
	}
	cr_expect_str_eq(got, want, "%s: %s", text, got);
	enumeration_draft_release(&draft);
}

Test(fieldname, labels_count_on_as_in_an_enumeration)
{
	expect_labels("WM_ENUM(x, A, B, C)", 0, "A=0 B=1 C=2 ");
	expect_labels("a, WM_ENUM(f(x, 1) , A = -1, B,C=0x10u , D )", 1, "A=-1 B=0 C=16 D=17 ");
	expect_labels("WM_FIELD(s, WM_ENUM(x, color::red = 2, color::blue))", 0, "red=2 blue=3 ");
	expect_labels("WM_HEX(WM_ENUM(x, A))", 0, "A=0 ");
	expect_labels("WM_ENUM(x, A, B = SIZE, C, D = 4)", 0, "A=0 D=4 ");
	expect_labels("WM_ENUM(x, A, 7, B)", 0, "A=0 B=2 ");
	expect_labels("WM_ENUM(x, A = 010, B = 0xg, C = 1x, D = -, E = 99999999999999999999)", 0,
		      "A=8 ");
	expect_labels("WM_ENUM(x)", 0, "");
	expect_labels("WM_ENUM(x,, A)", 0, "A=1 ");
	expect_labels("x, y", 5, "");
	expect_labels("WM_ENUM(x, A", 0, "");
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
