/* SPDX-License-Identifier: MIT */
#include "cli/count_list.h"

#include "base/array.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define EVENTS_MAX 1024

static int one_add(struct count_list *list, const char *name)
{
	char words[256] = "";
	struct count_event event;
	int err = count_event_read(&event, name, (struct detail){ words, sizeof(words) });

	if (err) {
		complain(err, "%s", words);
		return CLI_USAGE;
	}
	if (list->count >= EVENTS_MAX)
		return complain_usage("stat", "at most %d events can be counted", EVENTS_MAX);
	if (array_grow(&list->events, &list->room, list->count + 1, sizeof(*list->events)) ||
	    array_grow(&list->groups, &list->group_room, list->count + 1, sizeof(*list->groups)))
		return complain(-ENOMEM, NULL);
	list->events[list->count] = event;
	list->groups[list->count++] = list->group;
	return CLI_FINE;
}

int count_list_add(struct count_list *list, const char *text)
{
	int is_group = 0, is_terms = 0, status = CLI_FINE;
	char name[COUNT_NAME_BYTES];
	size_t bytes = 0;

	for (const char *at = text; !status; at++) {
		if (!is_terms && *at == '{' && !bytes && !is_group) {
			is_group = 1;
			continue;
		}
		if (*at && (is_terms || (*at != ',' && !(*at == '}' && is_group)))) {
			is_terms ^= *at == '/';
			if (bytes + 1 >= sizeof(name))
				return complain_usage("stat", "%s: a name is too long", text);
			name[bytes++] = *at;
			continue;
		}
		name[bytes] = '\0';
		if (bytes)
			status = one_add(list, name);
		else if (at == text || (at[-1] != '}' || *at == '}'))
			status = complain_usage("stat", "%s: an event's name is missing", text);
		bytes = 0;
		is_group &= *at != '}';
		list->group += !is_group;
		if (!*at)
			break;
	}
	if (!status && is_group)
		status = complain_usage("stat", "%s: a } is missing", text);
	return status;
}

void count_list_release(struct count_list *list)
{
	free(list->events);
	free(list->groups);
}
