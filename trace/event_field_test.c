/* SPDX-License-Identifier: MIT */
#include "abi/page.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/session.h>

static const struct wm_event_field fields[] = {
	{ .name = "small", .type = WM_TYPE_I16, .value.i = -2 },
	{ .name = "large", .type = WM_TYPE_U64, .value.u = UINT64_MAX },
	{ .name = "most", .type = WM_TYPE_I64, .value.i = INT64_MAX },
	{ .name = "yes", .type = WM_TYPE_BOOL, .value.u = 1 },
	{ .name = "letter", .type = WM_TYPE_CHAR, .value.i = 'a' },
	{ .name = "pointer", .type = WM_TYPE_PTR, .value.u = 0x1000 },
	{ .name = "part", .type = WM_TYPE_F32, .value.f = 0.5 },
	{ .name = "text", .type = WM_TYPE_STR, .value.run = { "abc", 3 } },
	{ .name = "null", .type = WM_TYPE_STR, .state = FIELD_NULL },
	{ .name = "cut", .type = WM_TYPE_STR, .state = FIELD_CUT, .value.run = { "ab", 2 } },
	{ .name = "unreadable", .type = WM_TYPE_STR, .state = FIELD_UNREADABLE },
	{ .name = "run", .type = WM_TYPE_BYTES, .value.run = { "xyz", 3 } },
};

static const struct wm_event event = {
	.size = sizeof(event),
	.name = "db:query",
	.field_count = sizeof(fields) / sizeof(fields[0]),
	.fields = fields,
};

static const struct wm_event_field *find(const char *name)
{
	return wm_event_field_find(&event, name);
}

Test(event_field, find_returns_field_or_null)
{
	cr_assert_eq(find("small"), &fields[0]);
	cr_assert_eq(find("run"), &fields[11]);
	cr_assert_null(find("nosuch"));
	cr_assert_null(find(NULL));
	cr_assert_null(wm_event_field_find(NULL, "small"));
}

Test(event_field, u64_refuses_negative_and_other_types)
{
	uint64_t value = 7;

	cr_assert_eq(wm_event_field_u64(find("small"), &value), -ERANGE);
	cr_assert_eq(wm_event_field_u64(find("part"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_u64(find("text"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_u64(find("run"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_u64(find("none"), &value), -ENOENT);
	cr_assert_eq(wm_event_field_u64(find("yes"), NULL), -EINVAL);
	cr_assert_eq(value, 7);
	cr_assert_eq(wm_event_field_u64(find("large"), &value), 0);
	cr_assert_eq(value, UINT64_MAX);
	cr_assert_eq(wm_event_field_u64(find("most"), &value), 0);
	cr_assert_eq(value, INT64_MAX);
	cr_assert_eq(wm_event_field_u64(find("yes"), &value), 0);
	cr_assert_eq(value, 1);
	cr_assert_eq(wm_event_field_u64(find("letter"), &value), 0);
	cr_assert_eq(value, 'a');
	cr_assert_eq(wm_event_field_u64(find("pointer"), &value), 0);
	cr_assert_eq(value, 0x1000);
}

Test(event_field, s64_refuses_what_does_not_fit)
{
	int64_t value = 7;

	cr_assert_eq(wm_event_field_s64(find("large"), &value), -ERANGE);
	cr_assert_eq(wm_event_field_s64(find("part"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_s64(find("null"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_s64(find("none"), &value), -ENOENT);
	cr_assert_eq(wm_event_field_s64(find("small"), NULL), -EINVAL);
	cr_assert_eq(value, 7);
	cr_assert_eq(wm_event_field_s64(find("small"), &value), 0);
	cr_assert_eq(value, -2);
	cr_assert_eq(wm_event_field_s64(find("pointer"), &value), 0);
	cr_assert_eq(value, 0x1000);
}

Test(event_field, double_takes_each_number)
{
	double value = 7;

	cr_assert_eq(wm_event_field_double(find("text"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_double(find("none"), &value), -ENOENT);
	cr_assert_eq(wm_event_field_double(find("part"), NULL), -EINVAL);
	cr_assert_eq(value, 7);
	cr_assert_eq(wm_event_field_double(find("part"), &value), 0);
	cr_assert_eq(value, 0.5);
	cr_assert_eq(wm_event_field_double(find("small"), &value), 0);
	cr_assert_eq(value, -2);
	cr_assert_eq(wm_event_field_double(find("large"), &value), 0);
	cr_assert_eq(value, 0x1p64);
}

Test(event_field, string_reports_null_cut_and_unreadable)
{
	const char *value = "before";

	cr_assert_eq(wm_event_field_string(find("run"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_string(find("small"), &value), -WM_E_FIELD_TYPE);
	cr_assert_eq(wm_event_field_string(find("unreadable"), &value), -EFAULT);
	cr_assert_eq(wm_event_field_string(find("none"), &value), -ENOENT);
	cr_assert_eq(wm_event_field_string(find("text"), NULL), -EINVAL);
	cr_assert_str_eq(value, "before");
	cr_assert_eq(wm_event_field_string(find("text"), &value), 0);
	cr_assert_str_eq(value, "abc");
	cr_assert_eq(wm_event_field_string(find("cut"), &value), 1);
	cr_assert_str_eq(value, "ab");
	cr_assert_eq(wm_event_field_string(find("null"), &value), 0);
	cr_assert_null(value);
}
