/* SPDX-License-Identifier: MIT */
/* Whether cpu-clock takes samples: a loop, its samples, and whether they are of the loop. */
#include "trial/trial_own.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 100000
#define SPIN_NS 5000000 /* at most; the first sample ends it */

struct sample {
	struct perf_event_header header;
	uint64_t ip;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Until the ring has something. */
static void spin(const struct perf_event_mmap_page *ring)
{
	uint64_t end_ns = now_ns() + SPIN_NS;

	while (!__atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE) && now_ns() < end_ns)
		;
}

void trial_group_sample(struct trial_answer answers[TRIAL_COUNT])
{
	struct trial_answer *answer = &answers[TRIAL_SAMPLE_CLOCK];
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = PERF_SAMPLE_IP,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	struct perf_event_mmap_page *ring;
	const struct sample *sample;

	if (fd < 0) {
		trial_unknown(answer, -errno);
		return;
	}
	ring = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED) {
		trial_unknown(answer, -errno);
		return;
	}
	spin(ring);
	sample = (const struct sample *)((const char *)ring + page);
	if (!__atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE))
		trial_says(answer, 0, "0 samples in %d ms", SPIN_NS / 1000000);
	else
		trial_says(answer, sample->header.type == PERF_RECORD_SAMPLE && sample->ip, "%s",
			   "");
}
