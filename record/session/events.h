/* SPDX-License-Identifier: MIT */
/*
 * The events that a process has declared. A forked child begins with its parent's events up to the
 * fork. It refers to them without a copy, since there may be thousands, and hundreds of children.
 * That works because a list only grows.
 */
#ifndef RECORD_SESSION_EVENTS_H
#define RECORD_SESSION_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct event {
	uint32_t id;
	uint8_t types[16];
	char *text; /* abi/site.h */
};

struct event_list {
	unsigned int holders;
	struct event_list *before; /* the parent's list; NULL */
	uint32_t before_ids;	   /* of the parent's events, those with a lower id */
	struct event *all;	   /* its own, in order of id */
	size_t count, room;
	size_t text_bytes;
};

/*
 * Make an empty list with one holder. `before` may be NULL; it gets one more holder. NULL: no
 * memory.
 */
struct event_list *event_list_new(struct event_list *before, uint32_t before_ids);

/* Remove one holder; the last one frees the list. NULL is allowed. */
void event_list_drop(struct event_list *list);

/* Returns 0; -E2BIG past a million events or 64 MiB of text; -ENOMEM. */
int event_list_add(struct event_list *list, uint32_t id, const uint8_t types[16], const char *text);

/* One more than the highest id; 0 if the list is empty. */
uint32_t event_list_ids(const struct event_list *list);

/*
 * Call for each event of probes (abi/site.h, way 'd') that came from parents, the first ancestor's
 * first. A call that returns other than 0 ends it, and that is returned.
 */
int event_list_each_before(const struct event_list *list,
			   int (*call)(const struct event *event, void *data), void *data);

#endif
