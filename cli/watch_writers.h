/* SPDX-License-Identifier: MIT */
/*
 * What `waymark watch` shows: who wrote, how often, what last; and the last hits one by one.
 */
#ifndef CLI_WATCH_WRITERS_H
#define CLI_WATCH_WRITERS_H

#include "cli/watch_where.h"
#include "read/rows/render.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WATCH_VALUE_BYTES 64 /* of a value's text, with its NUL; longer ones end in "..." */

/* One hit. Texts are copied but for where, which lives as long as the places do. */
struct watch_hit {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint32_t pid, tid;
	uint32_t watch; /* its number in the table */
	uint32_t order; /* of hits of the same time, as they came */
	const struct where *where;
	struct where_backtrace
		backtrace; /* with callers if they were asked for; else of `where` alone */
	int is_part;	   /* of what was asked for: it is named even if nothing else is watched */
	int is_read;	   /* the instruction wrote nothing */
	int is_kernel;	   /* for the thread, in a system call at that place */
	int is_after_uncertain, is_before_uncertain; /* not exact: shown with "~" */
	int is_late; /* SIGTRAP was blocked: the place is where it came to be let through */
	char before[WATCH_VALUE_BYTES], after[WATCH_VALUE_BYTES]; /* "" of x; "?": unknown */
};

struct writers;

/* A table that keeps the last `history` hits. 0 or -ENOMEM. Free allows NULL. */
int writers_new(struct writers **table, size_t history);
void writers_free(struct writers *table);

/* The number of a watch by its words, a new one where it is not known; or -ENOMEM. */
int writers_watch(struct writers *table, const char *words);

/*
 * Count a hit, and keep it. Hits of one read come in any order; writers_settle() puts them in that
 * of time. 0 or -ENOMEM.
 */
int writers_add(struct writers *table, const struct watch_hit *hit);

/*
 * All of a read were added: put them in order, and call each() for them in it, unless it is NULL.
 */
void writers_settle(struct writers *table,
		    void (*each)(const struct writers *table, const struct watch_hit *hit,
				 void *data),
		    void *data);

/* One hit as a line: when, since `began_ns`, which thread, where, from what to what. */
void writers_line(const struct writers *table, const struct watch_hit *hit, uint64_t began_ns,
		  FILE *to);

/*
 * The rows, most hits first: as text a table for each watch, by line or thread, of `shown` rows at
 * most (0: all); else two tables, by line and by thread, of all.
 */
void writers_rows(const struct writers *table, int by_thread, size_t shown, struct rows *rows);

/* The last hits, oldest first; also as tables of them and their frames. */
void writers_history(const struct writers *table, uint64_t began_ns, FILE *to);
void writers_history_rows(const struct writers *table, uint64_t began_ns, struct rows *rows);

uint64_t writers_hits(const struct writers *table);

#endif
