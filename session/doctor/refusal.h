/* SPDX-License-Identifier: MIT */
/* What to do about an event that the kernel refused. */
#ifndef SESSION_DOCTOR_REFUSAL_H
#define SESSION_DOCTOR_REFUSAL_H

#include "session/doctor/finding.h"
#include "session/doctor/machine.h"

/* What perf_event_open(2) said: the filter, the kernel's configuration, or the highest kernel.perf_event_paranoid that would do. */
void refusal_change(struct finding *finding, const struct machine *machine, int err, int level);

#endif
