/* SPDX-License-Identifier: MIT */
#include "session/doctor/doctor.h"

#include "session/doctor/look.h"

void doctor_look(struct finding_list *list, const struct machine *machine)
{
	static look_fn *const looks[] = { look_files, look_clock, look_code, look_rights,
					  look_trail, look_watch, look_perf, look_limits };

	for (size_t i = 0; i < sizeof(looks) / sizeof(*looks); i++)
		looks[i](list, machine);
}
