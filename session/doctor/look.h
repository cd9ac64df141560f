/* SPDX-License-Identifier: MIT */
/*
 * What there is to be found, a subject each. They add to the list in the order in which it is read; what each says comes of a
 * file that was read, or a call that was tried, at that moment.
 */
#ifndef SESSION_DOCTOR_LOOK_H
#define SESSION_DOCTOR_LOOK_H

#include "session/doctor/finding.h"
#include "session/doctor/machine.h"

typedef void look_fn(struct finding_list *list, const struct machine *machine);

look_fn look_clock;  /* what events are stamped with */
look_fn look_code;   /* how code is changed, and made */
look_fn look_rights; /* who we are, and whom we may trace */
look_fn look_perf;   /* what the kernel's events tell this user, and which units there are */
look_fn look_watch;  /* the registers for breakpoints */
look_fn look_trail;  /* the origins of trails */
look_fn look_limits; /* memory and descriptors */
look_fn look_files;  /* of Waymark itself */

#endif
