/* SPDX-License-Identifier: MIT */
/* What this user's processes may have of memory and descriptors. */
#include "session/doctor/look.h"

#include "abi/engine.h"

#include <errno.h>
#include <inttypes.h>

#define FILES_FEW 1024 /* what most systems begin with: too few for a watch on a thousand threads */
#define FILES_LEAST 64

/* What is had of it; FINDING_UNKNOWN where it can't be read. 0: it is read. */
static int read_limit(struct finding *finding, const struct machine *machine, const char *name,
		      uint64_t *limit)
{
	char why[128];
	int err = machine_limit(machine, name, limit);

	if (err)
		finding_say(finding, FINDING_UNKNOWN, "/proc/self/limits: %s: %s", name,
			    machine_refusal(machine, err, why, sizeof(why)));
	return err;
}

static void look_at_store(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "limits", "shared memory");
	int err = machine_calls(machine)->memfd();
	uint64_t limit;
	char why[128];

	finding->is_basic = 1;
	if (err < 0) {
		finding_say(finding, FINDING_ABSENT, "no memfd: %s",
			    machine_refusal(machine, err, why, sizeof(why)));
		finding_change(finding, err == -EFBIG	 ? "ulimit -f unlimited"
					: err == -EACCES ? "sysctl vm.memfd_noexec=1"
							 : "allow memfd_create(2) in the filter");
		return;
	}
	finding_say(finding, FINDING_FINE, "a memfd, sealed; /dev/shm is not used");
	if (machine_limit(machine, "Max file size", &limit) || limit == UINT64_MAX)
		return;
	finding_say(finding, FINDING_LIMITED,
		    "files, and so stores, of at most %" PRIu64 " KiB (RLIMIT_FSIZE)", limit >> 10);
	finding_change(finding, "ulimit -f unlimited");
}

static void look_at_files(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "limits", "open files");
	uint64_t limit;

	if (read_limit(finding, machine, "Max open files", &limit))
		return;
	finding_say(finding,
		    limit < FILES_LEAST	 ? FINDING_ABSENT
		    : limit <= FILES_FEW ? FINDING_LIMITED
					 : FINDING_FINE,
		    "%" PRIu64 " (RLIMIT_NOFILE); a watch takes one for each thread and register",
		    limit);
	if (limit <= FILES_FEW)
		finding_change(finding, "ulimit -n 65536");
}

static void look_at_locked(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "limits", "locked memory");
	uint64_t limit;

	if (read_limit(finding, machine, "Max locked memory", &limit))
		return;
	if (limit == UINT64_MAX || machine_wide_capabilities(machine) & UINT64_C(1)
										<< CAP_IPC_LOCK) {
		finding_say(finding, FINDING_FINE, "any (%s)",
			    limit == UINT64_MAX ? "RLIMIT_MEMLOCK" : "CAP_IPC_LOCK");
		return;
	}
	finding_say(finding, limit < 64 << 10 ? FINDING_LIMITED : FINDING_FINE,
		    "%" PRIu64
		    " KiB a process (RLIMIT_MEMLOCK), for trails that are kept in memory",
		    limit >> 10);
	finding_change(finding, "ulimit -l; or a cap of one's own: cap_bytes of waymark/trail.h");
}

static void look_at_addresses(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "limits", "addresses");
	uint64_t limit;

	if (read_limit(finding, machine, "Max address space", &limit))
		return;
	if (limit >= 2 * ENGINE_ADDRESS_BYTES) {
		finding_say(finding, FINDING_FINE, "%s",
			    limit == UINT64_MAX ? "any (RLIMIT_AS)" : "enough (RLIMIT_AS)");
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "%" PRIu64 " MiB (RLIMIT_AS); trail/soft/ takes %" PRIu64
		    " MiB beside the program's own",
		    limit >> 20, ENGINE_ADDRESS_BYTES >> 20);
	finding_change(finding, "ulimit -v unlimited");
}

void look_limits(struct finding_list *list, const struct machine *machine)
{
	look_at_store(list, machine);
	look_at_files(list, machine);
	look_at_locked(list, machine);
	look_at_addresses(list, machine);
}
