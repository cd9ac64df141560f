/* SPDX-License-Identifier: MIT */
#include "cli/json.h"

#include <criterion/criterion.h>
#include <math.h>

static struct out out;

static struct json begin(void)
{
	out_init(&out, -1);
	return (struct json){ &out, 0 };
}

static void expect(const char *text)
{
	out_char(&out, 0);
	cr_assert_str_eq(out.bytes, text);
}

Test(json, commas_stand_between_members_alone)
{
	struct json json = begin();

	json_open(&json, NULL, '{');
	json_number(&json, "a", 1);
	json_open(&json, "empty", '[');
	json_close(&json, ']');
	json_open(&json, "list", '[');
	json_number(&json, NULL, 2);
	json_open(&json, NULL, '{');
	json_bool(&json, "yes", 1);
	json_bool(&json, "no", 0);
	json_close(&json, '}');
	json_close(&json, ']');
	json_null(&json, "none");
	json_close(&json, '}');
	expect("{\"a\":1,\"empty\":[],\"list\":[2,{\"yes\":true,\"no\":false}],\"none\":null}");
}

Test(json, elements_on_lines_of_their_own)
{
	struct json json = begin();

	json_open(&json, NULL, '[');
	for (uint64_t i = 0; i < 2; i++) {
		json_line(&json);
		json_number(&json, NULL, i);
	}
	json_close(&json, ']');
	expect("[\n0,\n1]");
}

Test(json, strings_are_valid_whatever_they_hold)
{
	struct json json = begin();

	json_open(&json, NULL, '{');
	json_string(&json, "a", "\"\\\n\x01 \xff");
	json_string(&json, "b", NULL);
	json_words(&json, "c", "");
	json_words(&json, "d", "why");
	json_close(&json, '}');
	expect("{\"a\":\"\\\"\\\\\\n\\u0001 \\ufffd\",\"b\":\"\",\"c\":null,\"d\":\"why\"}");
}

Test(json, decimals_and_what_is_none)
{
	struct json json = begin();

	json_decimal(&json, NULL, 1.25, 3);
	json_decimal(&json, NULL, NAN, 3);
	json_decimal(&json, NULL, -INFINITY, 3);
	expect("1.250,null,null");
}
