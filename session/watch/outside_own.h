/* SPDX-License-Identifier: MIT */
/* What the two parts of watches from outside have of each other: their life (outside.c), and one hit (outside_take.c). */
#ifndef SESSION_WATCH_OUTSIDE_OWN_H
#define SESSION_WATCH_OUTSIDE_OWN_H

#include "code/watch/option.h"
#include "process/entry.h"
#include "perf/object.h"
#include "session/own_store.h"
#include "session/watch/outside.h"
#include "session/watch/outside_code.h"

#define OUTSIDE_EVENT_FIRST 1u /* numbers of events; one for each watch that has one */

/* One register's worth. */
struct outside_watch {
	struct control_watch about;
	size_t spec;
	const struct watch_type *type;
	struct watch_bound_test tests[WATCH_TESTS_MAX];
	unsigned int test_count;
	uint64_t before; /* what the hit before made of it */
	int has_before;
	int is_before_uncertain; /* that is not exact */
};

struct outside {
	struct own_store *store;
	struct outside_code *code;
	struct entry *entry; /* it is held there */
	int why, takes_all;
	int has_records;      /* else nothing is wanted but counts */
	uint64_t last_ns;     /* of the last hit */
	uint64_t lost;	      /* hits that the store was told of */
	uint64_t followed_ns; /* when CPUs that came were last looked for */
	struct outside_module {
		uint64_t base, inode;
	} * told; /* modules that the trace has */
	size_t told_count, told_room;
	struct event_object *object; /* while armed; watching.c's, as the table */
	struct watch_table *table;
	struct outside_watch all[EVENT_SOURCES_MAX];
	unsigned int count;
};

/* One hit, as event_object_drain() has it. */
int outside_take(void *outside, const struct event_record *record);

#endif
