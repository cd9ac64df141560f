/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <waymark/error.h>

Test(error, a_cause_has_name_text_and_hint)
{
	cr_assert_str_eq(wm_error_name(-WM_E_SITE_CHANGED), "WM_E_SITE_CHANGED");
	cr_assert_str_eq(wm_error_text(-WM_E_NO_MARKER), "no marker matches");
	cr_assert_str_eq(wm_error_hint(-WM_E_NO_MARKER), "see what there is with waymark list");
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
