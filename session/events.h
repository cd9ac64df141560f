/* SPDX-License-Identifier: MIT */
/*
 * The events that a process has named. A child of fork begins with some of its parent's, which are not
 * copied: there may be thousands, and hundreds of children. A list only grows, so a part of it stays as it is.
 */
#ifndef SESSION_EVENTS_H
#define SESSION_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct event {
	uint32_t id;
	uint8_t types[16];
	char *text; /* abi/site.h */
};

struct event_list {
	unsigned int holders;
	struct event_list *before; /* the parent's; NULL */
	uint32_t before_ids;	   /* of its, those with an id below */
	struct event *all;	   /* its own, in order of id */
	size_t count, room;
	size_t text_bytes;
};

/* An empty list with one holder. `before`, which may be NULL, gets one holder more. NULL: no memory. */
struct event_list *event_list_new(struct event_list *before, uint32_t before_ids);

/* One holder less; the last frees it. NULL is allowed. */
void event_list_drop(struct event_list *list);

/* 0, -E2BIG past a million or 64 MiB of text, -ENOMEM. */
int event_list_add(struct event_list *list, uint32_t id, const uint8_t types[16], const char *text);

/* The id after the last; 0 when there is none. */
uint32_t event_list_ids(const struct event_list *list);

/*
 * Call for each event of probes (abi/site.h, way 'd') that was there before, the first parent's first;
 * for each of its own. Ends when a call returns other than 0, with that.
 */
int event_list_each_before(const struct event_list *list,
			   int (*call)(const struct event *event, void *data), void *data);
int event_list_each(const struct event_list *list,
		    int (*call)(const struct event *event, void *data), void *data);

#endif
