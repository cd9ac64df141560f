/* SPDX-License-Identifier: MIT */
/* The answers of all trials, and readers of /proc and /sys. */
#ifndef DOCTOR_MACHINE_H
#define DOCTOR_MACHINE_H

#include "trial/trial.h"

#include <stddef.h>
#include <stdint.h>

struct machine {
	char *const *program; /* launched.h starts it; NULL: none */
	struct trial_answer trials[TRIAL_COUNT];
	uint64_t trials_us; /* how long trying took */
	int registers;	    /* that this thread has left, or -errno: instance_free_registers() */
	int is_filtered;    /* this process is under a seccomp filter */
};

/* Try everything. machine->program is the caller's. */
void machine_try(struct machine *machine);

/* The first line of a file, without its end. 0 or -errno; -EINVAL where it is empty. */
int machine_line(const char *path, char *line, size_t bytes);

/* The number that a file begins with. 0 or -errno; -EINVAL where it has no number. */
int machine_number(const char *path, long *number);

/* A number in /proc/self/status, in that base. 0, -ENOENT where it has no such line, or -errno. */
int machine_status(const char *name, int base, uint64_t *number);

/* Whether this process is under a seccomp filter. */
int machine_is_filtered(void);

/*
 * Whether this process is in a "user" or "pid" namespace that the machine did not boot with.
 * -errno: not known.
 */
int machine_is_apart(const char *namespace);

/*
 * This process's effective capabilities that count for the whole machine: none in a user namespace.
 */
uint64_t machine_capabilities(void);

#endif
