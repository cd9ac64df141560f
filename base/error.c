/* SPDX-License-Identifier: MIT */
#include <waymark/error.h>

#include <string.h>

static const struct {
	const char *name, *text, *hint;
} causes[] = {
#define X(name, what, hint) { "WM_E_" #name, what, hint },
#include <waymark/error.def>
#undef X
};

/* The causes begin after WM_E_FIRST itself. */
_Static_assert(sizeof(causes) / sizeof(causes[0]) == WM_E_END - WM_E_FIRST - 1,
	       "one row for each cause");

static unsigned int magnitude(int error)
{
	return error < 0 ? -(unsigned int)error : (unsigned int)error;
}

static int is_cause(unsigned int error)
{
	return error > WM_E_FIRST && error < WM_E_END;
}

const char *wm_error_text(int error)
{
	unsigned int value = magnitude(error);
	const char *text;

	if (is_cause(value))
		return causes[value - WM_E_FIRST - 1].text;
	text = value < WM_E_FIRST ? strerrordesc_np((int)value) : NULL;
	return text ? text : "unknown error";
}

const char *wm_error_hint(int error)
{
	unsigned int value = magnitude(error);

	return is_cause(value) ? causes[value - WM_E_FIRST - 1].hint : "";
}

const char *wm_error_name(int error)
{
	unsigned int value = magnitude(error);
	const char *name;

	if (is_cause(value))
		return causes[value - WM_E_FIRST - 1].name;
	name = value && value < WM_E_FIRST ? strerrorname_np((int)value) : NULL;
	return name ? name : "";
}
