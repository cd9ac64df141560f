/* SPDX-License-Identifier: MIT */
#include "record/marker/enumerated.h"

#include "base/array.h"
#include "base/text_buffer.h"
#include "record/probe/probe_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(CODE_FIELDS_MAX == CODE_RETURNS_MAX, "names[] serves both");

static int put(struct enumerated_list *list, const struct enumerated *made)
{
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	list->all[list->count++] = *made;
	return 0;
}

static int add(struct enumerated_list *list, const char *text, const struct code_field *fields,
	       unsigned int count)
{
	struct enumerated made = { .text = text };
	int found = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (fields[i].names)
			made.names[i] = enumeration_pool_copy(&list->pool, fields[i].names);
		found |= made.names[i] != NULL;
	}
	return found ? put(list, &made) : 0;
}

/* The text of the rows, as the agent makes it from that of the event. Returns 0 or -ENOMEM. */
static int rows_text(const char *event, const struct code_sums *sums, char **made)
{
	static const char *const prefixes[SUM_AS_COUNT] = SUM_PREFIXES;
	struct text text = { 0 };
	int has_count = 0;

	text_format(&text, "s%.*s", (int)(strrchr(event, '\n') - event), event + 1);
	for (unsigned int i = 0; i < sums->count; i++) {
		if (sums->fields[i].as > SUM_HIST && !has_count++)
			text_format(&text, "%s" SUM_COUNT, i ? "," : "");
		text_format(&text, "%s%s%s", i ? "," : "", prefixes[sums->fields[i].as],
			    sums->fields[i].name);
	}
	if (!has_count)
		text_format(&text, "%s" SUM_COUNT, sums->count ? "," : "");
	text_add(&text, "", 1);
	*made = text.at;
	if (text.error)
		text_release(&text);
	return text.error;
}

/* The values of by= are a row's first fields. */
static int add_rows(struct enumerated_list *list, const char *text, const struct code_place *place)
{
	unsigned int count = place->field_count + place->return_count;
	struct enumerated made = { .text = NULL };
	int found = 0, err;

	for (unsigned int i = 0; i < place->sums->count; i++) {
		unsigned int at = place->sum_fields[i];

		if (place->sums->fields[i].as != SUM_BY || at >= count || !place->fields[at].names)
			continue;
		made.names[i] = enumeration_pool_copy(&list->pool, place->fields[at].names);
		found |= made.names[i] != NULL;
	}
	if (!found)
		return 0;
	err = rows_text(text, place->sums, &made.made);
	made.text = made.made;
	if (!err)
		err = put(list, &made);
	if (err)
		free(made.made);
	return err;
}

int enumerated_add(struct enumerated_list *list, const struct code_place *place,
		   const struct control_detour *detour)
{
	const char *text = (const char *)(detour + 1) + ((detour->code_bytes + 7u) & ~7u) +
			   detour->fixup_count * sizeof(struct detour_fixup);
	int err;

	if (place->sums)
		return add_rows(list, place->is_once ? text + strlen(text) + 1 : text, place);
	err = add(list, text, place->fields, place->field_count);
	if (!err && place->is_once)
		err = add(list, text + strlen(text) + 1, place->fields,
			  place->field_count + place->return_count);
	else if (!err && place->wants_return)
		err = add(list, text + strlen(text) + 1, code_place_returns(place),
			  place->return_count);
	return err;
}

static int text_order(const void *a, const void *b)
{
	const struct enumerated *left = a, *right = b;

	return strcmp(left->text, right->text);
}

void enumerated_sort(struct enumerated_list *list)
{
	if (list->count)
		qsort(list->all, list->count, sizeof(*list->all), text_order);
}

void enumerated_release(struct enumerated_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->all[i].made);
	free(list->all);
	enumeration_pool_release(&list->pool);
	*list = (struct enumerated_list){ 0 };
}

/* Whether the subsystem, the second part of the text, is the plan's module. */
static int is_of(const struct plan *plan, const char *text)
{
	const char *subsystem = strchr(text, '\n');
	size_t bytes = strlen(plan->name);

	return subsystem && !strncmp(subsystem + 1, plan->name, bytes) &&
	       subsystem[1 + bytes] == '\n';
}

/* Remove from names[] those that differ from others[]. */
static void agree(const struct enumeration *names[CODE_FIELDS_MAX],
		  const struct enumeration *const others[CODE_FIELDS_MAX])
{
	for (unsigned int i = 0; i < CODE_FIELDS_MAX; i++)
		if (names[i] && (!others[i] || !enumeration_is_equal(names[i], others[i])))
			names[i] = NULL;
}

void enumerated_find(const struct plan *plans, const char *text,
		     const struct enumeration *names[CODE_FIELDS_MAX])
{
	static const struct enumerated none;
	const struct enumerated key = { .text = text };
	int is_first = 1;

	memset(names, 0, CODE_FIELDS_MAX * sizeof(*names));
	for (; plans; plans = plans->next) {
		const struct enumerated_list *list = &plans->enumerated;
		const struct enumerated *end = list->all + list->count, *at;

		if (!is_of(plans, text))
			continue;
		at = list->count ? bsearch(&key, list->all, list->count, sizeof(key), text_order)
				 : NULL;
		while (at && at > list->all && !strcmp(at[-1].text, text))
			at--;
		at = at ? at : &none;
		if (is_first)
			memcpy(names, at->names, sizeof(at->names));
		is_first = 0;
		do
			agree(names, at->names);
		while (at != &none && ++at < end && !strcmp(at->text, text));
	}
}
