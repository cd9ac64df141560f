/* SPDX-License-Identifier: MIT */
#include "cli/origins.h"

#include "record/spec/spec.h"
#include "record/trail/live.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static struct live live;
static struct trail_request request = { .is_auto = 1 };
static struct spec specs_of[1] = { { .text = (char *)"trail", .trail = &request } };
static struct spec_list specs = { .all = specs_of, .count = 1 };
static struct wm_session session = { .live = &live, .specs = &specs };

Test(origins, origin_that_was_chosen_is_printed, .init = cr_redirect_stderr)
{
	origins_tell(&session, 1); /* none yet */
	live.has_origin = 1;
	live.origin = ORIGIN_SOFT;
	live.origins[ORIGIN_PT].error = -WM_E_NO_FUNCTION;
	strcpy(live.origins[ORIGIN_PT].detail, "a\x1b[2J");
	origins_tell(&session, 0);
	request.is_auto = 0;
	origins_tell(&session, 1); /* the user's choice */
	request.is_auto = 1;
	origins_tell(&session, 1);
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"waymark: the trail's origin is soft, a translation of the program\n"
		"waymark: the trail's origin is soft, a translation of the program\n"
		"  not pt: there is no such function: a\\x1b[2J\n");
}

Test(origins, losses_are_printed_where_there_are_some, .init = cr_redirect_stderr)
{
	origins_tell_losses(&live);
	strcpy(live.losses, "x\n");
	origins_tell_losses(&live);
	fflush(stderr);
	cr_assert_stderr_eq_str("waymark: the trail is not all that was asked for: x\\x0a\n");
}

Test(origins, json_has_all_and_what_is_against_them)
{
	static struct out out;
	struct json json = { &out, 0 };

	live.origin = ORIGIN_SOFT;
	live.origins[ORIGIN_BTS].error = -WM_E_NO_FUNCTION;
	out_init(&out, -1);
	origins_json(&json, &live);
	out_char(&out, 0);
	cr_expect(strstr(out.bytes, "\"origin\":\"soft\",\"origins\":[{\"name\":\"pt\","
				    "\"available\":true,\"reason\":null,\"detail\":null}"),
		  "%s", out.bytes);
	cr_expect(strstr(out.bytes,
			 "{\"name\":\"bts\",\"available\":false,\"reason\":\"there is no "));
	cr_expect_str_eq(origins_way(&live), "by translation");
}
