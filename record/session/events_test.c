/* SPDX-License-Identifier: MIT */
#include "record/session/events.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint8_t types[16];
static char seen[256];

static void add(struct event_list *list, uint32_t id, const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "%s\nx\n", name);
	cr_assert_eq(event_list_add(list, id, types, text), 0);
}

static int note(const struct event *event, void *data)
{
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%u%.2s ", event->id,
		 event->text);
	return data && *(uint32_t *)data == event->id ? -ECANCELED : 0;
}

Test(events, child_list_has_parents_events_up_to_fork)
{
	struct event_list *parent = event_list_new(NULL, 0), *child, *grandchild;
	uint32_t enough = 1;

	cr_assert_eq(event_list_ids(parent), 0);
	add(parent, 0, "mj"); /* a marker: each process declares its own */
	add(parent, 1, "md");
	add(parent, 2, "bd");
	child = event_list_new(parent, 3);
	add(parent, 3, "ed"); /* after the fork */
	cr_assert_eq(event_list_ids(child), 3);
	add(child, 3, "md");
	add(child, 4, "md");
	grandchild = event_list_new(child, 4);
	event_list_drop(parent);
	event_list_drop(child);
	cr_assert_eq(event_list_each_before(grandchild, note, NULL), 0);
	cr_assert_str_eq(seen, "1md 2bd 3md ");
	seen[0] = 0;
	cr_assert_eq(event_list_each_before(grandchild, note, &enough), -ECANCELED);
	cr_assert_str_eq(seen, "1md ");
	event_list_drop(grandchild);
	event_list_drop(NULL);
}
