/* SPDX-License-Identifier: MIT */
/* Findings about this machine, this user and a process. These functions change nothing. */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "doctor/finding.h"
#include "doctor/machine.h"

#include <sys/types.h>

/* The whole machine, after machine_try(). The caller releases the list. */
void doctor_look(struct finding_list *list, const struct machine *machine);

/*
 * Whether a running process can be recorded, and in which ways. It stops no thread and writes
 * nothing. 0 with findings added; -ESRCH where there is no such process.
 */
int doctor_look_at(struct finding_list *list, pid_t pid);

/*
 * The parts of doctor_look(). Each adds findings about one subject, from files that it reads and
 * from trials.
 */
typedef void look_fn(struct finding_list *list, const struct machine *machine);

look_fn look_files;  /* Waymark itself: its files, and whether a program comes up with the agent */
look_fn look_policy; /* SELinux and AppArmor */
look_fn look_permissions; /* capabilities, filters, namespaces */
look_fn look_trail;	  /* the origins of trails */
look_fn look_watch;	  /* debug registers, and who holds them */
look_fn look_perf;	  /* the kernel's setting, and its units */
look_fn look_limits;	  /* resource limits */

/* The trials whose row names this area. */
void look_trials(struct finding_list *list, const struct machine *machine, const char *area);

/*
 * One trial. What the cache says of the machine is FINDING_UNKNOWN where this process lacks the
 * permission to use it, as the trial that the row needs says.
 */
void look_trial(struct finding *finding, enum trial trial, const struct machine *machine);

/*
 * What to do about an answer that is not TRIAL_WORKS. is_filtered: a seccomp filter may be what
 * refused a call.
 */
void look_remedy(struct finding *finding, enum trial trial, const struct trial_answer *answer,
		 int is_filtered);

/*
 * How many debug registers a thread has left: `count` of instance_free_registers(). FINDING_FINE
 * only where the trial breakpoint-write of the machine works.
 */
void look_registers(struct finding *finding, int count, pid_t tid, const struct machine *machine);

#endif
