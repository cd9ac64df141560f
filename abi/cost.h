/* SPDX-License-Identifier: MIT */
/*
 * Counts that a marker records beside its fields: what its thread has used so far. The tool names
 * them by a mask in struct control_cost, and the agent puts their values behind the event's own
 * fields, a uint64 each, in the order of this table. An event's text says how many there are, by a
 * digit behind KIND and WAY (abi/site.h), and names them count_task_clock and so on.
 *
 * They count for the thread, not for the marker: the difference of two values includes everything
 * that the thread did in between, nested spans and signal handlers too.
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
	X("context-switches", "count_context_switches", "")

enum cost_kind {
	COST_TASK_CLOCK,
	COST_PAGE_FAULTS,
	COST_MINOR_FAULTS,
	COST_MAJOR_FAULTS,
	COST_CONTEXT_SWITCHES,
	COST_KINDS_COUNT
};

#define COST_ALL ((1u << COST_KINDS_COUNT) - 1)

/* No value: the thread may not make the system call, or the kernel refused it. */
#define COST_UNAVAILABLE UINT64_MAX

#endif
