/* SPDX-License-Identifier: MIT */
/*
 * Specs of events that the kernel records: count:, sample:, switch, fault, tracepoint:, kprobe: and
 * watch:SYMBOL@kernel. A NAME is as in record/perf/count_event.h.
 */
#ifndef RECORD_SPEC_KERNEL_SPEC_H
#define RECORD_SPEC_KERNEL_SPEC_H

#include "abi/predicate.h"
#include "abi/watch.h"
#include "record/perf/sampler.h"

enum kernel_kind {
	KERNEL_COUNT,
	KERNEL_SAMPLE,
	KERNEL_SWITCH,
	KERNEL_FAULT,
	KERNEL_TRACEPOINT,
	KERNEL_KPROBE,
	KERNEL_WATCH,
};

#define KERNEL_GROUP_MAX 8u
#define KERNEL_FILTER_BYTES 1024
#define SPEC_KERNEL_SUFFIX "@kernel"

/* What the kernel's filters have no field for; an argument's number is added. */
enum kernel_value { KERNEL_PID, KERNEL_TID, KERNEL_RESULT, KERNEL_ARGUMENT };

struct kernel_test {
	uint8_t of; /* enum kernel_value */
	struct watch_condition condition;
};

struct kernel_request {
	enum kernel_kind kind;
	char name[COUNT_NAME_BYTES]; /* NAME, SUBSYSTEM:NAME or SYMBOL; "" for switch and fault */
	struct sampler_event event;  /* not of switch and count */
	struct count_event group[KERNEL_GROUP_MAX]; /* of count */
	unsigned int group_count;
	int has_args, is_return; /* of kprobe */
	int has_regs;		 /* of sample */
	int has_callers;
	/* all must hold: event.filter by the kernel, tests[] by Waymark */
	char filter[KERNEL_FILTER_BYTES];
	struct kernel_test tests[PREDICATES_MAX];
	unsigned int test_count;
};

#endif
