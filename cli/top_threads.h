/* SPDX-License-Identifier: MIT */
/*
 * How long threads ran, waited for a CPU and slept, by the kernel's events of switches, or where
 * these can't be recorded by what /proc has of the threads. Events of switches come in order of
 * time for each CPU, but a thread goes from CPU to CPU: so they are kept until
 * top_threads_settle(), which sorts them.
 */
#ifndef CLI_TOP_THREADS_H
#define CLI_TOP_THREADS_H

#include "base/slots.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TOP_THREADS_MAX 10000u
#define TOP_SWITCHES_MAX (1u << 20) /* between two calls of top_threads_settle() */

enum top_state { TOP_UNKNOWN, TOP_RUNNING, TOP_READY, TOP_ASLEEP, TOP_ENDED };

struct top_thread {
	uint32_t pid, tid; /* pid 0: not known yet */
	char comm[16];
	enum top_state state;
	uint64_t since_ns;	    /* it is accounted up to there */
	int64_t ns[TOP_ENDED];	    /* in each state, in the interval */
	uint64_t switches;	    /* how often it left a CPU in the interval */
	int is_seen;		    /* it had an event in the interval */
	uint64_t ran_ns, waited_ns; /* of its schedstat, so far accounted for */
	int has_times;
	long sleeps; /* how often it has slept, when it was last read; 0: not yet */
};

/* What came; a sample shows that a thread runs. */
enum top_step { TOP_STEP_DEPART, TOP_STEP_ARRIVE, TOP_STEP_WAKE, TOP_STEP_SAMPLE, TOP_STEP_EXIT };

struct top_switch {
	uint64_t time_ns;
	uint32_t pid, tid, number; /* number: in which order they came */
	uint8_t step, state;	   /* state: of a departing thread */
};

struct top_threads {
	struct top_thread *all;
	size_t count, room, named; /* named: so many have had their name read */
	struct slots slots;	   /* of all, by tid */
	struct top_switch *switches;
	size_t switch_count, switch_room;
	uint64_t begin_ns, end_ns; /* the interval: begin, and up to where it is settled */
	uint64_t other_switches;   /* that had no room */
};

void top_threads_release(struct top_threads *threads);

/*
 * The thread `tid`, new if `is_new`. NULL: it is not there, or there is no room. Valid until the
 * next new one.
 */
struct top_thread *top_threads_get(struct top_threads *threads, uint32_t tid, int is_new);

/* A switch: 0, or -ENOMEM. `state` is TOP_READY or TOP_ASLEEP or TOP_ENDED, of a departing one. */
int top_threads_take(struct top_threads *threads, struct top_switch *one);

/*
 * Account for all up to a time; later ones are kept. A time before the last one's is that. A thread
 * whose first event is a departure, or a sample, has been running since the interval's begin.
 */
void top_threads_settle(struct top_threads *threads, uint64_t until_ns);

/*
 * How long it has waited for a CPU in its life, by its schedstat. Where not all wakes are reported,
 * a thread that was woken counts as asleep until it runs: what it waited since the last call, and
 * was not accounted for, comes out of that. The kernel adds a wait when it is over.
 */
void top_thread_waited(struct top_thread *thread, uint64_t waited_ns);

/* Begin the next interval, where the last was settled. Those that have ended are forgotten. */
void top_threads_next(struct top_threads *threads);

/* ---- what /proc has of them ---- */

/* Take the threads of a process in, in the state in which they are now. */
void top_threads_begin(struct top_threads *threads, pid_t pid, uint64_t now_ns);

/* Read the names of threads that came since the last call. */
void top_threads_name(struct top_threads *threads);

/*
 * At an interval's end: threads that had no event are forgotten if they have ended. If
 * `reads_waits`, how long the others waited for a CPU is taken from their schedstat.
 */
void top_threads_check(struct top_threads *threads, int reads_waits);

/*
 * Where switches can't be recorded: the times of a process's threads since the last call, by their
 * schedstat. Threads that begin and end between two calls are missed.
 */
void top_threads_times(struct top_threads *threads, pid_t pid, uint64_t now_ns);

#endif
