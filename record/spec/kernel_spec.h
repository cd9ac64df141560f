/* SPDX-License-Identifier: MIT */
/*
 * Specs of events that the kernel records:
 *
 *	count:NAME[+NAME]...		how often NAME came; written ten times a second. Several
 *					count together, KERNEL_GROUP_MAX at most
 *	sample:NAME[/OPTIONS/]		where the program is, each time that NAME has come so often
 *	switch				a thread leaves a CPU, comes to one, is woken
 *	fault				a page fault, and its address
 *	tracepoint:SUBSYSTEM:NAME	a tracepoint of the kernel, with its fields
 *	kprobe:SYMBOL[/OPTIONS/]	a function of the kernel, or with /ret/ its end
 *	watch:SYMBOL@kernel[:KIND]	a variable or function of the kernel
 *
 * NAME is as in record/perf/count_event.h. OPTIONS are divided by commas:
 *
 *	freq=N, period=N	of sample: so many a second of each CPU, which is the default, with
 *				N 1000; or one each N times
 *	callchain		who called
 *	callchain=dwarf		the same from the stack's bytes and debug information
 *	addr			of sample: the address that was accessed
 *	precise			of sample: the exact instruction, if the processor has that
 *	branches		of sample: the last branches, if the processor has that
 *	regs			of sample: the registers
 *	args, ret		of kprobe: the first six arguments; the end, with the result
 */
#ifndef RECORD_SPEC_KERNEL_SPEC_H
#define RECORD_SPEC_KERNEL_SPEC_H

#include "record/perf/sampler.h"
#include "target/process/target.h"

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

struct kernel_request {
	enum kernel_kind kind;
	char name[COUNT_NAME_BYTES]; /* NAME, SUBSYSTEM:NAME or SYMBOL; "" for switch and fault */
	struct sampler_event event;  /* not of switch and count */
	struct count_event group[KERNEL_GROUP_MAX]; /* of count */
	unsigned int group_count;
	int has_args, is_return; /* of kprobe */
	int has_regs;		 /* of sample */
	int has_callers;
};

/* Whether a spec is one of these, right or wrong. */
int kernel_spec_is(const char *text);

/*
 * Read a spec, and find what it names. 0; -WM_E_SPEC, -WM_E_COUNT_EVENT, -ENOMEM; if
 * the name can't be found, -WM_E_PERF_DENIED without a privilege or -EACCES without tracefs; with
 * words.
 */
int kernel_spec_parse(struct kernel_request *request, const char *text, struct detail words);

#endif
