/* SPDX-License-Identifier: MIT */
/* Limits that leave a process no room for the agent. */
#include "target/process/target.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGENT_THREADS 2

/* Free numbers below the limit in a thread's table. */
static uint64_t descriptors_left(pid_t tid, uint64_t limit)
{
	int *numbers, count = target_descriptors(tid, &numbers);
	uint64_t left = limit;

	for (int i = 0; i < count && left; i++)
		left -= (uint64_t)numbers[i] < limit;
	free(numbers);
	return count < 0 ? UINT64_MAX : left;
}

uint64_t target_limit(pid_t tid, const char *name)
{
	char path[64], line[128];
	uint64_t limit = UINT64_MAX;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/limits", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)) &&
		    sscanf(line + strlen(name), " %" SCNu64, &limit) != 1)
			limit = UINT64_MAX; /* "unlimited" */
	if (file)
		fclose(file);
	return limit;
}

int target_lacks_descriptors(pid_t pid, unsigned int most)
{
	uint64_t limit = target_limit(pid, "Max open files");
	int count, found = 0;
	pid_t *tids;

	count = target_threads(pid, &tids);
	for (int i = 0; i < count && !found; i++)
		found = descriptors_left(tids[i], limit) <= most;
	free(tids);
	return found;
}

/* RLIMIT_NPROC; UINT64_MAX where it does not bind: copy_process() of the kernel's kernel/fork.c. */
static uint64_t thread_limit(const struct target *target)
{
	const uint64_t exempt = UINT64_C(1) << CAP_SYS_RESOURCE | UINT64_C(1) << CAP_SYS_ADMIN;

	if (target_status_mask(target->live_tid, "CapEff") & exempt)
		return UINT64_MAX;
	return target_limit(target->live_tid, "Max processes");
}

int target_lacks_threads(const struct target *target)
{
	/* the user's other processes count, too */
	return target->uid && thread_limit(target) < target->threads + AGENT_THREADS;
}

/* How many threads all processes of that user have, about as RLIMIT_NPROC counts them. */
static uint64_t threads_of(uid_t uid)
{
	pid_t *pids;
	int count = target_processes(&pids);
	uint64_t sum = 0;

	for (int i = 0; i < count; i++) {
		long threads = target_status_number(pids[i], "Threads");

		/* the last number of the line: as a rule the real user is the same */
		if (threads > 0 && target_status_number(pids[i], "Uid") == (long)uid)
			sum += (uint64_t)threads;
	}
	free(pids);
	return sum;
}

static uint64_t number_in(const char *folder, const char *name)
{
	uint64_t number = UINT64_MAX;
	char path[4200];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (file && fscanf(file, "%" SCNu64, &number) != 1)
		number = UINT64_MAX;
	if (file)
		fclose(file);
	return number;
}

/* Of a cgroup and those above it, where they are mounted as usual. */
static uint64_t cgroup_left(const char *mount, const char *name)
{
	uint64_t least = UINT64_MAX;
	char path[4096];

	snprintf(path, sizeof(path), "%s%s", mount, name);
	for (char *end = path + strlen(path); end && end >= path + strlen(mount);
	     end = strrchr(path, '/')) {
		uint64_t most, current;

		*end = '\0';
		most = number_in(path, "pids.max");
		current = number_in(path, "pids.current");
		if (most != UINT64_MAX && current != UINT64_MAX &&
		    (most < current || most - current < least))
			least = most < current ? 0 : most - current;
	}
	return least;
}

uint64_t target_threads_left(const struct target *target)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified",
					      "/sys/fs/cgroup/pids" };
	uint64_t limit = thread_limit(target), left = UINT64_MAX;
	char path[64], line[4096];
	FILE *file;

	if (limit != UINT64_MAX && target->uid) {
		uint64_t count = threads_of(target->uid);

		left = limit < count ? 0 : limit - count;
	}
	snprintf(path, sizeof(path), "/proc/%d/cgroup", target->live_tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		char *name = strstr(line, "::") ?: strstr(line, ":pids:");

		line[strcspn(line, "\n")] = '\0';
		for (size_t i = 0; name && i < sizeof(mounts) / sizeof(mounts[0]); i++) {
			uint64_t here = cgroup_left(mounts[i], strchr(name, '/') ?: "");

			left = here < left ? here : left;
		}
	}
	if (file)
		fclose(file);
	return left;
}

int target_thread_limit(const struct target *target, int error, struct detail detail)
{
	uint64_t limit = thread_limit(target);

	if (limit == UINT64_MAX)
		return detail_set(
			detail, error,
			"process %d (%s) can't start a thread: pids.max of its cgroup, or "
			"kernel.threads-max, is reached",
			target->pid, target->comm);
	return detail_set(detail, error,
			  "process %d (%s) can't start a thread: its RLIMIT_NPROC is %" PRIu64
			  ", for all "
			  "processes of user %u; raise it: prlimit --pid %d --nproc=unlimited",
			  target->pid, target->comm, limit, target->uid, target->pid);
}

const char *target_refusal(pid_t pid, int error)
{
	if (error == -EACCES || error == -EPERM)
		return ": its own rules (Landlock, SELinux, AppArmor) or a mount option forbid "
		       "what the agent needs: its file, a socket in the folder of sockets, /proc";
	if (error == -ENOMEM && (target_limit(pid, "Max address space") != UINT64_MAX ||
				 target_limit(pid, "Max data size") != UINT64_MAX))
		return ": a limit of its memory is too low (RLIMIT_AS, RLIMIT_DATA)";
	return "";
}
