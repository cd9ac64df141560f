/* SPDX-License-Identifier: MIT */
/*
 * The processes that are recorded by engines: the first, and where they are followed, those that it
 * makes, and what they execute. Their engines say of each (abi/engine.h, enum engine_use); a thread
 * that is about to execute a program is traced for that time.
 *
 * One thread at a time uses it, the one that traces.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_FOLLOW_H
#define RECORD_TRAIL_SOFT_SOFT_FOLLOW_H

#include "record/trail/soft/soft_channel.h"
#include "record/trail/soft/soft_image.h"
#include "record/trail/soft/soft_modules.h"
#include "record/trail/soft/soft_reader.h"
#include "record/trail/tracing.h"

enum soft_use {
	SOFT_NONE = 0,
	SOFT_EXPECTED, /* its number is not known yet */
	SOFT_LIVE,
};

/* An engine is about to trace a process, which may be recorded: soft_traced.h. */
struct soft_tracing {
	pid_t asked_tid;	     /* that the tracer asked for */
	struct soft_process *tracee; /* NULL: nothing is asked, or was answered */
	pid_t pid;		     /* its number then */
	pid_t tid;		     /* the thread that is seized; 0: it is not */
	uint64_t since_ns;
	int is_told, was_led;
};

struct soft_process {
	enum soft_use use;
	pid_t pid, ppid;	      /* pid 0: not known yet */
	int end_fd;		      /* signals its end; -1: nothing does */
	int is_ended;		      /* it did, when it was looked at last */
	struct soft_channel *channel; /* without a base: it has none */
	struct soft_reader *reader;
	struct soft_channel own_channel; /* of all but the first */
	struct soft_reader own_reader;
	uint32_t life; /* counts up with each channel that it had */
	/*
	 * Its entry: of that process, as long as that has the same channel. See
	 * soft_follow_entry()
	 */
	uint32_t parent, parent_life, entry;
	uint64_t born;	   /* of that entry, without the pid */
	int is_entered;	   /* its engine was entered by us; else, as a copy, by itself */
	int shares_parent; /* its parent's memory, until it executes a program */
	uint16_t children[ENGINE_CHILDREN]; /* the process of each entry; 0: none */
	/*
	 * of a parent: the descriptor that its last child's memfd had; how long a look at all of a
	 * child's takes
	 */
	int child_fd;
	uint64_t look_ns;
	uint64_t looked_ns;   /* of a child: when all of its were looked at last */
	uint32_t ready_count; /* its channel's count when its children's entries were read last */
	struct trail_sink *sink;
	struct soft_modules modules;
	uint64_t since_ns; /* when it was expected first */
	pid_t traced;	   /* a thread of it; 0: none */
	int is_let_go;	   /* traced no more from the next stop on */
	/* stopped at each system call, which may execute a program that gains privileges */
	int is_looked_at;
	uint32_t answer; /* at the next stop; 0: none */
	int is_native;	 /* it is not recorded, until it executes a program or to its end */
	int is_foreign;	 /* it has executed a program that is not x86-64 */
	int has_status, status;
	struct soft_tracing tracing;
};

struct soft_follow {
	const struct soft_control *control;
	const struct soft_image *image;
	struct soft_sizes sizes; /* of each channel */
	struct soft_process *processes;
	uint32_t count;	      /* of these; none behind them was used */
	struct pollfd *ready; /* for look_at_ends() */
	unsigned int traced;
	int strays;    /* traced since their maker is, and to be let go at their first stop */
	int is_wanted; /* the user wants children recorded: those that are not are counted */
	int is_ending; /* nothing new is followed */
	uint64_t unfollowed, privileged;
	uint64_t late_ns; /* soft_traced_lead() */
	struct natives natives;
	uint64_t began_ns;
	uint32_t lost_threads;
	int error; /* the first */
};

/*
 * The first process has `channel` and `reader`. All but `follow` is the caller's, and outlives it.
 * 0 or -ENOMEM. Release it also after an error.
 */
int soft_follow_init(struct soft_follow *follow, const struct soft_control *control,
		     struct soft_channel *channel, struct soft_reader *reader,
		     const struct soft_image *image);

/* The first process. Its sink has begun. */
int soft_follow_first(struct soft_follow *follow, pid_t pid, struct trail_sink *sink);

/* Look at what has come of all. 1: something, 0: nothing, or the first error. */
int soft_follow_look(struct soft_follow *follow);

/* Take what they have written, as soft_reader_take() and soft_reader_fetch(). */
int soft_follow_take(struct soft_follow *follow);
int soft_follow_fetch(struct soft_follow *follow);

/* Whether one lives, beside the first, or is about to. */
int soft_follow_has(const struct soft_follow *follow);

/* Whether one is in the engine, where its state is one of two. */
int soft_follow_is_in(const struct soft_follow *follow, uint32_t one, uint32_t other);

/* Whether a thread of one has what was not taken, or may write more. */
int soft_follow_is_writing(const struct soft_follow *follow);

/* A process is over, or is let go (end_with): all of it is taken. An error as above. */
int soft_follow_end(struct soft_follow *follow, struct soft_process *process,
		    const struct trail_between *end_with);
int soft_follow_end_all(struct soft_follow *follow, const struct trail_between *end_with);

/* Have a process that we trace continue untraced, from its next stop on. */
void soft_follow_let_go(struct soft_process *process, uint32_t answer);

/* A process runs natively since then: enum engine_native. An unknown cause is ignored. */
void soft_follow_native(struct soft_follow *follow, uint32_t why, pid_t pid, uint64_t since_ns);

/* Its head; NULL: it has no channel. */
static inline struct engine_channel *soft_follow_head(const struct soft_process *process)
{
	return process->channel && process->channel->base ? soft_channel_head(process->channel)
							  : NULL;
}

void soft_follow_release(struct soft_follow *follow);

/*
 * Whether it is a thread of the process, and has the channel mapped: the recorded process may have
 * written any number there.
 */
int soft_follow_is_thread(const struct soft_channel *channel, pid_t pid, pid_t tid);

/*
 * The memfd that a forked child of `parent`, its `count`th, has made for its channel: a descriptor;
 * -ENOENT: it has none; or -EACCES: we may not look. A process that was made otherwise has none of
 * that name. This function looks at `all` descriptors of the child, and stores the memfd's in
 * *number; or at *number alone.
 */
int soft_follow_channel(pid_t pid, pid_t parent, uint32_t count, int *number, int all);

/* The entry that its parent has for it; NULL: it is used no more. */
struct engine_child *soft_follow_entry(const struct soft_follow *follow,
				       const struct soft_process *process);

/* New entries of a process: its children are expected. Whether there was one. */
int soft_follow_children(struct soft_follow *follow, struct soft_process *process);

/* One that is expected: whether it lives by now, or was given up. */
int soft_follow_expected(struct soft_follow *follow, struct soft_process *process);

#endif
