/* SPDX-License-Identifier: MIT */
/*
 * The processor's counters and the kernel's tracepoints: whether they count and record something,
 * and not only whether the kernel opens them. Some virtual machines have counters that stay at 0.
 */
#include "base/tracefs.h"
#include "target/trial/trial_groups.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORK 1000000 /* rounds of a loop: a millisecond */
#define PERIOD 100000
#define PAGE 4096

/* Of this thread in user space, disabled. A descriptor or -errno. */
static int counter_open(uint64_t config, uint64_t period)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = config,
		.sample_period = period,
		.sample_type = PERF_SAMPLE_IP,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* Enable it while this thread works. What it counted. */
static uint64_t counter_run(int fd)
{
	uint64_t count = 0;

	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	for (volatile unsigned int i = 0; i < WORK; i++)
		;
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static void try_count(struct trial_answer *answer)
{
	int cycles = counter_open(PERF_COUNT_HW_CPU_CYCLES, 0);
	int instructions = counter_open(PERF_COUNT_HW_INSTRUCTIONS, 0);
	uint64_t counts[2] = { 0, 0 };

	if (cycles < 0 || instructions < 0) {
		trial_says(answer, 0, "%s", strerrorname_np(cycles < 0 ? -cycles : -instructions));
	} else {
		counts[0] = counter_run(cycles);
		counts[1] = counter_run(instructions);
		trial_says(answer, counts[0] && counts[1] >= WORK,
			   "%llu cycles; %llu instructions in a loop of %d rounds",
			   (unsigned long long)counts[0], (unsigned long long)counts[1], WORK);
	}
	if (cycles >= 0)
		close(cycles);
	if (instructions >= 0)
		close(instructions);
}

static void try_samples(struct trial_answer *answer)
{
	int fd = counter_open(PERF_COUNT_HW_CPU_CYCLES, PERIOD);
	struct perf_event_mmap_page *page = MAP_FAILED;

	if (fd >= 0)
		page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || page == MAP_FAILED) {
		trial_says(answer, 0, "%s", strerrorname_np(fd < 0 ? -fd : errno));
	} else {
		counter_run(fd);
		trial_says(answer, page->data_head != 0, "%llu bytes of samples",
			   (unsigned long long)page->data_head);
		munmap(page, 2 * PAGE);
	}
	if (fd >= 0)
		close(fd);
}

static void try_tracepoint(struct trial_answer *answer)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_RAW,
	};
	const char *folder = tracefs_events();
	unsigned long long id;
	FILE *file = NULL;
	char path[64];
	int cpu = 0;
	long fd;

	if (folder) {
		snprintf(path, sizeof(path), "%s/sched/sched_waking/id", folder);
		file = fopen(path, "re");
	}
	if (!folder) {
		trial_says(answer, 0, "%s", tracefs_missing());
	} else if (!file || fscanf(file, "%llu", &id) != 1) {
		trial_says(answer, 0, "%s can't be read", path);
	} else {
		attr.config = id;
		trial_cpus(&cpu, 1);
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		trial_says(answer, fd >= 0, "%s", fd >= 0 ? "" : strerrorname_np(errno));
		if (fd >= 0)
			close((int)fd);
	}
	if (file)
		fclose(file);
}

void trial_group_counter(struct trial_answer answers[TRIAL_COUNT])
{
	try_count(&answers[TRIAL_COUNTER]);
	try_samples(&answers[TRIAL_COUNTER_SAMPLE]);
	try_tracepoint(&answers[TRIAL_TRACEPOINT]);
}
