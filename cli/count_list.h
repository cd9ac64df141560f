/* SPDX-License-Identifier: MIT */
/* The events of `waymark stat -e`. */
#ifndef CLI_COUNT_LIST_H
#define CLI_COUNT_LIST_H

#include "record/perf/count_event.h"

struct count_list {
	struct count_event *events;
	unsigned int *groups; /* of each: neighbours with one number count together */
	size_t count, room, group_room;
	unsigned int group; /* the next event's */
};

/*
 * Add "a,{b,c},unit/x=1,y=2/": names with commas between, groups in braces. Commas between slashes
 * belong to a name. CLI_FINE, or an exit status with all said.
 */
int count_list_add(struct count_list *list, const char *text);

void count_list_release(struct count_list *list);

#endif
