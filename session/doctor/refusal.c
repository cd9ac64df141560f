/* SPDX-License-Identifier: MIT */
#include "session/doctor/refusal.h"

#include <errno.h>

void refusal_change(struct finding *finding, const struct machine *machine, int err, int level)
{
	/* perf's own refusal is EACCES; filters take EPERM or ENOSYS for theirs */
	if (machine_seccomp(machine) > 0 && (err == -EPERM || err == -ENOSYS))
		finding_change(finding, "allow perf_event_open(2) in the filter; with Docker: "
					"--cap-add PERFMON");
	else if (err == -EACCES || err == -EPERM)
		finding_change(finding,
			       "sysctl kernel.perf_event_paranoid=%d, or setcap cap_perfmon+ep "
			       "waymark, or root",
			       level);
	else if (err == -ENOSYS)
		finding_change(finding, "a kernel built with CONFIG_PERF_EVENTS");
}
