/* SPDX-License-Identifier: MIT */
/* What this machine, this user, and a process allow. Nothing is changed by looking; see look.h for what is looked at. */
#ifndef SESSION_DOCTOR_DOCTOR_H
#define SESSION_DOCTOR_DOCTOR_H

#include "session/doctor/finding.h"
#include "session/doctor/machine.h"

#include <sys/types.h>

/* All of a machine, in the order in which it is read; added to the list, which the caller releases. */
void doctor_look(struct finding_list *list, const struct machine *machine);

/*
 * Whether a running process can be recorded, and by which ways; nothing in it is touched. 0, with findings added; -ESRCH, where there is
 * none.
 */
int doctor_look_at(struct finding_list *list, const struct machine *machine, pid_t pid);

#endif
