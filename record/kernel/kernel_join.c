/* SPDX-License-Identifier: MIT */
/* Kernel events of a process that enters while the session runs. */
#include "record/kernel/kernel_own.h"
#include "record/session/session.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* longer than a record waits to be sorted */
#define FORKS_NS UINT64_C(150000000)
#define STEP_MS 5

uint64_t kernel_start_ticks(void)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec * hz / 1000000000u;
}

static int is_in_scope(const struct kernel *kernel, pid_t pid)
{
	for (size_t i = 0; i < kernel->pid_count; i++)
		if (kernel->pids[i] == pid)
			return 1;
	return 0;
}

/*
 * Whether the process that started it had the events already: then it has them, too. The sampler
 * has a record of its start. Counts have none, so its ancestors are asked.
 */
static int has_inherited(struct kernel *kernel, pid_t pid)
{
	uint64_t until_ns = ticks_monotonic_ns() + FORKS_NS;

	if (is_in_scope(kernel, pid))
		return 1;
	/* a launched program waits for the session's next step, so the list may be empty */
	if (target_start_time(pid) < kernel->begun_ticks || target_parent(pid) == getpid())
		return 0;
	while (kernel->sampler && ticks_monotonic_ns() < until_ns) {
		if (known_pid(&kernel->known, pid))
			return 1;
		session_step(kernel->session, STEP_MS);
	}
	while (!kernel->sampler && pid > 1 && target_start_time(pid) >= kernel->begun_ticks) {
		pid = target_parent(pid);
		if (is_in_scope(kernel, pid))
			return 1;
	}
	return 0;
}

static int open_on(struct kernel *kernel, const pid_t *pid, int is_covered, struct detail detail)
{
	int err = 0;

	kernel->has_joined_sampler = kernel->has_joined_counts = 0;
	if (kernel->sampler && !is_covered) {
		err = sampler_join(kernel->sampler, pid, detail);
		kernel->has_joined_sampler = !err;
	}
	if (!err && kernel->counts && (!is_covered || kernel->counts_request.no_children)) {
		err = counts_join(kernel->counts, pid, detail);
		kernel->has_joined_counts = !err;
	}
	return err;
}

int kernel_join(struct wm_session *session, pid_t pid)
{
	struct kernel *kernel = session->kernel;
	char words[512] = "";
	int is_covered, err;
	pid_t *pids;

	if (!kernel)
		return 0;
	kernel->has_joined = 0;
	if (!kernel->process || !kernel->is_begun || kernel->is_of_cpus)
		return 0;
	is_covered = has_inherited(kernel, pid);
	pids = reallocarray(kernel->pids, kernel->pid_count + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	kernel->pids = pids;
	kernel->request.pids = kernel->counts_request.ids = pids;
	kernel->claimed_before = kernel->claimed_count;
	err = is_covered ? 0 : kernel_claim_counters(session, &pid, 1);
	if (err)
		return err;
	kernel->pids[kernel->pid_count] = pid;
	kernel->has_joined = 1;
	err = open_on(kernel, &kernel->pids[kernel->pid_count++], is_covered,
		      (struct detail){ words, sizeof(words) });
	if (err) {
		kernel_part(session);
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	}
	if (kernel->has_joined_sampler)
		sampler_enable(kernel->sampler);
	if (kernel->has_joined_counts)
		counts_enable(kernel->counts);
	if (kernel->has_joined_sampler)
		kernel_write_joined(kernel, pid);
	return 0;
}

void kernel_part(struct wm_session *session)
{
	struct kernel *kernel = session->kernel;

	if (!kernel || !kernel->has_joined)
		return;
	if (kernel->has_joined_sampler)
		sampler_part(kernel->sampler);
	if (kernel->has_joined_counts)
		counts_part(kernel->counts);
	while (kernel->claimed_count > kernel->claimed_before)
		counter_claims_give(&kernel->claimed[--kernel->claimed_count]);
	kernel->has_joined = 0;
	kernel->pid_count--;
}
