/* SPDX-License-Identifier: MIT */
/*
 * Shared by the two parts of watches from outside: outside.c has their life, outside_take.c takes
 * one hit.
 */
#ifndef RECORD_WATCH_OUTSIDE_OWN_H
#define RECORD_WATCH_OUTSIDE_OWN_H

#include "abi/watch.h"
#include "record/drain/own_store.h"
#include "record/perf/object.h"
#include "record/watch/outside_code.h"
#include "target/expression/option.h"
#include "target/process/entry.h"

#define OUTSIDE_EVENT_FIRST 1u /* event ids; each watch with an event has one */

/* One register's worth. */
struct outside_watch {
	struct control_watch about;
	size_t spec;
	const struct watch_type *type;
	struct watch_bound_test tests[WATCH_TESTS_MAX];
	unsigned int test_count;
	uint64_t before; /* the new value of the hit before */
	int has_before;
	int is_before_uncertain; /* that value is not exact */
};

struct outside {
	struct own_store *store;
	struct outside_code *code;
	struct entry *entry; /* the program is held there; NULL */
	int why, takes_all;
	int has_records;	    /* 0: only counts are wanted */
	uint64_t last_ns;	    /* of the last hit */
	uint64_t lost;		    /* hits that the store counts as lost */
	uint64_t followed_ns;	    /* when perf_object_follow() last looked for new CPUs */
	struct loaded_id *reported; /* modules that the trace has */
	size_t told_count, told_room;
	struct perf_object *object; /* while armed; owned by watching.c, as is the table */
	struct watch_table *table;
	struct outside_watch all[EVENT_SOURCES_MAX];
	unsigned int count;
};

/* Take one hit: a callback of perf_object_drain(). `outside` is the struct outside. Returns 0. */
int outside_take(void *outside, const struct event_record *record);

#endif
