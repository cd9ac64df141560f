/* SPDX-License-Identifier: MIT */
#include "record/marker/enumerated.h"

#include "base/array.h"
#include "record/probe/probe_plan.h"

#include <string.h>

_Static_assert(CODE_FIELDS_MAX == CODE_RETURNS_MAX, "names[] serves both");

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
	if (!found)
		return 0;
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	list->all[list->count++] = made;
	return 0;
}

int enumerated_add(struct enumerated_list *list, const struct code_place *place,
		   const struct control_detour *detour)
{
	const char *text = (const char *)(detour + 1) + ((detour->code_bytes + 7u) & ~7u) +
			   detour->fixup_count * sizeof(struct detour_fixup);
	int err = add(list, text, place->fields, place->field_count);

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
