/* SPDX-License-Identifier: MIT */
#include "record/probe/asked.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define TEXT_BYTES 4096

struct asked *asked_add(struct asked_list *list)
{
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return NULL;
	list->all[list->count] = (struct asked){ 0 };
	return &list->all[list->count++];
}

void asked_release(struct asked_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free((void *)list->all[i].place);
		free(list->all[i].detour);
		free(list->all[i].detail);
	}
	free(list->all);
	*list = (struct asked_list){ 0 };
}

/* ---- the place ---- */

/* Copy no unused fields: most places have few fields, and a module may have many functions. */
static size_t place_bytes(const struct code_place *place)
{
	return offsetof(struct code_place, fields) +
	       (place->field_count + place->return_count) * sizeof(struct code_field);
}

static char *name_append(char **at, const char *name)
{
	char *copy = *at;

	*at = stpcpy(copy, name) + 1;
	return copy;
}

int asked_keep(struct asked *asked, const struct code_place *place)
{
	const char *source = place->source ? place->source : "";
	size_t bytes = place_bytes(place);
	size_t names = strlen(place->subsystem) + strlen(place->event) + strlen(source) + 3;
	struct code_place copy = *place;
	unsigned char *kept = malloc(bytes + names);
	char *at;

	if (!kept)
		return -ENOMEM;
	at = (char *)kept + bytes;
	copy.subsystem = name_append(&at, place->subsystem);
	copy.event = name_append(&at, place->event);
	copy.source = name_append(&at, source);
	memcpy(kept, &copy, bytes);
	asked->place = kept;
	return 0;
}

void asked_place(const struct asked *asked, struct code_place *place)
{
	const struct code_place *head = asked_head(asked);

	memset(place, 0, sizeof(*place));
	memcpy(place, asked->place, place_bytes(head));
}

const struct code_place *asked_head(const struct asked *asked)
{
	return asked->place;
}

/* ---- the record ---- */

/*
 * Make an event's text (abi/site.h). Its parts end with newlines, which names can't contain; debug
 * information may claim any path.
 */
static int text_make(char text[TEXT_BYTES], char kind, const struct code_place *place,
		     const struct code_field *fields, unsigned int count)
{
	const char *source = place->source && !strchr(place->source, '\n') ? place->source : "";
	int used = snprintf(text, TEXT_BYTES, "%cd\n%s\n%s\n%s\n%u\n", kind, place->subsystem,
			    place->event, source, place->line);

	for (unsigned int i = 0; i < count && used < TEXT_BYTES; i++)
		used += snprintf(text + used, TEXT_BYTES - (size_t)used, "%s%s", i ? ", " : "",
				 fields[i].name);
	return used < TEXT_BYTES ? 0 : -WM_E_SPEC;
}

int asked_record(struct asked *asked, const struct code_place *place,
		 const struct trampoline *trampoline)
{
	static __thread unsigned char record[ASKED_RECORD_MAX] __attribute__((aligned(8)));
	char text[TEXT_BYTES], return_text[TEXT_BYTES];
	char kind = place->wants_return ? 'b' : 'm';
	struct control_detour *copy;
	size_t bytes;
	int err = text_make(text, kind, place, place->fields, place->field_count);

	if (!err && place->wants_return)
		err = text_make(return_text, 'e', place, code_place_returns(place),
				place->return_count);
	if (err)
		return err;
	bytes = trampoline_write(trampoline, 0, text, place->wants_return ? return_text : NULL,
				 record, sizeof(record));
	if (bytes > sizeof(record))
		return -WM_E_SPEC;
	copy = realloc(asked->detour, asked->detour_bytes + bytes);
	if (!copy)
		return -ENOMEM;
	memcpy((unsigned char *)copy + asked->detour_bytes, record, bytes);
	asked->detour = copy;
	asked->detour_bytes += bytes;
	asked->choice_count++;
	return 0;
}

int asked_refuse(struct asked *asked, int error, const char *detail)
{
	free(asked->detour);
	free(asked->detail);
	asked->detour = NULL;
	asked->detour_bytes = asked->choice_count = 0;
	asked->error = error;
	asked->detail = strdup(detail);
	return asked->detail ? 0 : -ENOMEM;
}
