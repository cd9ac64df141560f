/* SPDX-License-Identifier: MIT */
/*
 * Names of what the kernel counts, as perf(1) has them:
 *
 *	NAME[:MODIFIERS]	software and hardware events, by libpfm4: page-faults, cycles
 *	rHEX[:MODIFIERS]	a raw code of the processor
 *	PMU/TERMS/[MODIFIERS]	of /sys/bus/event_source: power/energy-pkg/, msr/event=0/
 *	SUBSYS:NAME		a tracepoint: sched:sched_switch
 *
 * MODIFIERS are some of u (user space), k (kernel), h (hypervisor): only what they name is counted.
 */
#ifndef RECORD_PERF_COUNT_EVENT_H
#define RECORD_PERF_COUNT_EVENT_H

#include "target/process/target.h"

#include <stdint.h>

#define COUNT_NAME_BYTES 128
#define COUNT_UNIT_BYTES 16
#define COUNT_CPUS_MAX 8192

struct count_event {
	char name[COUNT_NAME_BYTES]; /* as given */
	uint32_t type;		     /* as in struct perf_event_attr */
	uint64_t config, config1, config2;
	uint8_t excludes_user, excludes_kernel, excludes_hypervisor;
	uint8_t has_modifiers; /* the user says what is excluded */
	uint8_t is_of_cpus;    /* its unit belongs to CPUs, and can't count for a thread */
	uint64_t cpus[COUNT_CPUS_MAX / 64]; /* is_of_cpus: those through which it is read */
	double scale;		     /* a count is this many of its unit; 1 where nothing is said */
	char unit[COUNT_UNIT_BYTES]; /* "ns", "Joules"; "" for plain counts */
};

/*
 * Read a name. 0; -WM_E_COUNT_EVENT with words: there is no such event; -ENOMEM. The machine may
 * still have no unit for it: count_event_probe().
 */
int count_event_read(struct count_event *event, const char *text, struct detail detail);

/*
 * Whether it also counts what programs do. Others happen in the kernel alone: the kernel
 * counts 0 of them for a user who may not count there.
 */
int count_event_has_user_part(const struct count_event *event);

/*
 * Try to open it, disabled, on the calling thread, or on the first CPU if it belongs to CPUs. 0, or
 * as counts_open().
 */
int count_event_probe(const struct count_event *event, struct detail detail);

/* One of the names that count_event_read() knows. */
struct count_listed {
	char name[COUNT_NAME_BYTES];
	const char *group;	 /* "software", "hardware", "cache", or the unit's name */
	const char *description; /* "" if unknown */
};

/*
 * Call `take` with each name that the glob matches (NULL: all): software, hardware and cache
 * events, those of the processor's model where its counters are there, and sysfs's. Tracepoints
 * come last, if `tracepoints`. Ends with what `take` returns, if not 0. -ENOMEM.
 */
int count_events_list(const char *glob, int tracepoints,
		      int (*take)(void *data, const struct count_listed *listed), void *data);

#endif
