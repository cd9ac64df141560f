/* SPDX-License-Identifier: MIT */
#include "record/doctor/doctor.h"

#include "base/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

struct check *check_add(struct check_list *list, const char *group, const char *name)
{
	static struct check lost;
	struct check *check = &lost;

	if (!array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		check = &list->all[list->count++];
	*check = (struct check){ .group = group, .name = name };
	return check;
}

void check_list_release(struct check_list *list)
{
	free(list->all);
	*list = (struct check_list){ 0 };
}

static void append(char text[CHECK_BYTES], const char *words)
{
	size_t used = strlen(text);

	if (words[0])
		snprintf(text + used, CHECK_BYTES - used, "%s%s", used ? "; " : "", words);
}

void check_say(struct check *check, enum check_state state, const char *format, ...)
{
	char words[CHECK_BYTES];
	va_list arguments;

	check->state = state;
	va_start(arguments, format);
	vsnprintf(words, sizeof(words), format, arguments);
	va_end(arguments);
	append(check->found, words);
}

void check_change(struct check *check, const char *words)
{
	append(check->change, words);
}

void check_error(struct check *check, int error, const char *words)
{
	check_say(check, CHECK_ABSENT, "%s", wm_error_text(error));
	append(check->found, words);
	append(check->change, wm_error_hint(error));
}

int check_is_lack(const struct check *check)
{
	return check->is_basic && check->state < CHECK_LIMITED;
}

size_t check_lacks(const struct check_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += check_is_lack(&list->all[i]);
	return count;
}

const char *check_state_name(enum check_state state)
{
	static const char *const names[] = { "unknown", "absent", "limited", "fine" };

	return names[state];
}
