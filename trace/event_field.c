/* SPDX-License-Identifier: MIT */
#include "abi/page.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/session.h>

enum form { FORM_OTHER, FORM_SIGNED, FORM_UNSIGNED, FORM_FLOAT };

static enum form form_of(const struct wm_event_field *field)
{
	switch (field->type & ~WM_TYPE_HEX) {
	case WM_TYPE_I8:
	case WM_TYPE_I16:
	case WM_TYPE_I32:
	case WM_TYPE_I64:
	case WM_TYPE_CHAR:
		return FORM_SIGNED;
	case WM_TYPE_U8:
	case WM_TYPE_U16:
	case WM_TYPE_U32:
	case WM_TYPE_U64:
	case WM_TYPE_BOOL:
	case WM_TYPE_PTR:
		return FORM_UNSIGNED;
	case WM_TYPE_F32:
	case WM_TYPE_F64:
		return FORM_FLOAT;
	default:
		return FORM_OTHER;
	}
}

/* The form of a field whose value a caller wants at `value`, or a negative error. */
static int form_wanted(const struct wm_event_field *field, const void *value)
{
	enum form form;

	if (!value)
		return -EINVAL;
	if (!field)
		return -ENOENT;
	form = form_of(field);
	return form == FORM_OTHER ? -WM_E_FIELD_TYPE : (int)form;
}

const struct wm_event_field *wm_event_field_find(const struct wm_event *event, const char *name)
{
	for (uint32_t i = 0; event && name && i < event->field_count; i++)
		if (!strcmp(event->fields[i].name, name))
			return &event->fields[i];
	return NULL;
}

int wm_event_field_u64(const struct wm_event_field *field, uint64_t *value)
{
	int form = form_wanted(field, value);

	if (form < 0)
		return form;
	if (form == FORM_FLOAT)
		return -WM_E_FIELD_TYPE;
	if (form == FORM_SIGNED && field->value.i < 0)
		return -ERANGE;
	*value = field->value.u;
	return 0;
}

int wm_event_field_s64(const struct wm_event_field *field, int64_t *value)
{
	int form = form_wanted(field, value);

	if (form < 0)
		return form;
	if (form == FORM_FLOAT)
		return -WM_E_FIELD_TYPE;
	if (form == FORM_UNSIGNED && field->value.u > INT64_MAX)
		return -ERANGE;
	*value = field->value.i;
	return 0;
}

int wm_event_field_double(const struct wm_event_field *field, double *value)
{
	int form = form_wanted(field, value);

	if (form < 0)
		return form;
	*value = form == FORM_FLOAT    ? field->value.f
		 : form == FORM_SIGNED ? (double)field->value.i
				       : (double)field->value.u;
	return 0;
}

int wm_event_field_string(const struct wm_event_field *field, const char **string)
{
	if (!string)
		return -EINVAL;
	if (!field)
		return -ENOENT;
	if (field->type != WM_TYPE_STR)
		return -WM_E_FIELD_TYPE;
	if (field->state == FIELD_UNREADABLE)
		return -EFAULT;
	*string = field->state == FIELD_NULL ? NULL : field->value.run.start;
	return field->state == FIELD_CUT;
}
