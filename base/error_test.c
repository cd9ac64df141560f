/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <waymark/error.h>

Test(error, hint_names_option_of_command_and_library)
{
	static const struct {
		int error;
		const char *command, *library;
	} both[] = {
		{ WM_E_MEMORY_LIMIT, "--buffer", "buffer_bytes" },
		{ WM_E_STRICT, "--strict", "option strict" },
		{ WM_E_NO_TEXT_WRITE, "--prearm", "option prearm" },
		{ WM_E_NO_AGENT, "WAYMARK_AGENT", "agent_path" },
		{ WM_E_NO_ENGINE, "WAYMARK_ENGINE", "engine_path" },
		{ WM_E_NO_FUNCTION, "waymark list", "wm_list_process()" },
		{ WM_E_NO_USDT, "waymark list", "wm_list_process()" },
		{ WM_E_ALL_REFUSED, "waymark list", "wm_session_refusals()" },
		{ WM_E_NOT_PRELOADED, "-p", "wm_session_attach()" },
		{ WM_E_SECCOMP, "waymark record", "wm_session_launch()" },
	};

	for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		const char *hint = wm_error_hint(both[i].error);

		cr_expect(strstr(hint, both[i].command), "%s", hint);
		cr_expect(strstr(hint, both[i].library), "%s", hint);
	}
}

Test(error, a_cause_has_name_text_and_hint)
{
	cr_assert_str_eq(wm_error_name(-WM_E_SITE_CHANGED), "WM_E_SITE_CHANGED");
	cr_assert_str_eq(wm_error_text(-WM_E_NO_MARKER), "no marker matches");
	cr_assert_str_eq(
		wm_error_hint(-WM_E_NO_MARKER),
		"see what there is: waymark list, or wm_list_process(); a program has markers if "
		"it is built with waymark/marker.h, without -DWAYMARK_DISABLE");
}

Test(error, the_first_and_the_last_cause_are_in_the_table)
{
	cr_assert_eq(WM_E_SITE_CHANGED, WM_E_FIRST + 1);
	cr_assert_str_eq(wm_error_name(-(WM_E_FIRST + 1)), "WM_E_SITE_CHANGED");
	cr_assert_str_neq(wm_error_name(-(WM_E_END - 1)), "");
}

Test(error, every_cause_says_what_happened)
{
	for (int error = WM_E_FIRST + 1; error < WM_E_END; error++) {
		cr_assert(strncmp(wm_error_name(-error), "WM_E_", 5) == 0);
		cr_assert_gt(strlen(wm_error_text(-error)), 5);
		cr_assert_not_null(wm_error_hint(-error));
	}
}

Test(error, errno_passes_through)
{
	cr_assert_str_eq(wm_error_name(-EPERM), "EPERM");
	cr_assert_str_eq(wm_error_text(-ENOENT), "No such file or directory");
	cr_assert_str_eq(wm_error_hint(-ENOENT), "");
}

Test(error, the_sign_does_not_matter)
{
	cr_assert_str_eq(wm_error_text(WM_E_GONE), wm_error_text(-WM_E_GONE));
	cr_assert_str_eq(wm_error_name(EPERM), wm_error_name(-EPERM));
}

Test(error, what_is_no_error_is_unknown_and_never_null)
{
	const int odd[] = { 4000, WM_E_FIRST, WM_E_END, WM_E_END + 1, INT_MAX, INT_MIN };

	for (unsigned int i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		cr_assert_str_eq(wm_error_text(-(unsigned int)odd[i]), "unknown error", "%d",
				 odd[i]);
		cr_assert_str_eq(wm_error_name(odd[i]), "");
		cr_assert_str_eq(wm_error_hint(odd[i]), "");
	}
	cr_assert_str_eq(wm_error_name(0), "");
}
