/* SPDX-License-Identifier: MIT */
#include "record/perf/testing/sampled.h"

#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>

char sampled_words[512];
const struct detail sampled_detail = { sampled_words, sizeof(sampled_words) };
uint8_t *sampled_area;
struct sampled sampled;

const struct sampler_event sampled_faults = {
	.what = { .name = "page-faults",
		  .type = PERF_TYPE_SOFTWARE,
		  .config = PERF_COUNT_SW_PAGE_FAULTS },
	.period = 1,
	.wants = SAMPLER_ADDRESS,
};

int sampled_take(const struct sampler_record *record, void *data)
{
	uint64_t page = (record->address - (uint64_t)(uintptr_t)sampled_area) / PAGE;

	(void)data;
	sampled.kinds[record->kind]++;
	sampled.is_disordered |= record->time_ns < sampled.last_ns;
	sampled.last_ns = record->time_ns;
	sampled.lost += record->kind == SAMPLER_LOST ? record->count : 0;
	sampled.waits += record->kind == SAMPLER_DEPART && !record->is_preempted;
	sampled.preempted += record->kind == SAMPLER_DEPART && record->is_preempted;
	if (record->kind != SAMPLER_SAMPLE || page >= PAGES || !sampled_area)
		return 0;
	sampled.of_page[page]++;
	if (!sampled.ip_low || record->ip < sampled.ip_low)
		sampled.ip_low = record->ip;
	if (record->ip > sampled.ip_high)
		sampled.ip_high = record->ip;
	return 0;
}

void sampled_area_make(void)
{
	sampled_area = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(sampled_area != MAP_FAILED);
	madvise(sampled_area, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
}

BED_STORES void sampled_touch(volatile uint8_t *at)
{
	*at = 1;
}

struct sampler_request sampled_request(const pid_t *pid, const struct sampler_event *events,
				       size_t count)
{
	return (struct sampler_request){
		.scope = pid ? SAMPLER_PROCESSES : SAMPLER_CPUS,
		.events = events,
		.event_count = count,
		.pids = pid,
		.pid_count = 1,
		.cgroup_fd = -1,
	};
}

struct sampler *sampled_open(const struct sampler_request *request)
{
	struct sampler *sampler;
	int err = sampler_open(&sampler, request, sampled_detail);

	if (err == -ENOSYS || err == -WM_E_PERF_DENIED)
		cr_skip_test("%s: %s", wm_error_text(err), sampled_words);
	cr_assert_eq(err, 0, "%s: %s", wm_error_text(err), sampled_words);
	return sampler;
}

void sampled_end(struct sampler *sampler)
{
	sampler_disable(sampler);
	cr_assert_eq(sampler_read(sampler, 1, sampled_take, NULL), 0);
	cr_expect(!sampled.is_disordered, "not in order of time");
}
