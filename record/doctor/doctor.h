/* SPDX-License-Identifier: MIT */
/* Checks about this machine, this user and a process. */
#ifndef RECORD_DOCTOR_DOCTOR_H
#define RECORD_DOCTOR_DOCTOR_H

#include "target/trial/trial.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHECK_BYTES 512

enum check_state {
	CHECK_UNKNOWN, /* it could not be tried or read */
	CHECK_ABSENT,
	CHECK_LIMITED, /* it works, but not for all uses or not as well as it could */
	CHECK_FINE,
};

/* One thing about a machine or a process: its state, what was seen, and what would change it. */
struct check {
	const char *group, *name; /* static */
	enum check_state state;
	int is_basic; /* Waymark is of little use without it */
	char found[CHECK_BYTES];
	char change[CHECK_BYTES]; /* what would make it better; "": nothing */
};

struct check_list {
	struct check *all;
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
uint64_t doctor_look(struct check_list *list, char *const program[]);

/*
 * Whether a running process can be recorded, and in which ways, by trials in it: its threads are
 * stopped for some milliseconds, and nothing is left in it. 0 with checks added; -ESRCH where
 * there is no such process.
 */
int doctor_look_at(struct check_list *list, pid_t pid);

/*
 * A new one, CHECK_UNKNOWN and without words; valid until the next is added. Without memory it is
 * one in no list, so callers check nothing.
 */
struct check *check_add(struct check_list *list, const char *group, const char *name);
void check_list_release(struct check_list *list);

/*
 * Set its state and add words to what was found. Several words are joined by semicolons, here and
 * below.
 */
void check_say(struct check *check, enum check_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Add what would change it. */
void check_change(struct check *check, const char *words);

/* CHECK_ABSENT for this error: its text, then `words`; its hint is what would change it. */
void check_error(struct check *check, int error, const char *words);

/* A basic one that was not seen to work: absent or unknown. */
int check_is_lack(const struct check *check);

/* How many of these the list has. */
size_t check_lacks(const struct check_list *list);

/* "unknown", "absent", "limited", "fine". Static. */
const char *check_state_name(enum check_state state);

/* Whether this process is under a seccomp filter. */
int doctor_is_filtered(void);

/* The trials whose row names this area. */
void doctor_look_trials(struct check_list *list, const struct machine *machine, const char *area);

/*
 * One trial. What the cache says of the machine is CHECK_UNKNOWN where this process lacks the
 * permission to use it, as the trial that the row needs says.
 */
void doctor_look_trial(struct check *check, enum trial trial, const struct machine *machine);

/*
 * How many debug registers a thread has left: `count` of instance_free_registers(). CHECK_FINE
 * only where the trial breakpoint-write of the machine works.
 */
void doctor_look_registers(struct check *check, int count, pid_t tid,
			   const struct machine *machine);

#endif
