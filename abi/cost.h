/* SPDX-License-Identifier: MIT */
/*
 * Counts that a marker records beside its fields: what its thread has used so far. The tool names
 * them by a mask in struct control_cost, and the agent puts their values behind the event's own
 * fields, a uint64 each, in the order of this table. An event's text says how many there are, by a
 * digit behind KIND and WAY (abi/site.h), and names them count_task_clock and so on.
 *
 * They count for the thread, not for the marker: the difference of two values includes everything
 * that the thread did in between, nested spans and signal handlers too.
 *
 * Those of COST_COUNTED are of the processor's counters, in user space alone. Where others had the
 * counters in between, a difference is too small: then COST_UNCOUNTED, which each mask with some of
 * COST_COUNTED has, differs as well.
 */
#ifndef ABI_COST_H
#define ABI_COST_H

#include <stdint.h>

/* X(name, field, unit): as in specs, and as the field of an event; the unit is "ns" or "". */
#define COST_KINDS(X)                                                                              \
	X("task-clock", "count_task_clock", "ns")                                                  \
	X("page-faults", "count_page_faults", "")                                                  \
	X("minor-faults", "count_minor_faults", "")                                                \
	X("major-faults", "count_major_faults", "")                                                \
	X("context-switches", "count_context_switches", "")                                        \
	X("cycles", "count_cycles", "")                                                            \
	X("instructions", "count_instructions", "")                                                \
	X("cache-references", "count_cache_references", "")                                        \
	X("cache-misses", "count_cache_misses", "")                                                \
	X("branches", "count_branches", "")                                                        \
	X("branch-misses", "count_branch_misses", "")                                              \
	X("uncounted", "count_uncounted", "ns")

enum cost_kind {
	COST_TASK_CLOCK,
	COST_PAGE_FAULTS,
	COST_MINOR_FAULTS,
	COST_MAJOR_FAULTS,
	COST_CONTEXT_SWITCHES,
	COST_CYCLES,
	COST_INSTRUCTIONS,
	COST_CACHE_REFERENCES,
	COST_CACHE_MISSES,
	COST_BRANCHES,
	COST_BRANCH_MISSES,
	COST_UNCOUNTED, /* ns for which a counter of the event's was taken: no spec names it */
	COST_KINDS_COUNT
};

#define COST_ALL ((1u << COST_KINDS_COUNT) - 1)
#define COST_COUNTED ((1u << COST_UNCOUNTED) - (1u << COST_CYCLES))
#define COST_COUNTERS (COST_UNCOUNTED - COST_CYCLES)
#define COST_FIELDS_MAX 8 /* of one event, by several specs */

/* No value: the thread may not make the system call, has no counter, or the kernel refused it. */
#define COST_UNAVAILABLE UINT64_MAX

#endif
