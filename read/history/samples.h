/* SPDX-License-Identifier: MIT */
/*
 * Where threads were when the kernel took samples of them: each event of a trace's kernel that has
 * a field `ip`, with its stack if it has a `callchain`. An event that is asked for by its name is
 * one too if it has a `callchain` alone, as those of markers and probes with bt=. Samples of one
 * place, stack and thread are summed up as they are read, so that memory grows with what differs.
 *
 * Functions are those of the image of the process (image.h) at the time of the sample; the kernel's
 * are those of KERNEL_NAMES_FILE. One thread at a time uses them.
 */
#ifndef READ_HISTORY_SAMPLES_H
#define READ_HISTORY_SAMPLES_H

#include "base/slots.h"
#include "read/history/stacks.h"
#include "read/pass/merge.h"
#include "read/pass/thread_names.h"
#include "trace/process_records.h"
#include "trace/reader.h"

#include <stddef.h>
#include <stdint.h>

#define SAMPLES_DEPTH_MAX 1000u /* of a stack's functions; only the innermost are kept */

struct samples_options {
	const char *event; /* glob of names; NULL: all */
	uint32_t pid, tid; /* 0: all */
	/* samples without callers have them from the trail of their thread, which takes longer */
	int wants_trails;
	/* progress callback; may be NULL */
	void (*beat)(const char *what, uint64_t done, uint64_t all);
};

struct samples_event {
	const char *name;
	uint64_t count;
	uint64_t weight; /* the sum of the periods; of an event without one, the count */
	uint64_t cut;	 /* stacks without their outer part */
	int has_period, has_stacks;
	int is_time; /* periods are nanoseconds of a clock */
};

struct samples_thread {
	uint32_t pid, tid;
	uint32_t process;    /* of the trace's facts; PROCESS_NUMBER_NONE */
	const char *program; /* its process's: the last part of the path; "?" */
	const char *comm;    /* the thread's first, where the trace has it; else the program */
	uint32_t stack;	     /* the names of both, in stacks */
	uint64_t until_ns;   /* then another process has this number */
	uint64_t count;
	size_t older; /* the one before of the same tid, + 1; 0: none */
};

/* Samples that are alike. */
struct samples_sum {
	uint32_t stack, event, thread;
	uint32_t process; /* whose image has the address */
	uint64_t address;
	uint64_t count, weight;
};

struct samples {
	struct pass_observer observer; /* after samples_observe() */
	struct samples_reading *reading;
	struct images *images;
	struct trace_reader *reader; /* theirs */
	struct samples_options options;
	struct samples_event *events;
	size_t event_count, event_room;
	struct samples_thread *threads;
	size_t thread_count, thread_room;
	struct samples_sum *sums;
	size_t sum_count, sum_room;
	struct stacks stacks;
	struct functions *functions;  /* by process number; one more, for those that are unknown */
	uint32_t kernel;	      /* its process number */
	struct samples_frame *frames; /* functions by address */
	size_t frame_count, frame_room;
	struct slots frame_slots, slots; /* of frames, and of sums */
	struct thread_names names;
	struct process_numbers numbers;
	size_t *tids; /* threads by tid, the low bits; one more than the number; 0: none */
};

/* Whether a trace has an event that a sample can be made of. */
int samples_are_in(const struct trace_reader *reader);

/*
 * The names of such events that a glob matches, `most` of them, as long as the reader is open. A
 * NULL glob matches all. A glob also matches a sample:NAME by its NAME. Returns how many there are.
 */
size_t samples_events(const struct trace_reader *reader, const char *glob, const char **names,
		      size_t most);

/* The images must live longer. 0 or -ENOMEM. Close in any case, also what is zeroed. */
int samples_open(struct samples *samples, struct images *images,
		 const struct samples_options *options);
void samples_close(struct samples *samples);

/* A sample as it was read: one of its sum. */
struct samples_one {
	uint32_t sum;
	uint64_t weight, ns; /* ns: the wall clock */
};

/*
 * Observe a pass over the trace: all samples, in order of time. `take` is called for each, unless
 * it is NULL; what it returns, if it is not 0, ends the pass. Callers by trails take passes of
 * their own, now. 0 or a negative error.
 */
int samples_observe(struct samples *samples, int (*take)(const struct samples_one *one, void *data),
		    void *data);

/* The same, and a pass for it alone, whose result is returned. */
int samples_read(struct samples *samples, int (*take)(const struct samples_one *one, void *data),
		 void *data);

/*
 * The stack of a thread at an event of the kernel: its callchain, or where it has none the function
 * at `place`; STACKS_ROOT where that is 0. 0 or -ENOMEM.
 */
int samples_stack(struct samples *samples, const struct merge_event *event, uint64_t place,
		  uint32_t *stack);

/* How many functions of a process there are, numbered from 0 on. */
size_t samples_function_count(const struct samples *samples, uint32_t process);

/* The functions of a process. NULL: no memory. */
struct functions *samples_functions(struct samples *samples, uint32_t process);

/* The thread of an event at that time. 0 or -ENOMEM. */
int samples_thread_find(struct samples *samples, uint32_t pid, uint32_t tid, uint64_t ns,
			uint32_t *number);

#endif
