/* SPDX-License-Identifier: MIT */
/* Kernel events recorded of children that do a known number of things, and what was recorded. */
#ifndef RECORD_PERF_TESTING_SAMPLED_H
#define RECORD_PERF_TESTING_SAMPLED_H

#include "record/perf/sampler.h"

#include <stdint.h>
#include <sys/types.h>

#define PAGE 4096u
#define PAGES 500u

extern char sampled_words[512]; /* of the last error */
extern const struct detail sampled_detail;

/* Of period 1, with addresses. */
extern const struct sampler_event sampled_faults;

/* Pages that each child has for itself, untouched. */
extern uint8_t *sampled_area;
void sampled_area_make(void);
/* Ends behind its one store, so that ips are within a few bytes of it. */
void sampled_touch(volatile uint8_t *at);

/* Records that were read. */
struct sampled {
	unsigned int kinds[SAMPLER_EXIT + 1];
	unsigned int waits, preempted; /* of DEPART */
	unsigned int of_page[PAGES];
	uint64_t last_ns, lost, ip_low, ip_high; /* ips of faults in the area */
	int is_disordered;
};
extern struct sampled sampled;

/* One process, or (NULL) all CPUs. */
struct sampler_request sampled_request(const pid_t *pid, const struct sampler_event *events,
				       size_t count);

/* Skips the test where the kernel allows it to no one; fails it with words else. */
struct sampler *sampled_open(const struct sampler_request *request);

/* sampler_read()'s callback. */
int sampled_take(const struct sampler_record *record, void *data);

/* Disable, and read all. */
void sampled_end(struct sampler *sampler);

#endif
