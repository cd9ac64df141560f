/* SPDX-License-Identifier: MIT */
/* Findings about this machine, this user and a process. */
#ifndef RECORD_DOCTOR_DOCTOR_H
#define RECORD_DOCTOR_DOCTOR_H

#include "target/trial/trial.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FINDING_BYTES 512

enum finding_state {
	FINDING_UNKNOWN, /* it could not be tried or read */
	FINDING_ABSENT,
	FINDING_LIMITED, /* it works, but not for all uses or not as well as it could */
	FINDING_FINE,
};

/* One thing about a machine or a process: its state, what was seen, and what would change it. */
struct finding {
	const char *group, *name; /* static */
	enum finding_state state;
	int is_basic; /* Waymark is of little use without it */
	char found[FINDING_BYTES];
	char change[FINDING_BYTES]; /* what would make it better; "": nothing */
};

struct finding_list {
	struct finding *all;
	size_t count, room;
};

/* The trials' results, and what they leave open. */
struct machine {
	struct trial_answer trials[TRIAL_COUNT];
	int registers;	 /* debug registers that this thread has left, or -errno */
	int is_filtered; /* this process is under a seccomp filter */
};

/*
 * The whole machine. program[0] is a path to a program that ends soon and needs no input; NULL:
 * none is started. Returns how many microseconds the trials took. Forks, so no other thread may
 * hold a lock.
 */
uint64_t doctor_look(struct finding_list *list, char *const program[]);

/*
 * Whether a running process can be recorded, and in which ways, by trials in it: its threads are
 * stopped for some milliseconds, and nothing is left in it. 0 with findings added; -ESRCH where
 * there is no such process.
 */
int doctor_look_at(struct finding_list *list, pid_t pid);

/*
 * A new one, FINDING_UNKNOWN and without words; valid until the next is added. Without memory it is
 * one in no list, so callers check nothing.
 */
struct finding *finding_add(struct finding_list *list, const char *group, const char *name);
void finding_list_release(struct finding_list *list);

/*
 * Set its state and add words to what was found. Several words are joined by semicolons, here and
 * below.
 */
void finding_say(struct finding *finding, enum finding_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Add what would change it. */
void finding_change(struct finding *finding, const char *words);

/* FINDING_ABSENT for this error: its text, then `words`; its hint is what would change it. */
void finding_error(struct finding *finding, int error, const char *words);

/* A basic one that was not seen to work: absent or unknown. */
int finding_is_lack(const struct finding *finding);

/* How many of these the list has. */
size_t finding_lacks(const struct finding_list *list);

/* "unknown", "absent", "limited", "fine". Static. */
const char *finding_state_name(enum finding_state state);

/* Whether this process is under a seccomp filter. */
int doctor_is_filtered(void);

/* The trials whose row names this area. */
void trials_look(struct finding_list *list, const struct machine *machine, const char *area);

/*
 * One trial. What the cache says of the machine is FINDING_UNKNOWN where this process lacks the
 * permission to use it, as the trial that the row needs says.
 */
void trials_look_one(struct finding *finding, enum trial trial, const struct machine *machine);

/*
 * What to do about an answer that is not TRIAL_WORKS. is_filtered: a seccomp filter may be what
 * refused a call.
 */
void trials_look_remedy(struct finding *finding, enum trial trial,
			const struct trial_answer *answer, int is_filtered);

/*
 * How many debug registers a thread has left: `count` of instance_free_registers(). FINDING_FINE
 * only where the trial breakpoint-write of the machine works.
 */
void doctor_look_registers(struct finding *finding, int count, pid_t tid,
			   const struct machine *machine);

/* Start a program with the agent, and under the engine: what comes of it. */
void launched_look(struct finding_list *list, char *const program[]);
void launched_look_soft(struct finding *finding, char *const program[]);

#endif
