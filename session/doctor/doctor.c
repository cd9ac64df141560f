/* SPDX-License-Identifier: MIT */
#include "session/doctor/doctor.h"

#include "session/doctor/look.h"

/*
 * The registers are counted first, before anything is tried in a child of ours: where our thread has inherited breakpoints, the kernel's
 * books go wrong with that (breakpoints.h). They are shown in their place.
 */
void doctor_look(struct finding_list *list, const struct machine *machine)
{
	static look_fn *const looks[] = { look_files, look_clock, look_code, look_rights,
					  look_trail, NULL,	  look_perf, look_limits };
	struct finding_list watches = { 0 };

	look_watch(&watches, machine);
	for (size_t i = 0; i < sizeof(looks) / sizeof(*looks); i++) {
		if (looks[i]) {
			looks[i](list, machine);
			continue;
		}
		for (size_t k = 0; k < watches.count; k++)
			*finding_add(list, "", "") = watches.all[k];
	}
	finding_list_release(&watches);
}
