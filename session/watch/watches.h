/* SPDX-License-Identifier: MIT */
/* What a session's watches came to, by their specs. */
#ifndef SESSION_WATCH_WATCHES_H
#define SESSION_WATCH_WATCHES_H

#include "abi/watch.h"
#include "code/watch/type.h"

#include <stddef.h>
#include <stdint.h>

struct wm_session;

#define WATCHES_DETAIL_MAX 256
#define WATCHES_POINTER_MAX 64

/* Of an expression that is followed */
struct watch_follows {
	uint64_t moves; /* its registers went with a pointer */
	/* pointers changed while other threads ran, or the change was seen late: */
	uint64_t exposed;
	uint64_t unseen;   /* or was not seen at all: writes may be missed */
	uint64_t astray;   /* dropped hits that may be the variable's */
	uint64_t unplaced; /* times that it led to where its registers can't watch */
};

/* Of a local variable: how often its function began, and of those times */
struct watch_frames {
	uint64_t entered;
	uint64_t watched;
	uint64_t busy;	  /* no debug register was free */
	uint64_t late;	  /* this process did not arm it in time */
	uint64_t unended; /* its end could not have been seen */
	/* hits that are not told, among the dropped */
	uint64_t over;	  /* the frame was gone */
	uint64_t outside; /* the variable was not there just then */
	uint64_t unsure;  /* whether it was, nobody can tell */
};

/* All processes and all pieces together. */
struct watch_counts {
	uint64_t hits;	   /* as the kernel counted, without those masked */
	uint64_t taken;	   /* of them by the agent: recorded, or filtered, counted, own */
	uint64_t filtered; /* of those taken: no event, as a condition says */
	uint64_t counted;  /* no event, as `count` says */
	uint64_t own;	   /* no event, since it was the agent's own doing */
	uint64_t masked;   /* not among the hits: a store's mask excluded the bytes */
	uint64_t dropped;  /* outside of the time that the watch was armed */
	uint64_t missed;   /* neither taken nor dropped */
	uint64_t late;	   /* of those taken: told when SIGTRAP was let through again */
	uint64_t inexact; /* whose new value is what memory had then; from outside: follows from the one before, */
	uint64_t unknown;   /* or is not known */
	uint64_t uncertain; /* a condition was asked of a value that is inexact; of those, */
	uint64_t uncertain_filtered; /* left out */
	uint64_t shared;
	uint64_t starved; /* no hits: kernel events that had no register at some time, so that hits may have been neither taken nor counted */
	struct watch_frames frames;
	struct watch_follows follow;
};

/* Of one spec. */
struct watched_spec {
	char *text;  /* as given */
	char *words; /* what of it is the event's name */
	int is_code; /* who runs it, not who writes it */
	struct watch_counts counts;
	unsigned int processes; /* that it was armed in */
	unsigned int threads;	/* opened on, in the last */
	unsigned int pieces;	/* debug registers */
	uint64_t address;	/* in the last process */
	uint64_t bytes;
	unsigned int skew; /* of the address: how far behind a multiple of 8 */
	/* of the pieces, those that another recording's registers served, for want of others: what these missed is not known here */
	unsigned int shared;
	char holder[64];	 /* the last's, "waymark 812"; "": not told */
	unsigned int taken_over; /* of them, with registers of our own since the other ended */
	uint64_t alone_ns; /* in all, in which they had none: what was hit then is not known */
	/* of all CPUs that came into the machine later, while they had none: likewise; only from outside */
	uint64_t uncovered_ns;
	uint64_t children; /* that those processes started which it was watched in from outside */
	unsigned int outside; /* of the processes, those in which it is from outside */
	int why;	      /* of one of these: no agent could be had; 0: as asked for */
	int sees_kernel;
	int is_local;
	unsigned int pointers; /* on the way, that are followed; 0: nothing is */
	unsigned int waits;    /* which of them, from 1, led nowhere at the end; 0: none */
	char waits_for[WATCHES_POINTER_MAX]; /* its text; "": unknown */
	unsigned int frames;		     /* of a local variable: how many at once, at most */
	int unlooked; /* why frames that lived when it was armed may not have been found; 0: they were */
	int lost; /* why it was taken away; 0: it was not */
	/* Of its values: what one program calls so another may have otherwise. The first is every process's that `of` does not name. */
	struct watch_type **types;
	size_t type_count, type_room;
	struct watched_type {
		uint32_t process; /* its number in the session */
		uint32_t type;
	} * of; /* the last of a process counts */
	size_t of_count, of_room;
	struct watched_spec *earlier; /* what was watched before that was changed; NULL */
	/* of one that was changed: when, and from the first thread's change to the last one's */
	uint64_t until_realtime_ns, gap_ns;
	int was_stopped; /* and so nothing was missed in between */
	char *library;	 /* that it was found in last; NULL: in none that could go */
	int error;	 /* why it was no place in a process, or a library, that came later; 0 */
};

/* Each has the place that its spec has in the session's list; those that are no watches are empty. */
struct watched_list {
	struct watched_spec *all;
	size_t count;
	/* some process's are just being armed; what is due in one is just done (watch/later.h) */
	int is_arming, is_attending;
	/* processes that came later and go on with some unwatched, and why the first does */
	uint64_t unwatched;
	int unwatched_error;
	char unwatched_detail[WATCHES_DETAIL_MAX];
	int unproven; /* why a watch without a hit may have missed all; 0: its zero was measured */
};

void watched_spec_release(struct watched_spec *one);
void watched_list_release(struct watched_list *list);

/* NULL where a spec is no watch, or was armed nowhere; one that was changed may have been armed nowhere since. */
const struct watched_spec *watches_of(const struct watched_list *list, size_t spec);

/* The type of its values in a process, by its number; NULL: not known. It stays as long as *one does. */
const struct watch_type *watched_type(const struct watched_spec *one, uint32_t process);

/* *type is of a process; it is taken over. 0 or -ENOMEM. */
int watched_type_take(struct watched_spec *one, uint32_t process, struct watch_type *type);

/* One row's, of which the kernel has counted so many. */
void watch_counts_add(struct watch_counts *to, const struct watch_row *row, uint64_t hits);

#endif
