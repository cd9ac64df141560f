/* SPDX-License-Identifier: MIT */
#include "record/doctor/doctor.h"

#include "base/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

struct finding *finding_add(struct finding_list *list, const char *group, const char *name)
{
	static struct finding lost;
	struct finding *finding = &lost;

	if (!array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		finding = &list->all[list->count++];
	*finding = (struct finding){ .group = group, .name = name };
	return finding;
}

void finding_list_release(struct finding_list *list)
{
	free(list->all);
	*list = (struct finding_list){ 0 };
}

static void append(char text[FINDING_BYTES], const char *words)
{
	size_t used = strlen(text);

	if (words[0])
		snprintf(text + used, FINDING_BYTES - used, "%s%s", used ? "; " : "", words);
}

void finding_say(struct finding *finding, enum finding_state state, const char *format, ...)
{
	char words[FINDING_BYTES];
	va_list arguments;

	finding->state = state;
	va_start(arguments, format);
	vsnprintf(words, sizeof(words), format, arguments);
	va_end(arguments);
	append(finding->found, words);
}

void finding_change(struct finding *finding, const char *words)
{
	append(finding->change, words);
}

void finding_error(struct finding *finding, int error, const char *words)
{
	finding_say(finding, FINDING_ABSENT, "%s", wm_error_text(error));
	append(finding->found, words);
	append(finding->change, wm_error_hint(error));
}

int finding_is_lack(const struct finding *finding)
{
	return finding->is_basic && finding->state < FINDING_LIMITED;
}

size_t finding_lacks(const struct finding_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += finding_is_lack(&list->all[i]);
	return count;
}

const char *finding_state_name(enum finding_state state)
{
	static const char *const names[] = { "unknown", "absent", "limited", "fine" };

	return names[state];
}
