/* SPDX-License-Identifier: MIT */
/* The results of a session's watches, by spec. */
#ifndef RECORD_WATCH_WATCHES_H
#define RECORD_WATCH_WATCHES_H

#include "abi/watch.h"
#include "target/expression/type.h"

#include <stddef.h>
#include <stdint.h>

struct findings;
struct wm_session;

#define WATCHES_DETAIL_MAX 256
#define WATCHES_POINTER_MAX 64

/* Of a watch that follows pointers. */
struct watch_follows {
	uint64_t moves; /* how often registers moved because a pointer changed */
	/* pointer changes while other threads ran, or that were seen late: */
	uint64_t exposed;
	uint64_t unseen;   /* changes not seen at all: hits may be missed */
	uint64_t astray;   /* dropped hits that may be of the variable */
	uint64_t unplaced; /* how often a pointer led to where these registers can't watch */
};

/* Of a local variable: how often its function began, and of these */
struct watch_frames {
	uint64_t entered;
	uint64_t watched;
	uint64_t busy;	  /* no debug register was free */
	uint64_t late;	  /* this process did not arm the frame in time */
	uint64_t unended; /* its end could not have been seen */
	/* hits without an event, among the dropped: */
	uint64_t over;	  /* the frame was gone */
	uint64_t outside; /* the variable was not in that place just then */
	uint64_t unsure;  /* unknown whether it was */
};

/* Summed over all processes and pieces. */
struct watch_counts {
	uint64_t hits; /* as the kernel counted, without the masked ones */
	/* of them, those that came to the handler: recorded, filtered, counted or own */
	uint64_t taken;
	uint64_t filtered; /* of those taken: without an event, because a condition excluded them */
	uint64_t counted;  /* without an event, because of the option `count` */
	uint64_t own;	   /* without an event, because the agent itself caused it */
	uint64_t masked;   /* not among the hits: a store's mask excluded the bytes */
	uint64_t dropped;  /* came while the watch was not armed, or when its variable was gone */
	uint64_t missed;   /* neither taken nor dropped */
	uint64_t late;	   /* of those taken: handled late, when SIGTRAP was unblocked */
	/* the new value is what memory had then; from outside: derived from the value before */
	uint64_t inexact;
	uint64_t unknown;   /* the new value is not known */
	uint64_t uncertain; /* a condition was checked against an inexact value; of those, */
	uint64_t uncertain_filtered; /* excluded by it */
	uint64_t shared;
	/*
	 * no hits: kernel events that had no register at some time; hits then were neither taken
	 * nor counted
	 */
	uint64_t starved;
	struct watch_frames frames;
	struct watch_follows follow;
};

/* Of one spec. */
struct watched_spec {
	char *text;  /* as given by the user */
	char *words; /* the part of it that names the event */
	int is_code; /* it watches execution, not stores */
	struct watch_counts counts;
	unsigned int processes; /* in how many processes it was armed */
	unsigned int threads;	/* that have the event, in the process armed last */
	unsigned int pieces;	/* debug registers */
	uint64_t address;	/* in the last process */
	uint64_t bytes;
	unsigned int skew; /* the address modulo 8 */
	/* summed over CPUs that were added later, their time without an event; only from outside */
	uint64_t uncovered_ns;
	uint64_t children;    /* that those processes started while watched from outside */
	unsigned int outside; /* of the processes, those watched from outside */
	int why;	      /* for one of these: why it had no agent; 0: as the user asked */
	int sees_kernel;
	int is_local;
	unsigned int pointers; /* that are followed; 0: none is */
	unsigned int waits;    /* which of them, from 1, led nowhere at the end; 0: none */
	char waits_for[WATCHES_POINTER_MAX]; /* its text; "": unknown */
	unsigned int frames;		     /* of a local variable: how many at once, at most */
	/* why frames that existed at the attach may not have been found; 0: they were */
	int unlooked;
	int lost; /* why it ended early; 0: it did not */
	/*
	 * Types of its values: two programs may declare one name differently. `of` says which
	 * process has which; a process that it does not name has the first.
	 */
	struct watch_type **types;
	size_t type_count, type_room;
	struct watched_type {
		uint32_t process; /* its number in the session */
		uint32_t type;
	} * of; /* the last entry of a process counts */
	size_t of_count, of_room;
	char *library; /* the path of the library that has it; NULL: the program itself */
	int error;     /* why a process or a library that came later has no such place; 0 */
};

/* Parallel to the session's specs. Entries of specs that are no watches are empty. */
struct watched_list {
	struct watched_spec *all;
	size_t count;
	/* a process's watches are being armed; later_attend() runs (watch/later.h) */
	int is_arming, is_attending;
	/* processes that came later and continue with some watches missing, and the first reason */
	uint64_t unwatched;
	int unwatched_error;
	char unwatched_detail[WATCHES_DETAIL_MAX];
	int unproven; /* why a watch without hits may have missed all; 0: its zero was measured */
};

void watched_spec_release(struct watched_spec *one);
void watched_list_release(struct watched_list *list);

/* The results of a spec. NULL if it is no watch, or was never armed. */
const struct watched_spec *watches_of(const struct watched_list *list, size_t spec);

/*
 * The type of a spec's values in a process, by the process's number; NULL: unknown. Valid while
 * *one is.
 */
const struct watch_type *watched_type(const struct watched_spec *one, uint32_t process);

/* Keep *type for a process. Takes ownership, also on an error. 0 or -ENOMEM. */
int watched_type_take(struct watched_spec *one, uint32_t process, struct watch_type *type);

/* Add one row's counts; the kernel has counted `hits` for it. */
void watch_counts_add(struct watch_counts *to, const struct watch_row *row, uint64_t hits);

/* See record/session/sources.h. */
void watch_findings(const struct wm_session *session, int is_over, struct findings *list);

#endif
