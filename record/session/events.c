/* SPDX-License-Identifier: MIT */
#include "record/session/events.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX (1u << 20)
#define TEXTS_BYTES_MAX (64u << 20)

struct event_list *event_list_new(struct event_list *before, uint32_t before_ids)
{
	struct event_list *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	*list = (struct event_list){ .holders = 1, .before = before, .before_ids = before_ids };
	if (before)
		before->holders++;
	return list;
}

void event_list_drop(struct event_list *list)
{
	while (list && !--list->holders) {
		struct event_list *before = list->before;

		for (size_t i = 0; i < list->count; i++)
			free(list->all[i].text);
		free(list->all);
		free(list);
		list = before;
	}
}

int event_list_add(struct event_list *list, uint32_t id, const uint8_t types[16], const char *text)
{
	size_t bytes = strlen(text) + 1;
	struct event *event;

	if (list->count >= EVENTS_MAX || list->text_bytes + bytes > TEXTS_BYTES_MAX)
		return -E2BIG;
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	event = &list->all[list->count];
	event->id = id;
	memcpy(event->types, types, sizeof(event->types));
	event->text = strdup(text);
	if (!event->text)
		return -ENOMEM;
	list->text_bytes += bytes;
	list->count++;
	return 0;
}

uint32_t event_list_ids(const struct event_list *list)
{
	return list->count    ? list->all[list->count - 1].id + 1
	       : list->before ? list->before_ids
			      : 0;
}

/* Call for each event of probes with an id below `ids`, of the list and those before it. */
static int each_below(const struct event_list *list, uint32_t ids,
		      int (*call)(const struct event *event, void *data), void *data)
{
	uint32_t before_ids = list->before_ids < ids ? list->before_ids : ids;
	int got = list->before ? each_below(list->before, before_ids, call, data) : 0;

	for (size_t i = 0; !got && i < list->count && list->all[i].id < ids; i++)
		if (list->all[i].text[0] && list->all[i].text[1] == 'd')
			got = call(&list->all[i], data);
	return got;
}

int event_list_each_before(const struct event_list *list,
			   int (*call)(const struct event *event, void *data), void *data)
{
	return list->before ? each_below(list->before, list->before_ids, call, data) : 0;
}
