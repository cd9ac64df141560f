/* SPDX-License-Identifier: MIT */
/* Resource limits of this process, which programs that it starts inherit. */
#include "doctor/doctor.h"

#include "abi/engine.h"

#include <inttypes.h>
#include <sys/resource.h>

_Static_assert(ENGINE_ADDRESS_BYTES == UINT64_C(35) << 30, "as the words below say");

static const struct {
	const char *name;
	int resource;
	uint64_t unit, enough;
	const char *words, *change;
} limits[] = {
	{ "open files", RLIMIT_NOFILE, 1, 1025,
	  "(RLIMIT_NOFILE); a watch takes one for each thread and register", "ulimit -n 65536" },
	{ "locked memory", RLIMIT_MEMLOCK, 1 << 10, 64 << 10,
	  "KiB (RLIMIT_MEMLOCK); trails in memory take it", "ulimit -l unlimited" },
	{ "addresses", RLIMIT_AS, 1 << 20, 2 * ENGINE_ADDRESS_BYTES,
	  "MiB (RLIMIT_AS); trail/soft/ maps 35 GiB", "ulimit -v unlimited" },
	{ "file size", RLIMIT_FSIZE, 1 << 10, RLIM_INFINITY,
	  "KiB (RLIMIT_FSIZE); stores of events and traces are files", "ulimit -f unlimited" },
};

void look_limits(struct finding_list *list, const struct machine *machine)
{
	(void)machine;
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct finding *finding = finding_add(list, "limits", limits[i].name);
		struct rlimit limit = { 0, 0 };
		int is_enough;

		getrlimit((__rlimit_resource_t)limits[i].resource, &limit);
		is_enough = limit.rlim_cur >= limits[i].enough;
		if (limit.rlim_cur == RLIM_INFINITY)
			finding_say(finding, FINDING_FINE, "unlimited");
		else
			finding_say(finding, is_enough ? FINDING_FINE : FINDING_LIMITED,
				    "%" PRIu64 " %s", (uint64_t)limit.rlim_cur / limits[i].unit,
				    limits[i].words);
		if (!is_enough)
			finding_change(finding, "%s", limits[i].change);
	}
}
