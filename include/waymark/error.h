/* SPDX-License-Identifier: MIT */
/*
 * Errors. Functions return 0 or more for success, a negative number for failure: above -4096 it is
 * -errno, passed through; else one of the causes below, negated.
 */
#ifndef WAYMARK_ERROR_H
#define WAYMARK_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

enum wm_error {
	WM_E_FIRST = 4096,
#define X(name, what, hint) WM_E_##name,
#include "error.def"
#undef X
	WM_E_END
};

/*
 * What happened, in words, for a negative return (or its absolute value). The text is static and
 * never NULL. Any thread; safe in signal handlers for Waymark's own causes (strerrordesc_np(3)
 * serves the others).
 */
const char *wm_error_text(int error);

/* What to do about it; static; "" where there is nothing to advise. Any thread or handler. */
const char *wm_error_hint(int error);

/*
 * The cause's name, as "WM_E_SITE_CHANGED" or "EPERM"; "" if unknown. Static. Any thread or
 * handler.
 */
const char *wm_error_name(int error);

#ifdef __cplusplus
}
#endif
#endif
