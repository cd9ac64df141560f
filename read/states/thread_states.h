/* SPDX-License-Identifier: MIT */
/*
 * The time of threads by state, from the kernel's records of switches:
 *
 *	(new) -> runnable	it was started
 *	unknown -> running	it arrived on a CPU
 *	running -> runnable	it departed, preempted
 *	running -> asleep	it departed, waiting
 *	running -> ended	it departed in the state X or Z; or it exits: in recordings of
 *				threads, and not of CPUs, no departure follows
 *	asleep -> runnable	it was woken
 *	runnable, asleep -> running
 *
 * Events come in the order of their times, over all CPUs. Clocks of CPUs differ by nanoseconds, so
 * an event may come after the one that it caused: the wake after the arrival, the departure after
 * the arrival on the next CPU, the fork after the child's arrival. Such pairs are recognised up to
 * THREAD_REVERSED_NS. A wake may also come before the departure: the kernel wakes a thread that has
 * decided to wait and is still on its CPU. Then the thread was runnable all the time.
 *
 * A wait that ends without a wake is "waiting": asleep, then perhaps runnable. The kernel's sums of
 * runnable time (THREAD_RUN_DELAY) divide these waits at the end.
 *
 * Before its first event a thread was in the state that this event ends, from the begin of the
 * trace or from when it was sighted. Exceptions: after losses; a thread that arrives first, which
 * may be new; and a thread that has the number of another that ended. Of a thread that is not
 * recorded there may be wakes by one that is, and its name, for it woke one (is_recorded).
 *
 * Losses of a CPU: the time of the thread that ran there is unknown from the event before to
 * the thread's next one. All threads that live then count the loss, since each may have been there.
 * They also count switches that must be missing, where an event contradicts the state. Where wakes
 * alone were lost, threads count them too, and a wait is as if none had been recorded.
 *
 * One thread at a time uses it.
 */
#ifndef READ_STATES_THREAD_STATES_H
#define READ_STATES_THREAD_STATES_H

#include "base/slots.h"

#include <stddef.h>
#include <stdint.h>

#define THREAD_REVERSED_NS 10000

enum thread_state {
	THREAD_UNSEEN, /* no event yet; if is_sighted, it is known to be there */
	THREAD_UNKNOWN,
	THREAD_RUNNING,
	THREAD_RUNNABLE,
	THREAD_ASLEEP,
	THREAD_ENDED,
};

enum thread_time {
	THREAD_TIME_RUNNING,
	THREAD_TIME_RUNNABLE,
	THREAD_TIME_ASLEEP,
	THREAD_TIME_WAITING, /* asleep or runnable */
	THREAD_TIME_UNKNOWN,
	THREAD_TIMES
};

/* The states of those who wait, as the kernel shows them; all others are '?'. */
#define THREAD_LETTERS "SDTtIPXZ?"
#define THREAD_LETTER_COUNT (sizeof(THREAD_LETTERS) - 1)

enum thread_event_kind {
	THREAD_DEPARTS,
	THREAD_ARRIVES,
	THREAD_WOKEN,
	THREAD_RUN_DELAY, /* the kernel's sum of the time that it was runnable */
	THREAD_IS_HERE,	  /* an event that the thread itself recorded: it was running */
	THREAD_IS_BORN,
	THREAD_EXITS,
	THREAD_IS_NAMED, /* on a CPU, by itself; on none, by the recorder, which found it */
};

struct thread_event {
	enum thread_event_kind kind;
	uint64_t ns;
	uint32_t pid, tid; /* pid 0: unknown; tid 0: an idle or unknown thread, not counted */
	int32_t cpu;	   /* -1: unknown */
	/* departs */
	int is_preempted;
	char letter;	/* 'R' or of THREAD_LETTERS */
	uint64_t place; /* user address; 0: unknown */
	uint32_t image; /* whose address */
	uint32_t stack; /* the caller's number of its stack */
	/* woken */
	uint32_t waker_pid, waker_tid; /* tid 0: an idle CPU, for an interrupt */
	/* run delay */
	uint64_t delay_ns;
};

struct thread_wait {
	uint64_t count, ns;
};

#define THREAD_NO_WAKER UINT32_MAX

/* A time that a thread was off its CPUs: from its departure to its next arrival. */
struct thread_off {
	uint32_t thread;	 /* of the threads[] */
	uint64_t from_ns, to_ns; /* 0: none; it lasts */
	uint64_t woken_ns;	 /* 0: not known, or it was runnable all the time */
	uint32_t waker_pid,
		waker_tid; /* tid 0: an idle CPU, for an interrupt; or THREAD_NO_WAKER */
	uint64_t place;
	uint32_t image, stack; /* of its departure */
	uint8_t as;	       /* of THREAD_LETTERS; THREAD_LETTER_COUNT: it could have continued */
};

struct thread_record {
	uint32_t pid, tid;
	uint64_t begin_ns, end_ns; /* of the times below; end_ns by thread_states_finish() */
	uint64_t ns[THREAD_TIMES];
	uint64_t switches, preempted; /* departures; those by preemption */
	uint64_t migrations;	      /* arrivals on another CPU than the one before */
	uint64_t wakes;
	uint64_t missing;	       /* switches that no event shows */
	uint64_t lost_events, lost_ns; /* while it lived, and for how long, at most */
	uint64_t lost_switches;	       /* of lost_events, before it */
	struct thread_wait waits[THREAD_LETTER_COUNT];

	/* the rest is of the state machine */
	enum thread_state state;
	uint64_t since_ns;
	int32_t cpu;		       /* where it runs or ran last */
	int32_t crossed_cpu;	       /* where its departure is missing so far; -1: nowhere */
	uint8_t letter;		       /* of THREAD_LETTERS; asleep */
	uint8_t is_recorded;	       /* not only its wakes and its name are */
	uint8_t is_sighted;	       /* unseen, but there since since_ns */
	uint8_t is_born;	       /* and has not run */
	uint8_t is_exiting;	       /* it runs, or has ended then */
	uint8_t is_woken_early;	       /* while it ran, for the wait to come */
	uint64_t pending_ns;	       /* a wait that ended without a wake so far */
	struct thread_off off;	       /* the last one, until it is given */
	uint32_t early_pid, early_tid; /* who woke it, is_woken_early */
	struct thread_delay {
		int is_known;
		uint64_t at_ns;
		uint64_t ns, runnable_ns, waiting_ns; /* the kernel's, and ours at that time */
	} delay_first, delay_last;
};

struct thread_states {
	struct thread_record *threads; /* in the order of their first event */
	size_t count;
	uint64_t wakes; /* of all */
	int has_tasks;	/* begins and ends of threads are recorded */
	/*
	 * The caller's: is given each time off a CPU, once it is over and no wake of it can come.
	 * NULL: not. What it returns, if it is below 0, the next call here returns.
	 */
	int (*take_off)(const struct thread_off *off, void *data);
	void *take_data;
	int error;

	size_t room;
	struct slots slots; /* of threads, by tid: several may have had one number */
	uint64_t begin_ns;
	uint64_t lost_events, lost_ns;
	uint64_t lost_switches;		   /* of lost_events, those that are perhaps not wakes */
	uint64_t lost_until_ns;		   /* the latest end of a loss */
	uint64_t before_events, before_ns; /* lost before the losses that last until then */
	struct thread_cpu {
		uint32_t thread; /* which runs there: index + 1 */
	} * cpus;
	size_t cpu_count, cpu_room;
};

/* Begin at `begin_ns`, when the recording of switches began. Release also after an error. */
void thread_states_init(struct thread_states *states, uint64_t begin_ns);
void thread_states_release(struct thread_states *states);

/* 0 or -ENOMEM. */
int thread_states_add(struct thread_states *states, const struct thread_event *event);

/*
 * So many events of a CPU were lost between these times. Told before any event after from_ns, and
 * in the order of from_ns. 0 or -ENOMEM.
 */
int thread_states_lost(struct thread_states *states, int32_t cpu, uint64_t from_ns, uint64_t to_ns,
		       uint64_t events);

/* The same of wakes. */
void thread_states_lost_wakes(struct thread_states *states, uint64_t from_ns, uint64_t to_ns,
			      uint64_t wakes);

/* The sums of a thread's times at `ns`; its event THREAD_IS_HERE is implied. 0 or -ENOMEM. */
int thread_states_times(struct thread_states *states, uint32_t pid, uint32_t tid, uint64_t ns,
			uint64_t times[THREAD_TIMES]);

/* The recording ended: close what is open. Nothing may be added after that. 0 or -ENOMEM. */
int thread_states_finish(struct thread_states *states, uint64_t end_ns);

#endif
