/* SPDX-License-Identifier: MIT */
#include "doctor/doctor.h"

void doctor_look(struct finding_list *list, const struct machine *machine)
{
	static const struct {
		const char *area; /* of trials; NULL: none */
		look_fn *look;	  /* NULL: trials alone */
	} parts[] = {
		{ NULL, look_files },	  { "clock", NULL },
		{ "code", look_policy },  { "permissions", look_permissions },
		{ "trails", look_trail }, { "watches", look_watch },
		{ "perf", look_perf },	  { "limits", look_limits },
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (parts[i].look)
			parts[i].look(list, machine);
		if (parts[i].area)
			look_trials(list, machine, parts[i].area);
	}
}
